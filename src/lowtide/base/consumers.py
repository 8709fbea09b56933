"""The consumers of the change feed: how far each has come, kept in the base so that every process sees it.

consumers   name -> position, when it was last acknowledged   (MessagePack)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import lmdb


class ConsumerRow(msgspec.Struct, frozen=True, array_like=True):
    """One consumer: everything up to commit ``position`` is acknowledged, last at ``acknowledged``, a time of day."""

    position: int
    acknowledged: float


_decode = msgspec.msgpack.Decoder(ConsumerRow).decode
_encode = msgspec.msgpack.Encoder().encode


@dataclass(slots=True)
class ConsumerTable:
    """The table; every method works inside the caller's LMDB transaction."""

    table: lmdb._Database

    def get(self, txn: lmdb.Transaction[bytes], name: str) -> ConsumerRow | None:
        row = txn.get(name.encode(), db=self.table)
        return _decode(row) if row is not None else None

    def put(self, txn: lmdb.Transaction[bytes], name: str, row: ConsumerRow) -> None:
        txn.put(name.encode(), _encode(row), db=self.table)

    def delete(self, txn: lmdb.Transaction[bytes], name: str) -> bool:
        return bool(txn.delete(name.encode(), db=self.table))

    def all(self, txn: lmdb.Transaction[bytes]) -> list[tuple[str, ConsumerRow]]:
        """The consumers by name."""
        return [(name.decode(), _decode(row)) for name, row in txn.cursor(self.table)]
