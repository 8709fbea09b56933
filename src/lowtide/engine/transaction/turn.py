"""A turn: the thread that holds the commit lock commits under it.

What it reads in this time stays true until its commit, so that meets no conflict. Everyone else's commits wait, so a
turn is for a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from lowtide.engine.transaction.callbacks import Callbacks
from lowtide.engine.transaction.request import Request
from lowtide.errors import UsageError


class Turn:
    """Where transactions commit whose thread holds the commit lock. Used by that thread, as long as it does."""

    def __init__(self, callbacks: Callbacks, commit_alone: Callable[[Request], None]) -> None:
        self.callbacks = callbacks
        self.commit_alone = commit_alone

    def submit(self, request: Request) -> int:
        """As ``Committer.submit``, for the holder of the lock."""
        self.commit_alone(request)
        if request.error is not None:
            raise request.error
        return request.ts

    def exclusive(self) -> AbstractContextManager[None]:
        raise UsageError("a turn inside a turn")
