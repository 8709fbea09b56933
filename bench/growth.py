"""``python -m bench.growth``: what each operation costs as the store grows from ten thousand keys to ten million.

One process has the stores of all sizes open, and for each a plain LMDB environment with the same pairs. Each round
covers all of them. The environment shows what the B+tree itself needs for more keys (deeper pages, more cache misses,
more pages to write): the cost of an operation may grow by a small factor, or a little more than LMDB's own.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from time import perf_counter

import lmdb

import lowtide
from bench.drawing import label, make_figure, save
from bench.fresh import in_fresh_process
from bench.section import Data, Finding, Grid, Plan

VALUE_BYTES = 100
RANGE_LENGTH = 100
CHANGED = 10_000
MOST_GROWTH = 3.0
MOST_BESIDE = 1.5
_LOAD_LENGTH = 10_000
_MAP_BYTES = 64 << 30
_READS, _RANGES, _FEW = 2_000, 50, 3
_WARM = 100_000

REASONS = {"opening": "the log's last segment is read whole, and a small store has a small one"}
"""Why an operation may be found to grow."""

Step = Callable[[], float]
"""Do something a few times; the seconds that one of them took."""


@dataclass(frozen=True)
class Scale:
    sizes: tuple[int, ...]
    rounds: int


FULL = Scale((10_000, 100_000, 1_000_000, 10_000_000), 15)
QUICK = Scale((10_000, 100_000), 2)

OPERATIONS = {
    "point read": "get",
    "fast path": "get",
    "range of 100": "range",
    "read-modify-write": "get",
    "begin and end": None,
    "pin and unpin": "write",
    "checkpoint": "write many",
    "opening": "opening",
    "stats": None,
}
"""What is measured of Lowtide, and what LMDB does in it, which is measured beside it."""


def key_of(number: int) -> bytes:
    return b"document-%08d" % number


def value_of(serial: int) -> bytes:
    return b"%0*d" % (VALUE_BYTES, serial)


def load_lowtide(directory: str, keys: int) -> Data:
    """Load in transactions of ten thousand, so that memory does not depend on the number of keys."""
    started = perf_counter()
    with lowtide.open(directory, durability="relaxed") as store:
        for start in range(0, keys, _LOAD_LENGTH):
            with store.transaction() as transaction:
                put = transaction.keyspace("documents").put
                for number in range(start, min(start + _LOAD_LENGTH, keys)):
                    put(key_of(number), value_of(number))
    return {"seconds": perf_counter() - started}


def load_lmdb(directory: str, keys: int) -> Data:
    started = perf_counter()
    with lmdb.open(directory, map_size=_MAP_BYTES, sync=False) as environment:
        for start in range(0, keys, _WARM):
            with environment.begin(write=True) as transaction:
                numbers = range(start, min(start + _WARM, keys))
                transaction.cursor().putmulti([(key_of(n), value_of(n)) for n in numbers], append=True)
        environment.sync(True)
    return {"seconds": perf_counter() - started}


def average(repeats: int, action: Callable[[], object]) -> float:
    started = perf_counter()
    for _ in range(repeats):
        action()
    return (perf_counter() - started) / repeats


class LowtideSteps:
    """One store, and its operations."""

    def __init__(self, directory: Path, keys: int) -> None:
        self._directory, self._keys = directory, keys
        self._random = random.Random(keys)
        self._serials = count(1)
        self._store = lowtide.open(directory, durability="relaxed")
        self._documents = self._store.keyspace("documents")
        self.steps: dict[str, Step] = {
            "point read": lambda: self._each_random(self._read),
            "fast path": lambda: self._each_random(self._documents.get),
            "range of 100": self._range,
            "read-modify-write": self._modify_all,
            "begin and end": lambda: average(_READS, lambda: self._store.begin().rollback()),
            "pin and unpin": lambda: average(_FEW, self._pin),
            "checkpoint": self._checkpoint,
            "stats": lambda: average(20, self._store.stats),
        }

    def warm(self) -> None:
        for key in self._chosen(_WARM):
            self._documents.get(key)

    def _chosen(self, length: int) -> Iterator[bytes]:
        return map(key_of, self._random.choices(range(self._keys), k=length))

    def _each_random(self, action: Callable[[bytes], object]) -> float:
        keys = list(self._chosen(_READS))
        started = perf_counter()
        for key in keys:
            action(key)
        return (perf_counter() - started) / len(keys)

    def _read(self, key: bytes) -> bytes | None:
        with self._store.transaction(read_only=True) as transaction:
            return transaction.keyspace("documents").get(key)

    def _range(self) -> float:
        starts = self._random.choices(range(self._keys - RANGE_LENGTH), k=_RANGES)
        bounds = [(key_of(start), key_of(start + RANGE_LENGTH)) for start in starts]
        started = perf_counter()
        for start, stop in bounds:
            with self._store.transaction(read_only=True) as transaction:
                if sum(1 for _ in transaction.keyspace("documents").scan(start, stop)) != RANGE_LENGTH:
                    raise SystemExit("a range is incomplete")
        return (perf_counter() - started) / _RANGES

    def _modify(self, key: bytes) -> None:
        with self._store.transaction() as transaction:
            documents = transaction.keyspace("documents")
            if documents.get(key) is None:
                raise SystemExit("a key is missing")
            documents.put(key, value_of(next(self._serials)))

    def _modify_all(self) -> float:
        seconds = self._each_random(self._modify)
        self._store.checkpoint()
        return seconds

    def _pin(self) -> None:
        self._store.pin("growth", ttl=60)
        self._store.unpin("growth")

    def _checkpoint(self) -> float:
        numbers = self._random.sample(range(self._keys), k=min(CHANGED, self._keys))
        with self._store.transaction() as transaction:
            put = transaction.keyspace("documents").put
            for number in numbers:
                put(key_of(number), value_of(next(self._serials)))
        started = perf_counter()
        self._store.checkpoint()
        return perf_counter() - started

    def reopen(self) -> float:
        self._store.close()
        started = perf_counter()
        self._store = lowtide.open(self._directory, durability="relaxed")
        seconds = perf_counter() - started
        self._documents = self._store.keyspace("documents")
        return seconds

    def close(self) -> None:
        self._store.close()


class LmdbSteps:
    """The same pairs in plain LMDB."""

    def __init__(self, directory: Path, keys: int) -> None:
        self._directory, self._keys = directory, keys
        self._random = random.Random(keys)
        self._serials = count(1)
        self._environment = self._open()
        self.steps: dict[str, Step] = {
            "get": self._get,
            "range": self._range,
            "write": lambda: 2 * average(_FEW, lambda: self._write(1)),  # a pin is written, and removed
            "write many": lambda: average(1, lambda: self._write(CHANGED)),
        }

    def _open(self) -> lmdb.Environment:
        return lmdb.open(str(self._directory), map_size=_MAP_BYTES)

    def warm(self) -> None:
        with self._environment.begin() as transaction:
            for number in self._random.choices(range(self._keys), k=_WARM):
                transaction.get(key_of(number))

    def _get(self) -> float:
        keys = list(map(key_of, self._random.choices(range(self._keys), k=_READS)))
        started = perf_counter()
        for key in keys:
            with self._environment.begin() as transaction:
                transaction.get(key)
        return (perf_counter() - started) / len(keys)

    def _range(self) -> float:
        starts = [key_of(n) for n in self._random.choices(range(self._keys - RANGE_LENGTH), k=_RANGES)]
        started = perf_counter()
        for start in starts:
            with self._environment.begin() as transaction:
                cursor = transaction.cursor()
                cursor.set_range(start)
                for _ in zip(range(RANGE_LENGTH), cursor, strict=False):
                    pass
        return (perf_counter() - started) / _RANGES

    def _write(self, length: int) -> None:
        numbers = sorted(self._random.sample(range(self._keys), k=min(length, self._keys)))
        with self._environment.begin(write=True) as transaction:
            transaction.cursor().putmulti([(key_of(n), value_of(next(self._serials))) for n in numbers])

    def reopen(self) -> float:
        self._environment.close()
        started = perf_counter()
        self._environment = self._open()
        with self._environment.begin() as transaction:
            transaction.get(key_of(0))
        return perf_counter() - started

    def close(self) -> None:
        self._environment.close()


Measured = tuple[str, int, LowtideSteps | LmdbSteps]


def _rotated(measured: list[Measured], number: int) -> list[Measured]:
    shift = number % len(measured)
    return [*measured[shift:], *measured[:shift]]


def measure_all(places: dict[str, str], rounds: int) -> Data:
    """Rounds over all sizes, given as text with the directory that holds both stores of that size."""
    samples = []
    with ExitStack() as stack:
        measured: list[Measured] = []
        for size, directory in places.items():
            for name, make in (("lowtide", LowtideSteps), ("lmdb", LmdbSteps)):
                opened = stack.enter_context(closing(make(Path(directory) / name, int(size))))
                measured.append((name, int(size), opened))
        for number in range(rounds):  # by itself: it takes the caches and the checkpoint's helper with it
            for name, keys, opened in _rotated(measured, number):
                samples.append([name, "opening", keys, number, opened.reopen()])
        for _, _, opened in measured:
            opened.warm()
        for number in range(-1, rounds):  # the first is for warming up
            for name, keys, opened in _rotated(measured, number):
                for operation, step in opened.steps.items():
                    seconds = step()
                    if number >= 0:
                        samples.append([name, operation, keys, number, seconds])
    return {"samples": samples}


def measure(plan: Plan, scale: Scale) -> Data:
    loads = []
    total = sum(scale.sizes)
    for number, size in enumerate(scale.sizes):
        place = plan.place / str(size)
        place.mkdir()
        for name, load in (("lowtide", load_lowtide), ("lmdb", load_lmdb)):
            plan.step(f"loading {size:,} keys into {name}", sum(scale.sizes[:number]) / total / 2)
            loads.append([name, size, in_fresh_process(load, directory=str(place / name), keys=size)["seconds"]])
    plan.step("measuring", 0.5)
    places = {str(size): str(plan.place / str(size)) for size in scale.sizes}
    measured = in_fresh_process(measure_all, places=places, rounds=scale.rounds)
    for size in scale.sizes:
        shutil.rmtree(plan.place / str(size))
    return {"value_bytes": VALUE_BYTES, "changed": CHANGED, "loads": loads} | measured


Costs = dict[tuple[str, str, int], float]
"""The median cost in seconds of: store, operation, keys."""


def costs(data: Data) -> Costs:
    groups: dict[tuple[str, str, int], list[float]] = {}
    for name, operation, keys, _, seconds in data["samples"]:
        groups.setdefault((name, operation, keys), []).append(seconds)
    return {place: median(found) for place, found in groups.items()}


def sizes_of(data: Data) -> list[int]:
    return sorted({keys for _, keys, _ in data["loads"]})


def growth(found: Costs, store: str, operation: str, sizes: list[int]) -> float:
    return found[store, operation, sizes[-1]] / found[store, operation, sizes[0]]


def allowed_growth(found: Costs, operation: str, sizes: list[int]) -> float:
    """The most that an operation may grow by: a factor, or in proportion to LMDB's own part in it."""
    beside = OPERATIONS[operation]
    return MOST_GROWTH if beside is None else max(MOST_GROWTH, MOST_BESIDE * growth(found, "lmdb", beside, sizes))


def in_units(seconds: float) -> str:
    """
    >>> in_units(2.5e-6), in_units(0.0123), in_units(1.5)
    ('2.5 us', '12 ms', '1.5 s')
    """
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * factor >= 1 or unit == "us":
            shown = seconds * factor
            return f"{shown:.1f} {unit}" if shown < 10 else f"{shown:.0f} {unit}"
    raise AssertionError


class Growth:
    name = "growth"
    title = "Costs as the store grows"

    def run(self, plan: Plan) -> Data:
        return measure(plan, QUICK if plan.quick else FULL)

    def grids(self, data: Data) -> list[Grid]:
        found, sizes = costs(data), sizes_of(data)
        headings = ("operation", *(f"{size:,} keys" for size in sizes), "grows by")
        tables = []
        for title, name in (("Lowtide", "lowtide"), ("Plain LMDB, the same pairs", "lmdb")):
            operations = list(dict.fromkeys(operation for which, operation, _ in found if which == name))
            rows = []
            for operation in operations:
                line = [found[name, operation, size] for size in sizes]
                rows.append((operation, *map(in_units, line), f"{line[-1] / line[0]:.2f}x"))
            tables.append(Grid(f"{title}: median cost of one", headings, rows))
        loads = ", ".join(
            f"{keys:,} keys in {seconds:.0f} s" for name, keys, seconds in data["loads"] if name == "lowtide"
        )
        note = (
            f"Random keys, values of {data['value_bytes']} bytes, unsynced commits; a checkpoint is of "
            f"{data['changed']:,} changed keys. Loading took Lowtide: {loads}."
        )
        return [Grid(tables[0].title, tables[0].headings, tables[0].rows, note), tables[1]]

    def findings(self, data: Data) -> list[Finding]:
        found, sizes = costs(data), sizes_of(data)
        answers = []
        for operation, beside in OPERATIONS.items():
            most, grown = allowed_growth(found, operation, sizes), growth(found, "lowtide", operation, sizes)
            unless = f", or {MOST_BESIDE:g}x as much as LMDB's {beside}" if beside else ""
            answers.append(
                Finding(
                    f"{operation}, from {sizes[0]:,} to {sizes[-1]:,} keys: grows by at most {MOST_GROWTH:g}x{unless}",
                    f"{grown:.2f}x, allowed {most:.2f}x",
                    grown <= most,
                    "" if grown <= most else REASONS.get(operation, ""),
                )
            )
        return answers

    def plot(self, data: Data, directory: Path) -> list[tuple[str, Path]]:
        found, sizes = costs(data), sizes_of(data)
        figure, (ours, beside) = make_figure(2, height=4.2)
        for axes, name, title in ((ours, "lowtide", "Lowtide"), (beside, "lmdb", "plain LMDB, the same pairs")):
            for operation in dict.fromkeys(operation for which, operation, _ in found if which == name):
                axes.plot(sizes, [found[name, operation, size] for size in sizes], marker="o", label=operation)
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.legend(frameon=False, fontsize="x-small")
            label(axes, title, "keys", "seconds")
        return [("The cost of one operation by the number of keys.", save(figure, directory, self.name))]


SECTION = Growth()

if __name__ == "__main__":
    from bench import alone

    alone.main("growth")
