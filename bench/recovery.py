"""``python -m bench.recovery``: how long a store takes to open after its owner was killed, per byte of log.

A child commits without a checkpoint until the log has the wanted length, and dies by SIGKILL. Copies of what it left
are opened in new processes. Each of them replays the whole log into the base. The files are in the page cache, so the
figures show the work of recovery and not the reading speed of a disk.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import lowtide
from bench import machine
from bench.documents import make_key
from bench.drawing import label, make_figure, save
from bench.fresh import in_fresh_process
from bench.section import Data, Finding, Grid, Plan

MB = 1_000_000
KEYS = 100_000
VALUE_BYTES = 150
LEAST_RATE = 50.0
MOST_BEND = 1.5
KINDS = {"commits of one put": 1, "commits of 1,000 puts": 1_000}
_NEVER = 1 << 60

_open: list[lowtide.Store] = []
"""Stores that must not be closed: one that is dropped makes its last checkpoint."""


@dataclass(frozen=True)
class Scale:
    sizes: tuple[float, ...]  # of the log, in MB
    rounds: int


FULL = Scale((10, 50, 100, 200), 3)
QUICK = Scale((2, 4, 8), 1)


def leave_log(directory: str, log_bytes: int, puts: int) -> Data:
    """Commit until the log has this many bytes; nothing of it goes to the base."""
    store = lowtide.open(directory, durability="relaxed", checkpoint_bytes=_NEVER, checkpoint_versions=_NEVER)
    _open.append(store)
    numbers = random.Random(1)
    commits = 0
    while puts * commits % 1000 or store.stats().log_bytes < log_bytes:
        with store.transaction() as transaction:
            put = transaction.keyspace("documents").put
            for number in numbers.choices(range(KEYS), k=puts):
                put(make_key(number), b"%0*d" % (VALUE_BYTES, commits))
        commits += 1
    return {"log_bytes": store.stats().log_bytes, "commits": commits}


def open_left(directory: str) -> Data:
    """Open what a killed owner left."""
    started, used = perf_counter(), process_time()
    store = lowtide.open(directory)
    seconds, used = perf_counter() - started, process_time() - used
    answer = {
        "seconds": seconds,
        "cpu_seconds": used,
        "resident_bytes": machine.resident_bytes(),
        "replayed": store.stats().last_commit,
    }
    store.close()
    return answer


def measure(plan: Plan, scale: Scale) -> Data:
    cells = [(kind, size) for kind in KINDS for size in scale.sizes]
    left: dict[tuple[str, float], Data] = {}
    steps = len(cells) * (1 + scale.rounds)
    for done, (kind, size) in enumerate(cells):
        plan.step(f"a log of {size:g} MB of {kind}", done / steps)
        place = plan.place / f"{KINDS[kind]}-{size:g}"
        left[kind, size] = in_fresh_process(
            leave_log, killed=True, directory=str(place), log_bytes=int(size * MB), puts=KINDS[kind]
        )
    samples = []
    for number in range(scale.rounds):
        for done, (kind, size) in enumerate(cells):
            plan.step(f"opening {size:g} MB of {kind}", (len(cells) * (1 + number) + done) / steps)
            origin, copy = plan.place / f"{KINDS[kind]}-{size:g}", plan.place / "copy"
            shutil.copytree(origin, copy, ignore=lambda folder, names: [n for n in names if _is_socket(folder, n)])
            opened = in_fresh_process(open_left, directory=str(copy))
            shutil.rmtree(copy)
            if opened["replayed"] != left[kind, size]["commits"]:
                raise SystemExit(f"{left[kind, size]['commits']} commits were made, {opened['replayed']} are found")
            samples.append({"kind": kind, "size": size, "round": number} | left[kind, size] | opened)
    return {"keys": KEYS, "value_bytes": VALUE_BYTES, "samples": samples}


def _is_socket(folder: str, name: str) -> bool:
    return (Path(folder) / name).is_socket()


@dataclass(frozen=True)
class Line:
    """One length of log: medians over the rounds."""

    kind: str
    size: float
    commits: int
    seconds: float
    cpu_seconds: float
    rate: float  # MB/s
    resident_bytes: float


def lines(data: Data) -> list[Line]:
    groups: dict[tuple[str, float], list[dict[str, Any]]] = {}
    for sample in data["samples"]:
        groups.setdefault((sample["kind"], sample["size"]), []).append(sample)
    return [
        Line(
            kind,
            size,
            found[0]["commits"],
            median(each["seconds"] for each in found),
            median(each["cpu_seconds"] for each in found),
            median(each["log_bytes"] / MB / each["seconds"] for each in found),
            median(each["resident_bytes"] for each in found),
        )
        for (kind, size), found in groups.items()
    ]


class Recovery:
    name = "recovery"
    title = "Opening after the owner was killed"

    def run(self, plan: Plan) -> Data:
        return measure(plan, QUICK if plan.quick else FULL)

    def grids(self, data: Data) -> list[Grid]:
        rows: list[tuple[str, ...]] = [
            (
                f"{line.kind}, {line.size:g} MB",
                f"{line.commits:,}",
                f"{line.seconds:.2f}",
                f"{line.cpu_seconds:.2f}",
                f"{line.rate:.0f}",
                f"{100 / line.rate:.2f}",
                f"{line.resident_bytes / 2**20:.0f}",
            )
            for line in lines(data)
        ]
        note = f"Puts of {data['value_bytes']} bytes to {data['keys']:,} keys; the files are in the page cache."
        return [Grid("Opening", ("log", "commits", "s", "CPU s", "MB/s", "s per 100 MB", "memory MiB"), rows, note)]

    def findings(self, data: Data) -> list[Finding]:
        found = []
        for kind in dict.fromkeys(line.kind for line in lines(data)):
            of_kind = [line for line in lines(data) if line.kind == kind]
            largest, reference = of_kind[-1], of_kind[min(1, len(of_kind) - 1)]
            found.append(
                Finding(
                    f"{kind}: at least {LEAST_RATE:g} MB of log a second",
                    f"{largest.rate:.0f} MB/s at {largest.size:g} MB",
                    largest.rate >= LEAST_RATE,
                    "" if largest.rate >= LEAST_RATE else "each commit is checked and decoded by itself, in Python",
                )
            )
            bend = reference.rate / largest.rate
            found.append(
                Finding(
                    f"{kind}: linear, a byte of the longest costs at most {MOST_BEND}x one of {reference.size:g} MB",
                    f"{bend:.2f}x",
                    bend <= MOST_BEND,
                )
            )
        return found

    def plot(self, data: Data, directory: Path) -> list[tuple[str, Path]]:
        figure, (axes,) = make_figure()
        for kind in dict.fromkeys(line.kind for line in lines(data)):
            of_kind = [line for line in lines(data) if line.kind == kind]
            axes.plot([line.size for line in of_kind], [line.seconds for line in of_kind], marker="o", label=kind)
        longest = max(line.size for line in lines(data))
        axes.plot([0, longest], [0, longest / LEAST_RATE], color="grey", ls="--", label=f"{LEAST_RATE:g} MB/s")
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False)
        label(axes, "seconds to open", "MB of log to replay")
        return [("Recovery is linear in the length of the log.", save(figure, directory, self.name))]


SECTION = Recovery()

if __name__ == "__main__":
    from bench import alone

    alone.main("recovery")
