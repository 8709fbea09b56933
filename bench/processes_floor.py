"""``python -m bench.processes_floor``: what commits of several processes through one owner cost, without a store.

The owner has a file and one connection to each process. It waits for messages, takes those that have arrived, appends
their bytes to the file with one write, synced or not, and answers each. A process changes a document, as the
read-modify-write of the benchmark does, sends it, and waits for the answer. There is no transaction, no validation, no
version and no commit of another process to read. Nothing that commits by messages to one owner in Python can be faster,
on the same cores and the same disk. The owner here does nothing else. The owner of a store, which works and commits for
others, is slower.

``--work MICROSECONDS`` makes each process compute for this long before each commit: about the time of a transaction.
The CPU time of a commit, of both ends together, limits how many commits the cores of the machine can do.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import select
import socket
import sqlite3
import tempfile
import time
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import lmdb

from bench.processes import changed, encode

_CONTEXT = multiprocessing.get_context("fork")
_SIZE = 1 << 24


def own(path: Path, ends: list[socket.socket], synced: bool) -> int:
    """Commit for the processes at the other ends until all have disconnected. Returns the number of groups."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.pwrite(file, bytes(_SIZE), 0)
    os.fsync(file)
    waiting, groups, offset = select.epoll(), 0, 0
    connections = {end.fileno(): end for end in ends}
    for each in connections:
        waiting.register(each, select.EPOLLIN)
    while connections:
        group = []
        for descriptor, _ in waiting.poll():
            message = connections[descriptor].recv(1 << 16)
            if message:
                group.append((descriptor, message))
            else:
                waiting.unregister(descriptor)
                del connections[descriptor]
        if group:
            data = b"".join(message for _, message in group)
            offset = (offset + len(data)) % (_SIZE - (1 << 16))
            os.pwritev(file, [data], offset, os.RWF_DSYNC if synced else 0)
            groups += 1
            for descriptor, _ in group:
                connections[descriptor].send(b"12345678")
    return groups


def commit(end: socket.socket, seconds: float, work: float, together: Barrier, result: Connection) -> None:
    value = encode({"n": 0, "text": "x" * 120})
    together.wait()
    begun = now = time.perf_counter()
    latencies = []
    while now < begun + seconds:
        value = changed(value)
        until = now + work
        while work and time.perf_counter() < until:
            pass
        end.send(value)
        end.recv(100)
        ended = time.perf_counter()
        latencies.append(ended - now)
        now = ended
    latencies.sort()
    result.send((len(latencies), latencies[len(latencies) // 2]))
    end.close()


def through_an_owner(place: Path, processes: int, seconds: float, *, synced: bool, work: float) -> dict[str, Any]:
    begun = cpu_time()
    pairs = [socket.socketpair() for _ in range(processes)]
    together = _CONTEXT.Barrier(processes)
    pipes, started = [], []
    for _, end in pairs:
        here, there = _CONTEXT.Pipe(duplex=False)
        started.append(_CONTEXT.Process(target=commit, args=(end, seconds, work, together, there)))
        pipes.append(here)
    for each in started:
        each.start()
    for _, end in pairs:
        end.close()
    # Each child has copies of all the ends, which it keeps until it ends: so the owner stops when all have ended.
    groups = own(place / "log", [end for end, _ in pairs], synced)
    found = [each.recv() for each in pipes]
    for each in started:
        each.join()
    commits = sum(each[0] for each in found)
    return {
        "rate": commits / seconds,
        "p50": sorted(each[1] for each in found)[0],
        "group": commits / max(groups, 1),
        "cpu": (cpu_time() - begun) / commits,
    }


def cpu_time() -> float:
    """Seconds of CPU time of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def of_sqlite(place: Path, seconds: float) -> float:
    """Read-modify-writes of one process, synced, per second: processes of sqlite3 take turns."""
    connection = sqlite3.connect(place / "store.db", isolation_level=None)
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = full")
    connection.execute("create table documents (key blob primary key, value blob) without rowid")
    connection.execute("insert into documents values (?, ?)", (b"key", encode({"n": 0, "text": "x" * 120})))
    begun, count = time.perf_counter(), 0
    while time.perf_counter() < begun + seconds:
        connection.execute("begin immediate")
        value = connection.execute("select value from documents where key = ?", (b"key",)).fetchone()[0]
        connection.execute("update documents set value = ? where key = ?", (changed(bytes(value)), b"key"))
        connection.execute("commit")
        count += 1
    connection.close()
    return count / seconds


def of_lmdb(place: Path, seconds: float) -> float:
    """The same for py-lmdb."""
    with lmdb.open(str(place / "lmdb"), map_size=1 << 30) as environment:
        with environment.begin(write=True) as txn:
            txn.put(b"key", encode({"n": 0, "text": "x" * 120}))
        begun, count = time.perf_counter(), 0
        while time.perf_counter() < begun + seconds:
            with environment.begin(write=True) as txn:
                txn.put(b"key", changed(txn.get(b"key")))
            count += 1
    return count / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", type=float, default=0.0, help="microseconds of work before each commit")
    chosen = parser.parse_args()
    work = chosen.work * 1e-6
    for _ in range(chosen.rounds):
        with tempfile.TemporaryDirectory() as directory:
            place = Path(directory)
            sqlite, other = of_sqlite(place, chosen.seconds), of_lmdb(place, chosen.seconds)
            print(f"one process, synced: sqlite3 {sqlite:,.0f}/s, py-lmdb {other:,.0f}/s")
            for synced, count in ((True, 4), (False, 1)):
                found = through_an_owner(place, count, chosen.seconds, synced=synced, work=work)
                beside = f", {found['rate'] / sqlite:.2f} times sqlite3, {found['rate'] / other:.2f} times py-lmdb"
                print(
                    f"{count} processes and an owner, {'synced' if synced else 'unsynced'}: {found['rate']:,.0f}/s, "
                    f"p50 {found['p50'] * 1e6:.0f} us, {found['group']:.1f} commits a write, "
                    f"{found['cpu'] * 1e6:.0f} us of CPU time a commit" + beside * synced
                )


if __name__ == "__main__":
    main()
