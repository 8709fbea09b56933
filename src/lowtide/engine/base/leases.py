"""The operations on pins: take, share, renew, remove, expire. Each is one LMDB transaction, from any process. The rows
and their table are in pin_table.

A pin is taken at the boundary that its transaction sees, or at a lower timestamp that the caller already holds by a
registered snapshot or another pin. So everything that it sees is in base and history when its row appears. From then
on the row keeps it there.

Times are wall-clock times, because they must mean the same in every process and after a restart.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterable
from typing import TypeVar

import lmdb
import msgspec

from lowtide.engine.base.codec import decode_ts, encode_ts
from lowtide.engine.base.environment import Base
from lowtide.engine.base.names import check_keyspaces, check_name
from lowtide.engine.base.pin_table import PinRow, new_id
from lowtide.errors import SnapshotExpired, UsageError
from lowtide.system.identity import Identity, identify

_Name = TypeVar("_Name", str, bytes)
_UNPINNED = b"unpinned"


class Leases:
    """The pins of one base. LMDB keeps processes and threads apart.

    A process that removes a pin and is not the ``owner`` of the store notes the pin's timestamp in the base, in the
    same transaction. The owner's monitor and maintenance read the note, even if that process has died.
    """

    def __init__(self, base: Base, time: Callable[[], float], *, owner: bool = False) -> None:
        self._base = base
        self._time = time
        self._owner = owner

    def _note_removal(self, txn: lmdb.Transaction[bytes], ts: int) -> None:
        noted = txn.get(_UNPINNED, default=b"", db=self._base.meta)
        if encode_ts(ts) not in _timestamps(noted):
            txn.put(_UNPINNED, noted + encode_ts(ts), db=self._base.meta)

    def removed_elsewhere(self) -> list[int]:
        """For the owner: the timestamps of pins that others removed since this was last asked."""
        if self._base.read(lambda txn: txn.get(_UNPINNED, db=self._base.meta)) is None:
            return []
        noted = self._base.write(lambda txn: txn.pop(_UNPINNED, db=self._base.meta))
        return [decode_ts(each) for each in _timestamps(noted or b"")]

    def take(
        self,
        name: str,
        ttl: float,
        *,
        at: int | None = None,
        beside: tuple[str, PinRow] | None = None,
        keyspaces: Iterable[str] | None = None,
        where: str = "",
        process: Identity | None = None,
    ) -> PinRow:
        """Take the pin ``name`` for ``ttl`` seconds: at the boundary; at ``at``, which the caller holds by a registered
        snapshot; or ``beside`` another pin, at its timestamp. It ends with ``process``, if that is given."""
        check_name(name)
        check_ttl(ttl)
        wanted = check_keyspaces(keyspaces)
        owner = describe_owner(where)

        def change(txn: lmdb.Transaction[bytes]) -> PinRow:
            now = self._time()
            there = self._base.pins.get(txn, name)
            if there is not None and not there.is_over(now):
                raise UsageError(
                    f"the pin {name!r} exists, at commit {there.ts}, for {there.expires - now:.0f} seconds more; "
                    "renew it, remove it with unpin, or choose another name"
                )
            ts, names, prefixes = self._placed(txn, at, beside, wanted)
            if there is not None:
                self._note_removal(txn, there.ts)  # from here on nothing is refused
            row = PinRow(
                id=new_id(),
                ts=ts,
                taken=now,
                renewed=now,
                ttl=ttl,
                keyspaces=names,
                prefixes=prefixes,
                owner=owner,
                process=process,
            )
            self._base.pins.put(txn, name, row)
            return row

        return self._base.write(change, refuses=True)

    def _placed(
        self,
        txn: lmdb.Transaction[bytes],
        at: int | None,
        beside: tuple[str, PinRow] | None,
        wanted: tuple[str, ...] | None,
    ) -> tuple[int, tuple[str, ...] | None, tuple[bytes, ...] | None]:
        """Where a pin can be taken in this transaction: its timestamp, its keyspaces and their prefixes."""
        boundary = self._base.boundary_in(txn) or 0
        ts = boundary if at is None else at
        names = wanted
        if beside is not None:
            ts, names = self._held_by(txn, *beside, wanted)
        assert ts <= boundary, (ts, boundary)
        if names is None:
            return ts, None, None
        known = (txn.get(each.encode(), db=self._base.keyspaces) for each in names)
        return ts, names, tuple(prefix for prefix in known if prefix is not None)

    def share(
        self,
        user: tuple[str, str],
        name: str,
        ttl: float,
        *,
        beside: tuple[str, PinRow] | None = None,
        keyspaces: Iterable[str] | None = None,
        process: Identity | None = None,
    ) -> tuple[str, PinRow]:
        """Add ``user``, a token and a description, to the shared pin of the commit that ``take`` would pin, for the
        same process. Takes the pin ``name`` if there is none. A shared pin holds the keyspaces of all its users. One
        transaction finds or takes it, so concurrent users share one pin."""
        check_name(name)
        check_ttl(ttl)
        wanted = check_keyspaces(keyspaces)

        def change(txn: lmdb.Transaction[bytes]) -> tuple[str, PinRow]:
            now = self._time()
            ts, names, prefixes = self._placed(txn, None, beside, wanted)
            self._left(txn, user[0])  # a user has a part in one pin; from here on nothing is refused
            for other, row in self._base.pins.all(txn):
                if row.shared and row.ts == ts and row.process == process and not row.is_over(now):
                    joined = msgspec.structs.replace(
                        row,
                        renewed=now,
                        ttl=max(row.ttl, ttl),
                        keyspaces=_united(row.keyspaces, names),
                        prefixes=_united(row.prefixes, prefixes),
                    ).used_by((*row.users, user))
                    self._base.pins.put(txn, other, joined)
                    return other, joined
            taken = PinRow(
                id=new_id(),
                ts=ts,
                taken=now,
                renewed=now,
                ttl=ttl,
                keyspaces=names,
                prefixes=prefixes,
                owner=user[1],
                process=process,
                users=(user,),
                shared=True,
            )
            self._base.pins.put(txn, name, taken)
            return name, taken

        return self._base.write(change, refuses=True)

    def join(self, name: str, user: tuple[str, str], ttl: float) -> PinRow:
        """Add ``user`` to the live pin ``name``, which then lives for at least ``ttl`` seconds."""
        check_ttl(ttl)

        def change(txn: lmdb.Transaction[bytes]) -> PinRow:
            now = self._time()
            row = valid(name, self._base.pins.get(txn, name), None, now)
            users = *(each for each in row.users if each[0] != user[0]), user
            joined = msgspec.structs.replace(row, renewed=now, ttl=max(row.ttl, ttl), users=users)
            self._base.pins.put(txn, name, joined)
            return joined

        return self._base.write(change, refuses=True)

    def hand_over(self, name: str, identity: bytes, successor: str) -> PinRow | None:
        """Remove a pin. If it has other users, leave it to them under the name ``successor``. Returns the row if it was
        removed."""
        check_name(successor)

        def change(txn: lmdb.Transaction[bytes]) -> PinRow | None:
            row = self._base.pins.get(txn, name)
            if row is None or row.id != identity:
                return None
            self._base.pins.delete(txn, name)
            if row.users:
                left = msgspec.structs.replace(row, shared=True)
                self._base.pins.put(txn, successor, left.used_by(row.users))
                return None
            if not self._owner:
                self._note_removal(txn, row.ts)
            return row

        return self._base.write(change, refuses=True)

    def leave(self, token: str) -> list[PinRow]:
        """Remove the user from its pin. A shared pin is removed with its last user, and returned; one with an owner
        stays."""
        return self._base.write(lambda txn: self._left(txn, token), refuses=True)

    def _left(self, txn: lmdb.Transaction[bytes], token: str) -> list[PinRow]:
        removed = []
        for name, row in self._base.pins.all(txn):
            if row.has_user(token):
                others = tuple(each for each in row.users if each[0] != token)
                if others or not row.shared:
                    self._base.pins.put(txn, name, row.used_by(others))
                else:
                    self._base.pins.delete(txn, name)
                    removed.append(row)
                    if not self._owner:
                        self._note_removal(txn, row.ts)
        return removed

    def _held_by(
        self, txn: lmdb.Transaction[bytes], name: str, row: PinRow, wanted: tuple[str, ...] | None
    ) -> tuple[int, tuple[str, ...] | None]:
        """The timestamp of the pin ``name`` if it still holds all that is ``wanted``, and the keyspaces that a pin
        beside it can hold."""
        found = valid(name, self._base.pins.get(txn, name), row.id, self._time())
        if found.keyspaces is not None and not set(wanted or ()) <= set(found.keyspaces):
            raise UsageError(f"the pin {name!r} holds {', '.join(map(repr, found.keyspaces))} only")
        return found.ts, found.keyspaces if wanted is None else wanted

    def renew(self, name: str, identity: bytes | None, ttl: float | None = None) -> PinRow:
        """Extend the pin to ``ttl`` seconds from now; by default its old ttl. An expired pin stays expired."""
        if ttl is not None:
            check_ttl(ttl)

        asked = self._time()  # before the wait for LMDB's writers: a row that is still there has lost nothing

        def change(txn: lmdb.Transaction[bytes]) -> PinRow:
            now = self._time()
            row = valid(name, self._base.pins.get(txn, name), identity, asked)
            renewed = msgspec.structs.replace(row, renewed=now, ttl=row.ttl if ttl is None else ttl)
            self._base.pins.put(txn, name, renewed)
            return renewed

        return self._base.write(change, refuses=True)

    def remove(self, name: str, identity: bytes | None = None) -> PinRow | None:
        """Remove the pin. None if there is no such pin, or if its id is not ``identity``."""

        def change(txn: lmdb.Transaction[bytes]) -> PinRow | None:
            row = self._base.pins.get(txn, name)
            if row is None or (identity is not None and row.id != identity):
                return None
            self._base.pins.delete(txn, name)
            if not self._owner:
                self._note_removal(txn, row.ts)
            return row

        return self._base.write(change, refuses=True)

    def expire(self) -> list[PinRow]:
        """For the owner: remove the pins whose time is over, or whose process is gone. Their versions may be dropped
        only in a later transaction."""
        now = self._time()
        if not any(row.is_over(now) for _, row in self.all()):
            return []

        def change(txn: lmdb.Transaction[bytes]) -> list[PinRow]:
            over = [(name, row) for name, row in self._base.pins.all(txn) if row.is_over(now)]
            for name, _ in over:
                self._base.pins.delete(txn, name)
            return [row for _, row in over]

        return self._base.write(change, refuses=True)

    def all(self) -> list[tuple[str, PinRow]]:
        """The pins by name, also those that have expired and were not removed yet."""
        return self._base.read(self._base.pins.all)

    def find(self, name: str, identity: bytes | None = None) -> PinRow:
        """The live pin ``name``, with this ``identity`` if one is given. Raises SnapshotExpired."""
        check_name(name)
        return valid(name, self._base.read(lambda txn: self._base.pins.get(txn, name)), identity, self._time())

    def holder_of(self, ts: int) -> tuple[str, PinRow]:
        """The name and row of a live pin at ``ts``, preferably one that holds all keyspaces."""
        now = self._time()
        pins = [(name, row) for name, row in self.all() if row.ts == ts and row.expires > now]
        if not pins:
            raise SnapshotExpired(f"the state as of commit {ts} is no longer kept: no live snapshot or pin holds it")
        return min(pins, key=lambda pin: pin[1].prefixes is not None)


def _united(first: tuple[_Name, ...] | None, second: tuple[_Name, ...] | None) -> tuple[_Name, ...] | None:
    """What both have; None is everything."""
    return None if first is None or second is None else tuple(dict.fromkeys(first + second))


def _timestamps(noted: bytes) -> list[bytes]:
    return [noted[start : start + 8] for start in range(0, len(noted), 8)]


def valid(name: str, row: PinRow | None, identity: bytes | None, now: float) -> PinRow:
    """``row``, if it is the pin with this ``identity`` and has not expired."""
    if row is None or (identity is not None and row.id != identity):
        raise SnapshotExpired(f"the pin {name!r} does not exist: it was removed, or has expired; take a new one")
    if row.expires <= now:
        raise SnapshotExpired(
            f"the pin {name!r} at commit {row.ts} expired {now - row.expires:.1f} seconds ago; take a new one, "
            "and renew it in time"
        )
    return row


def check_ttl(ttl: object) -> None:
    if isinstance(ttl, bool) or not isinstance(ttl, int | float) or not 0 < ttl < 1e10:
        raise UsageError(f"ttl is the number of seconds until a pin expires, more than 0, not {ttl!r}")


def check_process(pid: object) -> Identity | None:
    """The process with which a pin ends; None for no process."""
    if pid is None:
        return None
    found = identify(pid) if isinstance(pid, int) and not isinstance(pid, bool) and pid > 0 else None
    if found is None:
        raise UsageError(f"process is the number of a living process, with which a pin ends, not {pid!r}")
    return found


def describe_owner(where: str, program: str | None = None, pid: int | None = None) -> str:
    """Who takes a pin: this process, or the one that it works for."""
    if program is None:
        program = os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else "python"
    place = f", {where}" if where else ""
    return f"process {os.getpid() if pid is None else pid} on {socket.gethostname()} ({program}{place})"
