"""``python -m bench.key_floor``: the cost of batches, gets and read-modify-writes of keys, and its lower bounds.

A batch of 10,000 existing keys, in ascending order. The floor is to make the pairs, build a dict of full keys and write
it to a file as one checksummed record. No store with a log can do less. Compared with py-lmdb, which has no log and
copies about one page per 20 keys, with Lowtide, and with a minimal store that also keeps versions (``least_store``).
That store is no floor for batches: Lowtide can be faster.

A get. The floor is a minimal transaction that keeps its snapshot alive, with a timestamp in a table of live snapshots
for the duration of a ``with`` block, and a keyspace in it. Compared with py-lmdb, and with Lowtide's read outside a
transaction and inside one. Such a transaction can also be committed, expired, listed in ``stats()`` and dropped
unfinished.

A read-modify-write, unsynced, by one thread and by four. The floors are to change the value, which is the caller's
work; to write a record of it to a log; and to do all of that in a minimal store (``least_store``). Compared with
py-lmdb and Lowtide. The same with a sync of each commit, compared with sqlite3, the fastest peer in that case.

Figures are the minimum of several turns. They are CPU time, except for four threads, which wait for each other, and for
syncs, which wait for the disk: these are wall time.
"""

from __future__ import annotations

import argparse
import gc
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time
from zlib import crc32

import msgspec

from bench.documents import Dataset, Pair, change, decode
from bench.least_store import PREFIX, LeastConflict, LeastLog, LeastStore
from bench.peers import Change, Durability, Peer, open_loaded
from lowtide.system.build import BUILD

_THREADS = 4
_encode = msgspec.msgpack.Encoder().encode


def record(pairs: list[Pair], descriptor: int) -> int:
    """Append a batch to a file as one checksummed record, and return its length."""
    writes = {PREFIX + key: value for key, value in pairs}
    payload = _encode((0.0, writes, None, bytes(len(writes))))
    return os.pwrite(descriptor, crc32(payload).to_bytes(4, "little") + payload, 0)


Work = Callable[[], int]
"""Does some work, and returns the number of keys."""


def batches(peers: dict[str, Peer], dataset: Dataset, place: Path) -> dict[str, Work]:
    numbers = range(dataset.count - dataset.batch, dataset.count)

    def making() -> int:
        return len(list(dataset.changed_pairs(numbers)))

    def writing() -> int:
        descriptor = os.open(place, os.O_RDWR | os.O_CREAT)
        try:
            record(list(dataset.changed_pairs(numbers)), descriptor)
        finally:
            os.close(descriptor)
        return len(numbers)

    log = LeastLog(place.with_suffix(".log"), synced=False)
    least = LeastStore(dataset.pairs, log)

    def in_least() -> int:
        with least.transaction() as tx:
            tx.keyspace("documents").put_many(dataset.changed_pairs(numbers))
        return len(numbers)

    def putting(peer: Peer) -> Work:
        session = peer.session()

        def put() -> int:
            session.put_all(dataset.changed_pairs(numbers))
            return len(numbers)

        return put

    return {
        "making the pairs": making,
        "... and one record of them in a file": writing,
        "the least store": in_least,
    } | {name: putting(peer) for name, peer in peers.items()}


def gets(peers: dict[str, Peer], dataset: Dataset) -> dict[str, Work]:
    numbers = dataset.random_numbers(1, min(dataset.count, 5_000))
    keys, least = [dataset.keys[number] for number in numbers], LeastStore(dataset.pairs)

    def reading(read: Callable[[bytes], bytes | None]) -> Work:
        def get() -> int:
            for key in keys:
                decode(read(key))
            return len(keys)

        return get

    def in_least(key: bytes) -> bytes | None:
        with least.transaction() as tx:
            return tx.keyspace("documents").get(key)

    lowtide = peers["lowtide"].session()
    return {
        "decoding": reading(dict(dataset.pairs).get),
        "the least transaction": reading(in_least),
        "py-lmdb": reading(peers["py-lmdb"].session().read),
        "lowtide, outside of a transaction": reading(lowtide.read_directly),
        "lowtide": reading(lowtide.read),
    }


def modifications(peers: dict[str, Peer], dataset: Dataset, place: Path, *, synced: bool) -> dict[str, Work]:
    """Read-modify-writes of random keys, in the minimal store and in the others; by several threads if unsynced."""
    numbers = dataset.random_numbers(2, min(dataset.count, 100 if synced else 2_000))
    keys, pairs = [dataset.keys[number] for number in numbers], dict(dataset.pairs)
    log = LeastLog(place, synced=synced)
    least = LeastStore(dataset.pairs, log)

    def changing() -> int:
        for key in keys:
            change(pairs[key])
        return len(keys)

    def appending() -> int:
        for key in keys:
            log.append(pairs[key])
        return len(keys)

    def in_least(key: bytes, change: Change) -> None:
        while True:
            try:
                with least.transaction() as tx:
                    documents = tx.keyspace("documents")
                    documents.put(key, change(documents.get(key)))
                return
            except LeastConflict:
                continue

    def modifying(modify: Callable[[bytes, Change], None]) -> Work:
        def work() -> int:
            for key in keys:
                modify(key, change)
            return len(keys)

        return work

    found = {"changing the value": changing, "its record in a log": appending, "the least store": modifying(in_least)}
    return found | {name: modifying(peer.session().modify) for name, peer in peers.items()}


def by_threads(work: dict[str, Work]) -> dict[str, Work]:
    """The same work, done by several threads at once."""

    def together(each: Work) -> Work:
        def run() -> int:
            with ThreadPoolExecutor(_THREADS) as pool:
                return sum(future.result() for future in [pool.submit(each) for _ in range(_THREADS)])

        return run

    return {name: together(each) for name, each in work.items()}


@dataclass(frozen=True)
class Part:
    """Some work, and the store that it is compared to."""

    name: str
    work: dict[str, Work]
    beside: str = "py-lmdb"
    clock: Callable[[], float] = process_time
    settles: bool = False
    """Whether the stores do their deferred work after each turn."""


def measure(part: Part, turns: int, settle: Callable[[], None]) -> dict[str, float]:
    """The minimum time of each work, in microseconds per key."""
    least: dict[str, float] = {}
    for _ in range(turns):
        for name, each in part.work.items():
            gc.collect()
            started = part.clock()
            operations = each()
            spent = (part.clock() - started) / operations * 1e6
            least[name] = min(spent, least.get(name, spent))
            if part.settles:
                settle()
    return least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--only", action="append", choices=["batch", "get", "rmw", "rmw by 4", "synced"])
    given = parser.parse_args()
    dataset = Dataset(given.documents, 10_000)
    with tempfile.TemporaryDirectory() as name, ExitStack() as opened:

        def open_peers(names: tuple[str, ...], durability: Durability) -> dict[str, Peer]:
            peers = {each: open_loaded(each, Path(name) / durability, durability, dataset.pairs) for each in names}
            for peer in peers.values():
                opened.callback(peer.close)
            return peers

        unsynced, synced = open_peers(("py-lmdb", "lowtide"), "unsynced"), open_peers(("sqlite3", "lowtide"), "synced")

        def settle() -> None:
            for peer in (*unsynced.values(), *synced.values()):
                peer.settle()

        settle()
        modified = modifications(unsynced, dataset, Path(name) / "log", synced=False)
        waiting = modifications(synced, dataset, Path(name) / "synced-log", synced=True)
        print(f"Lowtide is {BUILD}")
        for part in (
            Part("get", gets(unsynced, dataset)),
            Part("rmw", modified, settles=True),
            Part("rmw by 4", by_threads(modified), clock=perf_counter, settles=True),
            Part("synced", waiting, beside="sqlite3", clock=perf_counter),
            # Last: the free pages that batches leave make later writes of LMDB twice as expensive.
            Part("batch", batches(unsynced, dataset, Path(name) / "record"), settles=True),
        ):
            if given.only and part.name not in given.only:
                continue
            found = measure(part, given.turns, settle)
            for what, spent in found.items():
                ratio = found[part.beside] / spent
                print(f"{part.name + ': ' + what:45} {spent:6.2f} µs a key, {ratio:5.2f}x {part.beside}", flush=True)


if __name__ == "__main__":
    main()
