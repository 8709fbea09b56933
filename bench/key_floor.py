"""``python -m bench.key_floor``: what a batch of puts and a get in its own transaction cost, and what none can save.

A batch of 10,000 keys that exist, in ascending order: making the pairs; then a dict of full keys, and one record of it
with a checksum in a file. No store with a log can do less. Beside it: the batch in py-lmdb, which has no log and copies
about one page for 20 keys, and in Lowtide.

A get: the least transaction that keeps its snapshot alive, which is a timestamp in a table of live snapshots for as
long as a ``with`` block lasts, and a keyspace in it. Beside it: py-lmdb, Lowtide's read outside of a transaction, and
inside one, which can also be committed, expired, found in ``stats()`` and dropped without an end.

Figures are CPU time, unsynced, the least of some turns.
"""

from __future__ import annotations

import argparse
import gc
import os
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from time import process_time
from types import TracebackType
from typing import Self
from zlib import crc32

import msgspec

from bench.documents import Dataset, Pair, decode
from bench.peers import Peer, open_loaded
from lowtide.system.build import BUILD

_PREFIX = b"\x00\x00\x00\x01"
_encode = msgspec.msgpack.Encoder().encode


def record(pairs: list[Pair], descriptor: int) -> int:
    """Append a batch to a file, as one record with a checksum; return its length."""
    writes = {_PREFIX + key: value for key, value in pairs}
    payload = _encode((0.0, writes, None, bytes(len(writes))))
    return os.pwrite(descriptor, crc32(payload).to_bytes(4, "little") + payload, 0)


class LeastKeyspace(msgspec.Struct):
    """As many fields as it takes to read from."""

    prefix: bytes
    table: dict[bytes, tuple[int, bytes]]
    ts: int

    def get(self, key: bytes) -> bytes | None:
        row = self.table.get(self.prefix + key)
        return row[1] if row is not None and row[0] <= self.ts else None


class LeastStore:
    """Rows in a dict, and the live snapshots."""

    def __init__(self, pairs: list[Pair]) -> None:
        self.rows = {_PREFIX + key: (1, value) for key, value in pairs}
        self.prefixes = {"documents": _PREFIX}
        self.live: dict[int, int] = {}
        self.published = 1
        self._tokens = count(1)

    def transaction(self) -> LeastTransaction:
        tx = LeastTransaction()
        tx.store = self
        tx.token = token = next(self._tokens)
        tx.ts = ts = self.published
        self.live[token] = ts
        return tx


class LeastTransaction:
    """A snapshot that is live until the end of its block."""

    __slots__ = ("store", "token", "ts")
    store: LeastStore
    token: int
    ts: int

    def keyspace(self, name: str) -> LeastKeyspace:
        return LeastKeyspace(self.store.prefixes[name], self.store.rows, self.ts)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del self.store.live[self.token]


Work = Callable[[], int]
"""Does something, and returns how many keys that concerned."""


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

    def putting(peer: Peer) -> Work:
        session = peer.session()

        def put() -> int:
            session.put_all(dataset.changed_pairs(numbers))
            return len(numbers)

        return put

    return {
        "batch: making the pairs": making,
        "batch: ... and one record of them in a file": writing,
    } | {f"batch: {name}": putting(peer) for name, peer in peers.items()}


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
        "get: decoding": reading(dict(dataset.pairs).get),
        "get: the least transaction": reading(in_least),
        "get: py-lmdb": reading(peers["py-lmdb"].session().read),
        "get: lowtide, outside of a transaction": reading(lowtide.read_directly),
        "get: lowtide": reading(lowtide.read),
    }


def measure(work: dict[str, Work], turns: int, settle: Callable[[], None]) -> dict[str, float]:
    """The least microseconds of CPU for a key, of each."""
    least: dict[str, float] = {}
    for _ in range(turns):
        for name, each in work.items():
            gc.collect()
            started = process_time()
            operations = each()
            spent = (process_time() - started) / operations * 1e6
            least[name] = min(spent, least.get(name, spent))
            if name.startswith("batch"):
                settle()
    return least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=9)
    given = parser.parse_args()
    dataset = Dataset(given.documents, 10_000)
    with tempfile.TemporaryDirectory() as name:
        peers = {
            each: open_loaded(each, Path(name) / each, "unsynced", dataset.pairs) for each in ("py-lmdb", "lowtide")
        }

        def settle() -> None:
            for each in peers.values():
                each.settle()

        try:
            settle()
            print(f"Lowtide is {BUILD}")
            work = batches(peers, dataset, Path(name) / "record") | gets(peers, dataset)
            for what, spent in (found := measure(work, given.turns, settle)).items():
                peer = found[f"{what.partition(':')[0]}: py-lmdb"]
                print(f"{what:45} {spent:6.2f} µs a key, {peer / spent:5.2f}x py-lmdb", flush=True)
        finally:
            for each in peers.values():
                each.close()


if __name__ == "__main__":
    main()
