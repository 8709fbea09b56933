"""Methods of rdflib's graphs that are one transaction each: parse, set, -=, update, and those of datasets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import rdflib
from rdflib import Literal, URIRef
from rdflib.graph import DATASET_DEFAULT_GRAPH_ID
from rdflib.plugins.stores.memory import Memory

from lowtide.errors import QueryTimeout
from lowtide.rdf import Dataset, Graph, LowtideStore
from lowtide.rdf.methods import install
from tests.unit.rdf.blocks import subscribe, undone
from tests.unit.rdf.names import AGE, EX, KNOWS, ONE, TWO, A, B, C

MANY = "".join(f"<urn:s{n}> <urn:p> {n} .\n" for n in range(200))


def commits(plugin: LowtideStore) -> int:
    return plugin.store.stats().last_commit


@pytest.mark.parametrize("kind", [rdflib.Graph, Graph, rdflib.Dataset, Dataset])
def test_parse_is_one_transaction(plugin: LowtideStore, kind: type[rdflib.Graph]) -> None:
    graph = kind(plugin)
    graph.namespace_manager  # noqa: B018  # binds prefixes, once
    before = commits(plugin)
    graph.parse(data="@prefix ex: <http://example.org/> .\n" + MANY, format="turtle")
    assert commits(plugin) == before + 1
    assert len(graph) == 200
    assert plugin.namespace("ex") == URIRef(EX)


@pytest.mark.parametrize("format", ["turtle", "nt", "nquads", "trig", "n3"])
def test_a_parse_that_fails_leaves_nothing(dataset: Any, plugin: LowtideStore, format: str) -> None:
    numbers = "".join(f'<urn:s{n}> <urn:p> "{n}" .\n' for n in range(200))
    with pytest.raises(Exception, match=r"expected|Invalid|Bad|bad|Predicate"):
        dataset.parse(data=numbers + "<urn:s> broken", format=format)
    assert len(dataset) == 0
    assert plugin.store.quads("default").count() == 0
    dataset.parse(data=numbers, format=format)
    assert len(dataset) == 200


def test_a_parse_that_fails_in_a_transaction_undoes_itself_alone(graph: Graph) -> None:
    with graph.transaction():
        graph.add((A, KNOWS, B))
        with pytest.raises(SyntaxError):
            graph.parse(data=MANY + "<urn:s> broken", format="turtle")
        assert list(graph) == [(A, KNOWS, B)]
        graph.add((A, KNOWS, C))
    assert len(graph) == 2


def test_a_parse_is_rolled_back_with_its_transaction(graph: Graph) -> None:
    with undone(graph):
        graph.parse(data=MANY, format="turtle")
        assert len(graph) == 200
    assert len(graph) == 0


def test_a_parser_that_reads_sees_what_it_has_added(graph: Graph) -> None:
    """As an event's subscriber does while the parser runs."""
    seen: list[int] = []
    subscribe(graph, rdflib.store.TripleAddedEvent, lambda event: seen.append(len(graph)))
    graph.parse(data="<urn:a> <urn:b> 1, 2, 3 .", format="turtle")
    assert seen == [1, 2, 3]


def test_quads_are_parsed_without_a_loss_to_the_default_graph(dataset: Any) -> None:
    """rdflib's parser of N-Quads clears the default graph when it parses into another one."""
    dataset.add((A, KNOWS, B))
    dataset.get_context(EX.other).parse(
        data="<urn:a> <urn:b> <urn:c> <urn:g> .\n<urn:a> <urn:b> <urn:d> .", format="nquads"
    )
    assert (A, KNOWS, B) in dataset
    urn = {each: URIRef(f"urn:{each}") for each in "abcdg"}
    assert set(dataset.quads()) == {
        (A, KNOWS, B, DATASET_DEFAULT_GRAPH_ID),
        (urn["a"], urn["b"], urn["c"], urn["g"]),
        (urn["a"], urn["b"], urn["d"], EX.other),
    }


def test_parse_merges_with_what_is_added_and_removed_beside_it(graph: Graph, plugin: LowtideStore) -> None:
    """It cannot be run again, so it does not lose a conflict."""
    graph.add((A, AGE, ONE))

    class Beside:
        """A file whose middle is read after another thread's commit."""

        def __init__(self) -> None:
            one = b'<http://example.org/a> <http://example.org/age> "1"^^<http://www.w3.org/2001/XMLSchema#integer> .\n'
            self._parts = iter([one, b"<urn:x> <urn:y> <urn:z> .\n"])

        def read(self, size: int = -1) -> bytes:
            part = next(self._parts, b"")
            if b"urn:x" in part:
                plugin.store.quads("default").remove((A, AGE, None))
            return part

        def close(self) -> None:
            """What a parser does at the end."""

    graph.parse(Beside(), format="nt")  # type: ignore[arg-type]
    assert set(graph) == {(A, AGE, ONE), (URIRef("urn:x"), URIRef("urn:y"), URIRef("urn:z"))}


def test_set_is_one_transaction(graph: Graph, plugin: LowtideStore) -> None:
    graph.set((A, AGE, ONE))
    before = commits(plugin)
    graph.set((A, AGE, TWO))
    assert commits(plugin) == before + 1
    assert list(graph) == [(A, AGE, TWO)]


def test_subtraction_is_one_transaction_and_reads_its_operand_once(graph: Graph, plugin: LowtideStore) -> None:
    graph.addN((A, AGE, Literal(n), graph) for n in range(10))
    before = commits(plugin)

    def some() -> Iterator[tuple[URIRef, URIRef, Literal]]:
        for n in range(9):
            yield A, AGE, Literal(n)

    graph -= some()
    assert commits(plugin) == before + 1
    assert list(graph) == [(A, AGE, Literal(9))]


def test_addition_and_set_operations(graph: Graph) -> None:
    other = rdflib.Graph()
    other.add((A, KNOWS, C))
    graph.add((A, KNOWS, B))
    assert set(graph + other) == {(A, KNOWS, B), (A, KNOWS, C)}
    assert isinstance((graph + other).store, Memory)
    graph += other
    assert len(graph) == 2
    assert set(graph - other) == {(A, KNOWS, B)}
    assert set(graph * other) == {(A, KNOWS, C)}


@pytest.mark.parametrize("by_the_store", [True, False])
def test_an_update_of_several_operations_is_one_transaction(plugin: LowtideStore, by_the_store: bool) -> None:
    graph = rdflib.Graph(plugin, EX.g)
    graph.add((A, AGE, ONE))
    before = commits(plugin)
    request = """
        prefix ex: <http://example.org/>
        insert data { ex:b ex:age 1 } ;
        delete { ?s ex:age ?o } insert { ?s ex:age 2 } where { ?s ex:age ?o }
    """
    graph.namespace_manager  # noqa: B018
    made = commits(plugin) - before
    graph.update(request, use_store_provided=by_the_store)
    assert commits(plugin) == before + made + 1
    assert set(graph) == {(A, AGE, TWO), (B, AGE, TWO)}


def test_an_update_that_fails_leaves_nothing(graph: Graph) -> None:
    request = "insert data { <urn:a> <urn:b> <urn:c> } ; load <file:///no/such/file>"
    with pytest.raises(Exception, match="no/such/file"):
        graph.update(request)
    assert len(graph) == 0


def test_insert_data_on_a_dataset_works(dataset: Any) -> None:
    """rdflib's own processor raises here."""
    dataset.update("insert data { <urn:a> <urn:b> <urn:c> . graph <urn:g> { <urn:a> <urn:b> <urn:d> } }")
    urn = {each: URIRef(f"urn:{each}") for each in "abcdg"}
    assert set(dataset.quads()) == {
        (urn["a"], urn["b"], urn["c"], DATASET_DEFAULT_GRAPH_ID),
        (urn["a"], urn["b"], urn["d"], urn["g"]),
    }


def test_a_graph_is_copied_into_a_dataset_in_one_transaction(dataset: Any, plugin: LowtideStore) -> None:
    other = rdflib.Graph(identifier=EX.copied)
    other.add((A, KNOWS, B))
    before = commits(plugin)
    dataset.add_graph(other)
    assert list(dataset.get_context(EX.copied)) == [(A, KNOWS, B)]
    assert commits(plugin) <= before + 2  # the prefixes that rdflib binds are another one
    dataset.remove_graph(EX.copied)
    assert len(dataset) == 0


def test_other_stores_do_what_they_did(tmp_path: Path) -> None:
    graph = rdflib.Graph()
    graph.open(str(tmp_path))
    graph.parse(data=MANY, format="turtle")
    graph.set((URIRef("urn:s1"), URIRef("urn:p"), ONE))
    graph -= rdflib.Graph()
    graph.update("insert data { <urn:x> <urn:y> <urn:z> }")
    assert len(graph) == 201
    assert len(graph.query("select ?s { ?s ?p ?o }")) == 201
    dataset = rdflib.Dataset()
    dataset.graph(EX.one)
    dataset.remove_graph(EX.one)
    assert len(list(dataset.graphs())) == 1


def test_installing_twice_changes_nothing() -> None:
    parse = rdflib.Graph.parse
    install()
    assert rdflib.Graph.parse is parse


def test_a_query_has_a_timeout_and_a_plan(graph: Graph) -> None:
    graph.addN((EX[f"s{n}"], AGE, Literal(n), graph) for n in range(50))
    with pytest.raises(QueryTimeout):
        graph.query("select * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i }", timeout=1e-9)
    assert "age" in str(graph.explain("select ?s { ?s <http://example.org/age> 3 }"))


@pytest.mark.parametrize("plain", [True, False])
def test_addn_adds_what_rdflib_adds(plugin: LowtideStore, plain: bool) -> None:
    """Of its own graph alone, from a generator that is read once; a term that is none is refused, and nothing added."""
    graph, other = rdflib.Graph(plugin, EX.one), rdflib.Graph(plugin, EX.two)
    memory = rdflib.Graph(identifier=graph.identifier)
    made: list[Any] = [(A, AGE, ONE), (A, KNOWS, B), (B, AGE, Literal("x", lang="en"))]
    if not plain:
        made.append((A, KNOWS, rdflib.Variable("v")))
    assert graph.addN((s, p, o, graph) for s, p, o in made) is graph
    memory.addN((s, p, o, memory) for s, p, o in made)
    assert set(graph) == set(memory)
    graph.addN([(A, AGE, TWO, other), (C, AGE, TWO, graph)])
    assert (A, AGE, TWO) not in graph
    assert (C, AGE, TWO) in graph
    assert len(other) == 0
    quads: Any = [(C, KNOWS, A, graph), (C, KNOWS, "no term", graph)]
    with pytest.raises(AssertionError, match="must be an rdflib term"):
        graph.addN(quads)
    assert (C, KNOWS, A) not in graph
    wrong: Any = [(A, AGE, ONE)]
    with pytest.raises(ValueError, match="unpack"):
        graph.addN(wrong)
    assert graph.addN([]) is graph


def test_addn_of_a_dataset_takes_graphs_and_names(plugin: LowtideStore) -> None:
    data: Any = rdflib.Dataset(plugin)
    one, two = data.graph(EX.one), data.graph(EX.two)
    assert data.addN([(A, AGE, ONE, one), (A, AGE, TWO, two)]) is data
    assert data.addN([(B, AGE, ONE, EX.one)]) is data
    assert set(one) == {(A, AGE, ONE), (B, AGE, ONE)}
    assert set(two) == {(A, AGE, TWO)}
    with pytest.raises(AssertionError, match="must be an rdflib term"):
        data.addN([(A, AGE, "no term", one)])
