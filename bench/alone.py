"""Runs one section of the benchmark by itself: ``python -m bench.<section>``."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from rich import box
from rich.console import Console
from rich.table import Table

from bench import machine
from bench.section import Grid, Plan, Section, Skipped


def main(name: str, arguments: Sequence[str] | None = None) -> None:
    """Run the section of the module ``bench.<name>``, or show what an earlier run of it has written."""
    # Imported by its name even if it is the main module: its steps are then found under that name in other processes.
    run(importlib.import_module(f"bench.{name}").SECTION, arguments)


def run(section: Section, arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog=f"python -m bench.{section.name}", description=section.title)
    parser.add_argument("--quick", action="store_true", help="a rough answer within seconds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the raw data here")
    parser.add_argument("--show", type=Path, metavar="FILE", help="measure nothing, show what --json wrote")
    parser.add_argument("--plots", type=Path, metavar="DIRECTORY", help="draw the plots here (needs matplotlib)")
    parser.add_argument("--directory", type=Path, help="where to put the stores, on a disk (default: a temporary one)")
    options = parser.parse_args(arguments)
    console = Console() if Console().is_terminal else Console(width=120)
    started = perf_counter()
    if options.show:
        data = json.loads(options.show.read_text())
    else:
        with tempfile.TemporaryDirectory(prefix="lowtide-bench-", dir=options.directory) as place:
            machine.require_disk(Path(place))
            try:
                data = section.run(Plan(Path(place), options.quick, _say))
            except Skipped as missing:
                console.print(f"{section.name}: skipped, {missing}.")
                return
    if options.json:
        options.json.write_text(json.dumps(data, indent=1) + "\n")
    for grid in section.grids(data):
        console.print(_table(grid))
    for finding in section.findings(data):
        console.print(f"{'met' if finding.met else 'MISSED':7} {finding.target}: {finding.measured} {finding.why}")
    if options.plots:
        options.plots.mkdir(parents=True, exist_ok=True)
        for caption, file in section.plot(data, options.plots):
            console.print(f"{file}: {caption}")
    console.print(f"{perf_counter() - started:.0f} s")


def _say(what: str, share: float) -> None:
    if sys.stderr.isatty():
        print(f"\r{share:4.0%} {what:<60}", end="\r", file=sys.stderr, flush=True)


def _table(grid: Grid) -> Table:
    table = Table(title=grid.title, caption=grid.note or None, title_justify="left", box=box.SIMPLE_HEAD)
    for number, heading in enumerate(grid.headings):
        table.add_column(heading, justify="right" if number else "left")
    for row in grid.rows:
        table.add_row(*row)
    return table
