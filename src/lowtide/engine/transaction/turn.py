"""Turns: the thread that holds the commit lock commits under it.

What it reads meanwhile stays true until its commit, so the commit cannot conflict. All other commits wait, so a turn
should last only a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from lowtide.engine.transaction.callbacks import Callbacks
from lowtide.engine.transaction.request import Request
from lowtide.engine.types import Writes
from lowtide.errors import UsageError


class Turn:
    """Commits the transactions of the thread that holds the commit lock. Used only by that thread, while it holds the
    lock."""

    def __init__(self, callbacks: Callbacks, commit_alone: Callable[[Request], None]) -> None:
        self.callbacks = callbacks
        self.commit_alone = commit_alone

    def submit(self, request: Request) -> int:
        """The same as ``Committer.submit``, for the holder of the lock."""
        self.commit_alone(request)
        if request.error is not None:
            raise request.error
        return request.ts

    def commit_at_once(self, writes: Writes, payload: bytes, seen: int, token: int, durably: bool) -> int:
        """Do nothing: a turn commits requests only."""
        return 0

    def exclusive(self) -> AbstractContextManager[None]:
        raise UsageError("a turn cannot be taken inside another turn")
