"""A turn: who holds the commit lock commits under it, see ``Committer.turn``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from lowtide.errors import UsageError
from lowtide.transaction.callbacks import Callbacks
from lowtide.transaction.request import Request


class Turn:
    """Where transactions commit whose thread holds the commit lock. Used by that thread, as long as it does."""

    def __init__(self, callbacks: Callbacks, commit: Callable[[Request], None]) -> None:
        self.callbacks = callbacks
        self._commit = commit

    def submit(self, request: Request) -> int:
        """As ``Committer.submit``, for the holder of the lock."""
        self._commit(request)
        if request.error is not None:
            raise request.error
        return request.ts

    def turn(self) -> AbstractContextManager[Turn]:
        raise UsageError("a turn inside a turn")
