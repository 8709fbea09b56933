"""The live snapshots and their timestamps, so that what they see is kept.

``live`` maps a token to a timestamp. Each thread adds and removes its own without a lock: single dict operations are
atomic. The draw of a timestamp and its registration are *one step for the collector*, by this protocol:

    begin:    t = published; live[token] = t; repeat unless published is still t
    collect:  bound = published; sample = live

If the sample misses the entry, it was taken before the entry was set, and ``bound`` was read before that; ``begin``
then read ``published == t`` after it, so ``bound <= t``. A collector drops only what ended at or before ``bound``:
nothing that a snapshot at ``t >= bound`` sees. Without the second look at ``published`` a commit could slip in
between the draw and the registration, and a collection after it drop what the snapshot is about to read.

A registration is an object, :class:`Registration`, and its tables are filled in after it has its token. So at every
instruction an interrupt finds it either released or owned: an owner that is dropped drops it, and its destructor
releases it. ``details`` names it before it is in ``live`` and until after it has left: what is in ``live`` is named.
One whose ``ts`` is still ``NOT_DRAWN`` is being drawn. Collectors count it, for they must keep too much rather than
too little; a snapshot at another one's timestamp does not lean on it.

The interpreter swallows what a destructor raises, an interrupt as well, and then the tables still have its token.
``reap`` releases whatever has no owner any more; the monitor and a thorough collection call it.

A snapshot that has become too old is *expired*: it leaves ``live`` though its owner still has it. The note in
``expired`` is written first. Whatever is collected because the snapshot left ``live`` is collected after that, so one
who reads first and looks for the note afterwards never hands out an answer that a collection has falsified. The note
goes when the owner gives the registration back, as every owner does, if only in its destructor.

Nothing here keeps an owner alive: the tables refer to registrations weakly, and registrations to no owner.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeVar
from weakref import ref

from lowtide.engine.transaction.origin import Caller, Origin, origin_of
from lowtide.errors import SnapshotExpired, TransientError, UsageError


@dataclass(frozen=True, slots=True)
class Entry:
    """A live snapshot, as ``entries`` lists it. ``begun`` is the clock's monotonic time."""

    token: int
    ts: int
    writer: bool
    begun: float
    origin: Origin


@dataclass(frozen=True, slots=True)
class Expired:
    """The note about a snapshot that was ended because of its ``age``, in seconds, under the limit of that time.
    ``owner`` is its registration."""

    ts: int
    age: float
    limit: float
    origin: Origin
    owner: ref[Registration]

    def error(self) -> SnapshotExpired:
        where = str(self.origin)
        return SnapshotExpired(
            f"the snapshot of commit {self.ts} that was opened at {where} was ended at the age of {self.age:.1f} s, "
            f"since max_snapshot_age is {self.limit:g} s; what it sees is no longer kept; begin another one",
            age=self.age,
            where=where,
        )


Details = tuple[bool, float, Caller | None]
"""(may still commit, begun at, opened by)"""

NOT_DRAWN: Final = -1


class Registration:
    """A live snapshot, held by the transaction, snapshot, statement or scan that reads at ``ts``, until it is released
    or dropped. Used by the thread of its owner; made by ``Registry.register`` and ``register_at``.

    ``token`` is 0 once it is released and that was told; ``ts`` is ``NOT_DRAWN`` until others may lean on it.
    """

    __slots__ = ("__weakref__", "_registry", "token", "ts")

    def __init__(self, registry: Registry) -> None:
        self.ts = NOT_DRAWN
        self._registry = registry
        self.token = registry.next_token()

    def release(self, released: Callable[[int], None]) -> None:
        """Give the snapshot back and tell ``released`` its timestamp. Harmless when repeated, and after an interrupt it
        is to be repeated: by the owner, or else by the destructor."""
        if token := self.token:
            self._registry.release(token)
            released(self.ts)
            self.token = 0

    def __del__(self) -> None:
        try:
            token = self.token
        except AttributeError:  # its construction was interrupted
            return
        if token:
            registry = self._registry
            ts = registry.live.get(token, self.ts)
            registry.release(token)
            if ts != NOT_DRAWN:
                registry.abandoned(ts)


class Registry:
    """The live snapshots of one open store. See the module for the protocol."""

    def __init__(self, published: int) -> None:
        self.live: dict[int, int] = {}
        self.details: dict[int, tuple[Details, ref[Registration]]] = {}
        """Of each token in ``live``, and of those that come and go, what is told of it, and its owner."""
        self.serializable: dict[int, int] = {}
        """Token to timestamp of the live transactions that track their reads."""
        self.partial: set[int] = set()
        """The tokens of snapshots at pins that hold a few keyspaces only: no other snapshot may rely on them."""
        self.expired: dict[int, Expired] = {}
        """The notes of snapshots that were expired and not yet given back; empty in the usual case."""
        self.expirations = 0
        """How many were expired in all; written by the one thread that expires."""
        self.published = published
        """The last commit that everyone may see. Written by the leader of a commit group only, and only upwards."""
        self.syncing = False
        """Whether a commit waits for the disk. Written by the leader of a commit group; a hint for readers."""
        self.abandoned: Callable[[int], None] = _ignore
        """Told of timestamps that were registered for an instant only, or whose owner was dropped; set by the store.
        Never waits, and takes no lock: it may run in a destructor."""
        self.next_token: Callable[[], int] = itertools.count(1).__next__

    def last_published(self) -> int:
        return self.published

    def register(self, details: Details, tracks_reads: bool = False) -> Registration:
        """Draw a timestamp and register it."""
        registration = Registration(self)
        token = registration.token
        self.details[token] = (details, ref(registration))
        ts = self.published
        if tracks_reads:
            self.serializable[token] = ts
        self.live[token] = ts  # point: begin.drawn
        if self.published != ts:  # point: begin.registered
            ts = self._draw_again(token, ts, tracks_reads)
        registration.ts = ts
        return registration

    def _draw_again(self, token: int, ts: int, tracks_reads: bool) -> int:
        """Draw anew until nothing was committed meanwhile; returns the timestamp. A collector may have met one of the
        others and kept something for it, so it is told of each when it is no longer there."""
        while self.published != ts:
            before, ts = ts, self.published
            if tracks_reads:
                self.serializable[token] = ts
            self.live[token] = ts  # point: begin.drawn
            self.abandoned(before)
        return ts

    def register_at(
        self, at: int, details: Details, pinned: Callable[[], bool] = bool, *, partial: bool = False
    ) -> Registration:
        """Register a snapshot at ``at``, which must be the last commit or a timestamp that another snapshot holds, or a
        pin, which ``pinned`` tells. One that is ``partial`` can read only a part of the store.

        The other one is looked for after this one was registered, so at every moment at least one of them is there.
        """
        if at > self.published:
            raise UsageError(f"commit {at} does not exist yet; the last one is {self.published}")
        registration = Registration(self)
        token = registration.token
        self.details[token] = (details, ref(registration))
        if partial:
            self.partial.add(token)
        self.live[token] = at
        try:
            kept = self.published == at or self._is_held(at) or pinned()  # point: begin.at
        except BaseException:
            self.release(token)
            raise
        if not kept:
            self.release(token)
            raise SnapshotExpired(f"the state as of commit {at} is no longer kept: no live snapshot or pin holds it")
        registration.ts = at
        return registration

    def _is_held(self, ts: int) -> bool:
        holders = (token for token, each in _items(self.live) if each == ts)
        return any(self._is_drawn(token) and token not in self.partial for token in holders)

    def _is_drawn(self, token: int) -> bool:
        details = self.details.get(token)
        owner = details[1]() if details is not None else None
        return owner is not None and owner.ts != NOT_DRAWN

    def release(self, token: int) -> Expired | None:
        """Forget a snapshot; returns the note if it was expired before. Harmless when repeated; takes no lock, so it
        may run in a destructor."""
        self.live.pop(token, None)  # point: release.live
        self.details.pop(token, None)
        if self.serializable or self.partial:
            self.serializable.pop(token, None)
            self.partial.discard(token)
        return self.expired.pop(token, None) if self.expired else None

    def settle(self, token: int) -> TransientError | None:
        """Release a snapshot that a commit was validated with, after that. If it had gone before, see ``gone``."""
        gone = self.gone(token)
        expired = self.release(token)
        return expired.error() if expired is not None else gone

    def gone(self, token: int) -> TransientError | None:
        """Why a snapshot is no longer live: it was expired, or released because its thread was interrupted. What it
        kept for the validation of its commit may be gone as well, so the commit must be refused."""
        if token in self.live:
            return None
        if (expired := self.expired.get(token)) is not None:
            return expired.error()
        return TransientError("the thread of this transaction was interrupted in its commit; nothing was written")

    def reap(self) -> None:
        """Release what has no owner any more: its destructor was interrupted."""
        for token, (_, owner) in _items(self.details):
            if owner() is None:
                ts = self.live.get(token)
                self.release(token)
                if ts is not None:
                    self.abandoned(ts)
        for token, note in _items(self.expired):
            if note.owner() is None:
                self.release(token)

    def expire(self, entry: Entry, age: float, limit: float) -> bool:
        """End a snapshot whose owner still has it; false if the owner gave it back meanwhile. See the module.

        The owner looks for the note after it has left ``live``, this looks at ``live`` after it has written the note:
        whichever comes last takes the note away.
        """
        token = entry.token
        details = self.details.get(token)
        if details is None or not self._is_drawn(token):
            return False  # given back, or about to be drawn again
        self.expired[token] = Expired(entry.ts, age, limit, entry.origin, details[1])
        if self.live.pop(token, None) is None:  # point: expire.noted
            self.expired.pop(token, None)
            return False
        self.details.pop(token, None)
        self.serializable.pop(token, None)
        self.partial.discard(token)
        self.expirations += 1
        return True

    def entries(self) -> list[Entry]:
        """The live snapshots at one moment, oldest first; also those that are being drawn."""
        found = []
        for token, ts in _items(self.live):
            if (details := self.details.get(token)) is not None:
                writer, begun, caller = details[0]
                found.append(Entry(token, ts, writer, begun, origin_of(caller)))
        return sorted(found, key=lambda entry: entry.ts)

    def timestamps(self) -> list[int]:
        """What the collector must keep. Read ``published`` first, see the module."""
        return [ts for _, ts in _items(self.live)]

    def has_all(self, timestamps: Iterable[int]) -> bool:
        """Whether a snapshot lives at each of these."""
        return set(timestamps) <= {ts for _, ts in _items(self.live)}

    def oldest_writer(self) -> int | None:
        """The oldest snapshot that may still commit, for write-write conflicts. Read ``published`` first."""
        details = self.details
        writers = [ts for token, ts in _items(self.live) if details.get(token, _UNKNOWN)[0][0]]
        return min(writers, default=None)

    def oldest_serializable(self) -> int | None:
        """The oldest snapshot whose reads will be validated."""
        return min((ts for _, ts in _items(self.serializable)), default=None)


_UNKNOWN = ((True,), None)
"""The details of one that left after ``live`` was read: what is not known counts as a writer."""


def _ignore(ts: int) -> None:
    """Where nothing is collected."""


_Value = TypeVar("_Value")


def _items(table: dict[int, _Value]) -> list[tuple[int, _Value]]:
    """The entries of a table at one moment."""
    while True:
        try:
            return list(table.items())
        except RuntimeError:  # a destructor ran meanwhile and removed its own
            continue
