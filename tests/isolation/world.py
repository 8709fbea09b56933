"""A store with upkeep that runs around the transactions of a test.

What a transaction sees must not depend on where the versions are: in chains, in the base, in the history, or between
them. So the tests of this folder run in several *places*: a test that has one case in all of them, each case of the
others in three, and in the full attack in all. They call ``settle`` when their data is set up, and ``meanwhile``
wherever time passes between two steps of their story.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import lowtide
from lowtide import Isolation
from tests.support.schedule import Schedule, Step

LEVELS = list(Isolation)
FIRST_COMMITTER_WINS = [Isolation.SNAPSHOT, Isolation.SERIALIZABLE]
LAST_COMMITTER_WINS = [Isolation.NONE, Isolation.READ_COMMITTED, Isolation.SNAPSHOT_READ]
BUFFERED = [level for level in LEVELS if level is not Isolation.NONE]


@dataclass(frozen=True)
class Place:
    """Where the data of a test is, and how it moves."""

    settled: bool = False
    """Set up in the base, not in chains."""
    moving: bool = False
    """A checkpoint and a collection wherever time passes."""
    halfway: str | None = None
    """The point at which a checkpoint stands still while the test goes on."""
    options: dict[str, Any] = field(default_factory=dict)


PLACES = {
    "chains": Place(),
    "base": Place(settled=True),
    "moving": Place(settled=True, moving=True, options={"checkpointer": "thread", "collect_threshold": 1}),
    "frozen": Place(settled=True, halfway="checkpoint.apply", options={"checkpointer": "thread"}),
    "applied": Place(halfway="checkpoint.applied", options={"checkpointer": "thread"}),
}


ALWAYS = ("chains", "moving")
"""Places that show what the others do not: all versions are in chains, or they move at each step."""


def is_tried(place: str, case: str) -> bool:
    """Whether every run tries a ``case`` in this place: it does in those that are always tried, and in one of the
    others. The cases are spread evenly over these, the same in each run."""
    others = [each for each in PLACES if each not in ALWAYS]
    return place in ALWAYS or place == others[crc32(case.encode()) % len(others)]


class World:
    """A store in a place, with one keyspace ``k`` that the tests write to."""

    def __init__(self, store: lowtide.Store, place: Place, schedule: Schedule) -> None:
        self.store = store
        self.place = place
        self._schedule = schedule
        self._standing: Step[None] | None = None

    def settle(self) -> None:
        """Everything that was committed so far is where the place wants it."""
        if self.place.settled:
            self.store.checkpoint()

    def meanwhile(self) -> None:
        """Time passes: checkpoint and collect, as the place wants it."""
        if self.place.halfway is not None:
            self._move_on(self.place.halfway)
        elif self.place.moving:
            self.store.checkpoint()
        if self.place.moving or self.place.halfway:
            self.store.collect_garbage()

    def _move_on(self, point: str) -> None:
        """Let the checkpoint that stands still finish, and have the next one go as far."""
        if self._standing is not None:
            self._standing.finish()
            self._standing = None
        stats = self.store.stats()
        if stats.boundary < stats.last_commit:
            self._standing = self._schedule.start(self.store.checkpoint, point).arrive()

    # Verbs that keep the stories short. Each write is a transaction of its own.

    def fill(self, **numbers: int) -> None:
        """Put all of ``numbers`` in one transaction, and settle."""
        with self.store.transaction() as tx:
            for key, number in numbers.items():
                put(tx, key, number)
        self.settle()

    def put(self, key: str, number: int) -> int:
        with self.store.transaction() as tx:
            put(tx, key, number)
        return self.store.stats().last_commit

    def delete(self, key: str) -> None:
        self.store.keyspace("k").delete(key.encode())

    def get(self, key: str) -> int | None:
        with self.store.snapshot() as snapshot:
            return get(snapshot, key)

    def rows(self) -> dict[str, int]:
        with self.store.snapshot() as snapshot:
            return rows(snapshot)

    def begin(self, level: Isolation = Isolation.SNAPSHOT, read_only: bool = False) -> lowtide.Transaction:
        return self.store.begin(level, read_only=read_only)


def get(source: lowtide.Transaction | lowtide.Snapshot, key: str) -> int | None:
    value = source.keyspace("k").get(key.encode())
    return int(value) if value is not None else None


def put(tx: lowtide.Transaction, key: str, number: int) -> None:
    tx.keyspace("k").put(key.encode(), b"%d" % number)


def delete(tx: lowtide.Transaction, key: str) -> None:
    tx.keyspace("k").delete(key.encode())


def scan(
    source: lowtide.Transaction | lowtide.Snapshot,
    start: str | None = None,
    stop: str | None = None,
    reverse: bool = False,
) -> Iterator[tuple[str, int]]:
    entries = source.keyspace("k").scan(
        None if start is None else start.encode(), None if stop is None else stop.encode(), reverse=reverse
    )
    return ((key.decode(), int(value)) for key, value in entries)


def rows(source: lowtide.Transaction | lowtide.Snapshot) -> dict[str, int]:
    """All rows; a key that comes twice is an error."""
    entries = list(scan(source))
    assert len({key for key, _ in entries}) == len(entries), entries
    return dict(entries)


def commits(tx: lowtide.Transaction) -> bool:
    """Commit, and say whether it was accepted."""
    try:
        tx.commit()
    except lowtide.ConflictError:
        return False
    return True


def roll_back(tx: lowtide.Transaction) -> None:
    """Roll back; at NONE without the warning that it undoes nothing."""
    with warnings.catch_warnings():
        if tx.isolation is Isolation.NONE:
            warnings.simplefilter("ignore")
        tx.rollback()


@contextlib.contextmanager
def open_world(store: lowtide.Store, place: Place) -> Iterator[World]:
    with Schedule() as schedule:
        yield World(store, place, schedule)
