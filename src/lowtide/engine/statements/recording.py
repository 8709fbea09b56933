"""Statements of a recorded store: their transaction notes what they read, for the audit."""

from __future__ import annotations

from collections.abc import Iterator

from lowtide.engine.statements.statement import Statement
from lowtide.engine.transaction.recording import RecordingTransaction
from lowtide.engine.transaction.scans import chunks_of
from lowtide.engine.types import Range
from lowtide.engine.versions.lookups import scanned_under


class RecordingStatement(Statement):
    """A statement whose reads are noted. All of them are of one instant, which is kept by the statement's own snapshot
    or by that of its transaction. Below SNAPSHOT, the next statement may read a later instant."""

    __slots__ = ("_observed",)

    def __init__(self, tx: RecordingTransaction, *, steady: bool = False) -> None:
        Statement.__init__(self, tx, steady=steady)
        self._observed = tx

    def read_many(self, full_keys: list[bytes]) -> list[bytes | None]:
        """The same as in any statement, and noted."""
        values = Statement.read_many(self, full_keys)
        own = self._observed.writes
        for full_key, value in zip(full_keys, values, strict=True):
            if full_key not in own:
                self._observed.see(full_key, value, self.ts)
        return values

    def scan(self, wanted: Range) -> Iterator[tuple[bytes, bytes]]:
        """The same as in any statement, and noted as far as it was read."""
        return self._observed.scanned(Statement.scan(self, wanted), wanted, self.ts)

    def chunks(self, wanted: Range) -> Iterator[list[tuple[bytes, bytes]]]:
        """The same as in any statement, and noted as far as it was read."""
        return chunks_of(self.scan(wanted))

    def keys_under(self, prefixes: list[bytes], most: int | None = None) -> list[list[bytes] | None]:
        """The same as in any statement, and noted."""
        return [scanned_under(prefix, self.chunks, most) for prefix in prefixes]
