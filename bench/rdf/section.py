"""``python -m bench.rdf``: RDF graphs, compared with other rdflib stores and with pyoxigraph.

All stores hold the same generated graph, in two sizes, and do the same work, interleaved. The answers to every query
are compared: an answer that differs ends the run. Afterwards Lowtide alone loads files with the command line in a new
process, to check that its memory does not grow with the file, and runs the selective queries in graphs of growing size.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from time import perf_counter

from bench import comparison
from bench.drawing import label, make_figure, save
from bench.figures import BASE, Figure, Figures
from bench.promises import Promises
from bench.rdf import STORES
from bench.rdf.growing import measure_growth, peak_of_load
from bench.rdf.people import QUERIES, make_triples, write_ntriples
from bench.rdf.protocol import Graph
from bench.rdf.targets import findings, query_mean
from bench.rdf.workloads import ADDS, Line, Subject, clock_of, lines_of, repeated
from bench.registry import Durability
from bench.report import times
from bench.section import Data, Finding, Grid, Plan, Skipped
from bench.stores import undisturbed, unwalked
from bench.timing import turns


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    sizes: tuple[int, ...]
    """Triples of the graphs that all stores hold."""
    rounds: tuple[int, ...]
    """Of each size; slow stores take part in the first alone."""
    seconds: float
    """Of one store in one round, for work that is shorter than that."""
    growth: tuple[int, ...]
    """Triples of the graphs that Lowtide alone is asked the selective queries in."""
    growth_rounds: int

    def up_to(self, triples: int | None) -> Scale:
        """The same, without graphs of more triples; ``--documents`` asks for that."""
        if triples is None:
            return self
        sizes = tuple(size for size in self.sizes if size <= triples) or self.sizes[:1]
        growth = tuple(size for size in self.growth if size <= triples)
        return replace(
            self, sizes=sizes, rounds=self.rounds[: len(sizes)], growth=growth if len(growth) > 1 else self.growth[:2]
        )


FULL = Scale((100_000, 1_000_000), (3, 1), 0.1, (100_000, 1_000_000, 10_000_000), 9)
QUICK = Scale((2_000, 6_000), (2, 1), 0.01, (2_000, 8_000), 2)


class WrongAnswer(Exception):
    """Raised if two stores answer the same query differently: one of them is wrong, so its figures mean nothing."""


class Rdf:
    name = "rdf"
    title = "RDF graphs"

    # -- measuring ----------------------------------------------------------------------------------------------------

    def run(self, plan: Plan) -> Data:
        return measure(plan, (QUICK if plan.quick else FULL).up_to(plan.documents))

    # -- showing ------------------------------------------------------------------------------------------------------

    def grids(self, data: Data) -> list[Grid]:
        figures = Figures.from_data(data["figures"])
        promises = Promises(_lines(data), frozenset(), {}, {})
        return [
            comparison.rates(figures, promises.lines, _note(data)),
            comparison.ratios(figures, promises),
            _means(data),
            _growth(data),
            _memory(data),
        ]

    def findings(self, data: Data) -> list[Finding]:
        return findings(data)

    def plot(self, data: Data, directory: Path) -> list[tuple[str, Path]]:
        figures = Figures.from_data(data["figures"])
        largest = [line for line in _lines(data) if line.size in (0, max(data["sizes"]))]
        title = f"Graphs of {max(data['sizes']):,} triples relative to each store"
        file = comparison.draw(figures, largest, STORES.colour, title, directory, self.name)
        drawn = [("Lowtide's graphs relative to each store of RDF, medians of paired ratios.", file)]
        figure, (axes,) = make_figure(height=4.0)
        for query in dict.fromkeys(row["query"] for row in data["growth"]):
            rows = [row for row in data["growth"] if row["query"] == query]
            axes.plot([row["triples"] for row in rows], [row["seconds"] for row in rows], marker="o", label=query)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.legend(frameon=False, fontsize="small")
        label(axes, "selective queries", "triples", "seconds")
        drawn.append(("Selective queries by the number of triples.", save(figure, directory, f"{self.name}_growth")))
        return drawn


def measure(plan: Plan, scale: Scale) -> Data:
    names = STORES.chosen(plan.peers)
    if BASE not in names:
        raise Skipped("Lowtide's extra rdf is not installed")
    figures = Figures()
    steps = len(scale.sizes) + 3
    for number, (size, rounds) in enumerate(zip(scale.sizes, scale.rounds, strict=True)):

        def step(doing: str, share: float, number: int = number, size: int = size) -> None:
            plan.step(f"{size:,} triples, {doing}", (number + share) / steps)

        _OneSize(plan.place / str(size), size, rounds, scale.seconds, names, figures, step).measure()
    plan.step("single adds", len(scale.sizes) / steps)
    _measure_adds(plan.place / "adds", names, max(scale.rounds), scale.seconds, figures)
    plan.step("growth", (len(scale.sizes) + 1) / steps)
    places = {triples: plan.place / f"growth-{triples}" for triples in scale.growth}
    memory = [peak_of_load(place, triples) for triples, place in places.items()]
    plan.step("selective queries", (len(scale.sizes) + 2) / steps)
    growth = measure_growth(places, scale.growth_rounds)
    return {
        "sizes": list(scale.sizes),
        "rounds": list(scale.rounds),
        "seconds": scale.seconds,
        "peers": STORES.described(names),
        "figures": figures.as_data(),
        "growth": growth,
        "memory": memory,
    }


class _OneSize:
    """The comparison on graphs of one size."""

    def __init__(
        self,
        place: Path,
        size: int,
        rounds: int,
        seconds: float,
        names: Sequence[str],
        figures: Figures,
        step: Callable[[str, float], None],
    ) -> None:
        place.mkdir()
        self._place, self._size, self._rounds, self._seconds = place, size, rounds, seconds
        self._names, self._figures = names, figures
        self._step = step
        self._numbers = count()
        self._lines = {line.work: line for line in lines_of(size)}

    def _able(self, line: Line) -> list[str]:
        return [name for name in self._names if line.kind not in STORES.adapter(name).cannot]

    def _turns(self, able: Sequence[str]) -> list[list[str]]:
        return turns(able, STORES.slow(able), self._rounds, 1)

    def measure(self) -> None:
        step = self._step
        file = self._place / "graph.nt"
        step("writing the file", 0.0)
        write_ntriples(file, self._size)
        step("loading", 0.02)
        subjects = self._load(file)
        try:
            with unwalked():
                works = [line for line in self._lines.values() if line.kind in ("match", "query", "update")]
                for number, line in enumerate(works):
                    step(line.label, 0.4 + 0.6 * number / len(works))
                    self._measure(line, subjects)
        finally:
            for subject in subjects.values():
                subject.graph.close()
            shutil.rmtree(self._place)

    def _fresh(self, name: str) -> Graph:
        chosen = STORES.adapter(name)
        durability: Durability = "synced" if "synced" in chosen.settings else "unsynced"
        return chosen.open(self._place / f"{next(self._numbers)}", durability)

    def _load(self, file: Path) -> dict[str, Subject]:
        """Load empty stores, by terms and from the file; those of the last round by terms stay open."""
        subjects: dict[str, Subject] = {}
        made: dict[bool, Sequence[object]] = {}
        for line in (self._lines["load"], self._lines["add-many"]):
            for number, order in enumerate(self._turns(self._able(line))):
                for name in order:
                    graph = self._fresh(name)
                    if line.work == "load":
                        work = partial(graph.load, file)
                    else:
                        own = name == "pyoxigraph"
                        if own not in made:
                            made[own] = graph.terms(make_triples(self._size))
                        work = partial(graph.add_many, made[own])
                    seconds, settled = undisturbed(graph, partial(_timed, work))
                    self._figures.add(Figure(line.name, name, number, self._size / seconds, None, settled))
                    if line.work == "add-many" and name not in subjects:
                        subjects[name] = Subject(graph, self._size)
                    else:
                        graph.close()
        for name in self._names:
            chosen = STORES.adapter(name)
            small = chosen.most is None or self._size <= chosen.most
            if chosen.over is not None and chosen.shares in subjects and small:
                subjects[name] = Subject(chosen.over(subjects[chosen.shares].graph), self._size)
        return subjects

    def _measure(self, line: Line, subjects: dict[str, Subject]) -> None:
        able = [name for name in self._able(line) if name in subjects]
        query = next((each for each in QUERIES if each.name == line.work), None)
        for number, order in enumerate(self._turns(able)):
            for name in order:
                subject = subjects[name]
                if query is not None:
                    work = subject.querying(query)
                elif line.kind == "match":
                    work = subject.matching(line.work)
                else:
                    work = subject.updating(line.work)
                rate, settled = undisturbed(
                    _Settled(subject.graph, line.writes), partial(repeated, work, self._seconds, clock_of(line))
                )
                self._figures.add(Figure(line.name, name, number, rate, None, settled))
        if query is not None:
            answers = {name: subjects[name].answer() for name in able}
            wrong = [name for name in able if answers[name] != answers[able[0]]]
            if wrong:
                raise WrongAnswer(f"{query.name}, {self._size:,} triples: {able[0]} and {', '.join(wrong)} differ")


class _Settled:
    """A graph that is brought to rest only after it was written to."""

    def __init__(self, graph: Graph, writes: bool) -> None:
        self._graph, self._writes = graph, writes

    def settle(self) -> None:
        if self._writes:
            self._graph.settle()


def _timed(work: partial[None]) -> float:
    started = perf_counter()
    work()
    return perf_counter() - started


@contextmanager
def _opened(place: Path, names: Sequence[str], line: Line, durability: Durability) -> Iterator[dict[str, Subject]]:
    found: dict[str, Subject] = {}
    try:
        for name in names:
            chosen = STORES.adapter(name)
            if line.kind not in chosen.cannot and durability in chosen.settings:
                found[name] = Subject(chosen.open(place / f"{line.work}-{len(found)}", durability), 0)
        yield found
    finally:
        for each in found.values():
            each.graph.close()


def _measure_adds(place: Path, names: Sequence[str], rounds: int, seconds: float, figures: Figures) -> None:
    """Single adds to stores that were empty."""
    place.mkdir()
    durabilities: tuple[Durability, ...] = ("synced", "unsynced")
    for line, durability in zip(ADDS, durabilities, strict=True):
        with _opened(place, names, line, durability) as subjects:
            for number, order in enumerate(turns(list(subjects), [], rounds, 1)):
                for name in order:
                    subject = subjects[name]
                    rate, settled = undisturbed(
                        subject.graph, partial(repeated, subject.adding(), seconds, clock_of(line))
                    )
                    figures.add(Figure(line.name, name, number, rate, None, settled))
    shutil.rmtree(place)


# -- showing ----------------------------------------------------------------------------------------------------------


def _lines(data: Data) -> list[Line]:
    return [line for size in data["sizes"] for line in lines_of(size)] + list(ADDS)


def _note(data: Data) -> str:
    rounds = ", ".join(f"{n} of {size:,} triples" for n, size in zip(data["rounds"], data["sizes"], strict=True))
    slow = [name for name, each in data["peers"].items() if each["slow"]]
    remarks = " ".join(f"{name}: {each['remark']}" for name, each in data["peers"].items())
    return (
        f"Rounds, interleaved: {rounds}, of at least {data['seconds']:g} s each; 1 for {', '.join(slow)}. Queries "
        f"and matches by processor time, writes by the clock. All stores gave the same answers. {remarks}"
    )


def _means(data: Data) -> Grid:
    figures = Figures.from_data(data["figures"])
    peers = [peer for peer in figures.peers() if peer != BASE]
    rows = []
    for size in data["sizes"]:
        means = [query_mean(figures, size, peer) for peer in peers]
        rows.append((f"{size:,} triples", *("–" if mean is None else times(mean) for mean in means)))
    return Grid("The 12 queries: geometric mean of Lowtide's ratios", ("graph", *peers), rows)


def _growth(data: Data) -> Grid:
    sizes = list(dict.fromkeys(row["triples"] for row in data["growth"]))
    rows = []
    for query in dict.fromkeys(row["query"] for row in data["growth"]):
        seconds = [row["seconds"] for row in data["growth"] if row["query"] == query]
        rows.append((query, *(f"{each * 1e3:.2f}" for each in seconds), f"{seconds[-1] / seconds[0]:.2f}x"))
    headings = ("query", *(f"{size:,} triples" for size in sizes), "grows by")
    return Grid("Selective queries in growing graphs: median milliseconds", headings, rows)


def _memory(data: Data) -> Grid:
    rows = [
        (
            f"{row['triples']:,} triples",
            f"{row['peak'] / 2**20:.0f}",
            f"{row['rate']:,.0f}",
            f"{row['file'] / 2**20:.0f}",
        )
        for row in data["memory"]
    ]
    return Grid(
        "`lowtide rdf load` in a fresh process: the most memory of its own",
        ("file", "MiB", "triples/s", "file, MiB"),
        rows,
        "Without mapped pages of the store, which the system takes back when it needs them.",
    )


SECTION = Rdf()
