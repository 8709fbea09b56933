"""``python -m bench.program_floor``: the cost of programs on collections, as flat code over the engine, and on sqlite3.

Three stores take turns at the same work and must give the same answers: collections as a program would use them, flat
code without collections (``bench/programs/flat_*``), and sqlite3's tables. The difference between the first two is the
cost of statements on documents. The difference between the last two is the cost of an engine and a codec that are
called from Python; no improvement of collections can reduce it.

The five transactions of TPC-C come first, with a document for each row and with orders that contain their lines. Then
come updates and inserts, many in one transaction and each alone, and a queue of jobs with one worker. Figures are the
median of the rounds, in CPU time or, with ``--synced``, in wall time.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

from bench.programs.flat_jobs import FlatQueue
from bench.programs.flat_orders import FlatOrderShop
from bench.programs.flat_shop import FlatShop
from bench.programs.flat_works import WORKS, FlatWorks
from bench.programs.jobs import DocumentQueue, Queue, TableQueue, drained
from bench.programs.requests import KINDS, Request, Size, stream
from bench.programs.section import MIX, ORDERS, Differs
from bench.programs.shop_of_documents import DocumentShop
from bench.programs.shop_of_orders import OrderShop
from bench.programs.shop_of_tables import TableShop
from bench.programs.statements import BATCH, DocumentWorks, TableWorks, Works, numbers_of
from bench.registry import Durability

STORES = ("collections", "flat", "sqlite3")
Shop = DocumentShop | TableShop
MODELS: dict[str, tuple[type[DocumentShop], type[FlatShop]]] = {
    MIX: (DocumentShop, FlatShop),
    ORDERS: (OrderShop, FlatOrderShop),
}
"""Collections and flat code, with a document for each row and with orders that contain their lines."""
QUEUES: dict[str, Callable[[Path, Durability, int], Queue]] = {
    "collections": DocumentQueue,
    "flat": FlatQueue,
    "sqlite3": TableQueue,
}
Clock = Callable[[], float]
Found = dict[str, dict[str, float]]
"""The microseconds per operation, by work and store."""


def answered(shop: Shop, requests: list[Request], clock: Clock = process_time) -> tuple[list[Any], dict[str, float]]:
    """The answers of a shop, and the microseconds per request, for each kind of request and for all of them."""
    gc.collect()
    answers: list[Any] = []
    took: dict[str, list[float]] = {}
    for request in requests:
        started = clock()
        answers.append(shop.answer(request))
        seconds = clock() - started
        for kind in (request.kind, MIX):
            took.setdefault(kind, []).append(seconds)
    return answers, {kind: sum(each) / len(each) * 1e6 for kind, each in took.items()}


def programs(
    place: Path,
    size: Size,
    count: int,
    rounds: int,
    durability: Durability = "unsynced",
    clock: Clock = process_time,
    *,
    model: str = MIX,
) -> Found:
    """The time of each kind of request in one of the models."""
    documents, flat = MODELS[model]
    shops: dict[str, Shop] = {
        "collections": documents(place / "documents", durability, size),
        "flat": flat(place / "flat", durability, size),
        "sqlite3": TableShop(place / "tables", durability, size),
    }
    took: dict[str, dict[str, list[float]]] = {kind: {name: [] for name in STORES} for kind in (*KINDS, MIX)}
    try:
        for number in range(rounds):
            requests, answers = stream(size, number + 1, count), []
            for name, shop in shops.items():
                found, spent = answered(shop, requests, clock)
                answers.append(found)
                shop.settle()
                for kind, each in spent.items():
                    took[kind][name].append(each)
            if not answers[0] == answers[1] == answers[2]:
                told = zip(requests, *answers, strict=True)
                raise Differs(next(each for each in told if not each[1] == each[2] == each[3]))
    finally:
        for shop in shops.values():
            shop.close()
    return _medians(took)


def statements(
    place: Path, count: int, rounds: int, durability: Durability = "unsynced", clock: Clock = process_time
) -> Found:
    """The time of an update and of an insert, with ``count`` rows."""
    stores: dict[str, Works] = {
        "collections": DocumentWorks(place / "documents", durability, count),
        "flat": FlatWorks(place / "flat", durability, count),
        "sqlite3": TableWorks(place / "tables", durability, count),
    }
    named = {f"{work}, {where}": (work, where != "alone") for work in WORKS for where in ("in a transaction", "alone")}
    took: dict[str, dict[str, list[float]]] = {each: {name: [] for name in STORES} for each in named}
    try:
        for each, (work, together) in named.items():
            for number in range(rounds):
                numbers, sums = numbers_of(number, count, length_of(work, count)), set()
                for name, store in stores.items():
                    gc.collect()
                    started = clock()
                    sums.add(store.run(work, numbers, together))
                    took[each][name].append((clock() - started) / len(numbers) * 1e6)
                    store.settle()
                if len(sums) > 1:
                    raise Differs(f"{each}: the stores did {sums}")
    finally:
        for store in stores.values():
            store.close()
    return _medians(took)


def length_of(work: str, count: int) -> int:
    """The number of statements in a round."""
    return max(count // (20 * BATCH if work == "insert-many" else 20), 5)


def jobs(
    place: Path, count: int, rounds: int, durability: Durability = "unsynced", clock: Clock = process_time
) -> Found:
    """The time of a job, if one worker takes and deletes ``count`` of them."""
    took: dict[str, list[float]] = {name: [] for name in STORES}
    for number in range(rounds):
        for name, kind in QUEUES.items():
            queue = kind(place / f"{name}-{number}", durability, count)
            try:
                gc.collect()
                took[name].append(drained(queue, 1, count, clock)[1] / count * 1e6)
            finally:
                queue.close()
    return _medians({"job": took})


def _medians(took: dict[str, dict[str, list[float]]]) -> Found:
    return {work: {name: median(each) for name, each in by.items()} for work, by in took.items() if all(by.values())}


def tell(found: Found, of: str = "") -> None:
    """Print a line for each work."""
    for work, by in found.items():
        ours, flat, tables = (by[name] for name in STORES)
        print(f"{work + of:29} {ours:12.1f} {flat:8.1f} {tables:8.1f} {tables / ours:13.2f} {tables / flat:8.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--customers", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=600)
    parser.add_argument("--synced", action="store_true")
    given = parser.parse_args()
    durability: Durability = "synced" if given.synced else "unsynced"
    clock = perf_counter if given.synced else process_time
    headings = f"{'collections':>12} {'flat':>8} {'sqlite3':>8} {'collections /':>13} {'flat /':>8}"
    print(f"{'µs each, ' + durability:29} {headings}")
    with tempfile.TemporaryDirectory() as name:
        place, size = Path(name), Size(given.customers, 1000)
        for model in MODELS:
            found = programs(place / model, size, given.requests, given.rounds, durability, clock, model=model)
            tell(found, of=f", {model}" if model != MIX else "")
        tell(statements(place / "statements", given.rows, given.rounds, durability, clock))
        tell(jobs(place / "jobs", given.jobs, given.rounds, durability, clock))


if __name__ == "__main__":
    main()
