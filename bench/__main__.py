"""``python -m bench``: Lowtide beside sqlite3 and py-lmdb, interleaved, as ratios."""

import argparse
import gc
import json
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from time import perf_counter

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench import machine
from bench.documents import Dataset, total_revisions
from bench.peers import PEERS, SETTINGS, Durability, Peer, open_loaded
from bench.report import Figure, Figures, make_console, rates_table, settle_table, targets_table
from bench.workloads import BATCH_LENGTH, RANGE_LENGTH, WORKLOADS, Workload, measure


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rounds", type=int, help="rounds over all stores (default 15, quick 3)")
    parser.add_argument("--seconds", type=float, help="time of one store in one round (default 0.4, quick 0.25)")
    parser.add_argument("--quick", action="store_true", help="a rough answer within 90 seconds")
    parser.add_argument(
        "--only", action="append", metavar="WORKLOAD", choices=[w.name for w in WORKLOADS], help="repeatable"
    )
    parser.add_argument("--peers", default=",".join(PEERS), help="comma separated (default %(default)s)")
    parser.add_argument("--documents", type=int, default=100_000, help="documents in each store (default %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the raw figures and the circumstances here")
    parser.add_argument(
        "--directory", type=Path, help="where to put the stores, on a disk (default: the system's temporary directory)"
    )
    options = parser.parse_args(arguments)
    options.peers = options.peers.split(",")
    unknown = set(options.peers) - PEERS.keys()
    if unknown:
        parser.error(f"unknown peers {', '.join(sorted(unknown))}; there are {', '.join(PEERS)}")
    if options.documents <= RANGE_LENGTH:
        parser.error(f"--documents must be more than {RANGE_LENGTH}")
    # Many short rounds: a disturbance lasts for seconds, and should hit both sides of a ratio or few ratios.
    options.rounds = options.rounds or (3 if options.quick else 15)
    options.seconds = options.seconds or (0.25 if options.quick else 0.4)
    return options


class Bench:
    """The open stores of one run, and the figures so far."""

    def __init__(self, dataset: Dataset, directory: Path, peers: Sequence[str], seconds: float) -> None:
        self.figures = Figures()
        self._dataset = dataset
        self._directory = directory
        self._names = peers
        self._seconds = seconds
        self._open: dict[tuple[str, Durability], Peer] = {}

    def open(self, name: str, durability: Durability) -> None:
        if (name, durability) not in self._open:
            self._open[name, durability] = open_loaded(name, self._directory, durability, self._dataset.pairs)

    def close(self) -> None:
        for peer in self._open.values():
            peer.close()

    def run_round(self, workload: Workload, number: int) -> dict[str, int]:
        """Measure the workload once on every store; return how many read-modify-writes each has done."""
        modified = {}
        # Every store comes first, and after every other one, equally often.
        shift = number % len(self._names)
        for name in (*self._names[shift:], *self._names[:shift]):
            peer = self._open[name, workload.durability]
            # The garbage of one store is not to be collected in the time of the next.
            gc.collect()
            sample = measure(workload, peer, self._dataset, self._seconds, seed=number)
            stopped = perf_counter()
            peer.settle()
            settled = perf_counter() - stopped
            self.figures.add(Figure(workload.name, name, number, sample.rate, sample.beside, settled))
            modified[name] = sample.modified
        return modified

    def revisions(self, workload: Workload) -> dict[str, int]:
        """The sum of all documents' revisions in each store."""
        sums = {}
        for name in self._names:
            with closing(self._open[name, workload.durability].session()) as session:
                sums[name] = session.scan(total_revisions)
        return sums


def check_updates(workload: Workload, before: dict[str, int], after: dict[str, int], done: dict[str, int]) -> None:
    """A fast store that loses updates is not fast: every modification must be found in the documents."""
    for name, count in done.items():
        if after[name] - before[name] != count:
            found = after[name] - before[name]
            raise SystemExit(f"{name} lost updates in {workload.name}: {count} were made, {found} are found")


def run(bench: Bench, workloads: Sequence[Workload], peers: Sequence[str], rounds: int, console: Console) -> None:
    # No refresh thread: it would take the GIL from what is being measured.
    progress = Progress(
        TextColumn("{task.description:<52}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        auto_refresh=False,
        transient=True,
    )
    with progress:
        places = {(name, workload.durability) for workload in workloads for name in peers}
        task = progress.add_task("", total=len(places) + len(workloads) * rounds)
        for name, durability in sorted(places):
            progress.update(task, description=f"loading {name} ({durability})")
            progress.refresh()
            bench.open(name, durability)
            progress.advance(task)
        # The dataset stays until the end; walking it in each collection would cost all stores alike, for nothing.
        gc.collect()
        gc.freeze()
        for workload in workloads:
            progress.update(task, description=workload.title)
            progress.refresh()
            before = bench.revisions(workload) if workload.modifies else {}
            done = dict.fromkeys(peers, 0)
            for number in range(rounds):
                for name, count in bench.run_round(workload, number).items():
                    done[name] += count
                progress.advance(task)
                progress.refresh()
            if workload.modifies:
                check_updates(workload, before, bench.revisions(workload), done)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    console = make_console()
    workloads = [w for w in WORKLOADS if not options.only or w.name in options.only]
    with ExitStack() as stack:
        place = stack.enter_context(tempfile.TemporaryDirectory(prefix="lowtide-bench-", dir=options.directory))
        try:
            machine.require_disk(Path(place))
        except machine.MemoryFilesystem as error:
            console.print(str(error), style="red")
            return 2
        dataset = Dataset(options.documents, BATCH_LENGTH)
        circumstances = machine.describe(Path(place))
        bench = stack.enter_context(closing(Bench(dataset, Path(place), options.peers, options.seconds)))
        started = perf_counter()
        run(bench, workloads, options.peers, options.rounds, console)
        elapsed = perf_counter() - started

    console.print(rates_table(bench.figures, options.peers, options.rounds))
    for table in (settle_table(bench.figures, options.peers, options.seconds), targets_table(bench.figures)):
        if table is not None:
            console.print(table)
    console.print(
        f"{options.documents:,} documents, values decoded; {options.rounds} rounds of {options.seconds:g} s, "
        f"interleaved; {elapsed:.0f} s in all. Each store is brought to rest before each measurement: Lowtide by a "
        "checkpoint, so it reads from its B+tree; sqlite3 by a WAL checkpoint; py-lmdb by a sync. Unsynced work is on "
        "stores of its own; "
        + ", ".join(f"{name}: {SETTINGS[name, 'synced']} and {SETTINGS[name, 'unsynced']}" for name in options.peers)
        + ".",
        style="dim",
    )
    if options.json:
        settings = {name: getattr(options, name) for name in ("rounds", "seconds", "documents", "peers")}
        document = {
            "machine": circumstances,
            "settings": settings,
            "figures": bench.figures.as_data(),
            "targets": bench.figures.verdicts(),
        }
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
