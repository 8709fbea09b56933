"""The workloads of the RDF comparison. Preparing the data and comparing the answers are not timed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count
from time import perf_counter, process_time
from typing import Any

from bench.rdf.people import (
    BASE,
    QUERIES,
    Query,
    Text,
    Triple,
    iri,
    people_in,
    products_in,
    update_of_data,
    update_of_pattern,
)
from bench.rdf.protocol import Answer, Graph, Work


@dataclass(frozen=True)
class Line:
    """A line of the comparison: a kind of work on a graph with this many triples."""

    work: str
    size: int
    label: str
    kind: Work
    unit: str = "operation"
    writes: bool = False

    @property
    def name(self) -> str:
        return f"{self.work}/{self.size}"

    @property
    def title(self) -> str:
        return f"{self.label}, {self.size:,}" if self.size else self.label


MATCHES = {
    "match-subject": "match of a subject",
    "match-object": "match of a predicate and an object",
    "match-predicate": "match of a predicate",
}


def lines_of(size: int) -> list[Line]:
    """All lines of a graph of this size; single adds do not depend on it."""
    return [
        Line("add-many", size, "addN", "add-many", "triple", writes=True),
        Line("load", size, "load of a file", "load", "triple", writes=True),
        Line("match-subject", size, MATCHES["match-subject"], "match"),
        Line("match-object", size, MATCHES["match-object"], "match"),
        Line("match-predicate", size, MATCHES["match-predicate"], "match", "triple"),
        *(Line(each.name, size, each.title, "query") for each in QUERIES),
        Line("update-data", size, "INSERT DATA", "update", writes=True),
        Line("update-where", size, "DELETE and INSERT with WHERE", "update", writes=True),
    ]


ADDS = (
    Line("add", 0, "single adds, each on disk", "add", writes=True),
    Line("add-unsynced", 0, "single adds, unsynced", "add-unsynced", writes=True),
)
QUERY_NAMES = tuple(each.name for each in QUERIES)
SELECTIVE = tuple(each.name for each in QUERIES if each.selective)


def repeated(work: Callable[[], int], seconds: float, clock: Callable[[], float]) -> float:
    """Repeat the work for the given seconds of the clock, at least once. Returns its count per second."""
    counted = 0
    started = clock()
    while True:
        counted += work()
        elapsed = clock() - started
        if elapsed >= seconds:
            return counted / elapsed


def clock_of(line: Line) -> Callable[[], float]:
    """CPU time for reads, which wait only for the processor, so other work on the machine does not matter. Wall time
    for writes, which wait for the disk."""
    return perf_counter if line.writes else process_time


MOST_ADDED = 20_000
"""Triples that are there to be added one by one: more than any store adds in the time that it has."""


class Subject:
    """A store that is measured, and how often it was written to."""

    def __init__(self, graph: Graph, size: int) -> None:
        self.graph = graph
        self.size = size
        self._numbers = count()
        self._rows: list[Any] = []

    def adding(self) -> Callable[[], int]:
        """Add one new triple a call."""
        numbers = self._numbers
        made = iter(self.graph.terms(_new_triples(next(numbers), MOST_ADDED)))

        def work() -> int:
            self.graph.add(next(made))
            return 1

        return work

    def matching(self, work: str) -> Callable[[], int]:
        """Read what matches one of a hundred patterns a call; of a whole predicate, count the triples."""
        graph, people, products = self.graph, people_in(self.size), products_in(self.size)
        if work == "match-predicate":
            pattern = graph.pattern(None, f"{BASE}livesIn", None)
            return lambda: graph.match(pattern)
        if work == "match-subject":
            patterns = [graph.pattern(iri("person", number * 7919 % people), None, None) for number in range(100)]
        else:
            likes = f"{BASE}likes"
            patterns = [graph.pattern(None, likes, iri("product", number * 7919 % products)) for number in range(100)]
        following = count()

        def one() -> int:
            graph.match(patterns[next(following) % 100])
            return 1

        return one

    def querying(self, query: Query) -> Callable[[], int]:
        graph, prepared = self.graph, self.graph.prepared(query.about(self.size))

        def work() -> int:
            self._rows = graph.rows(prepared)
            return 1

        return work

    def answer(self) -> Answer:
        """Of the query that was asked last."""
        return self.graph.answer(self._rows)

    def updating(self, work: str) -> Callable[[], int]:
        graph, size, numbers = self.graph, self.size, self._numbers

        def one() -> int:
            number = next(numbers)
            graph.update(update_of_data(number) if work == "update-data" else update_of_pattern(number, size))
            return 1

        return one


def _new_triples(serial: int, length: int) -> Iterable[Triple]:
    for number in range(length):
        yield f"{BASE}new/{serial}/{number}", f"{BASE}name", Text(f"Somebody new, number {number}")
