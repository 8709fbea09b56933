"""``python -m bench.builds``: the compiled build compared with plain Python and py-lmdb, in CPU time.

Each runs in its own process: py-lmdb and plain Python with this interpreter, the compiled build with the one of
``.venv-compiled`` (``make compiled``). They hold the same data and take turns of a few milliseconds, so that a
disturbance affects all of them. It prints medians of CPU time, and medians of the ratios of neighbouring turns.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from time import process_time

import lowtide
from bench.documents import Dataset
from bench.peers import open_loaded
from bench.workloads import WORKLOADS
from lowtide.system.build import BUILD

ROOT = Path(__file__).resolve().parents[1]
COMPILED = ROOT / ".venv-compiled" / "bin" / "python"
NAMES = ("fast-read", "point-read", "range", "scan", "rmw-unsynced", "batch", "batch-ascending")
STATEMENTS = ("find_one", "update_one", "insert_one", "insert_many")
SIZES = {"fast-read": 16, "point-read": 8, "range": 16, "rmw-unsynced": 16}
"""Portions of a workload in one turn; 1 of all others."""
_CALLS = 300

Turn = Callable[[], int]
"""Does some work, and returns how many operations that was."""


def turns_of_keys(peer_name: str, directory: Path, dataset: Dataset, open_stores: ExitStack) -> dict[str, Turn]:
    """The workloads of the comparison, on one store without syncs: a sync takes no CPU time."""
    peer = open_loaded(peer_name, directory, "unsynced", dataset.pairs)
    open_stores.callback(peer.close)
    session = peer.session()

    def turn(name: str) -> Turn:
        role = next(each for each in WORKLOADS if each.name == name).roles[0]
        portions = itertools.cycle(role.portions(dataset, 1))

        def run() -> int:
            return sum(role.step(dataset, session, next(portions)) for _ in range(SIZES.get(name, 1)))

        return run

    def settle() -> int:
        peer.settle()
        return 1

    return {name: turn(name) for name in NAMES} | {"settle": settle}


def turns_of_documents(directory: Path, open_stores: ExitStack) -> dict[str, Turn]:
    """Statements on documents of 16 fields, without indexes, inside a transaction."""
    store = open_stores.enter_context(lowtide.open(directory / "statements", durability="relaxed"))
    ids = itertools.count()

    def document() -> dict[str, object]:
        number = next(ids)
        return {"_id": number, "name": f"n{number}", "age": number % 90, **{f"f{at}": at * number for at in range(13)}}

    store["users"].insert_many([document() for _ in range(5000)])
    store.checkpoint()

    def find_one() -> int:
        with store.transaction(read_only=True) as tx:
            for number in range(_CALLS):
                tx["users"].find_one({"_id": number})
        return _CALLS

    def update_one() -> int:
        with store.transaction() as tx:
            for number in range(_CALLS):
                tx["users"].update_one({"_id": number}, {"$set": {"name": "x"}, "$inc": {"age": 1}})
        return _CALLS

    def insert_one() -> int:
        with store.transaction() as tx:
            for _ in range(_CALLS):
                tx["users"].insert_one(document())
        return _CALLS

    def insert_many() -> int:
        with store.transaction() as tx:
            tx["users"].insert_many([document() for _ in range(_CALLS)])
        return _CALLS

    return {"find_one": find_one, "update_one": update_one, "insert_one": insert_one, "insert_many": insert_many}


def serve(peer_name: str, documents: int) -> None:
    """Take the names of turns from standard input, and answer with the microseconds of CPU for an operation."""
    with tempfile.TemporaryDirectory() as place, ExitStack() as open_stores:
        turns = turns_of_keys(peer_name, Path(place), Dataset(documents, 10_000), open_stores)
        if peer_name == "lowtide":
            turns |= turns_of_documents(Path(place), open_stores)
        gc.collect()
        gc.freeze()
        print(BUILD, flush=True)
        for line in sys.stdin:
            run = turns[line.strip()]
            gc.collect()
            start = process_time()
            operations = run()
            spent = process_time() - start
            if line.strip() in ("rmw-unsynced", "batch", "batch-ascending"):
                turns["settle"]()
            print(spent / operations * 1e6, flush=True)


class Side:
    """One side of the comparison, in its own process."""

    def __init__(self, python: Path | str, peer_name: str, documents: int, build: str) -> None:
        self._process = subprocess.Popen(
            [python, "-m", "bench.builds", "--serve", peer_name, "--documents", str(documents)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": ""} if build == "compiled" else None,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        found = self._line()
        if found != build:
            raise SystemExit(f"{python} runs the build {found!r}, not {build!r}")

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def run(self, name: str) -> float:
        assert self._process.stdin is not None
        print(name, file=self._process.stdin, flush=True)
        return float(self._line())

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def compare(sides: dict[str, Side], name: str, rounds: int) -> dict[str, list[float]]:
    """The microseconds of each side in each round, after a warm-up round."""
    found: dict[str, list[float]] = {side: [] for side in sides}
    for number in range(rounds + 1):
        for side in sides if number % 2 else reversed(sides):
            spent = sides[side].run(name)
            if number:
                found[side].append(spent)
    return found


def ratio(found: dict[str, list[float]], of: str, to: str) -> str:
    """How many times as fast ``of`` is as ``to``."""
    if of not in found or to not in found:
        return "–"
    return f"{median(other / one for one, other in zip(found[of], found[to], strict=True)):.2f}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.builds", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--documents", type=int, default=50_000)
    parser.add_argument("--only", action="append", choices=[*NAMES, *STATEMENTS])
    parser.add_argument("--compiled", default=str(COMPILED), help="the interpreter that has the compiled build")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        serve(options.serve, options.documents)
        return
    pure, compiled = "pure Python", "compiled"
    sides = {
        "py-lmdb": Side(sys.executable, "py-lmdb", options.documents, pure),
        pure: Side(sys.executable, "lowtide", options.documents, pure),
        compiled: Side(options.compiled, "lowtide", options.documents, compiled),
    }
    from bench.report import make_console, make_table  # not needed, and not all installed, in the sides' processes

    gains = ["pure to py-lmdb", "compiled to py-lmdb", "compiled to pure"]
    table = make_table("Microseconds of CPU, and how many times as fast", ["work"], [*sides, *gains])
    for name in options.only or [*NAMES, *STATEMENTS]:
        chosen = sides if name in NAMES else {pure: sides[pure], compiled: sides[compiled]}
        found = compare(chosen, name, options.rounds)
        figures = [f"{median(found[side]):.2f}" if side in found else "–" for side in sides]
        gained = [ratio(found, pure, "py-lmdb"), ratio(found, compiled, "py-lmdb"), ratio(found, compiled, pure)]
        table.add_row(name, *figures, *gained)
    for side in sides.values():
        side.close()
    make_console().print(table)


if __name__ == "__main__":
    main()
