"""``python -m tests.soak --minutes 5``: runs a soak, shows its progress and its result; the exit code is 0 or 1."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table

from tests.soak.director import Director, Plan, Result
from tests.soak.faults import FAULTS
from tests.soak.flatness import RATIO, SLACK

_SHOWN = {
    "ack": "commits acknowledged",
    "commit": "commits shown by the feed",
    "seen": "snapshots read whole",
    "retried": "conflicts and expired snapshots",
    "opened": "owners opened",
}


def table_of(result: Result, left: float | None = None) -> Table:
    title = f"soak, seed {result.seed}" + (f", {left:.0f} s left" if left is not None else "")
    table = Table(title=title, show_header=False)
    for kind, words in _SHOWN.items():
        table.add_row(words, f"{result.counts[kind]:,}")
    for kind in sorted(result.counts):
        if kind.startswith(("did: ", "kills of ", "refused: ")):
            table.add_row(kind.removeprefix("did: "), f"{result.counts[kind]:,}")
    table.add_row("slowest opening", f"{result.slowest_opening:.2f} s")
    return table


def show_end(console: Console, result: Result, directory: Path) -> None:
    console.print(table_of(result))
    for verdict in result.flatness:
        mark = "[green]flat[/]" if verdict.flat else "[red]not flat[/]"
        slack = SLACK[verdict.what] >> 20
        console.print(f"{verdict}: {mark} (limit: {RATIO} times the second quarter, and {slack} MiB)")
    if not result.flatness and result.broken is None:
        console.print("too short to say whether memory and disk are flat")
    if result.broken is not None:
        console.print(f"[red]broken[/]: {result.broken.invariant}")
        console.print(result.broken.found, markup=False)
        console.print(f"what is left is in {directory}")
    verdict_words = "[green]passed[/]" if result.passed else "[red]failed[/]"
    console.print(f"{verdict_words} after {result.seconds:.0f} s; repeat with --seed {result.seed}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=None, help="what is drawn at random; the order of threads is not")
    parser.add_argument("--directory", type=Path, default=None, help="where the store is made; a temporary one if not")
    parser.add_argument("--fault", choices=sorted(FAULTS), default="", help="break the engine, and see it convicted")
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1 << 31)
    directory = given.directory or Path(tempfile.mkdtemp(prefix="lowtide-soak-"))
    directory.mkdir(parents=True, exist_ok=True)
    plan = Plan(seconds=given.minutes * 60, seed=seed, directory=directory, fault=given.fault)
    console = Console()
    console.print(f"a soak of {given.minutes:g} minutes with seed {seed} in {directory}")
    with Live(console=console, refresh_per_second=2, transient=True) as live:
        result = Director(plan, lambda so_far, left: live.update(table_of(so_far, left))).run()
    show_end(console, result, directory)
    if result.passed and given.directory is None:
        shutil.rmtree(directory)
    return 0 if result.passed else 1


if __name__ == "__main__":
    sys.exit(main())
