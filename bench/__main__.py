"""``python -m bench``: runs all benchmarks, and writes one report to bench/results.

A full run stores its raw figures and makes the report. A rough or partial run only prints, unless --results says where
to store it, so that it does not replace the published figures.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

from bench import (
    amplification,
    arrow,
    bank,
    compare,
    growth,
    latency,
    long_reader,
    machine,
    memory,
    processes,
    recovery,
    ycsb,
)
from bench.collections import STORES
from bench.collections import compare as documents
from bench.peers import PEERS
from bench.pipeline import section as pipeline
from bench.programs import section as programs
from bench.publish import RESULTS, publish
from bench.rdf import STORES as GRAPHS
from bench.rdf import section as rdf
from bench.report import make_console, show, write_document
from bench.section import Plan, Section, Skipped
from bench.spark import section as spark

SECTIONS: tuple[Section, ...] = (
    compare.SECTION,
    ycsb.SECTION,
    bank.SECTION,
    long_reader.SECTION,
    latency.SECTION,
    recovery.SECTION,
    amplification.SECTION,
    memory.SECTION,
    growth.SECTION,
    processes.SECTION,
    documents.SECTION,
    programs.SECTION,
    arrow.SECTION,
    spark.SECTION,
    pipeline.SECTION,
    rdf.SECTION,
)
NAMES = tuple(dict.fromkeys([*PEERS, *STORES, *GRAPHS]))
"""Of all stores that are compared, in one section or another."""


def workloads_of(section: Section) -> tuple[str, ...]:
    found: tuple[str, ...] = getattr(section, "workloads", ())
    return found


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = [name for section in SECTIONS for name in (section.name, *workloads_of(section))]
    parser.add_argument("--quick", action="store_true", help="a rough answer, all of it in about five minutes")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", choices=known, help="a section or a workload; repeatable"
    )
    parser.add_argument("--report", action="store_true", help="measure nothing, make the report again")
    parser.add_argument("--results", type=Path, metavar="DIR", help="keep the figures and the report here")
    parser.add_argument(
        "--directory", type=Path, help="where to put the stores, on a disk (default: the system's temporary directory)"
    )
    parser.add_argument("--peers", default="", help=f"comma separated, of {', '.join(NAMES)}")
    parser.add_argument("--rounds", type=int, help="interleaved rounds, in the sections that compare")
    parser.add_argument("--seconds", type=float, help="time of one store in one round, in the sections that compare")
    parser.add_argument("--documents", type=int, help="documents in each store, in the sections that compare")
    options = parser.parse_args(arguments)
    options.peers = frozenset(filter(None, options.peers.split(",")))
    unknown = options.peers - set(NAMES)
    if unknown:
        parser.error(f"unknown peers {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    return options


def chosen_sections(only: Sequence[str]) -> list[tuple[Section, frozenset[str]]]:
    """The sections to run, each with the workloads it is limited to."""
    chosen = []
    for section in SECTIONS:
        workloads = frozenset(only) & set(workloads_of(section))
        if not only or section.name in only:
            chosen.append((section, frozenset[str]()))
        elif workloads:
            chosen.append((section, frozenset(workloads)))
    return chosen


def is_whole(options: argparse.Namespace) -> bool:
    """Whether each section that is run is run as it is published."""
    limited = any(only for _, only in chosen_sections(options.only))
    given = (options.peers, options.rounds, options.seconds, options.documents)
    return not options.quick and not limited and not any(given)


def stepper(progress: Progress, task: TaskID, title: str) -> Callable[[str, float], None]:
    def step(doing: str, share: float) -> None:
        progress.update(task, description=f"{title}: {doing}", completed=share)
        progress.refresh()

    return step


def run(options: argparse.Namespace, place: Path, results: Path | None, console: Console) -> list[str]:
    """Run the sections one after the other; return the names of those that failed."""
    failed: list[str] = []
    chosen = chosen_sections(options.only)
    # No refresh thread: it would take the GIL from what is being measured.
    progress = Progress(
        TextColumn("{task.description:<64}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=console,
        auto_refresh=False,
        transient=True,
    )
    # Before anything is written: the first results would count as uncommitted changes.
    circumstances = machine.describe(place)
    for section, only in chosen:
        started = perf_counter()
        directory = place / section.name
        directory.mkdir()
        with progress:
            task = progress.add_task(section.title, total=1.0)
            plan = Plan(
                directory,
                options.quick,
                stepper(progress, task, section.title),
                only,
                options.peers,
                options.rounds,
                options.seconds,
                options.documents,
            )
            try:
                data = section.run(plan)
            except Skipped as missing:
                console.print(f"{section.name}: skipped, {missing}.", style="yellow")
                continue
            except Exception:
                # The figures of the other sections are still useful.
                console.print_exception()
                failed.append(section.name)
                continue
            finally:
                progress.remove_task(task)
        show(section, data, console)
        console.print(f"{section.name}: {perf_counter() - started:.0f} s", style="dim")
        if results is not None:
            write_document(results, section.name, circumstances, options.quick, data)
    return failed


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    console = make_console()
    results = options.results or (RESULTS if options.report or is_whole(options) else None)
    failed: list[str] = []
    if not options.report:
        with tempfile.TemporaryDirectory(prefix="lowtide-bench-", dir=options.directory) as place:
            try:
                machine.require_disk(Path(place))
            except machine.MemoryFilesystem as error:
                console.print(str(error), style="red")
                return 2
            started = perf_counter()
            failed = run(options, Path(place), results, console)
            console.print(f"{perf_counter() - started:.0f} s in all", style="dim")
    if results is not None:
        console.print(f"The report is {publish(results, SECTIONS)}.")
    if failed:
        console.print(f"Failed: {', '.join(failed)}.", style="red")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
