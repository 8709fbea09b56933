"""The consumers of the change feed: the position of each, in the base, so that every process sees it.

consumers   name -> position, when it was last acknowledged   (MessagePack)
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from lowtide.engine.base.codec import MAX_TS
from lowtide.errors import CorruptionError
from lowtide.system.messages import UNDECODABLE

if TYPE_CHECKING:
    import lmdb

    from lowtide.engine.base.types import TableHandle


class ConsumerRow(msgspec.Struct, frozen=True, array_like=True):
    """One consumer. Everything up to commit ``position`` is acknowledged; ``acknowledged`` is when, as a time."""

    position: int
    acknowledged: float


_decode = msgspec.msgpack.Decoder(ConsumerRow).decode
_encode = msgspec.msgpack.Encoder().encode


@dataclass(slots=True)
class ConsumerTable:
    """The table; every method works inside the caller's LMDB transaction."""

    table: TableHandle
    directory: Path

    def get(self, txn: lmdb.Transaction[bytes], name: str) -> ConsumerRow | None:
        row = txn.get(name.encode(), db=self.table)
        return self._decoded(name.encode(), row)[1] if row is not None else None

    def put(self, txn: lmdb.Transaction[bytes], name: str, row: ConsumerRow) -> None:
        txn.put(name.encode(), _encode(row), db=self.table)

    def delete(self, txn: lmdb.Transaction[bytes], name: str) -> bool:
        return bool(txn.delete(name.encode(), db=self.table))

    def all(self, txn: lmdb.Transaction[bytes]) -> list[tuple[str, ConsumerRow]]:
        """The consumers by name."""
        return [self._decoded(name, row) for name, row in txn.cursor(self.table)]

    def _decoded(self, name: bytes, data: bytes) -> tuple[str, ConsumerRow]:
        try:
            row = _decode(data)
            if 0 <= row.position <= MAX_TS:
                return name.decode(), row
            reason = "its commit is out of range"
        except UNDECODABLE as error:
            reason = str(error)
        raise CorruptionError(
            self.directory, f"the consumer {name.decode(errors='replace')!r} cannot be decoded: {reason}"
        )
