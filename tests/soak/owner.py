"""The owner of the soak's store, as a process: writers at every level, readers, and all kinds of upkeep.

``python -m tests.soak.owner DIRECTORY SEED OPTIONS FAULT``; the options are JSON.
"""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lowtide
from tests.soak.faults import FAULTS
from tests.soak.telling import Broken, repeat, tell, watch_for_the_end
from tests.soak.world import LEVELS, Seen, change, look, make
from tests.support.patience import PATIENCE


def open_when_free(path: Path, options: dict[str, Any]) -> lowtide.Store:
    """A follower that finds no owner recovers the store, which is locked meanwhile."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return lowtide.open(path, **options)
        except lowtide.StoreLocked:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


class Owner:
    """An open store and the work that is done on it."""

    def __init__(self, directory: Path, seed: int, options: dict[str, Any], ending: threading.Event) -> None:
        began = time.monotonic()
        self.directory = directory
        self.seed = seed
        self.ending = ending
        self.expires = options.get("max_snapshot_age") is not None
        self.store = open_when_free(directory / "store", options)
        make(self.store)
        with self.store.snapshot() as snapshot:
            self.numbers = look(snapshot, snapshot.ts).numbers
        last_commit = self.store.stats().last_commit
        for pin in self.store.pins():  # those who took them may have died with the owner before
            if pin.ts == 0:
                continue  # a follower's: it pins the boundary of the base, and before the first commit there is no bank
            with contextlib.suppress(lowtide.SnapshotExpired), self.store.snapshot(at=pin) as snapshot:
                seen = look(snapshot, snapshot.ts)
                tell("seen", seen.ts, seen.digest)
        tell("opened", last_commit, sorted(self.numbers.items()), time.monotonic() - began)

    def work(self) -> None:
        jobs: list[Callable[[], object]] = [self._writer(thread) for thread in range(len(LEVELS))]
        jobs += [self._reader(100 + number) for number in range(2)] + [self._keeper(200)]
        threads = [threading.Thread(target=repeat, args=(self.ending, job), daemon=True) for job in jobs]
        for thread in threads:
            thread.start()
        self.ending.wait()
        for thread in threads:
            thread.join(PATIENCE)
            if thread.is_alive():
                raise Broken("every thread comes to an end", thread.name)
        self.store.close()
        tell("closed")

    # Writing

    def _writer(self, thread: int) -> Callable[[], None]:
        chance = random.Random(f"{self.seed}/{thread}")
        level = LEVELS[thread]

        def commit() -> None:
            self.ending.wait(chance.expovariate(100))
            number = self.numbers[thread] + 1
            if level == "none":
                with self.store.transaction("none") as loose:
                    loose.keyspace("loose").put(b"%d" % thread, b"%d" % number)
                    if loose.keyspace("loose").get(b"%d" % thread) != b"%d" % number:
                        raise Broken("at NONE a write is there at once", f"{thread}, {number}")
                ts = 0
            else:
                tx = self.store.begin(level)
                try:
                    change(tx, thread, number, chance)
                except BaseException:
                    tx.rollback()
                    raise
                ts = tx.commit()
            self.numbers[thread] = number
            tell("ack", thread, number, ts)

        return commit

    # Reading

    def _reader(self, name: int) -> Callable[[], None]:
        chance = random.Random(f"{self.seed}/{name}")

        def read() -> None:
            with self.store.snapshot() as snapshot:
                seen = look(snapshot, snapshot.ts)
                tell("seen", seen.ts, seen.digest)
                for _ in range(chance.randrange(1, 4)):
                    self.ending.wait(chance.choice((0.0, 0.05, 0.3, 2.0)))
                    same(seen, look(snapshot, snapshot.ts))
            with self.store.transaction("serializable", read_only=True) as tx:
                rows = list(tx.keyspace("slots").scan())
                if rows[::-1] != list(tx.keyspace("slots").scan(reverse=True)):
                    raise Broken("a scan is the same from both ends", f"at commit {tx.ts}")

        return read

    # Upkeep

    def _keeper(self, name: int) -> Callable[[], None]:
        chance = random.Random(f"{self.seed}/{name}")
        duties: dict[str, Callable[[], object]] = {
            "checkpoint": self.store.checkpoint,
            "collection": self.store.collect_garbage,
            "verify": self._verify,
            "pin": lambda: self._pin(chance),
            "stats": self.store.stats,
            "backup": lambda: self._back_up(chance),
            "compact": self._compact,
        }
        weights = (6, 6, 1, 3, 3, 1, 0.5)

        began = ["compact"]

        def keep() -> None:
            self.ending.wait(chance.expovariate(4))
            (duty,) = [began.pop()] if began else chance.choices(list(duties), weights)
            if duties[duty]() is not False:
                tell("did", duty)

        return keep

    def _verify(self) -> None:
        report = self.store.verify()
        if not report.ok:
            raise Broken("verify finds nothing", report)

    def _pin(self, chance: random.Random) -> None:
        with self.store.pin(f"owner {self.seed} {chance.random()}", ttl=30) as pin:
            with self.store.snapshot(at=pin) as snapshot:
                seen = look(snapshot, snapshot.ts)
            tell("seen", seen.ts, seen.digest)
            self.ending.wait(chance.uniform(0, 0.5))
            with lowtide.open_snapshot(self.store.path, pin=pin.name) as snapshot:
                same(seen, look(snapshot, snapshot.ts))

    def _back_up(self, chance: random.Random) -> None:
        """A backup is checked in a copy, because opening a backup turns it into a store."""
        backup, copy = self.directory / "backup", self.directory / "restored"
        if chance.random() < 0.1:
            shutil.rmtree(backup, ignore_errors=True)
        report = self.store.backup(backup)
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(backup, copy)
        with lowtide.open(copy, durability="relaxed", checkpointer="thread") as restored:
            if restored.stats().last_commit != report.reaches:
                raise Broken("a backup reaches as far as it says", f"{restored.stats().last_commit}: {report}")
            with restored.snapshot() as snapshot:
                seen = look(snapshot, snapshot.ts)
            examined = restored.verify()
        if not examined.ok:
            raise Broken("verify finds nothing in a backup", examined)
        tell("seen", seen.ts, seen.digest)
        shutil.rmtree(copy)

    def _compact(self) -> None:
        self.store.compact()


def same(first: Seen, second: Seen) -> None:
    if first != second:
        raise Broken("a snapshot sees the same from begin to release", f"{first} and {second}")


def main() -> None:
    directory, seed, options, fault = Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4]
    if fault:
        FAULTS[fault]()
    ending = watch_for_the_end()
    try:
        Owner(directory, seed, options, ending).work()
    except Broken as broken:
        tell("broken", broken.invariant, broken.found)


if __name__ == "__main__":
    main()
