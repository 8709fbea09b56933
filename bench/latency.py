"""``python -m bench.latency``: how long a commit takes, with and without work in the background.

Without: no checkpoint and no collection runs while commits are measured. With: a checkpoint is due every few thousand
commits, a hundred times as often as by default, in a thread or in the helper process. A snapshot that is renewed
constantly gives the collector work. The stores take turns, and each is brought to rest after its turn, which is not
timed.

A latency is stored as the number of its bucket, each 2 % wider than the one before: the data are a histogram.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import accumulate
from math import ceil, log
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import lowtide
from bench.documents import make_key
from bench.drawing import label, make_figure, save
from bench.fresh import in_fresh_process
from bench.section import Data, Finding, Grid, Plan
from lowtide.options import OpenOptions

MOST = 3.0
WIDTH = 1.02
VALUE_BYTES = 150
LOAD_LENGTH = 10_000
SNAPSHOT_COMMITS = 500
DURABILITIES = {"synced": "full", "unsynced": "relaxed"}
WORKS = ("put", "read-modify-write")
QUIET = "off"
BACKGROUNDS: dict[str, OpenOptions] = {
    QUIET: {"checkpoint_bytes": 1 << 60, "checkpoint_versions": 1 << 60, "collect_threshold": 1 << 60},
    "thread": {"checkpointer": "thread", "collect_threshold": 100},
    "process": {"checkpointer": "process", "collect_threshold": 100},
    "auto": {"checkpointer": "auto", "collect_threshold": 100},
}


@dataclass(frozen=True)
class Scale:
    keys: int
    rounds: int
    commits: dict[str, int]  # in one turn, by durability
    every: dict[str, int]  # commits from one checkpoint to the next
    backgrounds: tuple[str, ...]


FULL = Scale(100_000, 10, {"synced": 1_500, "unsynced": 20_000}, {"synced": 500, "unsynced": 5_000}, tuple(BACKGROUNDS))
QUICK = Scale(
    10_000, 2, {"synced": 200, "unsynced": 5_000}, {"synced": 100, "unsynced": 2_000}, (QUIET, "thread", "process")
)


def bucket_of(seconds: float) -> int:
    """Bucket ``n`` holds what takes longer than ``WIDTH ** (n - 1)`` nanoseconds, up to ``WIDTH ** n``.

    >>> bucket_of(1e-9), upper_bound(bucket_of(1e-3)) / 1e-3 < WIDTH
    (0, True)
    """
    return max(0, ceil(log(max(seconds, 1e-9) * 1e9, WIDTH) - 1e-9))


def upper_bound(bucket: int) -> float:
    return float(WIDTH**bucket) * 1e-9


def quantile(histogram: Counter[int], share: float) -> float:
    """The latency in seconds that this share of the commits did not exceed."""
    wanted = share * histogram.total()
    buckets = sorted(histogram)
    for bucket, seen in zip(buckets, accumulate(histogram[each] for each in buckets), strict=True):
        if seen >= wanted:
            return upper_bound(bucket)
    raise ValueError("no commits")


class Writer:
    """A store, and timed commits to it."""

    def __init__(self, directory: Path, durability: str, background: str, keys: int, every: int) -> None:
        options = BACKGROUNDS[background].copy()
        options.setdefault("checkpoint_versions", every)
        options["durability"] = "full" if durability == "synced" else "relaxed"
        self._store = lowtide.open(directory, **options)
        self._documents = self._store.keyspace("documents")
        self._numbers = range(keys)
        self._random = random.Random(1)
        self._serial = 0
        for start in range(0, keys, LOAD_LENGTH):
            with self._store.transaction() as transaction:
                put = transaction.keyspace("documents").put
                for number in range(start, min(start + LOAD_LENGTH, keys)):
                    put(make_key(number), b"%0*d" % (VALUE_BYTES, 0))
        self._store.checkpoint()

    def turn(self, work: str, commits: int) -> Data:
        """Make the commits, beside a snapshot that is renewed now and then, and come to rest."""
        commit: Callable[[bytes, bytes], None] = self._documents.put if work == "put" else self._modify
        keys = [make_key(number) for number in self._random.choices(self._numbers, k=commits)]
        before = self._store.stats()
        latencies = []
        clock = perf_counter
        started = clock()
        snapshot = self._store.snapshot()
        for number, key in enumerate(keys):
            if number % SNAPSHOT_COMMITS == 0:
                snapshot.close()
                snapshot = self._store.snapshot()
            self._serial += 1
            value = b"%0*d" % (VALUE_BYTES, self._serial)
            begun = clock()
            commit(key, value)
            latencies.append(clock() - begun)
        snapshot.close()
        seconds = clock() - started
        after = self._store.stats()
        self._store.checkpoint()
        self._store.collect_garbage()
        histogram = Counter(map(bucket_of, latencies))
        return {
            "seconds": seconds,
            "longest": max(latencies),
            "histogram": sorted(histogram.items()),
            "checkpoints": after.checkpoints - before.checkpoints,
            "collected": after.collected - before.collected,
        }

    def _modify(self, key: bytes, value: bytes) -> None:
        with self._store.transaction() as transaction:
            documents = transaction.keyspace("documents")
            if documents.get(key) is None:
                raise SystemExit("a key is missing")
            documents.put(key, value)

    def close(self) -> None:
        self._store.close()


def measure_durability(
    directory: str, durability: str, backgrounds: list[str], keys: int, every: int, commits: int, rounds: int
) -> Data:
    """All stores of one durability in one process, in turns."""
    turns = []
    with ExitStack() as stack:
        writers = []
        for background in backgrounds:
            writer = Writer(Path(directory) / f"{durability}-{background}", durability, background, keys, every)
            stack.callback(writer.close)
            writers.append((background, writer))
        for number in range(-1, rounds):  # the first is for warming up: the helper process starts in it
            for work in WORKS:
                shift = number % len(writers)
                for background, writer in (*writers[shift:], *writers[:shift]):
                    turn = writer.turn(work, commits)
                    place = {"durability": durability, "work": work, "background": background, "round": number}
                    if number >= 0:
                        turns.append(place | turn)
    return {"turns": turns}


def measure(plan: Plan, scale: Scale) -> Data:
    turns = []
    for number, durability in enumerate(DURABILITIES):
        plan.step(f"{durability} commits", number / len(DURABILITIES))
        turns += in_fresh_process(
            measure_durability,
            directory=str(plan.place),
            durability=durability,
            backgrounds=list(scale.backgrounds),
            keys=scale.keys,
            every=scale.every[durability],
            commits=scale.commits[durability],
            rounds=scale.rounds,
        )["turns"]
    return {"keys": scale.keys, "value_bytes": VALUE_BYTES, "every": scale.every, "turns": turns}


Place = tuple[str, str, str]
"""Durability, work and background."""


def by_place(data: Data) -> dict[Place, list[dict[str, Any]]]:
    places: dict[Place, list[dict[str, Any]]] = {}
    for turn in data["turns"]:
        places.setdefault((turn["durability"], turn["work"], turn["background"]), []).append(turn)
    return places


def histogram_of(turns: list[dict[str, Any]]) -> Counter[int]:
    total: Counter[int] = Counter()
    for turn in turns:
        total.update(dict(turn["histogram"]))
    return total


def paired_ratio(busy: list[dict[str, Any]], quiet: list[dict[str, Any]], share: float) -> float:
    """The median over the rounds of one quantile relative to that of the same round without background work."""
    return median(
        quantile(histogram_of([one]), share) / quantile(histogram_of([other]), share)
        for one, other in zip(busy, quiet, strict=True)
    )


def _shown(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f}"


class Latency:
    name = "latency"
    title = "Commit latency, with and without background work"

    def run(self, plan: Plan) -> Data:
        return measure(plan, QUICK if plan.quick else FULL)

    def grids(self, data: Data) -> list[Grid]:
        rows = []
        for (durability, work, background), turns in by_place(data).items():
            histogram = histogram_of(turns)
            rows.append(
                (
                    f"{durability} {work}, {background}",
                    *(_shown(quantile(histogram, share)) for share in (0.5, 0.99, 0.999)),
                    _shown(max(turn["longest"] for turn in turns)),
                    f"{histogram.total():,}",
                    f"{sum(turn['checkpoints'] for turn in turns)}",
                    f"{sum(turn['collected'] for turn in turns):,}",
                )
            )
        headings = (
            "commits, background",
            "p50 us",
            "p99 us",
            "p99.9 us",
            "longest us",
            "commits",
            "checkpoints",
            "collected",
        )
        every = ", ".join(f"{number:,} {name} commits" for name, number in data["every"].items())
        size = f"{data['keys']:,} keys, values of {data['value_bytes']} bytes."
        note = f"One thread; a checkpoint is due after {every}. {size}"
        return [Grid("Latency of a commit, all rounds together", headings, rows, note)]

    def findings(self, data: Data) -> list[Finding]:
        found = []
        places = by_place(data)
        for (durability, work, background), turns in places.items():
            if background == QUIET:
                continue
            quiet = places[durability, work, QUIET]
            ratio = paired_ratio(turns, quiet, 0.99)
            beyond = quantile(histogram_of(turns), 0.999) / quantile(histogram_of(quiet), 0.999)
            found.append(
                Finding(
                    f"{durability} {work}: p99 with background work ({background}) at most {MOST:g}x without",
                    f"{ratio:.2f}x (p99.9 {beyond:.1f}x)",
                    ratio <= MOST,
                    "" if ratio <= MOST else "the checkpoint's thread and the commit wait for each other's GIL",
                )
            )
        return found

    def plot(self, data: Data, directory: Path) -> list[tuple[str, Path]]:
        places = by_place(data)
        kinds = list(dict.fromkeys((durability, work) for durability, work, _ in places))
        figure, panels = make_figure(2, (len(kinds) + 1) // 2)
        for axes, (durability, work) in zip(panels, kinds, strict=False):
            for (of_durability, of_work, background), turns in places.items():
                if (of_durability, of_work) != (durability, work):
                    continue
                histogram = histogram_of(turns)
                buckets = sorted(histogram)
                beyond = [histogram.total() - seen for seen in accumulate(histogram[bucket] for bucket in buckets)]
                micros = [upper_bound(bucket) * 1e6 for bucket in buckets[:-1]]
                axes.plot(micros, [left / histogram.total() for left in beyond[:-1]], label=background)
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.axhline(0.01, color="grey", lw=0.8, ls=":")
            label(axes, f"{durability} {work}", "microseconds", "share of commits that take longer")
            axes.legend(frameon=False, fontsize="small", title="background work", title_fontsize="small")
        caption = "The share of commits that take longer than a given time; the dotted line is p99."
        return [(caption, save(figure, directory, self.name))]


SECTION = Latency()

if __name__ == "__main__":
    from bench import alone

    alone.main("latency")
