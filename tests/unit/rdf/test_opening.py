"""Opening: new and existing directories, names, open stores, snapshots; closing and destroying."""

from __future__ import annotations

from pathlib import Path

import pytest
import rdflib
from rdflib.graph import ConjunctiveGraph
from rdflib.store import NO_STORE, VALID_STORE

import lowtide
from lowtide.rdf import Dataset, Graph, LowtideStore
from tests.unit.rdf.blocks import rows
from tests.unit.rdf.names import AGE, EX, KNOWS, ONE, A, B


def test_the_plugin_is_found_by_its_name(tmp_path: Path) -> None:
    graph = rdflib.Graph("lowtide", identifier=EX.g)
    assert isinstance(graph.store, LowtideStore)
    assert graph.open(str(tmp_path / "new"), create=True) == VALID_STORE
    graph.add((A, KNOWS, B))
    graph.close()
    again = rdflib.Graph("lowtide", identifier=EX.g)
    assert again.open(str(tmp_path / "new")) == VALID_STORE
    assert list(again) == [(A, KNOWS, B)]
    again.close()


def test_what_a_store_can_do_is_said() -> None:
    kind = rdflib.plugin.get("lowtide", rdflib.store.Store)
    assert kind.context_aware
    assert kind.formula_aware
    assert kind.graph_aware
    assert kind.transaction_aware


def test_a_directory_without_a_store_is_opened_only_to_create_one(tmp_path: Path) -> None:
    graph = rdflib.Graph("lowtide")
    assert graph.open(str(tmp_path / "none")) == NO_STORE
    assert not (tmp_path / "none").exists()
    with pytest.raises(lowtide.UsageError, match=r"not open; call graph\.open"):
        graph.add((A, KNOWS, B))
    graph.close()


def test_a_graph_without_a_name_finds_its_statements_again(tmp_path: Path) -> None:
    """Its identifier is a new blank node each time, which stands for the default graph."""
    for expected in ([], [(A, KNOWS, B)]):
        graph = rdflib.Graph("lowtide")
        graph.open(str(tmp_path / "store"), create=True)
        assert list(graph) == expected
        graph.add((A, KNOWS, B))
        assert list(graph) == [(A, KNOWS, B)]
        graph.close()
    dataset = Dataset("lowtide")
    dataset.open(str(tmp_path / "store"))
    assert list(dataset.default_graph) == [(A, KNOWS, B)]
    dataset.close()


def test_a_conjunctive_graph_finds_its_default_context_again(tmp_path: Path) -> None:
    for already in (0, 1):
        with pytest.warns(DeprecationWarning, match="ConjunctiveGraph"):
            graph = ConjunctiveGraph("lowtide")
        graph.open(str(tmp_path / "store"), create=True)
        assert len(graph) == already
        graph.add((A, KNOWS, B))
        assert list(graph.contexts()) == [graph.default_context]
        assert list(graph.default_context) == [(A, KNOWS, B)]
        graph.close()


def test_graphs_of_one_process_share_a_store(tmp_path: Path) -> None:
    first, second = LowtideStore(tmp_path / "store"), LowtideStore(str(tmp_path / "store"))
    assert first.store is second.store
    Graph(first, EX.g).add((A, KNOWS, B))
    first.close()
    assert list(Graph(second, EX.g)) == [(A, KNOWS, B)]
    second.close()
    with lowtide.open(tmp_path / "store") as store:  # it is not open any more
        assert store.quads("default").count() == 1


def test_a_graph_that_was_dropped_lets_go_of_its_store(tmp_path: Path) -> None:
    Graph(LowtideStore(tmp_path / "store"), EX.g).add((A, KNOWS, B))
    with lowtide.open(tmp_path / "store") as store:
        assert store.quads("default").count() == 1


def test_options_and_names_are_given_by_a_mapping_or_a_pair(tmp_path: Path) -> None:
    books = LowtideStore({"path": tmp_path / "store", "name": "books", "durability": "relaxed"})
    people = LowtideStore((str(tmp_path / "store"), "people"))
    Graph(books, EX.g).add((A, KNOWS, B))
    assert len(Graph(people, EX.g)) == 0
    assert (books.quads_name, people.quads_name) == ("books", "people")
    with pytest.raises(lowtide.UsageError, match="other options"):
        LowtideStore({"path": tmp_path / "store", "durability": "full"})
    books.close()
    people.close()


def test_an_open_store_is_used_and_not_closed(store: lowtide.Store) -> None:
    plugin = LowtideStore(store)
    Graph(plugin, EX.g).add((A, KNOWS, B))
    plugin.close()
    assert list(store.quads("default").match()) == [(A, KNOWS, B, EX.g)]
    named = LowtideStore({"path": store, "name": "other"})
    assert len(named) == 0
    with pytest.raises(lowtide.UsageError, match="open already, so 'durability' cannot be set"):
        LowtideStore({"path": store, "durability": "full"})


def test_a_snapshot_can_be_read_and_queried_but_not_written(store: lowtide.Store) -> None:
    quads = store.quads("default")
    quads.add((A, AGE, ONE, EX.g))
    with store.snapshot() as snapshot:
        quads.clear()
        graph = Graph(LowtideStore(snapshot), EX.g)
        assert list(graph) == [(A, AGE, ONE)]
        assert rows(graph.query("select ?o { ?s ?p ?o }")) == [(ONE,)]
        graph.bind("ex", EX)
        assert graph.qname(AGE) == "ex:age"
        for change in (lambda: graph.add((A, KNOWS, B)), lambda: graph.remove((A, None, None)), graph.transaction):
            with pytest.raises(lowtide.UsageError, match="snapshot is read-only"):
                change()
    assert store.quads("default").prefixes.items() == []


def test_a_read_only_store_can_be_read_beside_its_owner(store: lowtide.Store) -> None:
    store.quads("default").add((A, AGE, ONE, EX.g))
    plugin = LowtideStore({"path": store.path, "read_only": True})
    dataset = Dataset(plugin)
    assert list(dataset.graph(EX.g)) == [(A, AGE, ONE)]
    assert rows(dataset.query("select ?o { graph ?g { ?s ?p ?o } }")) == [(ONE,)]
    with pytest.raises(lowtide.UsageError, match="read-only"):
        dataset.add((A, KNOWS, B))
    plugin.close()


def test_a_second_open_is_harmless_for_the_same_place_alone(tmp_path: Path) -> None:
    plugin = LowtideStore(tmp_path / "one")
    assert plugin.open(tmp_path / "one") == VALID_STORE
    with pytest.raises(lowtide.UsageError, match="close it before opening another"):
        plugin.open(tmp_path / "two", create=True)
    plugin.close()
    plugin.close()


@pytest.mark.parametrize("configuration", ["", 7, {"name": "books"}, ("one", "two", "three")])
def test_what_names_no_store_is_refused(configuration: object) -> None:
    with pytest.raises(lowtide.UsageError, match="names no store"):
        LowtideStore(configuration)  # type: ignore[arg-type]


def test_close_rolls_back_or_commits_what_is_pending(tmp_path: Path) -> None:
    plugin = LowtideStore(tmp_path / "store")
    graph = Graph(plugin, EX.g)
    for commit, expected in ((False, 0), (True, 1)):
        plugin.begin()
        graph.add((A, KNOWS, B))
        graph.close(commit_pending_transaction=commit)
        plugin.open(tmp_path / "store")
        assert len(graph) == expected
    plugin.close()


def test_destroy_removes_the_quads_and_a_directory_that_holds_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "store"
    graph = rdflib.Graph("lowtide", identifier=EX.g)
    graph.open(str(path), create=True)
    graph.bind("ex", EX)
    graph.add((A, KNOWS, B))
    with pytest.raises(lowtide.UsageError, match="close its graphs before"):
        graph.destroy(str(path))
    graph.close()
    graph.destroy(str(path))
    assert not path.exists()
    graph.destroy(str(path))


def test_destroy_leaves_other_data_alone(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with lowtide.open(path) as store:
        store["trees"].insert_one({"_id": "plum"})
        store.quads("people").add((A, KNOWS, B))
    plugin = LowtideStore(path)
    Graph(plugin, EX.g).add((A, KNOWS, B))
    plugin.close()
    plugin.destroy()
    with lowtide.open(path) as store:
        assert store["trees"].count_documents({}) == 1
        assert store.quads("people").count() == 1
        assert store.quads("default").count() == 0


def test_gc_collects(plugin: LowtideStore) -> None:
    graph = Graph(plugin, EX.g)
    graph.add((A, KNOWS, B))
    graph.remove((A, KNOWS, B))
    plugin.gc()
    assert len(graph) == 0
