"""The registry of live snapshots and their timestamps, so that what they see is kept.

``live`` maps a token to a timestamp. Each thread adds and removes its own without a lock: single dict operations are
atomic. The draw of a timestamp and its registration are *one step for the collector*, by this protocol:

    begin:    t = published; live[token] = t; repeat unless published is still t
    collect:  bound = published; sample = live

If the sample misses the entry, the sample was taken before the entry was set, and ``bound`` was read even earlier.
``begin`` read ``published == t`` after that, so ``bound <= t``. A collector drops only versions that ended at or before
``bound``, and a snapshot at ``t >= bound`` sees none of them. Without the second read of ``published``, a commit could
come between the draw and the registration, and a collection after it could drop what the snapshot is about to read.

A registration is an object, :class:`Registration`. The tables are filled in after it has its token. So at every
instruction an interrupt finds it either released or owned: an owner that is dropped drops it, and its destructor
releases it. ``details`` contains it from before it enters ``live`` until after it has left, so everything in ``live``
has details. A registration whose ``ts`` is still ``NOT_DRAWN`` is being drawn. Collectors count it, because they must
keep too much rather than too little. A snapshot that is taken at another snapshot's timestamp does not rely on it.

The interpreter swallows every exception that a destructor raises, including an interrupt. The tables then still have
its token. ``reap`` releases registrations that have no owner any more; the monitor and a thorough collection call it.

A snapshot that has become too old is *expired*: it leaves ``live`` although its owner still has it. The note in
``expired`` is written first, and versions are collected only after the snapshot has left ``live``. So a reader that
reads first and checks for the note afterwards never returns a result that a collection has falsified. The note is
removed when the owner releases the registration, at the latest in its destructor.

Nothing here keeps an owner alive: the tables refer to registrations weakly, and registrations to no owner.

When a transaction has ended and its registration is released and reported, the registration goes to ``spare``, for the
next begin. This happens only if nothing else refers to it. The traceback of an error may, and then dropping its next
owner would not drop it. So a spare registration is as good as a new one. If an interrupt prevents the reuse, it is
dropped.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final
from weakref import ref

from lowtide.engine.transaction.origin import origin_of
from lowtide.engine.transaction.registration import NOT_DRAWN, Details, Entry, Expired, Registration
from lowtide.engine.versions.published import Published, items_of
from lowtide.errors import SnapshotExpired, TransientError, UsageError

_MOST_SPARE: Final = 64


class Registry(Published):
    """The live snapshots of one open store. See the module for the protocol."""

    def __init__(self, published: int) -> None:
        super().__init__(published)
        self.details: dict[int, tuple[Details, ref[Registration]]] = {}
        """The details and the owner of each token in ``live``, and of those being registered or released."""
        self.serializable: dict[int, int] = {}
        """Token to timestamp of the live transactions that track their reads."""
        self.partial: set[int] = set()
        """The tokens of snapshots at pins that hold only a few keyspaces. No other snapshot may rely on them."""
        self.expired: dict[int, Expired] = {}
        """The notes of snapshots that were expired and not yet released; usually empty."""
        self.expirations = 0
        """How many snapshots were expired in all; written by the one thread that expires."""
        self.abandoned: Callable[[int], None] = _ignore
        """Called with timestamps that were registered only for a moment, or whose owner was dropped; set by the store.
        It never waits and takes no lock, since it may run in a destructor."""
        self.spare: deque[Registration] = deque(maxlen=_MOST_SPARE)
        """Registrations without an owner, for reuse by the next begins; see the module."""
        self.tokens = itertools.count(1)

    def last_published(self) -> int:
        return self.published

    def register(self, details: Details, tracks_reads: bool = False) -> Registration:
        """Draw a timestamp and register it."""
        try:
            # Reuse one: creating it, with its weak reference and its destructor, takes longer than everything else.
            registration = self.spare.pop()
        except IndexError:
            registration = Registration(self)
        registration.ts = NOT_DRAWN
        registration.token = token = next(self.tokens)
        self.details[token] = (details, registration.ref)
        ts = self.published
        if tracks_reads:
            self.serializable[token] = ts
        self.live[token] = ts  # point: begin.drawn
        if self.published != ts:  # point: begin.registered
            ts = self._draw_again(token, ts, tracks_reads)
        registration.ts = ts
        return registration

    def _draw_again(self, token: int, ts: int, tracks_reads: bool) -> int:
        """Draw timestamps until nothing was committed in between; return the last.

        A collector may have seen a discarded timestamp and kept versions for it, so each one is reported to it.
        """
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
        """Register a snapshot at ``at``, which must be the last commit, or a timestamp that another snapshot or, by
        ``pinned``, a pin holds. A ``partial`` snapshot can read only a part of the store.

        The other holder is looked up after this snapshot was registered, so at any moment at least one of the two
        exists.
        """
        if at > self.published:
            raise UsageError(f"commit {at} does not exist yet; the last one is {self.published}")
        registration = Registration(self)
        registration.token = token = next(self.tokens)
        self.details[token] = (details, registration.ref)
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
        holders = (token for token, each in items_of(self.live) if each == ts)
        return any(self._is_drawn(token) and token not in self.partial for token in holders)

    def _is_drawn(self, token: int) -> bool:
        details = self.details.get(token)
        owner = details[1]() if details is not None else None
        return owner is not None and owner.ts != NOT_DRAWN

    def release(self, token: int) -> Expired | None:
        """Forget a snapshot; return the note if it was expired before. A second call does nothing. It takes no lock, so
        it may run in a destructor."""
        self.live.pop(token, None)  # point: release.live
        self.details.pop(token, None)
        if self.serializable or self.partial:
            self.serializable.pop(token, None)
            self.partial.discard(token)
        return self.expired.pop(token, None) if self.expired else None

    def settle(self, token: int) -> TransientError | None:
        """Release a snapshot after its commit was validated. If it was no longer live, return why; see ``gone``."""
        gone = self.gone(token) if token not in self.live else None
        self.live.pop(token, None)  # point: release.live
        self.details.pop(token, None)
        if gone is None and not (self.serializable or self.partial or self.expired):
            return None  # there is nothing else to release
        expired = self.release(token)
        return expired.error() if expired is not None else gone

    def gone(self, token: int) -> TransientError | None:
        """The error for a snapshot that is no longer live: it was expired, or released because its thread was
        interrupted. What it kept for the validation of its commit may be gone as well, so the commit must be
        refused."""
        if token in self.live:
            return None
        if (expired := self.expired.get(token)) is not None:
            return expired.error()
        return TransientError("the thread of this transaction was interrupted during its commit; nothing was written")

    def reap(self) -> None:
        """Release registrations without an owner, whose destructor was interrupted."""
        for token, (_, owner) in items_of(self.details):
            if owner() is None:
                ts = self.live.get(token)
                self.release(token)
                if ts is not None:
                    self.abandoned(ts)
        for token, note in items_of(self.expired):
            if note.owner() is None:
                self.release(token)

    def expire(self, entry: Entry, age: float, limit: float) -> bool:
        """End a snapshot whose owner still has it; false if the owner released it meanwhile. See the module.

        The owner looks for the note after the snapshot has left ``live``. This checks ``live`` after it has written the
        note. Whichever comes last removes the note.
        """
        token = entry.token
        details = self.details.get(token)
        if details is None or not self._is_drawn(token):
            return False  # released, or about to be drawn again
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
        """The live snapshots at one moment, oldest first, including those being drawn."""
        found = []
        for token, ts in items_of(self.live):
            if (details := self.details.get(token)) is not None:
                writer, begun, caller = details[0]
                found.append(Entry(token, ts, writer, begun, origin_of(caller)))
        return sorted(found, key=lambda entry: entry.ts)

    def has_all(self, timestamps: Iterable[int]) -> bool:
        """Whether there is a live snapshot at each of these."""
        return set(timestamps) <= {ts for _, ts in items_of(self.live)}

    def oldest_writer(self) -> int | None:
        """The oldest snapshot that may still commit, for write-write conflicts. Read ``published`` first."""
        details = self.details
        writers = [ts for token, ts in items_of(self.live) if details.get(token, _UNKNOWN)[0][0]]
        return min(writers, default=None)

    def oldest_serializable(self) -> int | None:
        """The oldest snapshot whose reads will be validated."""
        return min((ts for _, ts in items_of(self.serializable)), default=None)


_UNKNOWN = ((True,), None)
"""The details of a snapshot that left after ``live`` was read: unknown, so it counts as a writer."""


def _ignore(ts: int) -> None:
    """Do nothing: for a registry without a collector."""
