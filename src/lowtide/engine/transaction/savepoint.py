"""Savepoints: parts of a transaction that can be undone on their own."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Final

from lowtide.engine.transaction.callbacks import Callback
from lowtide.errors import UsageError

if TYPE_CHECKING:
    from lowtide.engine.transaction.transaction import EngineTransaction


class _Unwritten:
    """Marks a key that the transaction had not written."""


MISSING: Final = _Unwritten()

Undo = list[tuple[bytes, bytes | _Unwritten | None]]
"""What to restore, in the order in which it was overwritten: full key and old value in the buffer."""


class Savepoint:
    """A context manager. An error inside it undoes the writes inside it, and propagates.

    Savepoints nest. The writes of a finished inner savepoint belong to the outer one.
    """

    __slots__ = ("_callbacks", "_mark", "_outer", "_replaced", "_tx", "undo")

    def __init__(self, tx: EngineTransaction) -> None:
        self._tx = tx
        self._mark = -1
        self._callbacks: list[Callback] | None = None
        self._outer: Savepoint | None = None
        self._replaced = 0
        self.undo: Undo = []
        """The entries that the transaction has overwritten since the outermost savepoint began."""

    def __enter__(self) -> Savepoint:
        tx = self._tx
        self.undo = tx.innermost.undo if tx.innermost is not None else []
        self._mark = len(self.undo)
        self._outer, tx.innermost = tx.innermost, self
        self._callbacks = tx.callbacks
        self._replaced = len(tx.replaced or ())
        return self

    def rollback(self) -> None:
        """Undo everything written since the savepoint began. The savepoint stays open."""
        tx, undo = self._tx, self.undo
        if self._mark < 0:
            raise UsageError("this savepoint has ended: its writes belong to the transaction now")
        if tx.innermost is not self:
            raise UsageError("a savepoint inside this one is still open; leave that one first")
        if tx.overlay is not None:
            tx.overlay.undo([key for key, _ in undo[self._mark :]])
        while len(undo) > self._mark:
            key, before = undo.pop()
            if isinstance(before, _Unwritten):
                tx.writes.pop(key, None)  # an interrupt may have come between the record and the write
            else:
                tx.writes[key] = before
        tx.callbacks = self._callbacks
        if tx.replaced is not None:
            del tx.replaced[self._replaced :]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and not self._tx.state:
            self.rollback()
        self._mark = -1
        self._tx.innermost = self._outer
