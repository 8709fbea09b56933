"""A run: the documents are written in every format, each in its own process. Then the driver measures."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from bench.fresh import in_fresh_process
from bench.section import Data, Plan, Skipped
from bench.spark.driver import Order
from bench.spark.jobs import GROWTH, LINES, NOTHING, PARQUET, SCAN, WRITE, Files
from bench.spark.rows import build_lines, build_lowtide, build_parquet, build_sqlite
from bench.spark.session import lacking
from bench.spark.targets import TITLES

_BUILDING = 0.3  # the share of the run in which the sources are built
_TAIL = 4_000  # characters of what Spark said


class DriverFailed(Exception):
    """Raised if the driver ended without an answer."""


@dataclass(frozen=True)
class Scale:
    documents: int
    written: int
    sizes: tuple[int, ...]
    """The sizes of the stores that show how the cost of a row grows."""
    rounds: int
    few: int
    """Rounds of what takes long: writing, growth and streams."""
    changes: int
    samples: int


FULL = Scale(2_000_000, 1_000_000, (100_000, 1_000_000, 10_000_000), 7, 5, 500_000, 100)
QUICK = Scale(50_000, 20_000, (20_000, 100_000), 1, 1, 20_000, 5)


def measure(plan: Plan, scale: Scale) -> Data:
    why = lacking()
    if why is not None:
        raise Skipped(why)
    order = order_of(plan, scale)
    build(plan, order)
    data = driven(plan, order)
    for told in data.pop("told"):
        print(told, file=sys.stderr)
    about = asdict(order)
    return {name: about[name] for name in ("documents", "written", "sizes", "rounds", "few")} | data


def order_of(plan: Plan, scale: Scale) -> Order:
    """What the driver has to do: the scale, except where the plan sets a value itself."""
    given = plan.documents
    return Order(
        place=str(plan.place),
        documents=given or scale.documents,
        written=min(scale.written, given) if given else scale.written,
        sizes=[max(1, given // 10), given] if given else list(scale.sizes),
        rounds=plan.rounds or scale.rounds,
        few=min(plan.rounds, scale.few) if plan.rounds else scale.few,
        changes=min(scale.changes, given) if given else scale.changes,
        samples=scale.samples,
        lines=sorted(plan.only),
        # Parquet comes with Spark: it is what the others are compared with.
        peers=sorted(plan.peers | {PARQUET}) if plan.peers else [],
    )


# -- building ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Building:
    what: str
    step: Callable[..., Data]
    arguments: dict[str, Any]


def buildings(order: Order, files: Files) -> list[Building]:
    """The sources that the order needs."""
    count = order.documents
    found = []

    def add(wanted: bool, what: str, step: Callable[..., Data], **arguments: Any) -> None:
        if wanted:
            found.append(Building(what, step, arguments))

    reads = any(not order.lines or line in order.lines for line in TITLES if line != WRITE)
    add(reads, "a store", build_lowtide, place=str(files.lowtide), count=count, indexed=True)
    add(reads, "Parquet", build_parquet, place=str(files.parquet), count=count)
    add(order.wants(SCAN, LINES), LINES, build_lines, place=str(files.lines), count=count)
    add(order.wants(SCAN, "sqlite3"), "sqlite3", build_sqlite, place=str(files.sqlite), count=count)
    add(order.wants(NOTHING, "sqlite3"), "an empty table", build_sqlite, place=str(files.empty), count=0)
    add(order.wants(WRITE, PARQUET), "Parquet", build_parquet, place=str(files.unwritten), count=order.written)
    for size in order.sizes:
        what = f"a store of {size:,}"
        add(
            order.wants(GROWTH, "lowtide"), what, build_lowtide, place=str(files.grown(size)), count=size, indexed=False
        )
    return found


def build(plan: Plan, order: Order) -> None:
    works = buildings(order, Files(plan.place))
    for done, work in enumerate(works):
        plan.step(f"building {work.what}", _BUILDING * done / len(works))
        in_fresh_process(work.step, **work.arguments)


# -- the driver -------------------------------------------------------------------------------------------------------


def driven(plan: Plan, order: Order) -> Data:
    """Return what the driver measures. The output of Spark is shown only if it fails."""
    plan.step("starting Spark", _BUILDING)
    command = [sys.executable, "-m", "bench.spark.driver"]
    data: Data | None = None
    with (
        tempfile.TemporaryFile("w+", dir=plan.place, encoding="utf-8", errors="replace") as said,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(asdict(order)))
            process.stdin.close()
            for line in process.stdout:
                answer = json.loads(line)
                if "data" in answer:
                    data = answer["data"]
                else:
                    plan.step(answer["doing"], _BUILDING + (1 - _BUILDING) * answer["share"])
        except BaseException:
            process.terminate()
            raise
        status = process.wait()
        if data is None or status != 0:
            said.seek(0)
            raise DriverFailed(f"the driver ended with status {status}, and said:\n{said.read()[-_TAIL:]}")
    return data
