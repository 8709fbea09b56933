"""The rows of the table of pins. Pins are leases on a timestamp, kept in the base so that all processes and restarts
see them. The operations on them (take, renew, remove, expire) are in leases.

    pins   name -> id, timestamp, when taken, when renewed, seconds to live, keyspaces, prefixes, owner, process, users,
           shared, writer (MessagePack)
    meta   "unpinned" -> timestamps of pins that other processes than the owner removed; the owner collects them

Three rules make a pin readable by any process without asking the owner of the store:

* A pin is never above the boundary of the transaction that writes it, so the base and the history have everything that
  it sees.
* The collector reads this table inside the same LMDB transaction in which it drops versions. A row that exists counts,
  even if it has expired. Rows that have expired, or whose process is gone, are removed in an earlier transaction of
  their own.
* A reader at a pin checks the pin's row inside the LMDB transaction that reads. While the row exists, so does
  everything that it sees.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from lowtide.engine.base.codec import MAX_TS
from lowtide.errors import CorruptionError
from lowtide.system.identity import Identity
from lowtide.system.messages import UNDECODABLE

if TYPE_CHECKING:
    import lmdb

    from lowtide.engine.base.types import TableHandle


class PinRow(msgspec.Struct, frozen=True, array_like=True):
    """One pin. ``id`` distinguishes it from a later pin of the same name. ``prefixes`` are the keyspaces that it holds,
    None for all. Times are seconds since the epoch."""

    id: bytes
    ts: int
    taken: float
    renewed: float
    ttl: float
    keyspaces: tuple[str, ...] | None
    prefixes: tuple[bytes, ...] | None
    owner: str
    process: Identity | None = None
    """The process that the pin is for. The pin ends with it."""
    users: tuple[tuple[str, str], ...] = ()
    """Its users besides the owner: a token and a description for each."""
    shared: bool = False
    """Whether it belongs to its users, and ends with the last of them. Otherwise its owner ends it."""
    writer: bool = False
    """Whether it is the lease of a joined process, whose transactions may still commit: until it ends, later deletions
    leave a tombstone."""

    @property
    def expires(self) -> float:
        return self.renewed + self.ttl

    def is_over(self, now: float) -> bool:
        """Whether it has expired, or its process is gone."""
        return self.expires <= now or (self.process is not None and self.process.is_gone)

    def has_user(self, token: str) -> bool:
        """Whether the holder of ``token`` is one of its users."""
        return any(each == token for each, _ in self.users)

    def used_by(self, users: tuple[tuple[str, str], ...]) -> PinRow:
        """The pin with these users. The owner of a shared pin reads: its first user, and the number of others."""
        if not self.shared:
            return msgspec.structs.replace(self, users=users)
        owner = users[0][1] if len(users) == 1 else f"{users[0][1]} and {len(users) - 1} more"
        return msgspec.structs.replace(self, users=users, owner=owner)

    def covers(self, prefix: bytes) -> bool:
        """Whether the pin holds the keyspace with this prefix."""
        return self.prefixes is None or prefix in self.prefixes


_decode = msgspec.msgpack.Decoder(PinRow).decode
_encode = msgspec.msgpack.Encoder().encode


def oldest_writer_among(rows: Iterable[PinRow], oldest: int | None) -> int | None:
    """The oldest commit as of which a transaction may still commit: the minimum of ``oldest``, for this process, and
    the leases of joined processes in ``rows``, which were read in the transaction that drops or writes tombstones."""
    leased = min((row.ts for row in rows if row.writer), default=None)
    if oldest is None or leased is None:
        return leased if oldest is None else oldest
    return min(oldest, leased)


def new_id() -> bytes:
    return os.urandom(8)


@dataclass(slots=True)
class PinTable:
    """The table; every method works inside the caller's LMDB transaction."""

    table: TableHandle
    directory: Path

    def get(self, txn: lmdb.Transaction[bytes], name: str) -> PinRow | None:
        row = txn.get(name.encode(), db=self.table)
        return self.decoded(name.encode(), row) if row is not None else None

    def decoded(self, key: bytes, row: bytes) -> PinRow:
        """Decode a row of the table."""
        return self._decoded(key, row)[1]

    def put(self, txn: lmdb.Transaction[bytes], name: str, row: PinRow) -> None:
        txn.put(name.encode(), _encode(row), db=self.table)

    def delete(self, txn: lmdb.Transaction[bytes], name: str) -> None:
        txn.delete(name.encode(), db=self.table)

    def all(self, txn: lmdb.Transaction[bytes]) -> list[tuple[str, PinRow]]:
        """The pins by name."""
        return [self._decoded(name, row) for name, row in txn.cursor(self.table)]

    def _decoded(self, name: bytes, data: bytes) -> tuple[str, PinRow]:
        try:
            row = _decode(data)
            if 0 <= row.ts <= MAX_TS:
                return name.decode(), row
            reason = "its commit is out of range"
        except UNDECODABLE as error:
            reason = str(error)
        raise CorruptionError(self.directory, f"the pin {name.decode(errors='replace')!r} cannot be decoded: {reason}")
