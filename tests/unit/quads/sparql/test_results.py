"""Results: their forms, when they are read, and from which instant."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from rdflib import Graph, Literal, URIRef, Variable
from rdflib.namespace import XSD
from rdflib.plugins.sparql import CUSTOM_EVALS, prepareQuery
from rdflib.plugins.sparql.operators import register_custom_function, unregister_custom_function

import lowtide
from lowtide.errors import QueryTimeout, UsageError
from lowtide.quads import Quads
from lowtide.quads.sparql import aggregation, bgp, explain, ordering, results, terms
from lowtide.quads.sparql.parsing import QUERIES, ParseCache
from tests.support.clocks import ManualClock
from tests.unit.quads.sparql.generating import PREFIX, E
from tests.unit.quads.sparql.reading import ask_rows, statements

DATA = ":a :p 1 . :b :p 2 . :c :p 3 . :a :q :b ."


@pytest.fixture
def filled(quads: Quads) -> Quads:
    quads.add_many(statements(DATA))
    return quads


def answer(quads: Quads, text: str, **options: Any) -> Any:
    with quads.reader() as reader:
        result = ask_rows(reader, PREFIX + text, **options)
        len(result)
        return result


@pytest.mark.parametrize("form", ["json", "xml", "csv", "txt"])
def test_serialisers_of_rdflib_write_what_they_write_for_rdflib(filled: Quads, form: str) -> None:
    text = "SELECT ?x ?y ?z { ?x :p ?y OPTIONAL { ?x :q ?z } } ORDER BY ?y"
    memory = Graph()
    memory.parse(data=PREFIX + DATA, format="turtle")
    assert answer(filled, text).serialize(format=form) == memory.query(PREFIX + text).serialize(format=form)


def test_rows_are_read_by_name_place_and_attribute(filled: Quads) -> None:
    row = next(iter(answer(filled, "SELECT ?x ?y { ?x :p ?y } ORDER BY ?y")))
    assert (row.x, row["y"], row[Variable("x")], row[1]) == (E.a, Literal(1), E.a, Literal(1))
    assert row.asdict() == {"x": E.a, "y": Literal(1)}


def test_bindings_are_mappings_of_variables(filled: Quads) -> None:
    result = answer(filled, "SELECT ?x ?z { ?x :p ?y OPTIONAL { ?x :q ?z } } ORDER BY ?y")
    assert [dict(each) for each in result.bindings] == [
        {Variable("x"): E.a, Variable("z"): E.b},
        {Variable("x"): E.b},
        {Variable("x"): E.c},
    ]
    assert result.bindings[0]["x"] == E.a
    assert (result.vars, len(result), bool(result)) == ([Variable("x"), Variable("z")], 3, True)


def test_a_result_can_be_read_twice(filled: Quads) -> None:
    result = answer(filled, "SELECT ?y { ?x :p ?y } ORDER BY ?y")
    assert list(result) == list(result)


def test_ask_construct_and_describe(filled: Quads) -> None:
    assert answer(filled, "ASK { :a :q :b }").askAnswer is True
    assert answer(filled, "ASK { :b :q :a }").askAnswer is False
    made = answer(filled, "CONSTRUCT { ?x :r [ :s ?y ] } WHERE { ?x :p ?y FILTER(?y < 3) }").graph
    assert len(made) == 4
    assert len(set(made.objects(None, E.r))) == 2
    assert set(answer(filled, "CONSTRUCT WHERE { ?x :q ?y }").graph) == {(E.a, E.q, E.b)}
    assert set(answer(filled, "CONSTRUCT { ?y :r ?x } WHERE { ?x :p ?y }").graph) == set()
    assert set(answer(filled, "DESCRIBE :a").graph) == {(E.a, E.p, Literal(1)), (E.a, E.q, E.b)}
    assert len(answer(filled, "DESCRIBE ?x { ?x :q ?y }").graph) == 2


def test_initial_bindings_hold_everywhere(filled: Quads) -> None:
    bindings = {"x": E.b}
    assert [tuple(row) for row in answer(filled, "SELECT ?x ?y { ?x :p ?y }", init_bindings=bindings)] == [
        (E.b, Literal(2))
    ]
    assert len(answer(filled, "SELECT ?z { ?z :p ?y FILTER(?y = ?n) }", init_bindings={"n": Literal(3)})) == 1
    assert len(answer(filled, "SELECT ?z { ?z :p ?y OPTIONAL { ?x :q ?z } }", init_bindings={"x": E.nowhere})) == 3
    assert answer(filled, "ASK { VALUES ?x { :a :c } ?x :p ?y }", init_bindings=bindings).askAnswer is False


def test_prepared_queries(filled: Quads) -> None:
    prepared = prepareQuery("SELECT ?y { ?x e:p ?y }", initNs={"e": E})
    with filled.reader() as reader:
        for name, value in ((E.a, 1), (E.c, 3)):
            assert [row.y for row in ask_rows(reader, prepared, init_bindings={"x": name})] == [Literal(value)]


def test_prefixes_and_base(filled: Quads) -> None:
    with filled.reader() as reader:
        assert len(ask_rows(reader, "SELECT ?y { e:a e:p ?y }", init_ns={"e": E})) == 1
        assert len(ask_rows(reader, "SELECT ?y { <a> <p> ?y }", base="http://example.org/")) == 1


def test_parsed_queries_are_kept(filled: Quads) -> None:
    text = f"{PREFIX}SELECT ?kept {{ ?kept :p 1 }}"
    assert QUERIES.get(text, {}, None) is QUERIES.get(text, {}, None)
    assert QUERIES.get(text, {}, None) is QUERIES.get(text, {"unused": str(E)}, None)
    using = "SELECT ?kept { ?kept e:p 1 }"
    assert QUERIES.get(using, {"e": str(E)}, None) is not QUERIES.get(using, {"e": "urn:other:"}, None)
    assert QUERIES.get(text, {}, None) is not QUERIES.get(text, {}, "http://example.org/")


def test_the_queries_that_were_used_last_stay() -> None:
    cache = ParseCache(lambda text, namespaces, base: prepareQuery(text), 2)
    one, two, three = (f"SELECT ?x {{ ?x ?p {number} }}" for number in range(3))
    kept = cache.get(one, {}, None)
    cache.get(two, {}, None)
    cache.get(one, {}, None)
    cache.get(three, {}, None)
    assert len(cache) == 2
    assert cache.get(one, {}, None) is kept


def test_threads_share_a_parsed_query(filled: Quads) -> None:
    text = "SELECT ?x { ?x :p ?y FILTER(STR(?y) = STR(?n) && STRLEN(STR(?y)) = 1) }"
    wrong: list[object] = []

    def work(number: int) -> None:
        for _ in range(30):
            found = [row.x for row in answer(filled, text, init_bindings={"n": Literal(number)})]
            if found != [E["abc"[number - 1]]]:
                wrong.append(found)

    threads = [threading.Thread(target=work, args=(number,)) for number in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_result_is_one_instant_while_the_store_changes(filled: Quads) -> None:
    with filled.reader() as reader:
        rows = iter(ask_rows(reader, f"{PREFIX}SELECT ?x {{ ?x :p ?y }} LIMIT 100"))
        first = next(rows).x
        filled.clear()
        assert {first, *(row.x for row in rows)} == {E.a, E.b, E.c}


def test_a_result_in_a_transaction_does_not_see_what_is_written_after_it(opened: lowtide.Store, quads: Quads) -> None:
    with opened.transaction() as tx:
        mine = tx.quads(quads.name)
        mine.add((E.a, E.p, Literal(1)))
        with mine.reader() as reader:
            result = ask_rows(reader, f"{PREFIX}SELECT ?x {{ ?x :p ?y }}")
            mine.add((E.b, E.p, Literal(2)))
            assert [row.x for row in result] == [E.a]
        with mine.reader() as reader:
            assert len(ask_rows(reader, f"{PREFIX}SELECT ?x {{ ?x :p ?y }}")) == 2
        tx.rollback()


def test_closing_is_called_when_nothing_is_left_to_read(filled: Quads) -> None:
    closed: list[str] = []
    with filled.reader() as reader:
        result = ask_rows(reader, f"{PREFIX}SELECT ?x {{ ?x :p ?y }}", closing=lambda: closed.append("read"))
        assert closed == []
        list(result)
        assert closed == ["read"]
        result = ask_rows(reader, f"{PREFIX}SELECT ?x {{ ?x :p ?y }}", closing=lambda: closed.append("dropped"))
        del result
        assert closed == ["read", "dropped"]
        ask_rows(reader, f"{PREFIX}ASK {{ ?x :p ?y }}", closing=lambda: closed.append("asked"))
        assert closed == ["read", "dropped", "asked"]


class SteppingClock(ManualClock):
    """A second later each time it is asked."""

    def monotonic(self) -> float:
        self.now += 1
        return self.now


def test_a_query_that_takes_too_long_is_cancelled(filled: Quads) -> None:
    text = "SELECT ?x { ?x :p ?y . ?z :p ?w . ?v ?u ?t }"
    with pytest.raises(QueryTimeout, match="cancelled after its time limit of 2 seconds") as caught:
        answer(filled, text, timeout=2, clock=SteppingClock())
    assert caught.value.timeout == 2
    assert len(answer(filled, text, timeout=1000, clock=SteppingClock())) == 36


class CountingClock(ManualClock):
    """Counts how often it is asked."""

    looks = 0

    def monotonic(self) -> float:
        self.looks += 1
        return super().monotonic()


@pytest.mark.parametrize(
    ("module", "constant", "text"),
    [
        (ordering, "BETWEEN_CHECKS", 'SELECT ?z { ?x :p ?y BIND(CONCAT("text ", STR(?y)) AS ?z) } ORDER BY ?z'),
        (terms, "BETWEEN_CHECKS", "SELECT ?z { ?x :p ?y BIND(UCASE(STR(?y)) AS ?z) }"),
        (aggregation, "BETWEEN_CHECKS", "SELECT (GROUP_CONCAT(?y) AS ?z) { ?x :p ?y } GROUP BY ?x"),
        (bgp, "CROSSED", "SELECT * { ?x :p ?y . ?z :p ?w }"),
        (results, "BETWEEN_CHECKS", "CONSTRUCT { ?x :q ?y } { ?x :p ?y }"),
    ],
)
def test_whatever_takes_long_looks_at_the_clock(
    filled: Quads, monkeypatch: pytest.MonkeyPatch, module: Any, constant: str, text: str
) -> None:
    looks = []
    assert len(answer(filled, text)) > 1  # what is kept of it is kept for both
    for between in (1_000_000, 1):
        monkeypatch.setattr(module, constant, between)
        clock = CountingClock()
        assert len(answer(filled, text, timeout=10, clock=clock)) > 1
        looks.append(clock.looks)
    assert looks[0] < looks[1]


def test_a_timeout_is_above_zero(filled: Quads) -> None:
    with pytest.raises(UsageError, match="timeout is a number of seconds above 0"):
        answer(filled, "ASK {}", timeout=0)


def test_explain_shows_the_join_order_with_counts(filled: Quads) -> None:
    with filled.reader() as reader:
        plan = explain(reader, f"{PREFIX}SELECT ?x {{ ?x :p ?y . ?x :q ?z OPTIONAL {{ ?z :p ?w }} }}")
    lines = str(plan).splitlines()
    assert [line.strip().split("  ")[0] for line in lines] == [
        "Project",
        "LeftJoin",
        "BGP",
        "?x <http://example.org/q> ?z",
        "?x <http://example.org/p> ?y",
        "BGP",
        "?z <http://example.org/p> ?w",
    ]
    assert lines[3].endswith("(scan, estimated 1, rows 1)")
    assert "estimated 3, rows 1" in lines[4]


def test_custom_functions_of_rdflib(filled: Quads) -> None:
    name = URIRef("http://example.org/twice")
    twice: Any = lambda value: Literal(value.toPython() * 2)  # noqa: E731
    register_custom_function(name, twice)
    try:
        assert [str(row.z) for row in answer(filled, "SELECT ?z { :b :p ?y BIND(:twice(?y) AS ?z) }")] == ["4"]
    finally:
        unregister_custom_function(name)


def test_custom_evaluations_of_rdflib(filled: Quads) -> None:
    def one(context: Any, part: Any) -> Any:
        if part.name != "BGP":
            raise NotImplementedError
        return [{Variable("x"): E.made}]

    CUSTOM_EVALS["one"] = one
    try:
        assert [row.x for row in answer(filled, "SELECT ?x { ?x :custom ?y }")] == [E.made]
    finally:
        del CUSTOM_EVALS["one"]


def test_terms_that_are_computed_join_with_stored_ones(filled: Quads) -> None:
    text = 'SELECT ?x { :a :q ?b BIND(IRI(CONCAT(STR(:), "b")) AS ?c) ?c :p ?x FILTER(?b = ?c) }'
    text = text.replace("STR(:)", '"http://example.org/"')
    assert [row.x for row in answer(filled, text)] == [Literal(2)]


def test_a_blank_node_of_bnode_is_one_for_each_solution_and_label(filled: Quads) -> None:
    text = 'SELECT ?b ?c ?d { ?x :p ?y BIND(BNODE("l") AS ?b) BIND(BNODE("l") AS ?c) BIND(BNODE("m") AS ?d) }'
    rows = list(answer(filled, text))
    assert all(row.b == row.c != row.d for row in rows)
    assert len({row.b for row in rows}) == 3


def test_numbers_of_other_types_are_compared_and_summed_by_value(quads: Quads) -> None:
    values = [Literal("1.5", datatype=XSD.decimal), Literal(2), Literal("10", datatype=XSD.byte), Literal(2.5)]
    quads.add_many((E.a, E.p, value) for value in values)
    assert len(answer(quads, "SELECT ?y { :a :p ?y FILTER(?y > 2) }")) == 2
    assert [float(row.s) for row in answer(quads, "SELECT (SUM(?y) AS ?s) { :a :p ?y }")] == [16.0]
    assert [row.y.value for row in answer(quads, "SELECT ?y { :a :p ?y } ORDER BY ?y")][-1] == 10
