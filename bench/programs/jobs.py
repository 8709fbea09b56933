"""A queue of jobs: each worker takes the oldest job that is ready, marks it as its own, and deletes it when it is done.

A job takes two transactions. All workers compete for the same job, so with four of them most of the work is to decide
which one gets it.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

import lowtide
from bench.programs.shop_of_tables import connect
from bench.registry import Durability


class Queue(Protocol):
    """A queue that holds jobs 0 to ``count`` - 1."""

    def worker(self, number: int) -> Callable[[], int | None]:
        """Return what one thread calls to take a job and finish it; it returns the job, or None if none is left."""

    def close(self) -> None: ...


class DocumentQueue:
    """One document for each job, with an index on its state and its time."""

    def __init__(self, directory: Path, durability: Durability, count: int) -> None:
        self._store = lowtide.open(directory, durability="full" if durability == "synced" else "relaxed")
        jobs = self._store["jobs"]
        jobs.create_index([("state", 1), ("at", 1)])
        jobs.insert_many([{"_id": number, "state": "ready", "at": number, "task": "x" * 80} for number in range(count)])
        self._store.checkpoint()

    def worker(self, number: int) -> Callable[[], int | None]:
        jobs = self._store["jobs"]

        def work() -> int | None:
            mine = {"$set": {"state": "taken", "worker": number}}
            job = jobs.find_one_and_update({"state": "ready"}, mine, sort=[("at", 1)])
            if job is None:
                return None
            jobs.delete_one({"_id": job["_id"]})
            return int(job["_id"])

        return work

    def close(self) -> None:
        self._store.close()


class TableQueue:
    """One row for each job, with an index on its state and its time; a connection for each thread."""

    def __init__(self, directory: Path, durability: Durability, count: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._file, self._durability = directory / "jobs.db", durability
        self._keeper = connect(self._file, durability)
        self._connections: list[sqlite3.Connection] = []
        execute = self._keeper.execute
        with self._keeper:
            execute("BEGIN")
            execute("CREATE TABLE jobs (id INTEGER PRIMARY KEY, state TEXT, at INTEGER, task TEXT, worker INTEGER)")
            execute("CREATE INDEX jobs_by ON jobs (state, at)")
            rows = [(number, "ready", number, "x" * 80, None) for number in range(count)]
            self._keeper.executemany("INSERT INTO jobs VALUES (?, ?, ?, ?, ?)", rows)
        execute("PRAGMA wal_checkpoint(RESTART)").fetchall()

    def worker(self, number: int) -> Callable[[], int | None]:
        connection = sqlite3.connect(self._file, isolation_level=None, timeout=60, check_same_thread=False)
        connection.execute(f"PRAGMA synchronous = {'FULL' if self._durability == 'synced' else 'NORMAL'}")
        self._connections.append(connection)
        execute = connection.execute

        def work() -> int | None:
            execute("BEGIN IMMEDIATE")
            query = "SELECT id, task FROM jobs WHERE state = 'ready' ORDER BY at LIMIT 1"
            job = execute(query).fetchone()
            if job is not None:
                execute("UPDATE jobs SET state = 'taken', worker = ? WHERE id = ?", (number, job[0]))
            execute("COMMIT")
            if job is None:
                return None
            execute("DELETE FROM jobs WHERE id = ?", (job[0],))
            return int(job[0])

        return work

    def close(self) -> None:
        for connection in (*self._connections, self._keeper):
            connection.close()


class JobLost(Exception):
    """Raised if a queue lost a job, or gave it to two workers. Its figures are not shown."""


def drained(queue: Queue, threads: int, count: int, clock: Callable[[], float]) -> list[float]:
    """Let the threads take all jobs; return when the first half was done, and when all of them were, by ``clock``."""
    lock, marks, taken = threading.Lock(), [clock()], list[int]()

    def run(number: int) -> None:
        work = queue.worker(number)
        while (job := work()) is not None:
            with lock:
                taken.append(job)
                if len(taken) in (count // 2, count):
                    marks.append(clock())

    with ThreadPoolExecutor(threads) as pool:
        for future in [pool.submit(run, number) for number in range(threads)]:
            future.result()
    if sorted(taken) != list(range(count)):
        raise JobLost(
            f"{count} jobs were put into the queue, and {len(set(taken))} of them were done {len(taken)} times"
        )
    return [marks[1] - marks[0], marks[2] - marks[0]]
