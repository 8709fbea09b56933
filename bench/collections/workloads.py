"""The workloads of the comparison of document stores, and their timing.

A measurement repeats single operations for a given time, or runs a long operation once. The clock is read after every
few operations, or after each slow one.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from bench.collections.people import make_email, make_id, make_people
from bench.collections.protocol import Collection, Document, Durability, Work

RANGE_LENGTH = 100
MANY = 10_000
INSERTS = 8_000  # single inserts in one measurement at most: the stores are to stay of about one size
_PREPARED = 20_000  # random numbers in one measurement at most
_WARM_UP = 0.25  # as a share of the measured time


class WrongAnswer(Exception):
    """Raised if a store gave a wrong answer. Its figures are not shown."""


@dataclass
class Subject:
    """A store under test, and what is in it."""

    store: Collection
    loaded: int
    """People of the first load; reads and updates are of these."""
    inserted: int = 0
    """People that came later: their numbers go on from there."""

    @property
    def held(self) -> int:
        return self.loaded + self.inserted

    def next_people(self, count: int) -> list[Document]:
        start = self.held
        self.inserted += count
        return list(make_people(start, start + count, self.loaded))


@dataclass(frozen=True)
class Sample:
    rate: float
    """Per second, in the unit of the workload."""
    updated: int
    """Increments in all, warm-up included."""


@dataclass(frozen=True)
class Workload:
    name: str
    """For the command line."""
    title: str
    work: Work
    durability: Durability | None
    """None for reads: they are of a store of either kind."""
    unit: str = "operation"

    @property
    def writes(self) -> bool:
        return self.durability is not None


WORKLOADS: tuple[Workload, ...] = (
    Workload("find-id", "find_one by _id", "find-id", None),
    Workload("find-index", "find_one by an index", "find-index", None),
    Workload("find-range", "find over an index range of 100", "range", None),
    Workload("find-all", "full scan, all documents decoded", "scan", None, "document"),
    Workload("group", "aggregate, one $group over all", "group", None, "document"),
    Workload("update", "update_one($inc), fsynced", "update", "synced"),
    Workload("update-unsynced", "update_one($inc), unsynced", "update", "unsynced"),
    Workload("insert", "insert_one, fsynced", "insert", "synced"),
    Workload("insert-unsynced", "insert_one, unsynced", "insert", "unsynced"),
    Workload("insert-many", "insert_many of 10,000, fsynced", "insert-many", "synced", "document"),
    Workload("insert-many-unsynced", "insert_many of 10,000, unsynced", "insert-many", "unsynced", "document"),
)
"""Reads first and inserts last: what is read is what was loaded."""


# -- timing -----------------------------------------------------------------------------------------------------------

Step = Callable[[Any], object]


def repeat(step: Step, operands: Sequence[object], seconds: float, between: int) -> tuple[int, float]:
    """Run the step on one operand after the other until the seconds or the operands are over, reading the clock
    after every ``between``; return how many it were, and the seconds."""
    done = 0
    started = perf_counter()
    deadline = started + seconds
    while True:
        for operand in operands[done : done + between]:
            step(operand)
        done = min(done + between, len(operands))
        now = perf_counter()
        if now >= deadline or done >= len(operands):
            return done, now - started


def once(work: Callable[[], int]) -> Sample:
    """A long operation, after one that is not counted; the work answers how many documents it met."""
    work()
    gc.collect()
    started = perf_counter()
    met = work()
    return Sample(met / (perf_counter() - started), 0)


def measure(workload: Workload, subject: Subject, seconds: float, seed: int, slow: bool) -> Sample:
    """One store's turn at one workload; the seed gives every store of one size the same numbers."""
    store = subject.store
    if workload.work == "scan":
        return once(lambda: expect(count(store.scan()), subject.held, "a scan"))
    if workload.work == "group":
        return once(lambda: expect(total_count(store), subject.held, "a group"))
    if workload.work == "insert-many":
        return insert_batch(subject)
    between = 1 if slow or workload.durability == "synced" else 4 if workload.work == "range" else 16
    if workload.work == "insert":
        return insert_each(subject, seconds, between)
    step, operand, stop = single(workload.work, store, subject.loaded)
    operands = [operand(number) for number in random.Random(seed).choices(range(stop), k=_PREPARED)]
    # From the far end: what the warm-up brings into caches is not what the timed part asks for first.
    warm_up, _ = repeat(step, operands[::-1], seconds * _WARM_UP, between)
    done, took = repeat(step, operands, seconds, between)
    return Sample(done / took, warm_up + done if workload.work == "update" else 0)


# -- steps ------------------------------------------------------------------------------------------------------------


def single(work: Work, store: Collection, loaded: int) -> tuple[Step, Callable[[int], object], int]:
    """A step, the operand of it that a number stands for, and below what the numbers are."""
    if work == "find-id":
        return finding(store.find_by_id, "_id"), make_id, loaded
    if work == "find-index":
        return finding(store.find_by_email, "email"), make_email, loaded
    if work == "range":
        range_by_rank = store.range_by_rank

        def by_rank(start: int) -> None:
            expect(len(range_by_rank(start, start + RANGE_LENGTH)), RANGE_LENGTH, "a range")

        return by_rank, int, loaded - RANGE_LENGTH + 1
    return store.increment, make_id, loaded


def finding(find: Callable[[str], Document | None], field: str) -> Step:
    """Find the document that has this value in the field, and no other."""

    def step(value: str) -> None:
        found = find(value)
        if found is None or found[field] != value:
            raise WrongAnswer(f"{value} was asked for, and found was {found}")

    return step


def expect(found: int, wanted: int, what: str) -> int:
    if found != wanted:
        raise WrongAnswer(f"{what} of {wanted:,} documents gave {found:,}")
    return found


def count(documents: Iterable[object]) -> int:
    number = 0
    for _ in documents:
        number += 1
    return number


def total_count(store: Collection) -> int:
    return sum(group["count"] for group in store.group_by_city())


def insert_each(subject: Subject, seconds: float, between: int) -> Sample:
    people = subject.next_people(INSERTS)
    insert_one = subject.store.insert_one
    warm_up, _ = repeat(insert_one, people[: INSERTS // 4], seconds * _WARM_UP, between)
    done, took = repeat(insert_one, people[warm_up:], seconds, between)
    # The numbers that were not used are for the next time.
    subject.inserted -= INSERTS - warm_up - done
    return Sample(done / took, 0)


def insert_batch(subject: Subject) -> Sample:
    people = subject.next_people(MANY)
    gc.collect()
    started = perf_counter()
    subject.store.insert_many(people)
    return Sample(MANY / (perf_counter() - started), 0)


# -- what was done ----------------------------------------------------------------------------------------------------


def revisions(subject: Subject, scans: bool) -> int:
    """The sum of all revisions: a store that lost an update is found out by it. Without scans, one by one."""
    if scans:
        return sum(document["revision"] for document in subject.store.scan())
    found = (subject.store.find_by_id(make_id(number)) for number in range(subject.held))
    return sum(document["revision"] for document in found if document is not None)


def missing(subject: Subject, asked: int) -> int:
    """How many of the people that came later are not there, of so many of them spread over all."""
    numbers = range(subject.loaded, subject.held)[:: max(1, subject.inserted // asked)]
    return sum(subject.store.find_by_id(make_id(number)) is None for number in numbers)
