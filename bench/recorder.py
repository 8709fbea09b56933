"""The cost of recording a store: two stores, one of them with ``record``, take turns of a fraction of a second.

    python -m bench.recorder

Each line is one mix, durability and number of threads: transactions per second without and with the recorder, the
median of the ratios of neighbouring turns, and the CPU time of a transaction, all threads included. ``--floor`` also
measures the cost if entries are put into the list and never written.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import lowtide
from lowtide.store.recording import HistoryFile

KEYS = 10_000
Body = Callable[[lowtide.Transaction, bytes, bytes], None]


def update(tx: lowtide.Transaction, first: bytes, second: bytes) -> None:
    """Two reads and two writes."""
    accounts = tx.keyspace("accounts")
    for key in (first, second):
        value = int(accounts.get(key) or 0)
        accounts.put(key, b"%0100d" % (value + 1))


def mixed(tx: lowtide.Transaction, first: bytes, second: bytes) -> None:
    """Ten reads; one transaction of four writes one of the keys."""
    accounts = tx.keyspace("accounts")
    start = int(first)
    for number in range(start, start + 9):
        accounts.get(b"%06d" % number)
    value = accounts.get(second)
    if value is not None and start % 4 == 0:
        accounts.put(second, value)


def reads(tx: lowtide.Transaction, first: bytes, second: bytes) -> None:
    """Two reads."""
    accounts = tx.keyspace("accounts")
    accounts.get(first)
    accounts.get(second)


MIXES: dict[str, Body] = {"update": update, "mixed": mixed, "reads": reads}


def turn(store: lowtide.Store, body: Body, threads: int, seconds: float) -> tuple[float, float]:
    """Transactions a second, and microseconds of processor time for each, of one turn."""
    done = [0] * threads
    used, begun = time.process_time(), time.perf_counter()
    end = begun + seconds

    def work(number: int) -> None:
        chance = random.Random()
        while time.perf_counter() < end:
            first, second = b"%06d" % chance.randrange(KEYS), b"%06d" % chance.randrange(KEYS)
            store.run(partial(_called, body, first, second))
            done[number] += 1

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    flush = getattr(store, "_recording", None)
    if flush is not None:
        flush.flush()  # what is still to be written belongs to this turn
    count = sum(done)
    return count / (time.perf_counter() - begun), (time.process_time() - used) / count * 1e6


def _called(body: Body, first: bytes, second: bytes, tx: lowtide.Transaction) -> None:
    body(tx, first, second)


def compare(place: Path, body: Body, durability: str, threads: int, rounds: int, seconds: float) -> str:
    stores = []
    for name, options in (("plain", {}), ("recorded", {"record": place / "history"})):
        store = lowtide.open(place / name, durability=durability, **options)  # type: ignore[arg-type]
        store.keyspace("accounts").put_many({b"%06d" % number: b"%0100d" % number for number in range(KEYS + 10)})
        stores.append(store)
        turn(store, body, threads, seconds)  # so that what is loaded and cached once is
    figures = [[turn(store, body, threads, seconds) for store in stores] for _ in range(rounds)]
    for store in stores:
        store.close()
    before, after = (statistics.median(each[number][0] for each in figures) for number in (0, 1))
    ratio = statistics.median(each[1][0] / each[0][0] for each in figures)
    used = [statistics.median(each[number][1] for each in figures) for number in (0, 1)]
    return (
        f"{before:9,.0f}/s  recorded {after:9,.0f}/s  ratio {ratio:.3f}   "
        f"{used[0]:6.1f} us of processor time, recorded {used[1]:6.1f} ({used[1] / used[0] - 1:+.1%})"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.4)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 4])
    parser.add_argument("--mixes", nargs="*", choices=MIXES, default=list(MIXES))
    parser.add_argument("--durability", nargs="*", default=["full", "relaxed"])
    parser.add_argument("--place", type=Path, default=None, help="a directory on the disk to measure")
    parser.add_argument("--floor", action="store_true", help="do not write the entries")
    arguments = parser.parse_args()
    if arguments.floor:
        HistoryFile._row = lambda *_: None  # type: ignore[method-assign,assignment]
    for durability in arguments.durability:
        for name in arguments.mixes:
            for threads in arguments.threads:
                with tempfile.TemporaryDirectory(dir=arguments.place) as place:
                    found = compare(
                        Path(place),
                        MIXES[name],
                        durability,
                        threads,
                        rounds=arguments.rounds,
                        seconds=arguments.seconds,
                    )
                print(f"{durability:8} {name:6} {threads} threads  {found}", flush=True)


if __name__ == "__main__":
    main()
