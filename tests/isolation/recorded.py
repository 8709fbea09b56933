"""Work of many threads on a few hot keys, and stories with a fixed outcome, both recorded for the audit."""

from __future__ import annotations

import random
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import lowtide
from lowtide import Isolation
from lowtide.audit import Recorder
from lowtide.audit.recorder import Recorded
from tests.isolation.crowd import run_together
from tests.support.patience import PATIENCE

NONE, READ_COMMITTED, SNAPSHOT_READ, SNAPSHOT, SERIALIZABLE = Isolation
REGISTERS = ("a", "b", "c", "d")
LISTS = ("l1", "l2")
THREADS = 3
ROUNDS = 25


def ended(tx: Recorded) -> bool:
    """Commit, and say whether it was accepted."""
    try:
        tx.commit()
    except lowtide.ConflictError:
        return False
    return True


def rolled_back(tx: Recorded) -> None:
    """Roll back; at NONE without the warning that it undoes nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tx.rollback()


def crowd(recorder: Recorder, store: lowtide.Store, level: Isolation, seed: int = 0) -> int:
    """Threads that read, write, append and scan. In each round all of them have begun and read before any commits, so
    that they are in each other's way whatever the machine does. Returns how many commits were accepted."""
    together = threading.Barrier(THREADS, timeout=PATIENCE)
    accepted: list[bool] = []

    def work(number: int) -> None:
        chance = random.Random(f"{seed}/{number}")
        values = iter(range(1_000_000 * (number + 1) + 10_000 * seed, 1_000_000 * (number + 2)))
        try:
            for _ in range(ROUNDS):
                tx = recorder.begin(store, level, session=f"{seed}/{number}")
                together.wait()
                read_some(tx, chance)
                together.wait()
                write_some(tx, chance, values)
                if chance.random() < 0.1:
                    rolled_back(tx)
                else:
                    accepted.append(ended(tx))
        except BaseException:
            together.abort()
            raise

    run_together(*(lambda number=number: work(number) for number in range(THREADS)))
    return sum(accepted)


def read_some(tx: Recorded, chance: random.Random) -> None:
    for key in chance.sample(REGISTERS, 2):
        tx.get(key)
    if chance.random() < 0.3:
        tx.get(chance.choice(LISTS))
    if chance.random() < 0.3:
        tx.scan("a", chance.choice(["c", "e"]))


def write_some(tx: Recorded, chance: random.Random, values: Iterator[int]) -> None:
    for key in chance.sample(REGISTERS, chance.randint(0, 2)):
        tx.put(key, next(values))
    if chance.random() < 0.4:
        tx.append(chance.choice(LISTS), next(values))
    if chance.random() < 0.3:
        tx.scan()


# Stories


class Stage:
    """A store, and how its transactions are begun."""

    def __init__(self, recorder: Recorder, store: lowtide.Store, level: Isolation) -> None:
        self.recorder, self.store, self.level = recorder, store, level

    def begin(self) -> Recorded:
        return self.recorder.begin(self.store, self.level)

    def fill(self, **values: int) -> None:
        """All of them in one transaction that is always whole."""
        with self.recorder.begin(self.store, SERIALIZABLE) as tx:
            for key, value in values.items():
                tx.put(key, value)


def dirty_write(stage: Stage) -> None:
    t1, t2 = stage.begin(), stage.begin()
    t1.put("x", 11)
    t2.put("x", 12)
    t2.put("y", 22)
    ended(t2)
    t1.put("y", 21)
    ended(t1)


def aborted_read(stage: Stage) -> None:
    t1, t2 = stage.begin(), stage.begin()
    t1.put("x", 11)
    t2.get("x")
    rolled_back(t1)
    ended(t2)


def intermediate_read(stage: Stage) -> None:
    t1, t2 = stage.begin(), stage.begin()
    t1.put("x", 11)
    t2.get("x")
    t1.put("x", 12)
    ended(t1)
    ended(t2)


def circular_flow(stage: Stage) -> None:
    t1, t2 = stage.begin(), stage.begin()
    t1.put("x", 11)
    t2.put("y", 22)
    t1.get("y")
    t2.get("x")
    ended(t1)
    ended(t2)


def overwritten_own_write(stage: Stage) -> None:
    t1, t2 = stage.begin(), stage.begin()
    t1.put("x", 11)
    t2.put("x", 12)
    ended(t2)
    t1.get("x")
    ended(t1)


def lost_appends(stage: Stage) -> None:
    t1, t2 = stage.begin(), stage.begin()
    t1.append("l", 1)
    t2.append("l", 2)
    for tx in (t1, t2):
        ended(tx)
        with stage.begin() as reader:
            reader.get("l")


def lost_update(stage: Stage) -> None:
    t1, t2 = stage.begin(), stage.begin()
    for number, tx in enumerate((t1, t2)):
        tx.get("x")
        tx.put("y", 100 + number)
    for number, tx in enumerate((t1, t2)):
        tx.put("x", 10 + number)
        ended(tx)


def read_skew(stage: Stage) -> None:
    t1, t2 = stage.begin(), stage.begin()
    t1.get("x")
    t2.put("x", 12)
    t2.put("y", 22)
    ended(t2)
    t1.get("y")
    ended(t1)


def long_fork(stage: Stage) -> None:
    t1, t2, t3, t4 = stage.begin(), stage.begin(), stage.begin(), stage.begin()
    t3.get("y")
    t4.get("x")
    t1.put("x", 11)
    t2.put("y", 22)
    ended(t1)
    ended(t2)
    t3.get("x")
    t4.get("y")
    ended(t3)
    ended(t4)


def fractured_scan(stage: Stage) -> None:
    """With chunks of one entry."""
    t1, t2 = stage.begin(), stage.begin()
    entries: Iterator[tuple[bytes, bytes]] = t1.source.keyspace("audit").scan()
    seen = [next(entries)]
    t2.put("x", 12)
    t2.put("y", 22)
    ended(t2)
    values = {key.decode(): int(value) for key, value in (*seen, *entries)}
    t1._note(op="scan", values=values)
    ended(t1)


def write_skew(stage: Stage) -> None:
    t1, t2 = stage.begin(), stage.begin()
    for tx in (t1, t2):
        tx.get("x")
        tx.get("y")
    t1.put("x", 11)
    t2.put("y", 22)
    ended(t1)
    ended(t2)


def write_skew_of_ranges(stage: Stage) -> None:
    t1, t2 = stage.begin(), stage.begin()
    for tx in (t1, t2):
        tx.scan("a", "c")
    for number, tx in enumerate((t1, t2)):
        tx.put(f"b{number}", number)
        ended(tx)


def three_in_a_circle(stage: Stage) -> None:
    txs = [stage.begin() for _ in range(3)]
    for number, tx in enumerate(txs):
        tx.get("xyz"[number])
    for number, tx in enumerate(txs):
        tx.put("xyz"[(number + 1) % 3], 10 + number)
    for tx in txs:
        ended(tx)


def three_in_a_circle_by_scan(stage: Stage) -> None:
    txs = [stage.begin() for _ in range(3)]
    txs[0].scan("a", "c")
    txs[1].get("x")
    txs[2].get("y")
    for tx, key in zip(txs, ("x", "y", "b"), strict=True):
        tx.put(key, 50)
    for tx in reversed(txs):  # so that only the scan, of the first one, was overtaken
        ended(tx)


BELOW_SNAPSHOT = {NONE, READ_COMMITTED, SNAPSHOT_READ}
STORIES: dict[Callable[[Stage], Any], tuple[str, set[Isolation]]] = {
    dirty_write: ("G0", {NONE}),
    aborted_read: ("G1a", {NONE}),
    intermediate_read: ("G1b", {NONE}),
    circular_flow: ("G1c", {NONE}),
    overwritten_own_write: ("internal", {NONE}),
    lost_appends: ("incompatible-order", {READ_COMMITTED, SNAPSHOT_READ}),
    fractured_scan: ("fractured-scan", {NONE, READ_COMMITTED}),
    lost_update: ("lost-update", BELOW_SNAPSHOT),
    read_skew: ("G-single", BELOW_SNAPSHOT),
    long_fork: ("long-fork", BELOW_SNAPSHOT),
    write_skew: ("write-skew", {*BELOW_SNAPSHOT, SNAPSHOT}),
    write_skew_of_ranges: ("write-skew", {*BELOW_SNAPSHOT, SNAPSHOT}),
    three_in_a_circle: ("G2-item", {*BELOW_SNAPSHOT, SNAPSHOT}),
    three_in_a_circle_by_scan: ("G2", {*BELOW_SNAPSHOT, SNAPSHOT}),
}
"""What each story shows, and at which levels. At NONE an append cannot be lost in one: it is read and written at once.
"""
