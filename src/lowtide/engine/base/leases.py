"""The operations on pins: take, share, renew, remove, expire. Each is one LMDB transaction, from any process. The rows
and their table are in pin_table.

A pin is taken at the boundary that its transaction sees, or at a lower timestamp that the caller already holds by a
registered snapshot or another pin. So everything that the pin sees is in the base and the history when its row appears.
From then on the row keeps it there.

Times are wall-clock times, because they must mean the same in every process and after a restart.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

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
_MOST_LEASES = 1024


class _Place(NamedTuple):
    """The position of a pin: its timestamp, its keyspaces and their prefixes; None for all keyspaces."""

    ts: int
    keyspaces: tuple[str, ...] | None
    prefixes: tuple[bytes, ...] | None


class Leases:
    """The pins of one base. LMDB keeps processes and threads apart.

    A process that removes a pin and is not the ``owner`` of the store notes the pin's timestamp in the base, in the
    same transaction. The owner's monitor and maintenance read the note, even if that process has died.
    """

    def __init__(self, base: Base, time: Callable[[], float], *, owner: bool = False) -> None:
        self._base = base
        self._time = time
        self._owner = owner
        self._leased: dict[bytes, tuple[bytes, bytes, int | None]] = {}
        """For each lease, by key: its row, and what that says, which is the id and, for a writer, the timestamp. A
        hint, compared with the row each time. Any thread replaces an entry as a whole."""

    def _note_removal(self, txn: lmdb.Transaction[bytes], ts: int) -> None:
        noted = txn.get(_UNPINNED, default=b"", db=self._base.meta)
        if encode_ts(ts) not in _timestamps(noted):
            txn.put(_UNPINNED, noted + encode_ts(ts), db=self._base.meta)

    def removed_elsewhere(self) -> list[int]:
        """The timestamps of pins that other processes removed since the last call. For the owner."""
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
        writer: bool = False,
    ) -> PinRow:
        """Take the pin ``name`` for ``ttl`` seconds: at the boundary; at ``at``, which the caller holds by a registered
        snapshot; or ``beside`` another pin, at its timestamp. If ``process`` is given, the pin ends with it. A
        ``writer`` pin is the lease of a joined process."""
        check_name(name)
        check_ttl(ttl)
        wanted = check_keyspaces(keyspaces)
        owner = describe_owner(where)

        def change(txn: lmdb.Transaction[bytes]) -> PinRow:
            now = self._time()
            there = self._base.pins.get(txn, name)
            if there is not None and not there.is_over(now):
                raise UsageError(
                    f"the pin {name!r} exists, at commit {there.ts}, for another {there.expires - now:.0f} seconds; "
                    "renew it, remove it with unpin, or choose another name"
                )
            place = self._placed(txn, at, beside, wanted)
            if there is not None:
                self._note_removal(txn, there.ts)  # no error is raised after this
            row = msgspec.structs.replace(_new_row(place, now, ttl, owner, process), writer=writer)
            self._base.pins.put(txn, name, row)
            return row

        return self._base.write(change, refuses=True)

    def _placed(
        self,
        txn: lmdb.Transaction[bytes],
        at: int | None,
        beside: tuple[str, PinRow] | None,
        wanted: tuple[str, ...] | None,
    ) -> _Place:
        """The position at which a pin can be taken in this transaction."""
        boundary = self._base.boundary_in(txn) or 0
        ts = boundary if at is None else at
        names = wanted
        if beside is not None:
            ts, names = self._held_by(txn, *beside, wanted)
        assert ts <= boundary, (ts, boundary)
        if names is None:
            return _Place(ts, None, None)
        known = (txn.get(each.encode(), db=self._base.keyspaces) for each in names)
        return _Place(ts, names, tuple(prefix for prefix in known if prefix is not None))

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
            place = self._placed(txn, None, beside, wanted)
            self._left(txn, user[0])  # a user is in one pin only; no error is raised after this
            for other, row in self._base.pins.all(txn):
                if row.shared and row.ts == place.ts and row.process == process and not row.is_over(now):
                    joined = msgspec.structs.replace(
                        _prolonged(row, now, ttl),
                        keyspaces=_united(row.keyspaces, place.keyspaces),
                        prefixes=_united(row.prefixes, place.prefixes),
                    ).used_by((*row.users, user))
                    self._base.pins.put(txn, other, joined)
                    return other, joined
            taken = msgspec.structs.replace(_new_row(place, now, ttl, user[1], process), users=(user,), shared=True)
            self._base.pins.put(txn, name, taken)
            return name, taken

        return self._base.write(change, refuses=True)

    def join(self, name: str, user: tuple[str, str], ttl: float) -> PinRow:
        """Add ``user`` to the live pin ``name``, which then lives for at least ``ttl`` seconds."""
        check_ttl(ttl)

        def joined(row: PinRow, now: float) -> PinRow:
            users = *(each for each in row.users if each[0] != user[0]), user
            return msgspec.structs.replace(_prolonged(row, now, ttl), users=users)

        return self._revise(name, None, joined)

    def hand_over(self, name: str, identity: bytes, successor: str) -> PinRow | None:
        """Remove a pin. If it has other users, leave it to them under the name ``successor``. Returns the row if it was
        removed."""
        check_name(successor)

        def change(txn: lmdb.Transaction[bytes]) -> PinRow | None:
            row = _the_one(self._base.pins.get(txn, name), identity)
            if row is None:
                return None
            if row.users:
                left = msgspec.structs.replace(row, shared=True)
                self._base.pins.delete(txn, name)
                self._base.pins.put(txn, successor, left.used_by(row.users))
                return None
            self._delete(txn, name, row)
            return row

        return self._base.write(change, refuses=True)

    def leave(self, token: str) -> list[PinRow]:
        """Remove the user from its pin. A shared pin is removed with its last user, and returned. A pin with an owner
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
                    self._delete(txn, name, row)
                    removed.append(row)
        return removed

    def _held_by(
        self, txn: lmdb.Transaction[bytes], name: str, row: PinRow, wanted: tuple[str, ...] | None
    ) -> tuple[int, tuple[str, ...] | None]:
        """The timestamp of the pin ``name``, if it still holds everything ``wanted``, and the keyspaces that another
        pin at this timestamp can hold."""
        found = valid(name, self._base.pins.get(txn, name), row.id, self._time())
        if found.keyspaces is not None and not set(wanted or ()) <= set(found.keyspaces):
            raise UsageError(f"the pin {name!r} holds only {', '.join(map(repr, found.keyspaces))}")
        return found.ts, found.keyspaces if wanted is None else wanted

    def renew(self, name: str, identity: bytes | None, ttl: float | None = None) -> PinRow:
        """Extend the pin to ``ttl`` seconds from now; by default its old ttl. An expired pin stays expired."""
        if ttl is not None:
            check_ttl(ttl)

        def renewed(row: PinRow, now: float) -> PinRow:
            return msgspec.structs.replace(row, renewed=now, ttl=row.ttl if ttl is None else ttl)

        return self._revise(name, identity, renewed)

    def _revise(self, name: str, identity: bytes | None, revised: Callable[[PinRow, float], PinRow]) -> PinRow:
        """Replace the row of a live pin by ``revised(row, now)``."""
        asked = self._time()  # before waiting for LMDB's writers: while the row exists, nothing is lost

        def change(txn: lmdb.Transaction[bytes]) -> PinRow:
            now = self._time()
            row = revised(valid(name, self._base.pins.get(txn, name), identity, asked), now)
            self._base.pins.put(txn, name, row)
            return row

        return self._base.write(change, refuses=True)

    def remove(self, name: str, identity: bytes | None = None) -> PinRow | None:
        """Remove the pin. None if there is no such pin, or if its id is not ``identity``."""

        def change(txn: lmdb.Transaction[bytes]) -> PinRow | None:
            row = _the_one(self._base.pins.get(txn, name), identity)
            if row is not None:
                self._delete(txn, name, row)
            return row

        return self._base.write(change, refuses=True)

    def _delete(self, txn: lmdb.Transaction[bytes], name: str, row: PinRow) -> None:
        """Delete a row, and note that for the owner if this is another process."""
        self._base.pins.delete(txn, name)
        if not self._owner:
            self._note_removal(txn, row.ts)

    def expire(self) -> list[PinRow]:
        """Remove the pins that have expired, or whose process is gone. For the owner. Their versions may be dropped
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
        """The pins by name, including those that have expired but were not removed yet."""
        return self._base.read(self._base.pins.all)

    def find(self, name: str, identity: bytes | None = None) -> PinRow:
        """The live pin ``name``, with this ``identity`` if one is given. Raises SnapshotExpired."""
        check_name(name)
        return valid(name, self._base.read(lambda txn: self._base.pins.get(txn, name)), identity, self._time())

    def leased_from(self, name: str, identity: bytes) -> int | None:
        """The timestamp of the lease of a joined process; None if it was removed. An expired lease counts until it is
        removed: nothing that it keeps is gone yet."""
        base, key = self._base, name.encode()
        data = base.read(lambda txn: txn.get(key, db=base.pins.table))
        if data is None:
            return None
        known = self._leased.get(key)
        if known is None or known[0] != data:
            row = base.pins.decoded(key, data)
            if len(self._leased) > _MOST_LEASES:
                self._leased.clear()
            known = self._leased[key] = data, row.id, row.ts if row.writer else None
        return known[2] if known[1] == identity else None

    def holder_of(self, ts: int) -> tuple[str, PinRow]:
        """The name and row of a live pin at ``ts``, preferably one that holds all keyspaces."""
        now = self._time()
        pins = [(name, row) for name, row in self.all() if row.ts == ts and row.expires > now]
        if not pins:
            raise SnapshotExpired(f"the state as of commit {ts} is no longer kept: no live snapshot or pin holds it")
        return min(pins, key=lambda pin: pin[1].prefixes is not None)


def _new_row(place: _Place, now: float, ttl: float, owner: str, process: Identity | None) -> PinRow:
    return PinRow(
        id=new_id(),
        ts=place.ts,
        taken=now,
        renewed=now,
        ttl=ttl,
        keyspaces=place.keyspaces,
        prefixes=place.prefixes,
        owner=owner,
        process=process,
    )


def _prolonged(row: PinRow, now: float, ttl: float) -> PinRow:
    """The pin, renewed, with at least this ``ttl``."""
    return msgspec.structs.replace(row, renewed=now, ttl=max(row.ttl, ttl))


def _the_one(row: PinRow | None, identity: bytes | None) -> PinRow | None:
    """``row``, if the pin has this ``identity`` or ``identity`` is None; otherwise None."""
    return row if row is not None and identity in (None, row.id) else None


def _united(first: tuple[_Name, ...] | None, second: tuple[_Name, ...] | None) -> tuple[_Name, ...] | None:
    """The union of both; None means everything."""
    return None if first is None or second is None else tuple(dict.fromkeys(first + second))


def _timestamps(noted: bytes) -> list[bytes]:
    return [noted[start : start + 8] for start in range(0, len(noted), 8)]


def valid(name: str, row: PinRow | None, identity: bytes | None, now: float) -> PinRow:
    """``row``, if it is the pin with this ``identity`` and has not expired."""
    row = _the_one(row, identity)
    if row is None:
        raise SnapshotExpired(f"the pin {name!r} does not exist: it was removed, or has expired; take a new one")
    if row.expires <= now:
        raise SnapshotExpired(
            f"the pin {name!r} at commit {row.ts} expired {now - row.expires:.1f} seconds ago; take a new one, "
            "and renew it in time"
        )
    return row


def check_ttl(ttl: object) -> None:
    if isinstance(ttl, bool) or not isinstance(ttl, int | float) or not 0 < ttl < 1e10:
        raise UsageError(f"ttl must be a number of seconds greater than 0, not {ttl!r}")


def check_process(pid: object) -> Identity | None:
    """The process with which a pin ends; None for no process."""
    if pid is None:
        return None
    found = identify(pid) if isinstance(pid, int) and not isinstance(pid, bool) and pid > 0 else None
    if found is None:
        raise UsageError(f"process must be the id of a running process, with which the pin ends, not {pid!r}")
    return found


def describe_owner(where: str, program: str | None = None, pid: int | None = None) -> str:
    """Describe the process that takes a pin: this process, or the one that it works for."""
    if program is None:
        program = os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else "python"
    place = f", {where}" if where else ""
    return f"process {os.getpid() if pid is None else pid} on {socket.gethostname()} ({program}{place})"
