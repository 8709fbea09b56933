"""Section ``tpcc``: programs compared with sqlite3, as paired ratios of wall time if commits sync, else of CPU time."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any, NamedTuple

from bench.drawing import label, make_figure, save
from bench.programs.jobs import DocumentQueue, Queue, TableQueue, drained
from bench.programs.requests import KINDS, Request, Row, Size, stream
from bench.programs.shop_of_documents import DocumentShop
from bench.programs.shop_of_orders import OrderShop
from bench.programs.shop_of_tables import TableShop
from bench.programs.statements import READS, WRITES, DocumentWorks, TableWorks, Works, numbers_of
from bench.registry import Durability
from bench.section import Data, Finding, Grid, Plan

DURABILITIES: tuple[Durability, ...] = ("synced", "unsynced")
STORES = ("lowtide", "sqlite3")
MIX, ORDERS, JOBS, STATEMENTS = "mix", "orders", "jobs", "statements"
SHOPS: dict[str, type[DocumentShop]] = {MIX: DocumentShop, ORDERS: OrderShop}
"""TPC-C with a document for each row, and with orders that contain their lines."""
THREADS = (1, 4)
TARGETS = {(MIX, "synced"): 1.0, (MIX, "unsynced"): 0.7, (JOBS, "synced"): 1.0, (JOBS, "unsynced"): 1.0}
"""Of Lowtide relative to sqlite3: of the mix, in both models, and of the queues."""
TARGETS_OF_STATEMENTS = {"find-range": 1.3, "update": 1.2, "insert": 1.2, "insert-many": 1.2}
MICROSECONDS = {"find-id": 6.0, "find-index": 14.0}
"""At most, for a find in a transaction."""
_WHY = "each statement is Python code here, and C code there; docs/performance.md says what costs what"


class Differs(Exception):
    """Stores that answered differently have no figures worth comparing."""


class Line(NamedTuple):
    """One measurement."""

    work: str
    store: str
    durability: str
    round: int
    operations: int
    wall: float
    cpu: float

    def seconds(self) -> float:
        """What counts: wall time where commits sync, else CPU time, which other processes do not disturb."""
        return self.wall if self.durability == "synced" else self.cpu


class Programs:
    name = "tpcc"
    title = "Whole programs"
    workloads = (MIX, ORDERS, JOBS, STATEMENTS)

    def run(self, plan: Plan) -> Data:
        rounds = plan.rounds or (2 if plan.quick else 6)
        parts = [each for each in self.workloads if not plan.only or each in plan.only]
        lines: list[Line] = []
        halves: list[dict[str, Any]] = []
        for at, part in enumerate(parts):
            for which, durability in enumerate(DURABILITIES):
                plan.step(f"{part}, {durability}", (at + which / 2) / len(parts))
                place = plan.place / part / durability
                if part in SHOPS:
                    lines += _mix(part, place, durability, rounds, quick=plan.quick)
                elif part == JOBS:
                    halves += _jobs(place, durability, rounds, quick=plan.quick)
                else:
                    lines += _statements(place, durability, rounds, quick=plan.quick)
        return {"rounds": rounds, "fields": Line._fields, "lines": [list(each) for each in lines], "queues": halves}

    def grids(self, data: Data) -> list[Grid]:
        found = []
        note = (
            f"Medians of {data['rounds']} interleaved rounds: wall time where commits sync, else CPU time. sqlite3: "
            "WAL, synchronous FULL or NORMAL, prepared statements, tables without rowids where keys are composed. Both "
            "answered each request the same, and hold the same rows afterwards."
        )
        titles = (
            ("TPC-C, a document for each row", _works_of_shop(MIX)),
            ("TPC-C, orders that contain their lines", _works_of_shop(ORDERS)),
            ("Statements", _works_of_statements()),
        )
        for title, works in titles:
            rows = [row for work in works for row in _rows(data, work)]
            if rows:
                headings = ("work", "durability", "lowtide, µs", "sqlite3, µs", "ratio")
                found.append(Grid(title, headings, rows, note))
        if data["queues"]:
            named = ("queue", "durability", "lowtide, µs a job", "sqlite3, µs a job", "ratio", "second half / first")
            rows = [row for threads in THREADS for row in _rows_of_queues(data, threads)]
            found.append(Grid("A queue of jobs, wall time", named, rows, "A job is taken and then deleted."))
        return found

    def findings(self, data: Data) -> list[Finding]:
        found = []
        for durability in DURABILITIES:
            for shop, model in ((MIX, "a document for each row"), (ORDERS, "orders that contain their lines")):
                ratio = _ratio(data, _works_of_shop(shop)[-1], durability)
                if ratio is not None:
                    least = TARGETS[MIX, durability]
                    found.append(_finding(f"TPC-C, {model}, {durability}: at least {least} of sqlite3", ratio, least))
            for threads in THREADS if data["queues"] else ():
                ratio, least = _queue_ratio(data, threads, durability), TARGETS[JOBS, durability]
                target = f"a queue of jobs, {threads} threads, {durability}: at least {least} of sqlite3"
                found.append(_finding(target, ratio, least))
            for work, least in TARGETS_OF_STATEMENTS.items():
                for where in ("in a transaction", "alone"):
                    ratio = _ratio(data, f"{work}, {where}", durability)
                    if ratio is not None:
                        target = f"{work} {where}, {durability}: at least {least} of sqlite3"
                        found.append(_finding(target, ratio, least))
        for work, most in MICROSECONDS.items():
            each = _each(data, f"{work}, in a transaction", "lowtide", "unsynced")
            if each is not None:
                target = f"{work} in a transaction: at most {most:g} µs"
                found.append(Finding(target, f"{each:.1f} µs", each <= most, "" if each <= most else _WHY))
        return found

    def plot(self, data: Data, directory: Path) -> list[tuple[str, Path]]:
        works = [*_works_of_shop(MIX), *_works_of_shop(ORDERS), *_works_of_statements()]
        works = [work for work in works if _rows(data, work)]
        if not works:
            return []
        figure, (axes,) = make_figure(width=7.0, height=0.6 + 0.32 * len(works))
        for shift, durability in ((-0.2, "synced"), (0.2, "unsynced")):
            ratios = [_ratio(data, work, durability) or 0.0 for work in works]
            axes.barh([place + shift for place in range(len(works))], ratios, height=0.38, label=durability)
        axes.axvline(1.0, color="black", linewidth=0.8)
        axes.set_yticks(range(len(works)), works)
        axes.invert_yaxis()
        axes.legend(frameon=False, fontsize="x-small")
        label(axes, "Speed relative to sqlite3", "ratio")
        return [("Programs and statements relative to sqlite3.", save(figure, directory, self.name))]


def _timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    gc.collect()
    wall, cpu = perf_counter(), process_time()
    found = work()
    return found, perf_counter() - wall, process_time() - cpu


def _mix(part: str, place: Path, durability: Durability, rounds: int, *, quick: bool) -> list[Line]:
    size, count = (Size(30, 100), 100) if quick else (Size(300, 1000), 1000)
    shops: dict[str, DocumentShop | TableShop] = {
        "lowtide": SHOPS[part](place / "lowtide", durability, size),
        "sqlite3": TableShop(place / "sqlite3", durability, size),
    }
    lines: list[Line] = []
    try:
        for number in range(rounds):
            requests, answers = stream(size, number + 1, count), {}
            for store in STORES if number % 2 else STORES[::-1]:
                answers[store], measured = _answered(shops[store], requests, store, durability, number)
                named = dict(zip((*KINDS, MIX), _works_of_shop(part), strict=True))
                lines += [each._replace(work=named[each.work]) for each in measured]
                shops[store].settle()
            if answers["lowtide"] != answers["sqlite3"]:
                pairs = zip(requests, answers["lowtide"], answers["sqlite3"], strict=True)
                raise Differs(next(each for each in pairs if each[1] != each[2]))
        held = [{table: sorted(map(_sorted_repr, rows)) for table, rows in shops[store].rows()} for store in STORES]
        if held[0] != held[1]:
            raise Differs(
                f"the stores hold different rows in {[table for table in held[0] if held[0][table] != held[1][table]]}"
            )
    finally:
        for shop in shops.values():
            shop.close()
    return lines


def _sorted_repr(row: Row) -> str:
    return repr(sorted(row.items()))


def _answered(
    shop: DocumentShop | TableShop, requests: Sequence[Request], store: str, durability: str, number: int
) -> tuple[list[Any], list[Line]]:
    gc.collect()
    spent = {kind: [0, 0.0, 0.0] for kind in (*KINDS, MIX)}
    answers = []
    for request in requests:
        wall, cpu = perf_counter(), process_time()
        answers.append(shop.answer(request))
        cpu, wall = process_time() - cpu, perf_counter() - wall
        for kind in (request.kind, MIX):
            each = spent[kind]
            each[0], each[1], each[2] = each[0] + 1, each[1] + wall, each[2] + cpu
    return answers, [
        Line(kind, store, durability, number, int(n), round(wall, 6), round(cpu, 6))
        for kind, (n, wall, cpu) in spent.items()
    ]


def _jobs(place: Path, durability: Durability, rounds: int, *, quick: bool) -> list[dict[str, Any]]:
    count, found = 60 if quick else 600, []
    for threads in THREADS:
        for number in range(rounds):
            for store in STORES if number % 2 else STORES[::-1]:
                kind = DocumentQueue if store == "lowtide" else TableQueue
                queue: Queue = kind(place / f"{threads}-{number}-{store}", durability, count)
                try:
                    half, whole = drained(queue, threads, count, perf_counter)
                finally:
                    queue.close()
                found.append(
                    {"store": store, "durability": durability, "threads": threads, "round": number, "jobs": count,
                     "half": round(half, 6), "whole": round(whole, 6)}
                )  # fmt: skip
    return found


def _statements(place: Path, durability: Durability, rounds: int, *, quick: bool) -> list[Line]:
    count = 1000 if quick else 20_000
    stores: dict[str, Works] = {
        "lowtide": DocumentWorks(place / "lowtide", durability, count),
        "sqlite3": TableWorks(place / "sqlite3", durability, count),
    }
    lines: list[Line] = []
    try:
        for work in (*WRITES, *(READS if durability == "unsynced" else ())):
            for together in (True, False):
                length = _length(work, durability, together, quick)
                named = f"{work}, {'in a transaction' if together else 'alone'}"
                for number in range(rounds):
                    numbers, sums = numbers_of(number, count, length), set()
                    for store in STORES if number % 2 else STORES[::-1]:
                        found, wall, cpu = _timed(partial(stores[store].run, work, numbers, together))
                        sums.add(found)
                        lines.append(Line(named, store, durability, number, length, round(wall, 6), round(cpu, 6)))
                        if work in WRITES:
                            stores[store].settle()
                    if len(sums) > 1:
                        raise Differs(f"{named}: the stores found {sums}")
    finally:
        for each in stores.values():
            each.close()
    return lines


def _length(work: str, durability: str, together: bool, quick: bool) -> int:
    """How many statements a round has."""
    usual = 30 if work in ("find-range", "insert-many") else 1000
    if durability == "synced" and not together:
        usual = min(usual, 200)
    return max(5, usual // 20) if quick else usual


def _works_of_shop(part: str) -> list[str]:
    """The five transactions and all of them together."""
    return [f"{work}, {part}" if part != MIX else work for work in (*KINDS, MIX)]


def _works_of_statements() -> list[str]:
    return [f"{work}, {where}" for work in (*READS, *WRITES) for where in ("in a transaction", "alone")]


def _lines(data: Data, work: str, store: str, durability: str) -> dict[int, Line]:
    found = (Line(*each) for each in data["lines"])
    return {
        each.round: each
        for each in found
        if (each.work, each.store, each.durability) == (work, store, durability) and each.operations
    }


def _each(data: Data, work: str, store: str, durability: str) -> float | None:
    """Microseconds of one operation."""
    lines = _lines(data, work, store, durability).values()
    return median(each.seconds() / each.operations * 1e6 for each in lines) if lines else None


def _ratio(data: Data, work: str, durability: str) -> float | None:
    ours, theirs = (_lines(data, work, store, durability) for store in STORES)
    ratios = [theirs[at].seconds() / ours[at].seconds() for at in ours.keys() & theirs.keys() if ours[at].seconds()]
    return median(ratios) if ratios else None


def _rows(data: Data, work: str) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for durability in DURABILITIES:
        ours, theirs = (_each(data, work, store, durability) for store in STORES)
        ratio = _ratio(data, work, durability)
        if ours is not None and theirs is not None and ratio is not None:
            found.append((work, durability, f"{ours:,.1f}", f"{theirs:,.1f}", f"{ratio:.2f}"))
    return found


def _queues(data: Data, store: str, threads: int, durability: str) -> dict[int, dict[str, Any]]:
    wanted = (store, threads, durability)
    return {
        each["round"]: each for each in data["queues"] if (each["store"], each["threads"], each["durability"]) == wanted
    }


def _queue_ratio(data: Data, threads: int, durability: str) -> float:
    ours, theirs = (_queues(data, store, threads, durability) for store in STORES)
    return median(float(theirs[at]["whole"] / ours[at]["whole"]) for at in ours)


def _rows_of_queues(data: Data, threads: int) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for durability in DURABILITIES:
        ours, theirs = (
            median(each["whole"] / each["jobs"] * 1e6 for each in _queues(data, store, threads, durability).values())
            for store in STORES
        )
        mine = _queues(data, "lowtide", threads, durability).values()
        later = median((each["whole"] - each["half"]) / each["half"] for each in mine)
        ratio = _queue_ratio(data, threads, durability)
        shown = (f"{ours:,.0f}", f"{theirs:,.0f}", f"{ratio:.2f}", f"{later:.2f}")
        found.append((f"{threads} threads", durability, *shown))
    return found


def _finding(target: str, ratio: float, least: float) -> Finding:
    return Finding(target, f"{ratio:.2f}", ratio >= least, "" if ratio >= least else _WHY)


SECTION = Programs()
