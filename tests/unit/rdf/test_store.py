"""The plugin's statements, graphs, formulas, prefixes and events, through rdflib's graphs."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import rdflib
from rdflib import BNode, Literal, URIRef, Variable
from rdflib.graph import DATASET_DEFAULT_GRAPH_ID, ConjunctiveGraph, QuotedGraph
from rdflib.store import TripleAddedEvent, TripleRemovedEvent

import lowtide
from lowtide.rdf import Dataset, Graph, LowtideStore
from tests.unit.rdf.blocks import subscribe, undone
from tests.unit.rdf.names import AGE, EX, KNOWS, ONE, TWO, A, B, C, D

RULE = "{ <urn:a> <urn:b> ?x } => { ?x <urn:c> <urn:d> } . <urn:s> <urn:p> <urn:o> ."
IMPLIES = URIRef("http://www.w3.org/2000/10/swap/log#implies")


def test_each_pattern_finds_its_statements(graph: Graph) -> None:
    everything = {(A, KNOWS, B), (A, KNOWS, C), (B, KNOWS, C), (A, AGE, ONE)}
    for each in everything:
        graph.add(each)
    for s in (None, A, B, D):
        for p in (None, KNOWS, AGE, EX.none):
            for o in (None, B, C, ONE, TWO):
                wanted = {t for t in everything if s in (None, t[0]) and p in (None, t[1]) and o in (None, t[2])}
                assert set(graph.triples((s, p, o))) == wanted
                assert ((s, p, o) in graph) == bool(wanted)
    assert len(graph) == 4
    assert ("a string", None, None) not in graph  # type: ignore[operator]


def test_a_graph_is_not_another_graph(plugin: LowtideStore) -> None:
    first, second = Graph(plugin, EX.one), Graph(plugin, EX.two)
    first.add((A, KNOWS, B))
    second.add((A, KNOWS, B))
    second.add((A, KNOWS, C))
    first.remove((A, KNOWS, None))
    assert (len(first), len(second)) == (0, 2)


def test_without_a_context_each_triple_comes_once_with_its_graphs(plugin: LowtideStore) -> None:
    blank = BNode("graph")
    for name in (EX.one, EX.two, blank, DATASET_DEFAULT_GRAPH_ID):
        Graph(plugin, name).add((A, KNOWS, B))
    Graph(plugin, EX.two).add((A, KNOWS, C))
    found = {
        triple: {each.identifier for each in contexts if each} for triple, contexts in plugin.triples((A, None, None))
    }
    assert found == {
        (A, KNOWS, B): {EX.one, EX.two, blank, DATASET_DEFAULT_GRAPH_ID},
        (A, KNOWS, C): {EX.two},
    }
    assert len(plugin) == 2
    assert {each.identifier for each in plugin.contexts((A, KNOWS, C))} == {EX.two}
    assert {each.identifier for each in plugin.contexts()} == {EX.one, EX.two, blank, DATASET_DEFAULT_GRAPH_ID}
    assert list(plugin.contexts((D, KNOWS, C))) == []


def test_many_statements_cross_the_chunks_of_a_scan(plugin: LowtideStore) -> None:
    graphs = [Graph(plugin, EX[f"g{n}"]) for n in range(3)]
    triples = [(EX[f"s{n}"], KNOWS, Literal(n)) for n in range(700)]
    plugin.addN((*triple, graph) for graph in graphs for triple in triples)
    found = {triple: len(list(contexts)) for triple, contexts in plugin.triples((None, None, None))}
    assert found == dict.fromkeys(triples, 3)
    assert len(plugin) == 700


def test_quads_of_a_graph_are_that_graphs_alone(dataset: Any) -> None:
    """rdflib's own store returns them for all graphs that have the same triple."""
    dataset.add((A, KNOWS, B, EX.one))
    dataset.add((A, KNOWS, B, EX.two))
    assert list(dataset.quads((None, None, None, EX.one))) == [(A, KNOWS, B, EX.one)]
    assert len(list(dataset.quads((None, None, None, None)))) == 2


def test_choices(graph: Any) -> None:
    for each in (B, C, D):
        graph.add((A, KNOWS, each))
        graph.add((each, AGE, ONE))
    assert {o for _, _, o in graph.triples_choices((A, KNOWS, [B, D]))} == {B, D}
    assert {s for s, _, _ in graph.triples_choices(([B, C], AGE, None))} == {B, C}
    assert len(list(graph.triples_choices((A, [KNOWS, AGE], None)))) == 3
    assert len(list(graph.triples_choices((None, AGE, [])))) == 3


def test_remove_without_a_context_removes_from_all_graphs(dataset: Any) -> None:
    dataset.add((A, KNOWS, B, EX.one))
    dataset.add((A, KNOWS, B, EX.two))
    dataset.add((A, KNOWS, C))
    dataset.remove((None, KNOWS, B))
    assert list(dataset.quads()) == [(A, KNOWS, C, DATASET_DEFAULT_GRAPH_ID)]
    dataset.remove((None, None, EX.unknown))
    dataset.remove((None, None, None))
    assert len(dataset) == 0


def test_generators_are_consumed_once(graph: Graph) -> None:
    """oxrdflib reads them a second time for its events, and finds them empty."""
    told: list[object] = []
    subscribe(graph, TripleAddedEvent, lambda event: told.append(event.triple))
    consumed = []

    def quads() -> Iterator[tuple[URIRef, URIRef, Literal, Graph]]:
        for n in range(3):
            consumed.append(n)
            yield A, AGE, Literal(n), graph

    graph.addN(quads())
    assert consumed == [0, 1, 2]
    assert sorted(graph) == sorted(told)  # type: ignore[type-var]


def test_addn_is_one_transaction(graph: Graph, plugin: LowtideStore) -> None:
    before = plugin.store.stats().last_commit
    graph.addN((A, AGE, Literal(n), graph) for n in range(100))
    assert plugin.store.stats().last_commit == before + 1
    with pytest.raises(lowtide.UsageError, match="has no context"):
        plugin.addN([(A, KNOWS, B, graph), (A, KNOWS, C, None)])  # type: ignore[list-item]
    assert (A, KNOWS, B) not in graph


def test_an_iteration_is_one_snapshot(graph: Graph) -> None:
    graph.addN((EX[f"s{n}"], AGE, Literal(n), graph) for n in range(500))
    removed = 0
    for triple in graph:
        graph.remove(triple)
        graph.add((triple[0], KNOWS, A))
        removed += 1
    assert removed == 500
    assert set(graph.predicates()) == {KNOWS}


def test_an_iteration_in_a_transaction_is_one_snapshot(graph: Graph) -> None:
    with graph.transaction():
        graph.addN((EX[f"s{n}"], AGE, Literal(n), graph) for n in range(300))
        found = []
        for s, _, o in graph.triples((None, AGE, None)):
            graph.remove((s, AGE, None))
            graph.add((s, AGE, Literal(o.toPython() + 1000)))  # type: ignore[attr-defined]
            found.append(o.toPython())  # type: ignore[attr-defined]
        assert sorted(found) == list(range(300))
    assert {o.toPython() for o in graph.objects(None, AGE)} == set(range(1000, 1300))  # type: ignore[attr-defined]


def test_a_result_of_the_store_is_of_the_time_of_the_call(plugin: LowtideStore) -> None:
    """Before the first statement is asked for."""
    graph = Graph(plugin, EX.g)
    graph.add((A, KNOWS, B))
    matches, contexts, prefixes = plugin.triples((A, None, None)), plugin.contexts(), plugin.namespaces()
    graph.remove((A, None, None))
    graph.bind("ex", EX)
    assert [triple for triple, _ in matches] == [(A, KNOWS, B)]
    assert [each.identifier for each in contexts] == [EX.g]
    assert list(prefixes) == []


def test_an_iterator_that_is_dropped_keeps_no_snapshot(graph: Graph, plugin: LowtideStore) -> None:
    graph.addN((EX[f"s{n}"], AGE, Literal(n), graph) for n in range(10))
    started, unstarted = plugin.triples((None, None, None)), plugin.triples((None, None, None))
    next(started)
    assert len(plugin.store.stats().snapshots) == 2
    del started, unstarted
    assert list(plugin.store.stats().snapshots) == []


def test_a_querys_result_is_one_snapshot_for_its_whole_life(graph: Graph) -> None:
    graph.addN((EX[f"s{n}"], AGE, Literal(n), graph) for n in range(2000))
    result = iter(graph.query("select ?s ?age { ?s <http://example.org/age> ?age }"))
    first = next(result)
    graph.update("delete where { ?s ?p ?o }")
    assert len(graph) == 0
    rows = [first, *result]
    assert {row[1].toPython() for row in rows} == set(range(2000))  # type: ignore[index, union-attr]


def test_a_query_by_rdflibs_own_processor_is_one_snapshot_too(graph: Graph) -> None:
    graph.addN((EX[f"s{n}"], AGE, Literal(n), graph) for n in range(20))
    result = graph.query("select ?s ?t { ?s ?p ?o . ?t ?p ?o }", use_store_provided=False)
    graph.remove((None, None, None))
    assert len(list(result)) == 20


def test_created_graphs_are_remembered_while_they_are_empty(dataset: Any) -> None:
    def names() -> set[object]:
        return {each.identifier for each in dataset.graphs()}

    made = dataset.graph(EX.one)
    assert names() == {EX.one, DATASET_DEFAULT_GRAPH_ID}
    made.add((A, KNOWS, B))
    made.remove((A, KNOWS, B))
    dataset.get_context(EX.two).add((A, KNOWS, B))
    dataset.get_context(EX.two).remove((A, KNOWS, B))
    assert names() == {EX.one, DATASET_DEFAULT_GRAPH_ID}
    with undone(dataset):
        dataset.remove_graph(EX.one)
        dataset.graph(EX.three)
        assert names() == {EX.three, DATASET_DEFAULT_GRAPH_ID}
    assert names() == {EX.one, DATASET_DEFAULT_GRAPH_ID}
    dataset.remove_graph(EX.one)
    assert names() == {DATASET_DEFAULT_GRAPH_ID}


def test_two_transactions_create_the_same_graph(dataset: Any) -> None:
    with dataset.transaction():
        dataset.graph(EX.one)
        thread = threading.Thread(target=dataset.graph, args=(EX.one,))
        thread.start()
        thread.join()
    assert EX.one in {each.identifier for each in dataset.graphs()}


def test_a_graph_is_removed_with_its_statements(dataset: Any) -> None:
    dataset.add((A, KNOWS, B, EX.one))
    dataset.add((A, KNOWS, C))
    dataset.remove_graph(EX.one)
    dataset.remove_graph(EX.unknown)
    assert list(dataset.quads()) == [(A, KNOWS, C, DATASET_DEFAULT_GRAPH_ID)]
    dataset.remove_graph(DATASET_DEFAULT_GRAPH_ID)
    assert len(dataset) == 0


def test_formulas_are_terms_and_are_not_asserted(dataset: Any) -> None:
    dataset.parse(data=RULE, format="n3")
    ((body, _, head),) = dataset.triples((None, IMPLIES, None))
    assert type(body) is QuotedGraph
    assert type(head) is QuotedGraph
    assert list(body) == [(URIRef("urn:a"), URIRef("urn:b"), Variable("x"))]
    assert list(head) == [(Variable("x"), URIRef("urn:c"), URIRef("urn:d"))]
    assert (body, IMPLIES, head) in dataset
    assert len(dataset) == 2
    assert len(list(dataset.quads())) == 2
    assert set(dataset.graphs()) == {dataset.default_graph, body, head}
    assert [each.identifier for each in dataset.graphs((URIRef("urn:a"), URIRef("urn:b"), Variable("x")))] == [
        DATASET_DEFAULT_GRAPH_ID  # which a dataset adds to every answer
    ]
    union = Dataset(dataset.store, default_union=True)
    assert len(list(union.query("select * { ?s ?p ?o }"))) == 2
    assert list(union.query("select * { graph ?g { ?s ?p ?o } }")) == []
    dataset.remove((None, None, None))
    assert (len(dataset), len(body), len(head)) == (0, 1, 1)
    body.remove((None, None, None))
    assert (len(body), len(head)) == (0, 1)


def test_a_formula_named_by_an_iri_is_found_again(plugin: LowtideStore) -> None:
    formula = QuotedGraph(plugin, EX.formula)
    formula.addN([(A, KNOWS, B, formula)])
    Graph(plugin, EX.g).add((formula, EX.says, A))
    ((found, _, _),) = Graph(plugin, EX.g)
    assert type(found) is QuotedGraph
    assert found.identifier == EX.formula
    assert list(found) == [(A, KNOWS, B)]
    assert len(plugin) == 1
    plugin.add((A, KNOWS, C), Graph(plugin, EX.formula), quoted=True)
    assert len(found) == 2
    with pytest.raises(lowtide.UsageError, match="needs a formula"):
        plugin.add((A, KNOWS, C), None, quoted=True)


def test_terms_come_back_as_they_were(graph: Graph) -> None:
    terms = [
        BNode("b"),
        Literal("text"),
        Literal("a longer text than fits into an id"),
        Literal("text", lang="en"),
        Literal("text", datatype=rdflib.XSD.string),
        Literal(-5),
        Literal(1.5),
        Literal("2020-01-01", datatype=rdflib.XSD.date),
        Literal("not a number", datatype=rdflib.XSD.integer),
        Literal("x" * 1000),
    ]
    for each in terms:
        graph.add((A, KNOWS, each))
    assert {(each, getattr(each, "datatype", None)) for each in graph.objects(A, KNOWS)} == {
        (each, getattr(each, "datatype", None)) for each in terms
    }


def test_prefixes_are_in_the_transaction(graph: Graph, plugin: LowtideStore) -> None:
    assert plugin.prefix(URIRef(str(rdflib.FOAF._NS))) is None
    graph.bind("ex", EX)
    assert plugin.namespace("foaf") is not None  # rdflib binds its own, too
    with undone(graph):
        graph.bind("other", EX)
        graph.bind("fruit", "urn:fruit:")
        assert plugin.namespace("ex") is None
        assert plugin.prefix(URIRef(EX)) == "other"
    assert plugin.namespace("ex") == URIRef(EX)
    assert plugin.prefix(URIRef(EX)) == "ex"
    assert plugin.namespace("fruit") is None
    assert ("ex", URIRef(EX)) in list(graph.namespaces())


def test_prefixes_stay(open_store: object, store: lowtide.Store) -> None:
    Graph(LowtideStore(store), EX.g).bind("ex", EX)
    assert rdflib.Graph(LowtideStore(store), bind_namespaces="none").qname(EX.a) == "ex:a"


@pytest.mark.parametrize("override", [True, False])
def test_a_prefix_has_one_namespace_and_a_namespace_one_prefix(plugin: LowtideStore, override: bool) -> None:
    one, two = URIRef("urn:one:"), URIRef("urn:two:" + "x" * 600)
    plugin.bind("a", one)
    plugin.bind("b", two)
    plugin.bind("a", two, override=override)
    assert dict(plugin.namespaces()) == ({"a": two} if override else {"a": one, "b": two})
    for prefix, namespace in plugin.namespaces():
        assert plugin.prefix(namespace) == prefix
        assert plugin.namespace(prefix) == namespace
    with pytest.raises(lowtide.UsageError, match="400 bytes"):
        plugin.bind("x" * 401, one)


def test_equal_bindings_of_two_transactions_do_not_conflict(graph: Graph) -> None:
    """Each new graph makes rdflib's own thirty."""
    with graph.transaction():
        graph.bind("ex", EX)
        other = Graph(graph.store, EX.other)
        thread = threading.Thread(target=other.bind, args=("ex", EX))
        thread.start()
        thread.join()
    assert graph.qname(EX.a) == "ex:a"


def test_a_namespace_manager_is_one_transaction(graph: Graph, plugin: LowtideStore) -> None:
    before = plugin.store.stats().last_commit
    assert graph.qname(rdflib.RDF.type) == "rdf:type"
    assert plugin.store.stats().last_commit == before + 1
    assert Graph(plugin, EX.h).qname(rdflib.RDF.type) == "rdf:type"
    assert plugin.store.stats().last_commit == before + 1


def test_prefixes_come_in_the_order_of_binding(plugin: LowtideStore) -> None:
    for prefix in ("b", "a", "c", "b"):
        plugin.bind(prefix, URIRef(f"urn:{prefix}:"))
    assert [prefix for prefix, _ in plugin.namespaces()] == ["a", "c", "b"]
    assert [prefix for prefix, _ in LowtideStore(plugin.store).namespaces()] == ["a", "b", "c"]


def test_a_created_graph_that_is_in_use_keeps_its_base(dataset: Any) -> None:
    made = dataset.graph(EX.one, base="http://base.org/")
    assert next(each for each in dataset.graphs() if each.identifier == EX.one) is made
    del made
    assert next(each for each in dataset.graphs() if each.identifier == EX.one).base is None


def test_a_graph_is_not_pickled(graph: Graph) -> None:
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        copy.deepcopy(graph)


def test_events(graph: Graph) -> None:
    """Subscribers of one type are not asked for another, which rdflib's dispatcher would refuse."""
    told: list[object] = []
    subscribe(graph, TripleAddedEvent, lambda event: told.append(("added", event.triple)))
    graph.add((A, KNOWS, B))
    graph.remove((A, None, None))
    subscribe(graph, TripleRemovedEvent, lambda event: told.append(("removed", event.triple)))
    graph.remove((B, None, None))
    graph.parse(data="<urn:s> <urn:p> <urn:o> .", format="nt")
    statement = (URIRef("urn:s"), URIRef("urn:p"), URIRef("urn:o"))
    assert told == [("added", (A, KNOWS, B)), ("removed", (B, None, None)), ("added", statement)]


def test_a_conjunctive_graph_reads_all_graphs(plugin: LowtideStore) -> None:
    with pytest.warns(DeprecationWarning, match="ConjunctiveGraph"):
        graph = ConjunctiveGraph(plugin)
    graph.add((A, KNOWS, B))
    graph.get_context(EX.one).add((A, KNOWS, B))
    graph.get_context(EX.one).add((A, KNOWS, C))
    assert len(graph) == 2
    assert {o for row in graph.query("select ?o { ?s ?p ?o }") for o in row} == {B, C}  # type: ignore[union-attr]
    graph.remove((A, KNOWS, B))
    assert list(graph) == [(A, KNOWS, C)]


def test_an_inferred_statement_is_seen_and_removed(plugin: LowtideStore) -> None:
    plugin.store.quads("default").add((A, KNOWS, B, EX.g), inferred=True)
    graph = Graph(plugin, EX.g)
    assert list(graph) == [(A, KNOWS, B)]
    graph.remove((A, None, None))
    assert len(graph) == 0
