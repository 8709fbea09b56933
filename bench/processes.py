"""``python -m bench --only processes``: 1, 2 and 4 processes on one store, compared with sqlite3 and py-lmdb.

Each process has one thread and works on random keys of one table. The stores take turns, and every store gets the same
keys, values and codec. sqlite3 runs in WAL mode with a busy timeout and begins each writing transaction with BEGIN
IMMEDIATE. py-lmdb admits one writer at a time with its own lock. Lowtide retries in ``store.run``.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from statistics import median
from typing import Any, Final, Protocol

import lmdb
import msgspec

import lowtide
from bench.documents import make_key
from bench.section import Data, Finding, Grid, Plan

STORES: Final = ("lowtide", "sqlite3", "py-lmdb")
COUNTS: Final = (1, 2, 4)
WORKLOADS: Final = {
    "read": ("a point read", "unsynced"),
    "rmw-synced": ("read-modify-write, synced", "synced"),
    "rmw-unsynced": ("read-modify-write, unsynced", "unsynced"),
    "mix": ("95 % reads, 5 % read-modify-writes, unsynced", "unsynced"),
    "web": ("a request: read 5 documents, write 1, synced", "synced"),
}
_SPAWN = multiprocessing.get_context("spawn")
_READ_SHARE: Final = 0.95
_REQUEST_READS: Final = 5
_BUSY: Final = 60.0
"""Seconds that sqlite3 waits for a lock."""
READS_SCALE, RMW_AHEAD, COMMIT_P50 = 1.8, 2.0, 150e-6

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(dict[str, Any]).decode


@dataclass(frozen=True)
class Scale:
    keys: int
    seconds: float
    rounds: int


FULL, QUICK = Scale(100_000, 3.0, 3), Scale(5_000, 0.5, 1)


class Opened(Protocol):
    """A store in one process. ``retries`` counts the attempts that were repeated on behalf of the program."""

    retries: int

    @property
    def is_joined(self) -> bool:
        """Whether another process commits for this one."""

    def load(self, entries: list[tuple[bytes, bytes]]) -> None: ...

    def read(self, key: bytes) -> None: ...

    def change(self, reads: list[bytes], key: bytes) -> None:
        """Read documents and increase a field of one, in one transaction."""

    def close(self) -> None: ...


def changed(value: bytes | None) -> bytes:
    document = decode(value or b"\x80")
    document["n"] += 1
    return encode(document)


class OfLowtide:
    def __init__(self, path: Path, durability: str) -> None:
        self._store = lowtide.open(path, durability="full" if durability == "synced" else "relaxed")
        self._documents = self._store.keyspace("documents")
        self.retries = 0

    @property
    def is_joined(self) -> bool:
        roles = {each.pid: each.role for each in self._store.stats().processes}
        return roles[os.getpid()] == "joined"

    def load(self, entries: list[tuple[bytes, bytes]]) -> None:
        with self._store.transaction() as tx:
            tx.keyspace("documents").put_many(entries)
        self._store.checkpoint()

    def read(self, key: bytes) -> None:
        decode(self._documents.get(key) or b"")

    def change(self, reads: list[bytes], key: bytes) -> None:
        attempts = 0

        def work(tx: lowtide.Transaction) -> None:
            nonlocal attempts
            attempts += 1
            documents = tx.keyspace("documents")
            for each in reads:
                decode(documents.get(each) or b"")
            documents.put(key, changed(documents.get(key)))

        self._store.run(work)
        self.retries += attempts - 1

    def close(self) -> None:
        self._store.close()


class OfSqlite:
    is_joined = False

    def __init__(self, path: Path, durability: str) -> None:
        self._connection = sqlite3.connect(path / "store.db", timeout=_BUSY, isolation_level=None)
        execute = self._connection.execute
        execute(f"pragma busy_timeout = {int(_BUSY * 1000)}")
        execute("pragma journal_mode = wal")
        execute(f"pragma synchronous = {'full' if durability == 'synced' else 'normal'}")
        execute("create table if not exists documents (key blob primary key, value blob) without rowid")
        self.retries = 0

    def load(self, entries: list[tuple[bytes, bytes]]) -> None:
        with self._transaction():
            self._connection.executemany("insert into documents values (?, ?)", entries)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("begin immediate")
        yield
        self._connection.execute("commit")

    def _get(self, key: bytes) -> bytes:
        found = self._connection.execute("select value from documents where key = ?", (key,)).fetchone()
        return bytes(found[0])

    def read(self, key: bytes) -> None:
        decode(self._get(key))

    def change(self, reads: list[bytes], key: bytes) -> None:
        with self._transaction():
            for each in reads:
                decode(self._get(each))
            value = changed(self._get(key))
            self._connection.execute("update documents set value = ? where key = ?", (value, key))

    def close(self) -> None:
        self._connection.close()


class OfLmdb:
    is_joined = False

    def __init__(self, path: Path, durability: str) -> None:
        self._env = lmdb.open(str(path), map_size=1 << 30, sync=durability == "synced")
        self.retries = 0

    def load(self, entries: list[tuple[bytes, bytes]]) -> None:
        with self._env.begin(write=True) as txn:
            txn.cursor().putmulti(entries)

    def read(self, key: bytes) -> None:
        with self._env.begin() as txn:
            decode(txn.get(key) or b"")

    def change(self, reads: list[bytes], key: bytes) -> None:
        with self._env.begin(write=True) as txn:
            for each in reads:
                decode(txn.get(each) or b"")
            txn.put(key, changed(txn.get(key)))

    def close(self) -> None:
        self._env.close()


OPENERS: Final[dict[str, Callable[[Path, str], Opened]]] = {
    "lowtide": OfLowtide,
    "sqlite3": OfSqlite,
    "py-lmdb": OfLmdb,
}


def operation_of(workload: str, store: Opened, keys: list[bytes], chance: random.Random) -> Callable[[], None]:
    """One operation of a workload."""

    def read() -> None:
        store.read(chance.choice(keys))

    def modify() -> None:
        store.change([], chance.choice(keys))

    def mixed() -> None:
        if chance.random() < _READ_SHARE:
            read()
        else:
            modify()

    def request() -> None:
        store.change(chance.choices(keys, k=_REQUEST_READS), chance.choice(keys))

    return {"read": read, "mix": mixed, "web": request}.get(workload, modify)


def work(
    name: str, path: Path, workload: str, keys: int, seconds: float, seed: int, together: Barrier, result: Connection
) -> None:
    """Runs in a process of its own: the operations, each timed."""
    store = OPENERS[name](path, WORKLOADS[workload][1])
    chance = random.Random(seed)
    operation = operation_of(workload, store, [make_key(number) for number in range(keys)], chance)
    operation()
    latencies, errors, clock = [], 0, time.perf_counter
    together.wait()
    begun = clock()
    now, until = begun, begun + seconds
    while now < until:
        try:
            operation()
        except Exception:
            errors += 1
        ended = clock()
        latencies.append(ended - now)
        now = ended
    latencies.sort()
    result.send(
        {
            "operations": len(latencies),
            "seconds": now - begun,
            "p50": latencies[len(latencies) // 2],
            "p99": latencies[len(latencies) * 99 // 100],
            "errors": errors,
            "retries": store.retries,
            "joined": store.is_joined,
        }
    )
    together.wait()  # no process closes its store while another is measured
    store.close()


def measure(name: str, path: Path, workload: str, processes: int, scale: Scale) -> Data:
    """Measure one workload on one store, with this number of processes."""
    path.mkdir()
    store = OPENERS[name](path, "unsynced")
    store.load([(make_key(number), encode({"n": 0, "text": "x" * 120})) for number in range(scale.keys)])
    store.close()
    together = _SPAWN.Barrier(processes)
    pipes, started = [], []
    for number in range(processes):
        here, there = _SPAWN.Pipe(duplex=False)
        arguments = (name, path, workload, scale.keys, scale.seconds, number, together, there)
        process = _SPAWN.Process(target=work, args=arguments)
        process.start()
        pipes.append(here)
        started.append(process)
    found = [each.recv() for each in pipes]
    for each in started:
        each.join()
    return {
        "rate": sum(each["operations"] / each["seconds"] for each in found),
        "p50": median(each["p50"] for each in found),
        "p50 joined": median([each["p50"] for each in found if each["joined"]] or [0.0]),
        "p99": max(each["p99"] for each in found),
        "errors": sum(each["errors"] for each in found),
        "retries": sum(each["retries"] for each in found),
    }


class Processes:
    """The section."""

    name = "processes"
    title = "Processes that write to one store"

    def run(self, plan: Plan) -> Data:
        scale = QUICK if plan.quick else FULL
        scale = Scale(plan.documents or scale.keys, plan.seconds or scale.seconds, plan.rounds or scale.rounds)
        stores = [name for name in STORES if not plan.peers or name in {"lowtide", *plan.peers}]
        cells = [(workload, count) for workload in WORKLOADS for count in COUNTS]
        found: dict[str, list[Data]] = {}
        for place in range(scale.rounds):
            for number, (workload, count) in enumerate(cells):
                plan.step(f"{workload}, {count} processes", (place * len(cells) + number) / (scale.rounds * len(cells)))
                for name in stores:
                    path = plan.place / f"{name}-{workload}-{count}-{place}"
                    found.setdefault(f"{name} {workload} {count}", []).append(
                        measure(name, path, workload, count, scale)
                    )
        return {"stores": stores, "cells": found}

    def grids(self, data: Data) -> list[Grid]:
        headings = ("store", *(f"{count}: per second, p50 ms, p99 ms" for count in COUNTS), "errors", "retries")
        grids = []
        for workload, (title, _) in WORKLOADS.items():
            rows = []
            for name in data["stores"]:
                cells = [_middle(data, name, workload, count) for count in COUNTS]
                shown = [f"{each['rate']:,.0f}, {each['p50'] * 1e3:.2f}, {each['p99'] * 1e3:.1f}" for each in cells]
                counts = [sum(each[what] for each in cells) for what in ("errors", "retries")]
                rows.append((name, *shown, *(f"{each:.0f}" for each in counts)))
            grids.append(Grid(f"{title}; 1, 2 and 4 processes", headings, rows))
        return grids

    def findings(self, data: Data) -> list[Finding]:
        def of(name: str, workload: str, count: int) -> Data:
            return _middle(data, name, workload, count)

        scaled = {
            name: of(name, "read", 2)["rate"] / of(name, "read", 1)["rate"] for name in ("lowtide", *data["stores"][1:])
        }
        beside = ", ".join(f"{name} {times:.2f}" for name, times in scaled.items() if name != "lowtide")
        found = [
            Finding(
                f"reads of two processes are at least {READS_SCALE} times those of one",
                f"{scaled['lowtide']:.2f} times" + (f" ({beside})" if beside else ""),
                scaled["lowtide"] >= READS_SCALE,
            )
        ]
        for peer in data["stores"][1:]:
            ahead = of("lowtide", "rmw-synced", 4)["rate"] / of(peer, "rmw-synced", 4)["rate"]
            words = f"synced read-modify-writes of four processes are at least {RMW_AHEAD:g} times those of {peer}"
            found.append(Finding(words, f"{ahead:.2f} times", ahead >= RMW_AHEAD))
        p50 = of("lowtide", "rmw-unsynced", 2)["p50 joined"]
        words = f"an unsynced read-modify-write of a joined process takes at most {COMMIT_P50 * 1e6:.0f} us (p50)"
        found.append(Finding(words, f"{p50 * 1e6:.0f} us", p50 <= COMMIT_P50))
        errors = sum(of("lowtide", workload, count)["errors"] for workload in WORKLOADS for count in COUNTS)
        found.append(Finding("no error that the program has to handle", f"{errors:.0f} errors", errors == 0))
        return found

    def plot(self, data: Data, directory: Path) -> list[tuple[str, Path]]:
        return []


def _middle(data: Data, name: str, workload: str, count: int) -> Data:
    """The medians of the rounds."""
    rounds = data["cells"][f"{name} {workload} {count}"]
    return {what: median(each[what] for each in rounds) for what in rounds[0]}


SECTION = Processes()
