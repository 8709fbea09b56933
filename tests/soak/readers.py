"""The other processes of a soak: followers, processes that pin, and consumers of the change feed.

``python -m tests.soak.readers ROLE DIRECTORY SEED``; the role of a consumer is its name.
"""

from __future__ import annotations

import hashlib
import random
import sys
import threading
import time
from collections.abc import Callable, Iterable
from itertools import groupby, islice
from pathlib import Path

import lowtide
from tests.soak.owner import same
from tests.soak.telling import Broken, repeat, tell, watch_for_the_end
from tests.soak.world import Seen, look
from tests.support.patience import PATIENCE

_AT_ONCE = 300
"""Commits that a consumer takes before it acknowledges them: while others commit, a feed has no end."""


def follow(store: lowtide.Store, chance: random.Random, ending: threading.Event) -> Callable[[], None]:
    """Read everything repeatedly; timestamps and the threads' numbers never decrease."""
    last = Seen(0, {}, "")

    def read() -> None:
        nonlocal last
        with store.snapshot() as snapshot:
            seen = look(snapshot, snapshot.ts)
            tell("seen", seen.ts, seen.digest)
            if seen.ts < last.ts or any(seen.numbers[each] < number for each, number in last.numbers.items()):
                raise Broken("a follower never goes back", f"{last}, then {seen}")
            last = seen
            ending.wait(chance.choice((0.0, 0.01, 0.2, 1.5)))
            same(seen, look(snapshot, snapshot.ts))

    return read


def pin(store: lowtide.Store, chance: random.Random, ending: threading.Event) -> Callable[[], None]:
    """Take pins, read at them in several ways, read at the pins of other processes, and let some expire."""

    def work() -> None:
        name = f"pin {chance.random()}"
        mine = store.pin(name, ttl=chance.uniform(2, 8))
        first: Seen | None = None
        for _ in range(3):
            with lowtide.open_snapshot(store.path, pin=name) as snapshot:
                seen = look(snapshot, snapshot.ts)
            tell("seen", seen.ts, seen.digest)
            if seen.ts != mine.ts or seen != (first or seen):
                raise Broken("a pin is one instant", f"{first}, then {seen}, pinned at {mine.ts}")
            first = seen
            ending.wait(chance.uniform(0, 0.4))
        for other in store.pins():
            if other.name.startswith("pin "):
                with lowtide.open_snapshot(store.path, pin=other.name) as snapshot:
                    seen = look(snapshot, snapshot.ts)
                tell("seen", seen.ts, seen.digest)
        if chance.random() < 0.7:
            mine.release()

    return work


def consume(store: lowtide.Store, name: str, chance: random.Random, ending: threading.Event) -> Callable[[], None]:
    """Report each commit, then acknowledge it; after a kill in between it is shown again."""
    consumer = store.consumer(name)
    tell("place", name, consumer.position)

    def work() -> None:
        if chance.random() < 0.5:
            changes: Iterable[lowtide.Change] = consumer.changes()
            ending.wait(0.05)
        else:
            changes = consumer.watch(timeout=chance.uniform(0.05, 0.3))
        last = tell_commits(name, changes, most=_AT_ONCE)
        if last and chance.random() < 0.8:
            consumer.ack(last)
            tell("acked", name, last)
        else:
            tell("place", name, consumer.position)  # what was not acknowledged is shown again

    return work


def tell_commits(
    name: str,
    changes: Iterable[lowtide.Change],
    show: Callable[[str, int, dict[int, int], str], None] = lambda name, ts, numbers, digest: tell(
        "commit", name, ts, sorted(numbers.items()), digest
    ),
    most: int | None = None,
) -> int:
    """Show each commit with the numbers to which it brought the threads and a digest, but no more than ``most``;
    returns the last one, or 0."""
    last = 0
    for ts, of_commit in islice(groupby(changes, lambda change: change.ts), most):
        numbers = {}
        digest = hashlib.sha256()
        for change in of_commit:
            digest.update(repr((change.keyspace, change.key, change.kind, change.value)).encode())
            if change.keyspace in ("counter", "loose"):
                numbers[int(change.key)] = int(change.value or b"-1")
        show(name, ts, numbers, digest.hexdigest()[:16])
        last = ts
    return last


def main() -> None:
    role, directory, seed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    ending = watch_for_the_end()
    chance = random.Random(f"{seed}/{role}")
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            store = lowtide.open(directory / "store", read_only=True)
            break
        except lowtide.TransientError:
            if time.monotonic() > deadline:
                raise
    if role == "follower":
        work = follow(store, chance, ending)
    elif role == "pinner":
        work = pin(store, chance, ending)
    else:
        work = consume(store, role, chance, ending)
    tell("reading", role)
    repeat(ending, work)
    store.close()
    tell("closed")


if __name__ == "__main__":
    main()
