"""Transactions on graphs: blocks, nesting, commit and rollback, levels, threads, retries."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rdflib
from rdflib import Literal
from rdflib.plugins.stores.auditable import AuditableStore

import lowtide
import lowtide.rdf
from lowtide.rdf import Graph, LowtideStore
from lowtide.rdf.methods import store_of
from tests.unit.rdf.blocks import rows, undone
from tests.unit.rdf.names import AGE, EX, KNOWS, ONE, TWO, A, B, C, D


def elsewhere(work: Callable[[], object]) -> None:
    """Do something in another thread, and wait for it."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


def test_a_block_commits_at_its_end(graph: Graph) -> None:
    with graph.transaction():
        graph.add((A, KNOWS, B))
        assert len(graph) == 1
        elsewhere(lambda: _expect(graph, 0))
    elsewhere(lambda: _expect(graph, 1))


def _expect(graph: rdflib.Graph, count: int) -> None:
    assert len(graph) == count


def test_a_block_that_fails_leaves_nothing(dataset: Any) -> None:
    with undone(dataset):
        dataset.add((A, KNOWS, B))
        dataset.graph(EX.g).add((A, KNOWS, C))
        dataset.bind("ex", EX)
    assert len(dataset) == 0
    assert [each.identifier for each in dataset.graphs()] == [dataset.default_graph.identifier]
    assert dataset.store.namespace("ex") is None


def test_rdflibs_own_graphs_have_transactions(tmp_path: Path) -> None:
    graph = rdflib.Graph("lowtide")
    graph.open(str(tmp_path / "store"), create=True)
    tx = graph.transaction()  # type: ignore[attr-defined]
    tx.__enter__()
    graph.add((A, KNOWS, B))
    tx.__exit__(ValueError, ValueError(), None)
    assert len(graph) == 0
    with graph.transaction():  # type: ignore[attr-defined]
        graph.add((A, KNOWS, C))
    assert list(graph) == [(A, KNOWS, C)]
    with lowtide.rdf.transaction(graph):
        graph.add((A, KNOWS, B))
    assert len(graph) == 2
    graph.close()


def test_graphs_on_other_stores_have_none() -> None:
    with pytest.raises(lowtide.UsageError, match=r"need a graph on a Lowtide store.*this one is on Memory"):
        lowtide.rdf.transaction(rdflib.Graph())


def test_an_inner_block_is_undone_on_its_own(graph: Graph) -> None:
    with graph.transaction():
        graph.add((A, KNOWS, B))
        with undone(graph):
            graph.add((A, KNOWS, C))
        with graph.transaction():
            graph.add((A, KNOWS, D))
            for end in (graph.commit, graph.rollback):
                with pytest.raises(lowtide.UsageError, match="nested transaction"):
                    end()
    assert set(graph.objects(A, KNOWS)) == {B, D}


def test_an_inner_block_has_the_level_of_the_outer_one(graph: Graph) -> None:
    with graph.transaction(isolation="serializable"):
        with graph.transaction(isolation="SERIALIZABLE"):
            graph.add((A, KNOWS, B))
        with pytest.raises(lowtide.UsageError, match="inside one of level SERIALIZABLE"), graph.transaction("snapshot"):
            raise AssertionError
    assert len(graph) == 1


def test_commit_and_rollback_in_a_block_begin_the_next_transaction(graph: Graph) -> None:
    with undone(graph, "serializable"):
        graph.add((A, KNOWS, B))
        graph.rollback()
        graph.add((A, KNOWS, C))
        graph.commit()
        graph.add((A, KNOWS, D))
        with pytest.raises(lowtide.UsageError, match="has a transaction open"):
            store_of(graph).begin()
    assert list(graph.objects(A, KNOWS)) == [C]


def test_begin_commit_and_rollback(graph: Graph) -> None:
    store = store_of(graph)
    tx = store.begin()
    graph.add((A, KNOWS, B))
    assert tx.quads("default").count() == 1
    elsewhere(lambda: _expect(graph, 0))
    graph.commit()
    store.begin()
    graph.remove((A, None, None))
    graph.rollback()
    assert len(graph) == 1


def test_commit_and_rollback_without_a_transaction_do_nothing(graph: Graph) -> None:
    graph.add((A, KNOWS, B))
    graph.rollback()
    graph.commit()
    assert len(graph) == 1


def test_a_transaction_covers_documents_too(graph: Graph) -> None:
    with graph.transaction() as tx:
        graph.add((A, KNOWS, B))
        tx["people"].insert_one({"_id": "a"})
    with undone(graph) as tx:
        graph.add((A, KNOWS, C))
        tx["people"].insert_one({"_id": "b"})
    assert len(graph) == 1
    assert store_of(graph).store["people"].count_documents({}) == 1


@pytest.mark.parametrize("level", list(lowtide.Isolation))
def test_every_level_can_be_chosen(graph: Graph, level: lowtide.Isolation) -> None:
    with graph.transaction(isolation=level) as tx:
        assert tx.isolation is level
        graph.add((A, KNOWS, B))
        graph.bind("ex", EX)
        graph.set((A, AGE, ONE))
        graph.parse(data="<urn:x> <urn:p> <urn:y> .", format="nt")
    assert len(graph) == 3


def test_the_first_committer_wins(graph: Graph) -> None:
    graph.add((A, AGE, ONE))

    def lose() -> None:
        with graph.transaction():
            graph.set((A, AGE, TWO))
            elsewhere(lambda: graph.set((A, AGE, Literal(3))))

    with pytest.raises(lowtide.ConflictError):
        lose()
    assert list(graph.objects(A, AGE)) == [Literal(3)]


def test_a_conflict_at_commit_leaves_nothing_and_the_thread_free(graph: Graph) -> None:
    store = store_of(graph)
    graph.add((A, AGE, ONE))
    store.begin()
    graph.remove((A, AGE, None))
    elsewhere(lambda: graph.remove((A, AGE, None)))
    with pytest.raises(lowtide.ConflictError):
        graph.commit()
    graph.add((A, KNOWS, B))  # on its own, as there is no transaction any more
    elsewhere(lambda: _expect(graph, 1))


def test_adds_of_the_same_statement_do_not_conflict(graph: Graph) -> None:
    with graph.transaction("serializable"):
        graph.add((A, KNOWS, B))
        elsewhere(lambda: graph.add((A, KNOWS, B)))
    assert len(graph) == 1


def test_write_skew_is_refused_by_serializable_alone(graph: Graph) -> None:
    """Two doctors are on call; each leaves because the other one stays."""
    for level, allowed in (("snapshot", True), ("serializable", False)):
        graph.remove((None, None, None))
        graph.add((A, EX.on, EX.call))
        graph.add((B, EX.on, EX.call))

        def leave(who: rdflib.URIRef) -> None:
            if len(list(graph.subjects(EX.on, EX.call))) > 1:
                graph.remove((who, EX.on, EX.call))

        def both(level: str = level) -> None:
            with graph.transaction(level):
                leave(A)
                elsewhere(lambda: graph.run(lambda _: leave(B), level))

        if allowed:
            both()
            assert len(graph) == 0
        else:
            with pytest.raises(lowtide.ConflictError):
                both()
            assert len(graph) == 1


def test_run_retries_what_lost_a_conflict(graph: Graph) -> None:
    graph.add((A, AGE, Literal(0)))
    attempts = []

    def grow(tx: lowtide.Transaction) -> None:
        age = graph.value(A, AGE)
        assert isinstance(age, Literal)
        attempts.append(age.toPython())
        if len(attempts) == 1:
            elsewhere(lambda: graph.set((A, AGE, Literal(10))))
        graph.set((A, AGE, Literal(age.toPython() + 1)))
        with pytest.raises(lowtide.UsageError, match=r"run\(\) commits it|in a nested transaction"):
            graph.commit()

    graph.run(grow)
    assert attempts == [0, 10]
    assert graph.value(A, AGE) == Literal(11)
    with graph.transaction():
        graph.run(grow)  # a part of the transaction
        elsewhere(lambda: _expect_age(graph, 11))
    assert graph.value(A, AGE) == Literal(12)


def _expect_age(graph: rdflib.Graph, age: int) -> None:
    assert graph.value(A, AGE) == Literal(age)


def test_counting_threads_lose_nothing(graph: Graph) -> None:
    graph.add((A, AGE, Literal(0)))

    def grow(tx: lowtide.Transaction) -> None:
        age = graph.value(A, AGE)
        assert isinstance(age, Literal)
        graph.set((A, AGE, Literal(age.toPython() + 1)))

    def work() -> None:
        for _ in range(10):
            graph.run(grow)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert graph.value(A, AGE) == Literal(40)


def test_two_threads_have_two_transactions(tmp_path: Path) -> None:
    """Each with a graph of its own on the same directory, at the same time."""
    barrier = threading.Barrier(2)
    seen: dict[str, list[object]] = {}

    def work(name: str) -> None:
        graph = Graph("lowtide", EX.g)
        graph.open(str(tmp_path / "store"), create=True)
        with graph.transaction():
            graph.add((EX[name], KNOWS, D))
            barrier.wait()
            seen[name] = list(graph.subjects(KNOWS, D))
            barrier.wait()
        barrier.wait()
        seen[name].append(len(graph))
        barrier.wait()
        graph.close()

    threads = [threading.Thread(target=work, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {"one": [EX.one, 2], "two": [EX.two, 2]}


def test_a_read_only_transaction_reads_one_snapshot(graph: Graph) -> None:
    graph.add((A, AGE, ONE))
    with graph.transaction(read_only=True):
        elsewhere(lambda: graph.set((A, AGE, TWO)))
        assert list(graph.objects(A, AGE)) == [ONE]
        assert rows(graph.query("select ?age { ?s ?p ?age }")) == [(ONE,)]
        with pytest.raises(lowtide.UsageError, match="read-only"):
            graph.add((A, KNOWS, B))
    assert list(graph.objects(A, AGE)) == [TWO]


def test_an_auditable_store_on_top_rolls_back(graph: Graph) -> None:
    graph.add((A, KNOWS, B))
    audited = rdflib.Graph(AuditableStore(graph.store), graph.identifier)
    audited.add((A, KNOWS, C))
    audited.remove((A, KNOWS, B))
    assert list(graph.objects(A, KNOWS)) == [C]
    audited.rollback()
    assert list(graph.objects(A, KNOWS)) == [B]


def test_the_transaction_that_a_user_has_ended_is_not_ended_again(graph: Graph) -> None:
    with graph.transaction() as tx:
        graph.add((A, KNOWS, B))
        tx.commit()
    assert len(graph) == 1
    with graph.transaction():
        graph.add((A, KNOWS, C))
    assert len(graph) == 2


def test_a_store_that_is_closed_in_a_block_gives_nothing_up_silently(plugin: LowtideStore) -> None:
    graph = Graph(plugin, EX.g)
    with graph.transaction():
        graph.add((A, KNOWS, B))
        plugin.close()
    assert not plugin.is_open
