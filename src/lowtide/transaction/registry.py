"""The live snapshots: who reads at which timestamp, so that what they see is kept.

``live`` maps a token to a timestamp. Anybody adds and removes their own without a lock: single dict operations are
atomic. The draw of a timestamp and its registration are *one step for whoever collects*, by this protocol:

    begin:    t = published; live[token] = t; repeat unless published is still t
    collect:  bound = published; sample = live

If the sample misses the entry, it was taken before the entry was set, and ``bound`` was read before that; ``begin``
then read ``published == t`` after it, so ``bound <= t``. A collector drops only what ended at or before ``bound``:
nothing that a snapshot at ``t >= bound`` sees. Without the second look at ``published`` a commit could slip in
between the draw and the registration, and a collection after it drop what the snapshot is about to read.

``details`` is filled in after that: a token that is in ``live`` only is still being drawn. Collectors count it, for
they must keep too much rather than too little; a snapshot at somebody else's timestamp does not lean on it.

A snapshot that has become too old is *expired*: it leaves ``live`` though its owner still has it. The note in
``expired`` is written first. Whatever is collected because the snapshot left ``live`` is collected after that, so one
who reads first and looks for the note afterwards never hands out an answer that a collection has falsified. The note
goes when the owner gives the token back, as every owner does, if only in its destructor.

Nothing here keeps a transaction alive: the tables hold plain values, and a transaction that is dropped removes its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import CodeType

from lowtide.errors import SnapshotExpired, UsageError


@dataclass(frozen=True, slots=True)
class Origin:
    """Where in the user's program a snapshot was opened; turned into words only when somebody asks. ``code`` is None if
    it was not to be remembered."""

    code: CodeType | None
    instruction: int

    def __str__(self) -> str:
        if self.code is None:
            return "unknown (snapshot_origins is off)"
        line = None
        for start, end, number in self.code.co_lines():
            if start <= self.instruction < end:
                line = number
        return f"{self.code.co_filename}:{line if line is not None else self.code.co_firstlineno}"


@dataclass(frozen=True, slots=True)
class Entry:
    """A live snapshot, for those who ask who lives. ``begun`` is the clock's monotonic time."""

    token: int
    ts: int
    writer: bool
    begun: float
    origin: Origin


@dataclass(frozen=True, slots=True)
class Expired:
    """The note about a snapshot that was ended because of its ``age``, in seconds, under the limit of that time."""

    ts: int
    age: float
    limit: float
    origin: Origin

    def error(self) -> SnapshotExpired:
        where = str(self.origin)
        return SnapshotExpired(
            f"the snapshot of commit {self.ts} that was opened at {where} was ended at the age of {self.age:.1f} s, "
            f"since max_snapshot_age is {self.limit:g} s; what it sees is no longer kept, begin anew",
            age=self.age,
            where=where,
        )


Details = tuple[bool, float, CodeType | None, int]
"""(may still commit, begun at, code, instruction)"""


class Registry:
    """The live snapshots of one open store. See the module for the protocol."""

    def __init__(self, published: int) -> None:
        self.live: dict[int, int] = {}
        self.details: dict[int, Details] = {}
        self.serializable: dict[int, int] = {}
        """Token to timestamp of the live transactions that track their reads."""
        self.partial: set[int] = set()
        """The tokens of snapshots at pins that hold a few keyspaces only: nobody may lean on them."""
        self.expired: dict[int, Expired] = {}
        """The notes of snapshots that were expired and not yet given back; empty in the usual case."""
        self.expirations = 0
        """How many were expired in all; written by the one thread that expires."""
        self.published = published
        """The last commit that everyone may see. Written by the leader of a commit group only, and only upwards."""
        self.syncing = False
        """Whether a commit waits for the disk. Written by the leader of a commit group; a hint for readers."""
        self.abandoned: Callable[[int], None] = _tell_nobody
        """Told of timestamps that were registered for an instant only; set by whoever collects. Never waits."""
        self._next_token: Callable[[], int] = itertools.count(1).__next__

    def last_published(self) -> int:
        return self.published

    def register(self, details: Details, tracks_reads: bool = False) -> tuple[int, int]:
        """Draw a timestamp and register it; returns the token and the timestamp."""
        token = self._next_token()
        ts = self.published
        if tracks_reads:
            self.serializable[token] = ts
        self.live[token] = ts  # point: begin.drawn
        if self.published != ts:  # point: begin.registered
            ts = self._draw_again(token, ts, tracks_reads)
        self.details[token] = details
        return token, ts

    def _draw_again(self, token: int, ts: int, tracks_reads: bool) -> int:
        """Draw anew until nothing was committed meanwhile; returns the timestamp. A collector may have met one of the
        others and kept something for it, so it is told of them when they are no longer there."""
        abandoned = []
        while self.published != ts:
            abandoned.append(ts)
            ts = self.published
            if tracks_reads:
                self.serializable[token] = ts
            self.live[token] = ts  # point: begin.drawn
        for each in abandoned:
            self.abandoned(each)
        return ts

    def register_at(
        self, at: int, details: Details, pinned: Callable[[], bool] = bool, *, partial: bool = False
    ) -> int:
        """Register a snapshot at ``at``, which must be the last commit or a timestamp that another snapshot holds, or a
        pin, which ``pinned`` tells. One that is ``partial`` can read only a part of the store.

        The other one is looked for after this one was registered, so at every moment at least one of them is there.
        """
        if at > self.published:
            raise UsageError(f"commit {at} does not exist yet; the last one is {self.published}")
        token = self._next_token()
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
        self.details[token] = details
        return token

    def _is_held(self, ts: int) -> bool:
        holders = (token for token, each in _items(self.live) if each == ts)
        return any(token in self.details and token not in self.partial for token in holders)

    def release(self, token: int) -> Expired | None:
        """Forget a snapshot; returns the note if it was expired before. Harmless when repeated; takes no lock, so it
        may run in a destructor."""
        if self.serializable or self.partial:
            self.serializable.pop(token, None)
            self.partial.discard(token)
        self.details.pop(token, None)
        # Only one that has left ``live`` already can have been expired.
        return self.expired.pop(token, None) if self.live.pop(token, None) is None else None  # point: release.live

    def expire(self, entry: Entry, age: float, limit: float) -> bool:
        """End a snapshot whose owner still has it; false if the owner gave it back meanwhile. See the module.

        The owner looks for the note after it has left ``live``, this looks at ``live`` after it has written the note:
        whichever comes last takes the note away.
        """
        token = entry.token
        self.expired[token] = Expired(entry.ts, age, limit, entry.origin)
        if self.live.pop(token, None) is None:  # point: expire.noted
            self.expired.pop(token, None)
            return False
        self.details.pop(token, None)
        self.serializable.pop(token, None)
        self.partial.discard(token)
        self.expirations += 1
        return True

    def entries(self) -> list[Entry]:
        """The live snapshots at one moment, oldest first; one that is just being drawn is left out."""
        found = []
        for token, ts in _items(self.live):
            if (details := self.details.get(token)) is not None:
                writer, begun, code, instruction = details
                found.append(Entry(token, ts, writer, begun, Origin(code, instruction)))
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
        writers = [ts for token, ts in _items(self.live) if details.get(token, _UNKNOWN)[0]]
        return min(writers, default=None)

    def oldest_serializable(self) -> int | None:
        """The oldest snapshot whose reads will be validated."""
        return min((ts for _, ts in _items(self.serializable)), default=None)


_UNKNOWN = (True,)


def _tell_nobody(ts: int) -> None:
    """Where nothing is collected."""


def _items(table: dict[int, int]) -> list[tuple[int, int]]:
    """The entries of a table at one moment."""
    while True:
        try:
            return list(table.items())
        except RuntimeError:  # a destructor ran meanwhile and removed its own
            continue
