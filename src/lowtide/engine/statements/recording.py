"""Statements of a store that is recorded: what they read is noted by their transaction, for the audit."""

from __future__ import annotations

from collections.abc import Iterator

from lowtide.engine.statements.statement import Statement
from lowtide.engine.transaction.recording import RecordingTransaction
from lowtide.engine.transaction.scans import chunks_of
from lowtide.engine.types import Range
from lowtide.engine.versions.lookups import scanned_under


class RecordingStatement(Statement):
    """A statement whose reads are noted. They are of one instant, which its own snapshot or that of its transaction
    keeps; below SNAPSHOT, the next statement may read a later one."""

    __slots__ = ("_observed",)

    def __init__(self, tx: RecordingTransaction, *, steady: bool = False) -> None:
        Statement.__init__(self, tx, steady=steady)
        self._observed = tx

    def read_many(self, full_keys: list[bytes]) -> list[bytes | None]:
        """As of any statement, and noted."""
        values = Statement.read_many(self, full_keys)
        own = self._observed.writes
        for full_key, value in zip(full_keys, values, strict=True):
            if full_key not in own:
                self._observed.see(full_key, value, self.ts)
        return values

    def scan(self, wanted: Range) -> Iterator[tuple[bytes, bytes]]:
        """As of any statement, and noted as far as it came."""
        return self._observed.scanned(Statement.scan(self, wanted), wanted, self.ts)

    def chunks(self, wanted: Range) -> Iterator[list[tuple[bytes, bytes]]]:
        """As of any statement, and noted as far as it came."""
        return chunks_of(self.scan(wanted))

    def keys_under(self, prefixes: list[bytes], most: int | None = None) -> list[list[bytes] | None]:
        """As of any statement, and noted."""
        return [scanned_under(prefix, self.chunks, most) for prefix in prefixes]
