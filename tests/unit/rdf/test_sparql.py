"""SPARQL through rdflib's graphs: which graph is the default, and what rdflib's results support."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import rdflib
from rdflib import RDF, RDFS, BNode, Literal
from rdflib.graph import ConjunctiveGraph
from rdflib.plugins.sparql import prepareQuery

from lowtide.errors import ConflictError, UsageError
from lowtide.rdf import Dataset, Graph, LowtideStore
from tests.unit.rdf.blocks import rows
from tests.unit.rdf.names import AGE, EX, KNOWS, ONE, TWO, A, B, C

VALUES = "select ?o { ?s ?p ?o } order by ?o"


def test_a_graph_answers_from_its_own_statements(plugin: LowtideStore) -> None:
    first, second = Graph(plugin, EX.one), Graph(plugin, EX.two)
    first.add((A, AGE, ONE))
    second.add((A, AGE, TWO))
    assert rows(first.query(VALUES)) == [(ONE,)]
    assert rows(Dataset(plugin).query(VALUES)) == []
    assert rows(Dataset(plugin, default_union=True).query(VALUES)) == [(ONE,), (TWO,)]


def test_exists_asks_the_graph_that_it_is_in(plugin: LowtideStore) -> None:
    data: Any = Dataset(plugin, default_union=True)
    data.get_context(EX.one).add((A, RDFS.label, Literal("a")))
    data.get_context(EX.one).add((B, RDFS.label, Literal("b")))
    data.get_context(EX.two).add((A, RDF.type, C))
    group = "graph <http://example.org/one> { ?s rdfs:label ?l } filter %s { ?s a ?type }"
    assert rows(data.query("select ?l { " + group % "exists" + " }")) == [(Literal("a"),)]
    assert rows(data.query("select ?l { " + group % "not exists" + " }")) == [(Literal("b"),)]


def test_an_update_changes_a_graph_that_is_named_by_a_blank_node(plugin: LowtideStore) -> None:
    graph = Graph(plugin, BNode("g"))
    graph.add((A, AGE, ONE))
    graph.update("insert { ?s <http://example.org/age> ?next } where { ?s ?p ?o bind(?o + 1 as ?next) }")
    assert set(graph.objects(A, AGE)) == {ONE, TWO}
    graph.update("delete data { <http://example.org/a> <http://example.org/age> 1 }")
    assert list(graph) == [(A, AGE, TWO)]


def test_an_update_of_a_conjunctive_graph_inserts_into_its_default_context(plugin: LowtideStore) -> None:
    with pytest.warns(DeprecationWarning, match="ConjunctiveGraph"):
        graph = ConjunctiveGraph(plugin)
    graph.get_context(EX.one).add((A, AGE, ONE))
    graph.update("insert { ?s <http://example.org/seen> ?o } where { ?s ?p ?o }")
    assert list(graph.default_context) == [(A, EX.seen, ONE)]
    graph.update("delete where { ?s ?p 1 }")
    assert len(graph) == 0


def test_a_result_has_what_rdflibs_results_have(graph: Graph) -> None:
    graph.add((A, AGE, ONE))
    graph.add((B, AGE, TWO))
    result: Any = graph.query("select ?s ?age { ?s ?p ?age } order by ?age")
    assert len(result) == 2
    assert [row.age for row in result] == [ONE, TWO]
    assert b"http://example.org/b" in result.serialize(format="json")
    result.bindings = result.bindings[:1]
    assert rows(result) == [(A, ONE)]
    assert graph.query("ask { ?s ?p 2 }").askAnswer is True
    made = graph.query("construct { ?s <urn:is> ?o } where { ?s ?p ?o }").graph
    assert made is not None
    assert len(made) == 2


def test_prepared_queries_and_bindings(graph: Graph) -> None:
    graph.add((A, AGE, ONE))
    graph.add((B, AGE, TWO))
    prepared = prepareQuery("select ?s { ?s <http://example.org/age> ?age }")
    assert rows(graph.query(prepared, initBindings={"age": TWO})) == [(B,)]
    made = graph.query(
        "construct { ?s <urn:says> ?word } where { ?s ?p 1 }", initBindings={"word": Literal("hi")}
    ).graph
    assert made is not None
    assert list(made) == [(A, rdflib.URIRef("urn:says"), Literal("hi"))]
    assert rows(graph.query(prepared, initBindings={"age": "no term"})) == []  # type: ignore[dict-item]


def test_a_graph_that_the_store_does_not_have_is_loaded_by_rdflib(dataset: Any, tmp_path: Path) -> None:
    file = tmp_path / "data.ttl"
    file.write_text("<urn:a> <urn:b> 1 .")
    assert rows(dataset.query(f"select ?o from <{file.as_uri()}> {{ ?s ?p ?o }}")) == [(ONE,)]
    dataset.get_context(EX.one).add((A, AGE, TWO))
    assert rows(dataset.query("select ?o from <http://example.org/one> { ?s ?p ?o }")) == [(TWO,)]
    assert len(list(dataset.quads())) == 1


def test_queries_and_updates_of_many_threads(graph: Graph) -> None:
    """rdflib's parser is not made for it."""
    errors: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for n in range(5):
                graph.update(f"insert data {{ <urn:{name}:{n}> <http://example.org/knows> <urn:all> }}")
                assert (
                    len(graph.query(f"select ?s{name}{n} {{ ?s{name}{n} <http://example.org/knows> <urn:all> }}")) > n
                )
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(list(graph.subjects(KNOWS, rdflib.URIRef("urn:all")))) == 15


def test_a_graph_that_was_created_is_found_while_it_is_empty(plugin: LowtideStore) -> None:
    data: Any = Dataset(plugin)
    data.graph(EX.one)
    data.get_context(EX.two).add((A, AGE, ONE))
    every = "select ?g { graph ?g { } } order by ?g"
    assert rows(data.query(every)) == [(EX.one,), (EX.two,)]
    assert len(data.query("select * { graph ?g { } graph ?h { } }")) == 4
    assert rows(data.query("select ?g { graph ?g { ?s ?p ?o } }")) == [(EX.two,)]
    assert rows(data.query(every.replace("{", "from named <http://example.org/one> {", 1))) == [(EX.one,)]
    data.remove_graph(EX.one)
    assert rows(data.query(every)) == [(EX.two,)]


def test_updates_create_and_drop_graphs(plugin: LowtideStore) -> None:
    data: Any = Dataset(plugin)
    every = "select ?g { graph ?g { } } order by ?g"
    one, two = "<http://example.org/one>", "<http://example.org/two>"
    data.update(f"create graph {one}; insert data {{ graph {two} {{ <urn:a> <urn:b> <urn:c> }} }}")
    assert rows(data.query(every)) == [(EX.one,), (EX.two,)]
    with pytest.raises(UsageError, match="exists already"):
        data.update(f"create graph {one}")
    data.update(f"create silent graph {one}; clear graph {one}")
    assert rows(data.query(every)) == [(EX.one,), (EX.two,)]
    data.update(f"move {one} to {two}")
    assert rows(data.query(every)) == []
    data.update(f"create graph {one}; create graph {two}; drop graph {one}")
    assert rows(data.query(every)) == [(EX.two,)]
    data.update("drop all")
    assert rows(data.query(every)) == []


def test_an_empty_graph_is_part_of_what_a_serializable_query_reads(plugin: LowtideStore) -> None:
    data: Any = Dataset(plugin)
    plugin.begin("serializable")
    assert rows(data.query("select ?g { graph ?g { } }")) == []
    data.add((A, AGE, ONE))
    other = threading.Thread(target=data.graph, args=(EX.one,))
    other.start()
    other.join()
    with pytest.raises(ConflictError):
        data.commit()


def test_prefixes_are_those_of_the_graph_at_the_time_of_the_query(plugin: LowtideStore) -> None:
    graph = Graph(plugin)
    graph.add((A, AGE, ONE))
    graph.bind("own", EX)
    query, update = "select ?o { own:a own:age ?o }", "insert data { own:a own:age 2 }"
    assert rows(graph.query(query)) == [(ONE,)]
    graph.update(update)
    graph.bind("own", rdflib.Namespace("urn:other:"), replace=True)
    assert rows(graph.query(query)) == []
    graph.update(update)
    assert rows(graph.query(query)) == [(TWO,)]
    assert rows(graph.query(query, initNs={"own": str(EX)})) == [(ONE,), (TWO,)]
    with pytest.raises(Exception, match="Unknown namespace prefix : nobody"):
        graph.query("select ?o { nobody:a nobody:age ?o }")


def test_a_graph_may_have_the_prefixes_of_another_one(plugin: LowtideStore) -> None:
    other = rdflib.Graph()
    other.bind("own", EX)
    graph = rdflib.Graph(plugin, EX.g, namespace_manager=other.namespace_manager)
    graph.add((A, AGE, ONE))
    assert rows(graph.query("select ?o { own:a own:age ?o }")) == [(ONE,)]


def test_a_constructed_graph_has_the_prefixes_of_its_source(plugin: LowtideStore) -> None:
    graph = Graph(plugin)
    graph.add((A, AGE, ONE))
    graph.bind("own", EX)
    made = graph.query("construct { ?s own:is ?o } where { ?s own:age ?o }").graph
    assert made is not None
    assert "own:a own:is 1" in made.serialize(format="turtle")


def test_a_prepared_query_may_ask_for_exists_anywhere(plugin: LowtideStore) -> None:
    """rdflib translates EXISTS in filters only."""
    graph = Graph(plugin)
    graph.add((A, AGE, ONE))
    graph.add((B, AGE, TWO))
    graph.add((B, KNOWS, A))
    text = "select ?s (exists { ?s ex:knows ?x } as ?b) { ?s ex:age ?o } order by (exists { ?s ex:knows ?y }) ?s"
    query = prepareQuery(text, initNs={"ex": EX})
    for _ in range(2):
        assert rows(graph.query(query)) == [(A, Literal(False)), (B, Literal(True))]
    assert rows(graph.query(text, initNs={"ex": EX})) == [(A, Literal(False)), (B, Literal(True))]
