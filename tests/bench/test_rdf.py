"""Every RDF store gives the same answers. The section measures all of them on a small scale."""

from __future__ import annotations

import math
from contextlib import closing
from pathlib import Path

import pytest

from bench.rdf import EVALUATOR, STORES, growing, section, workloads
from bench.rdf.people import BASE, QUERIES, Text, iri, make_triples, update_of_data, update_of_pattern, write_ntriples
from bench.rdf.protocol import Answer, Graph
from bench.rdf.section import SECTION, Scale, WrongAnswer, measure
from bench.rdf.targets import findings
from bench.rdf.workloads import ADDS, SELECTIVE, Subject, lines_of
from bench.registry import Durability
from bench.section import Data
from tests.bench.support import check_shown, make_plan

SIZE = 600
OWN_DATA = [name for name in STORES.installed() if STORES.adapter(name).shares is None]


def opened(name: str, directory: Path) -> Graph:
    chosen = STORES.adapter(name)
    durability: Durability = "synced" if "synced" in chosen.settings else "unsynced"
    return chosen.open(directory / "store", durability)


@pytest.mark.parametrize("name", OWN_DATA)
def test_a_store_holds_the_graph_and_changes_it(name: str, tmp_path: Path) -> None:
    with closing(opened(name, tmp_path)) as graph:
        graph.add_many(graph.terms(make_triples(SIZE)))
        everything = graph.pattern(None, None, None)
        total = graph.match(everything)
        assert total == len(set(make_triples(SIZE)))
        graph.add(graph.terms([(f"{BASE}new", f"{BASE}name", Text("a new one"))])[0])
        graph.update(update_of_data(3))
        assert graph.match(everything) == total + 4
        for number in (1, 2):
            graph.update(update_of_pattern(number, SIZE))
        assert graph.match(everything) == total + 4
        prices = graph.match(graph.pattern(None, f"{BASE}price", None))
        rows = graph.rows(graph.prepared(f"SELECT ?p {{ ?x <{BASE}price> ?p FILTER (?p > 2000) }}"))
        assert prices > 2
        assert graph.answer(rows) == [("2001",), ("2002",)]


@pytest.mark.parametrize("name", [name for name in OWN_DATA if "load" not in STORES.adapter(name).cannot])
def test_a_file_has_the_same_graph(name: str, tmp_path: Path) -> None:
    write_ntriples(tmp_path / "graph.nt", SIZE)
    with closing(opened(name, tmp_path)) as graph:
        graph.load(tmp_path / "graph.nt")
        assert graph.match(graph.pattern(None, None, None)) == len(set(make_triples(SIZE)))
        assert graph.match(graph.pattern(iri("person", 3), f"{BASE}reportsTo", iri("person", 0))) == 1


@pytest.mark.parametrize("name", STORES.installed())
def test_an_adapter_says_what_has_to_be_known(name: str) -> None:
    chosen = STORES.adapter(name)
    assert chosen.settings
    assert chosen.remark.endswith(".")
    assert all(chosen.cannot.values())


def test_selective_queries_have_answers_of_the_same_size_in_any_graph(tmp_path: Path) -> None:
    sizes: dict[str, list[int]] = {}
    for size in (1_000, 4_000):
        with closing(opened("rdflib Memory", tmp_path)) as graph:
            graph.add_many(graph.terms(make_triples(size)))
            for query in QUERIES:
                if query.selective:
                    answers = [graph.rows(graph.prepared(query.about(size, variant))) for variant in range(4)]
                    sizes.setdefault(query.name, []).append(sum(map(len, answers)))
    assert sizes.keys() == set(SELECTIVE)
    for query_name, (small, large) in sizes.items():
        assert small > 0, query_name
        assert large < 3 * small, query_name


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is prepared for a measurement takes longer than the measurement of a small graph."""
    monkeypatch.setattr(workloads, "MOST_ADDED", 100)
    monkeypatch.setattr(growing, "VARIANTS", 3)


def test_every_store_does_all_work_and_the_report_shows_it(tmp_path: Path, few: None) -> None:
    data = measure(make_plan(tmp_path), Scale((150,), (1,), 0.0, (150, 300), 1))
    measured = {(row[0], row[1]) for row in data["figures"]["rows"]}
    for line in [*ADDS, *lines_of(150)]:
        for name in STORES.installed():
            if line.work != "add" or "synced" in STORES.adapter(name).settings:
                able = line.kind not in STORES.adapter(name).cannot
                assert ((line.name, name) in measured) == able, (line.name, name)
    assert {row["query"] for row in data["growth"]} == set(SELECTIVE)
    assert [row["triples"] for row in data["memory"]] == [150, 300]
    check_shown(SECTION, data, tmp_path)


def test_a_wrong_answer_ends_the_run(tmp_path: Path, few: None, monkeypatch: pytest.MonkeyPatch) -> None:
    right = Subject.answer

    def wrong(self: Subject) -> Answer:
        found = right(self)
        return found[1:] if type(self.graph).__name__ == "MemoryGraph" else found

    monkeypatch.setattr(Subject, "answer", wrong)
    with pytest.raises(WrongAnswer, match="rdflib Memory"):
        measure(make_plan(tmp_path), Scale((150,), (1,), 0.0, (150, 300), 1))


def test_only_graphs_of_the_asked_sizes_are_measured() -> None:
    assert section.FULL.up_to(None) == section.FULL
    assert section.FULL.up_to(1_000_000).growth == (100_000, 1_000_000)
    assert section.FULL.up_to(100_000).sizes == (100_000,)


def figures(load: float, adding: float, query: float) -> Data:
    """Lowtide with these rates, all others with a rate of 100 for everything."""
    rows = []
    for line in [*ADDS, *lines_of(10)]:
        rate = {"load": load, "add": adding}.get(line.work, query if line.kind == "query" else 100.0)
        rows += [[line.name, "lowtide", 0, rate, None, 0.0]]
        rows += [[line.name, peer, 0, 100.0, None, 0.0] for peer in ("rdflib Memory", "oxrdflib", EVALUATOR)]
    fields = ["workload", "peer", "round", "rate", "beside", "settle_seconds"]
    growth = [{"query": "star", "triples": n, "seconds": s} for n, s in ((10, 1.0), (100, 2.9))]
    memory = [{"triples": n, "peak": n * 1.0, "rate": 1.0, "file": 1} for n in (10, 14)]
    return {"sizes": [10], "figures": {"fields": fields, "rows": rows}, "growth": growth, "memory": memory}


@pytest.mark.parametrize(
    ("data", "missed"),
    [
        (figures(100_000, 100, 300), 0),
        (figures(99_999, 100, 300), 1),
        (figures(100_000, 99, 300), 1),
        (figures(100_000, 100, 299), 1),
        (figures(150, 99, 99), 5),
    ],
)
def test_a_target_that_is_missed_is_found(data: Data, missed: int) -> None:
    found = findings(data)
    assert sum(not each.met for each in found) == missed, [each for each in found if not each.met]
    assert math.isclose(1.5 * math.log(100) / math.log(10), 3.0)
