"""Loads of files: the same statements as from the parser's terms, in batches of any size, during collections of terms
and with colliding hashes."""

from __future__ import annotations

import io
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from rdflib import BNode, Literal, URIRef

import lowtide
from lowtide.engine.statements import runners
from lowtide.engine.statements.runners import AutocommitStatements
from lowtide.quads import loading, parsing
from lowtide.quads.loading import load
from lowtide.quads.parsing import Statement, parse
from lowtide.quads.sparql import query
from lowtide.system.clock import SYSTEM_CLOCK
from tests.quads.colliding import short_hashes

P = "http://example.org/p"
NQUADS = "".join(
    f"<urn:subject/{n % 7}> <{P}> {o} {'' if n % 3 else '<urn:a-graph>'} .\n"
    for n, o in enumerate(
        [
            '"short"',
            '"a text that is too long for an id"',
            '"Text"@EN-us',
            '"7"^^<http://www.w3.org/2001/XMLSchema#integer>',
            '"007"^^<http://www.w3.org/2001/XMLSchema#integer>',
            '"123456789012345678901"^^<http://www.w3.org/2001/XMLSchema#integer>',
            '"1.50"^^<http://www.w3.org/2001/XMLSchema#decimal>',
            '"true"^^<http://www.w3.org/2001/XMLSchema#boolean>',
            '"2020-02-30"^^<http://www.w3.org/2001/XMLSchema#date>',
            '"2020-02-03T04:05:06Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>',
            '"anything"^^<urn:a-datatype>',
            '"spelled out"^^<http://www.w3.org/2001/XMLSchema#string>',
            "<urn:object>",
            "<urn:subject/1>",
            '"\\u0000nul"',
            '"gr\\u00fcn"',
        ]
        * 3
    )
)


def statements_of(text: str, graph: URIRef | None = None) -> set[Statement]:
    found: list[Statement] = []
    parse(io.BytesIO(text.encode()), found.extend, format="nquads", graph=graph)
    return set(found)


@pytest.mark.parametrize("parser", ["pyoxigraph", "rdflib"])
@pytest.mark.parametrize("batch", [1, 5, 1000])
@pytest.mark.parametrize("graph", [None, URIRef("urn:target")])
def test_a_load_adds_what_the_file_has(
    store: lowtide.Store, parser: str, batch: int, graph: URIRef | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent() -> ModuleType | None:
        return None

    if parser == "rdflib":
        monkeypatch.setattr(parsing, "_oxigraph", absent)
    told: list[int] = []
    quads = store.quads("x")
    total = load(quads, io.BytesIO(NQUADS.encode()), format="nquads", graph=graph, batch=batch, loaded=told.append)
    assert total == sum(told) == 48
    assert max(told) == min(batch, 48)
    assert set(quads.match()) == statements_of(NQUADS, graph)
    assert store.verify().problems == []


@pytest.mark.parametrize("batch", [2, 1000])
def test_a_load_of_terms_that_collide(store: lowtide.Store, batch: int) -> None:
    with short_hashes():
        quads = store.quads("x")
        quads.add((URIRef("urn:before"), URIRef(P), Literal("a text that was there before")))
        load(quads, io.BytesIO(NQUADS.encode()), format="nquads", batch=batch)
        quads.remove((URIRef("urn:before"), None, None))
        assert set(quads.match()) == statements_of(NQUADS)
        assert store.verify().problems == []


def test_a_load_of_a_term_that_collides_with_one_that_is_stored(store: lowtide.Store) -> None:
    node, quads = URIRef("urn:node"), store.quads("x")
    with short_hashes(1):
        quads.add((node, node, Literal("a text that was there before")))
        load(quads, io.BytesIO(b'<urn:node> <urn:node> "a text that came later" .'), format="nt")
        texts = {str(each[2]) for each in quads.match()}
        assert texts == {"a text that was there before", "a text that came later"}
        assert store.verify().problems == []


def test_terms_that_are_collected_between_two_batches_come_again(store: lowtide.Store) -> None:
    quads = store.quads("x")
    lines = [f"<urn:the-same-subject> <{P}> <urn:the-same-object> <urn:graph/{n}> .\n" for n in range(6)]

    done: list[int] = []

    def collect(count: int) -> None:
        done.append(count)
        if len(done) == 2:
            quads.clear()
            store.collect_garbage()
            assert not list(store.keyspace("quads/x/terms").scan())

    load(quads, io.BytesIO("".join(lines).encode()), format="nquads", batch=1, loaded=collect)
    assert {str(each[3]) for each in quads.match()} == {f"urn:graph/{n}" for n in range(2, 6)}
    assert store.verify().problems == []


def test_a_load_remembers_a_bounded_number_of_terms(store: lowtide.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "_MOST", 5)
    load(store.quads("x"), io.BytesIO(NQUADS.encode()), format="nquads", graph=URIRef("urn:target"), batch=4)
    assert set(store.quads("x").match()) == statements_of(NQUADS, URIRef("urn:target"))
    assert store.verify().problems == []


def test_a_load_is_part_of_a_transaction(store: lowtide.Store) -> None:
    tx = store.begin()
    load(tx.quads("x"), io.BytesIO(NQUADS.encode()), format="nquads", batch=3)
    assert set(tx.quads("x").match()) == statements_of(NQUADS)
    assert store.quads("x").count() == 0
    tx.rollback()
    assert store.quads("x").count() == 0


def test_blank_nodes_of_two_loads_are_two(store: lowtide.Store, tmp_path: Path) -> None:
    file = tmp_path / "blank.ttl"
    file.write_text("_:x <urn:p> [] .")
    for _ in range(2):
        load(store.quads("x"), file)
    found = {each for s, _, o, _ in store.quads("x").match() for each in (s, o)}
    assert len(found) == 4
    assert all(isinstance(each, BNode) for each in found)


def test_a_load_that_fails_keeps_the_batches_before(store: lowtide.Store) -> None:
    text = f"<urn:a> <{P}> <urn:b> .\n<urn:c> <{P}> .\n"
    with pytest.raises(SyntaxError):
        load(store.quads("x"), io.BytesIO(text.encode()), format="nt", batch=1)
    assert store.quads("x").count() == 1


class Layered:
    """As much of a store as a load looks at when it waits for a checkpoint."""

    def __init__(self, versions: int) -> None:
        self.frozen: object | None = object()
        self.active = SimpleNamespace(versions=versions)
        self.engine: Any = SimpleNamespace(reader=SimpleNamespace(sources=(self, None)))


def test_a_load_waits_for_the_checkpoint_that_runs_if_much_was_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = []

    def look(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            store.frozen = None

    monkeypatch.setattr(SYSTEM_CLOCK, "sleep", look)
    store = Layered(runners._MOST_WAITING - 1)
    AutocommitStatements(store).give_way()
    assert not waited
    store = Layered(runners._MOST_WAITING)
    AutocommitStatements(store).give_way()
    assert len(waited) == 3
    store, waited[:] = Layered(runners._MOST_WAITING), [0.0] * 3  # it never ends
    monkeypatch.setattr(runners, "_LOOKS", 5)
    AutocommitStatements(store).give_way()
    assert len(waited) == 3 + 5


def test_a_transaction_sees_its_own_term_also_if_a_later_commit_gave_the_id_to_another(store: lowtide.Store) -> None:
    mine = (URIRef("urn:mine"), URIRef("urn:p"), Literal(1), None)
    theirs = (URIRef("urn:theirs"), URIRef("urn:p"), Literal(1), None)
    with short_hashes(1):
        store.quads("people").add((URIRef("urn:p"), URIRef("urn:p"), Literal(1)))
        tx = store.begin()
        quads = store.quads("people")
        quads.add(theirs)
        assert theirs in set(quads.match())  # which remembers the term
        tx.quads("people").add(mine)
        assert mine in set(tx.quads("people").match())
        assert theirs not in set(tx.quads("people").match())
        with tx.quads("people").reader() as reader:
            rows: Any = query(reader, "SELECT ?s { ?s ?p 1 FILTER(?s != ?p) }")
            assert [row.s for row in rows] == [mine[0]]
        tx.rollback()
