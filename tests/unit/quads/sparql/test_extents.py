"""What a query reads, how much of it, and what is cached for the next reader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from rdflib import Literal

import lowtide
from lowtide.quads import IdReader, Quads
from lowtide.quads.sparql import extents
from lowtide.quads.sparql.costs import FEW, LOOKUP_COST, TRACKED_LOOKUPS, by_lookups
from lowtide.quads.sparql.extents import Extents, StatementColumns, extents_of
from lowtide.quads.sparql.graphs import ActiveGraph
from tests.unit.quads.sparql.generating import PREFIX, E
from tests.unit.quads.sparql.reading import ask_rows

EVERY = ActiveGraph(None)


class Counted:
    """A reader that counts the statements and lookups that are asked of it."""

    def __init__(self, reader: IdReader) -> None:
        self._reader = reader
        self.scanned = 0
        self.looked_up = 0

    def scan_ids(self, *pattern: bytes | None) -> tuple[str, Iterator[list[bytes]]]:
        order, chunks = self._reader.scan_ids(*pattern)
        return order, self._counted(chunks)

    def _counted(self, chunks: Iterator[list[bytes]]) -> Iterator[list[bytes]]:
        for chunk in chunks:
            self.scanned += len(chunk)
            yield chunk

    def look_up(self, patterns: list[Any]) -> tuple[str, list[int], bytes]:
        self.looked_up += len(patterns)
        return self._reader.look_up(patterns)

    def keys_under(self, prefixes: list[bytes], most: int | None = None) -> list[list[bytes] | None]:
        self.looked_up += len(prefixes)
        found = self._reader.keys_under(prefixes, most)
        self.scanned += sum(len(keys) for keys in found if keys is not None)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)


def numbers(quads: Quads, count: int) -> None:
    quads.add_many((E[f"n{number}"], E.value, Literal(number)) for number in range(count))


def test_a_limit_stops_reading_early(quads: Quads) -> None:
    numbers(quads, 20_000)
    with quads.reader() as reader:
        counted: Any = Counted(reader)
        assert len(ask_rows(counted, f"{PREFIX}SELECT ?x {{ ?x :value ?y }} LIMIT 5")) == 5
        assert counted.scanned < 10_000
        before = counted.scanned
        assert ask_rows(counted, f"{PREFIX}ASK {{ ?x :value ?y FILTER(?y >= 0) }}").askAnswer
        assert counted.scanned - before < 10_000


def test_a_limit_reads_on_until_it_has_enough(quads: Quads) -> None:
    numbers(quads, 3_000)
    text = f"{PREFIX}SELECT ?x {{ ?x :value ?y FILTER(?y >= 2990) }} LIMIT 20"
    with quads.reader() as reader:
        assert len(ask_rows(reader, text)) == 10
        assert len(ask_rows(reader, text.replace("LIMIT 20", "LIMIT 3 OFFSET 6"))) == 3
        distinct = f"{PREFIX}SELECT DISTINCT ?p {{ ?x ?p ?y }} LIMIT 5"
        assert len(ask_rows(reader, distinct)) == 1


def test_few_solutions_are_looked_up_and_many_are_joined_with_the_extent(quads: Quads) -> None:
    numbers(quads, 1_000)
    quads.add_many((E[f"n{number}"], E.even, Literal(True)) for number in range(0, 1_000, 2))
    quads.add_many((E[f"n{number}"], E.rare, Literal(True)) for number in range(0, 30, 10))
    with quads.reader() as reader:
        counted: Any = Counted(reader)
        assert len(ask_rows(counted, f"{PREFIX}SELECT ?y {{ ?x :rare true . ?x :value ?y }}")) == 3
        assert (counted.looked_up, counted.scanned) == (1 + 3, 3 + 3)
        assert len(ask_rows(counted, f"{PREFIX}SELECT ?y {{ ?x :even true . ?x :value ?y }}")) == 500
        assert (counted.looked_up, counted.scanned) == (1 + 3 + 1, 3 + 3 + 500 + 1_000)


def test_when_to_look_up() -> None:
    assert by_lookups(FEW, FEW * LOOKUP_COST + 1, tracked=False)
    assert not by_lookups(10, 10 * LOOKUP_COST, tracked=False)
    assert by_lookups(TRACKED_LOOKUPS, 1, tracked=True)
    assert not by_lookups(TRACKED_LOOKUPS + 1, 1, tracked=True)


def test_an_extent_is_kept_for_the_same_commit_alone(opened: lowtide.Store, quads: Quads) -> None:
    numbers(quads, 50)
    text = f"{PREFIX}SELECT ?x {{ ?x :value ?y }}"
    scanned = []
    for _ in range(2):
        with quads.reader() as reader:
            counted: Any = Counted(reader)
            assert len(ask_rows(counted, text)) == 50
            scanned.append(counted.scanned)
    assert scanned == [50, 0]
    with quads.reader() as before:
        quads.add((E.more, E.value, Literal(50)))
        with quads.reader() as after:
            assert len(ask_rows(after, text)) == 51
            assert len(ask_rows(before, text)) == 50
    with opened.transaction() as tx:
        mine = tx.quads(quads.name)
        mine.add((E.mine, E.value, Literal(51)))
        with mine.reader() as reader:
            assert len(ask_rows(reader, text)) == 52
        tx.rollback()
    with quads.reader() as reader:
        assert len(ask_rows(reader, text)) == 51


def test_a_serializable_reader_keeps_and_uses_nothing(opened: lowtide.Store, quads: Quads) -> None:
    numbers(quads, 5)
    with opened.transaction(isolation="serializable") as tx, tx.quads(quads.name).reader() as reader:
        assert reader.tracked
        assert extents_of(reader) is not extents_of(reader)
    with quads.reader() as reader:
        assert extents_of(reader) is extents_of(reader)


def test_the_oldest_extents_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extents, "KEPT_ROWS", 10)
    kept = Extents(1)

    def of(size: int) -> StatementColumns:
        return StatementColumns(*(np.zeros(size, np.uint64) for _ in range(4)))

    for p in range(3):
        kept.keep((None, p, None, EVERY), of(4))
    assert [kept.get((None, p, None, EVERY)) is not None for p in range(3)] == [False, True, True]
    kept.keep((None, 9, None, EVERY), of(11))
    assert kept.get((None, 9, None, EVERY)) is None
    assert kept.size_of((None, 1, None, EVERY)) == 4


def test_estimates_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extents, "KEPT_SIZES", 2)
    kept = Extents(1)
    for p in range(3):
        kept.note_size((None, p, None, EVERY), p)
    assert [kept.size_of((None, p, None, EVERY)) for p in range(3)] == [None, None, 2]


def test_a_filter_that_names_an_iri_is_begun_with(quads: Quads) -> None:
    numbers(quads, 500)
    with quads.reader() as reader:
        counted: Any = Counted(reader)
        for condition in ("?x = :n7", ":n7 = ?x", "?x = :n7 && ?y < 9"):
            found = ask_rows(counted, f"{PREFIX}SELECT ?x ?y {{ ?x :value ?y FILTER({condition}) }}")
            assert [tuple(row) for row in found] == [(E.n7, Literal(7))]
        assert not ask_rows(counted, f"{PREFIX}SELECT * {{ ?x :value ?y FILTER(?x = :n7 && ?x = :n8) }}")
        assert not ask_rows(counted, f"{PREFIX}SELECT * {{ ?x :value ?y FILTER(?y = :n7) }}")
        assert counted.scanned < 10
