"""The section ``pipeline``: its figures as tables, findings and a plot."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.drawing import label, make_figure, save
from bench.section import Data, Finding, Grid, Plan, Skipped
from bench.spark.session import CORES, lacking, make_session

FULL = (100_000, 1_000_000, 10_000_000)
QUICK = (10_000, 100_000)
WARM = 5_000
"""Versions of the round before the first one that counts."""
FILES = {"spark.sql.files.maxPartitionBytes": "128m", "spark.sql.files.openCostInBytes": "4m"}
"""How Spark's readers put files into tasks unless it is told otherwise, which other sections do."""
WORK = ("archive", "compact", "as_of the middle", "vacuum", "audit")
FLAT = 1.3
"""How much more a row may cost at ten times the rows, noise included."""
MEMORY = 64 << 20
"""Bytes by which the driver may grow meanwhile."""


class Pipeline:
    name = "pipeline"
    title = "The pipeline: archive, time travel, vacuum, audit"

    def run(self, plan: Plan) -> Data:
        why = lacking()
        if why is not None:
            raise Skipped(why)
        from bench.pipeline.jobs import Measuring, measure, measure_audit

        sizes = _sizes(plan)
        spark = make_session(plan.place)
        for name, value in FILES.items():
            spark.conf.set(name, value)
        figures: dict[int, Data] = {}

        def keep(found: Data) -> None:
            """A run takes long: what it has so far is in a file."""
            figures[found["versions"]] = found
            so_far = {"sizes": list(sizes), "figures": [figures[each] for each in sizes if each in figures]}
            (plan.place / "so-far.json").write_text(json.dumps({**so_far, "cores": CORES}))

        # Once at a small size, so that what is compiled and imported at first does not count.
        rounds = [(size, work) for work in (measure, measure_audit) for size in (WARM, *sizes)]
        measuring: dict[int, Measuring] = {}
        try:
            for number, (size, work) in enumerate(rounds):
                directory = Path(tempfile.mkdtemp(dir=plan.place))
                tell = _telling(plan, number / len(rounds))
                each = measuring.setdefault(size, Measuring(spark, size, tell, keep))
                work(spark, directory, each)
                shutil.rmtree(directory)
        finally:
            spark.stop()
        return {"sizes": list(sizes), "figures": [measuring[size].found for size in sizes], "cores": CORES}

    def grids(self, data: Data) -> list[Grid]:
        figures = data["figures"]
        names = ("fill", "feed to Parquet", *WORK)

        def rows(kinds: Sequence[str], show: Callable[[Data, str], str], *more: str) -> list[tuple[str, ...]]:
            return [
                (
                    f"{each['versions']:,}",
                    *(show(each, name) for name in kinds),
                    *(_shown(each, name, 1, ",") for name in more),
                )
                for each in figures
            ]

        reads = [
            (
                f"{each['versions']:,}",
                *(_shown(each, name, 1, ".2f") for name in ("as_of seconds", "plain seconds", "as_of ratio")),
                _shown(each, "history seconds", 1, ".2f"),
                f"{_shown(each, 'history files', 1, '')} of {_shown(each, 'files', 1, '')}",
            )
            for each in figures
        ]
        memory = [
            (
                f"{each['versions']:,}",
                *(_shown(each, f"{name} driver", 2**20, ".0f") for name in WORK),
                _shown(each, "heap", 2**20, ".0f"),
                _shown(each, "bytes", each["versions"], ".0f"),
            )
            for each in figures
        ]
        return [
            Grid(
                "Seconds",
                ("versions", *names, "files after compaction"),
                rows(names, lambda each, name: _shown(each, f"{name} seconds", 1, ".1f"), "files"),
                f"Documents of six fields, ten versions each; local[{data['cores']}]. The audit has as many rows. "
                "A dash was not measured.",
            ),
            Grid(
                "Microseconds a version (audit: a row)",
                ("versions", *WORK),
                rows(WORK, lambda each, name: _shown(each, f"{name} seconds", each["versions"] / 1e6, ".1f")),
            ),
            Grid(
                "CPU microseconds a version (audit: a row)",
                ("versions", *WORK),
                rows(WORK, lambda each, name: _shown(each, f"{name} cpu", each["versions"] / 1e6, ".1f")),
                "Of the driver, its JVM and all workers together; other work on the machine disturbs it less.",
            ),
            Grid(
                "Reading, after compaction, seconds",
                ("versions", "as_of the newest", "plain Parquet of the same", "ratio", "history of one", "files read"),
                reads,
            ),
            Grid(
                "Bytes a version (audit: a row) that tasks send to each other",
                ("versions", *WORK),
                rows(WORK, lambda each, name: _shown(each, f"{name} shuffled", each["versions"], ".1f")),
            ),
            Grid(
                "Memory: MiB at most of the driver's Python, MiB of its JVM afterwards, bytes a version on disk",
                ("versions", *WORK, "JVM", "bytes a version"),
                memory,
            ),
        ]

    def findings(self, data: Data) -> list[Finding]:
        figures = data["figures"]
        found = []
        for each in figures:
            size = f"{each['versions']:,} versions"
            if "archive seconds" in each:
                rate = each["feed to Parquet seconds"] / each["archive seconds"]
                found.append(
                    Finding(f"archive at {size}: >= 0.5x Spark's feed to plain Parquet", f"{rate:.2f}", rate >= 0.5)
                )
            if "as_of ratio" in each:
                ratio = each["as_of ratio"]
                found.append(Finding(f"as_of the newest at {size}: <= 2x plain Parquet", f"{ratio:.2f}", ratio <= 2))
            if "history files" in each:
                share = each["history files"] / each["files"]
                found.append(
                    Finding(f"history of one document at {size}: <= 5 % of the files", f"{share:.1%}", share <= 0.05)
                )
        for name in WORK:
            measured = [each for each in figures if f"{name} seconds" in each]
            if len(measured) > 1:
                found += _flat(name, measured[0], measured[-1])
        return found

    def plot(self, data: Data, directory: Path) -> list[tuple[str, Path]]:
        figure, (axes, *_) = make_figure()
        for name in WORK:
            measured = [each for each in data["figures"] if f"{name} cpu" in each]
            sizes = [each["versions"] for each in measured]
            axes.plot(sizes, [_per_row(each, name, "cpu") for each in measured], marker="o", label=name)
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False, fontsize="small")
        label(axes, "CPU time a version", "versions", "microseconds")
        return [("CPU time a version, as their number grows.", save(figure, directory, "pipeline"))]


def _sizes(plan: Plan) -> tuple[int, ...]:
    if plan.documents:
        return tuple(dict.fromkeys((max(QUICK[0], plan.documents // 10), plan.documents)))
    return QUICK if plan.quick else FULL


def _telling(plan: Plan, share: float) -> Callable[[str], None]:
    return lambda doing: plan.step(doing, share)


def _flat(name: str, first: Data, last: Data) -> list[Finding]:
    """Whether a row costs the same in both, and the driver needs the same memory. CPU time decides: the machine may do
    other work, and at the smallest size most of the wall time is waiting for Spark."""
    cpu, wall = (_per_row(last, name, kind) / _per_row(first, name, kind) for kind in ("cpu", "seconds"))
    more = last[f"{name} driver"] - first[f"{name} driver"]
    return [
        Finding(
            f"{name}: CPU time a row flat from {first['versions']:,} to {last['versions']:,}",
            f"{cpu:.2f} times (wall time {wall:.2f} times)",
            cpu <= FLAT,
        ),
        Finding(f"{name}: memory of the driver flat", f"{more / 2**20:+.0f} MiB", more <= MEMORY),
    ]


def _per_row(figures: Data, name: str, kind: str) -> float:
    """Microseconds of wall time (``seconds``) or CPU time (``cpu``) for a version."""
    return float(figures[f"{name} {kind}"]) / int(figures["versions"]) * 1e6


def _shown(figures: Data, name: str, unit: float, digits: str) -> str:
    """A figure in a unit; a dash if it was not measured."""
    if name not in figures:
        return "–"
    return format(figures[name] if unit == 1 else figures[name] / unit, digits)


SECTION = Pipeline()
