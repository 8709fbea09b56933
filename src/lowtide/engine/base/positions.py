"""The positions of the change feed's consumers: one LMDB transaction for each call, from any process.

The rows are in the base, so positions survive restarts and every process sees the same ones.
"""

from __future__ import annotations

from lowtide.engine.base.consumers import ConsumerRow
from lowtide.engine.base.environment import Base
from lowtide.engine.base.types import Txn


class ConsumerPositions:
    """Reads and changes the consumers' rows of one base. LMDB serializes the writers of all threads and processes."""

    def __init__(self, base: Base) -> None:
        self._base = base

    def get(self, name: str) -> ConsumerRow | None:
        """The row of a consumer; None if there is no consumer of this name."""
        return self._base.read(lambda txn: self._base.consumers.get(txn, name))

    def all(self) -> list[tuple[str, ConsumerRow]]:
        """All consumers, by name."""
        return self._base.read(lambda txn: self._base.consumers.all(txn))

    def create(self, name: str, row: ConsumerRow) -> bool:
        """Add a consumer. Returns False, and changes nothing, if it exists."""

        def change(txn: Txn) -> bool:
            if self._base.consumers.get(txn, name) is not None:
                return False
            self._base.consumers.put(txn, name, row)
            return True

        return self._base.write(change, refuses=True)

    def move(self, name: str, row: ConsumerRow, *, back: bool = False) -> bool:
        """Set a consumer's row; to an earlier position only if ``back``. Returns False if there is no such consumer."""

        def change(txn: Txn) -> bool:
            current = self._base.consumers.get(txn, name)
            if current is None:
                return False
            if row.position > current.position or back:
                self._base.consumers.put(txn, name, row)
            return True

        return self._base.write(change, refuses=True)

    def delete(self, name: str) -> bool:
        """Remove a consumer. Returns False if there is no consumer of this name."""
        return self._base.write(lambda txn: self._base.consumers.delete(txn, name))
