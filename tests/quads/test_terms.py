"""The dictionary of terms: equal adds merge, colliding terms stay distinct, and unused terms are collected."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from rdflib import Literal, URIRef

import lowtide
from lowtide import ConflictError
from lowtide.quads import DEFAULT, collecting
from lowtide.quads.collecting import remove_terms
from lowtide.quads.hashing import ID_BYTES
from tests.quads.colliding import short_hashes
from tests.support.groups import commit_in_one_group
from tests.unit.quads.terms import AGE, ANN, BOB, CYD, KNOWS, LIKES, LONG, G

LEVELS = ["none", "read_committed", "snapshot_read", "snapshot", "serializable"]


def rows(store: lowtide.Store, name: str = "people") -> set[bytes]:
    return {key for key, _ in store.keyspace(f"quads/{name}/terms").scan() if len(key) == ID_BYTES}


@pytest.mark.parametrize("isolation", LEVELS)
@pytest.mark.parametrize("other", LEVELS)
def test_transactions_that_add_the_same_statement_both_commit(store: lowtide.Store, isolation: str, other: str) -> None:
    one, two = store.begin(isolation), store.begin(other)
    for tx in (one, two):
        tx.quads("people").add((ANN, LIKES, LONG, G))
    two.commit()
    one.commit()
    assert store.quads("people").count() == 1
    assert store.verify().ok


def test_an_add_that_changed_nothing_is_no_insert(store: lowtide.Store) -> None:
    one, two = store.begin(), store.begin()
    for tx in (one, two):
        tx.quads("people").add((ANN, LIKES, LONG))
    one.commit()
    two.commit()
    kinds = [(change.ts, change.kind) for change in store.changes(keyspaces=["quads/people/spoc"])]
    assert kinds == [(1, "insert"), (2, "update")]
    assert {change.kind for change in store.changes(since=1)} == {"update"}


def test_what_merged_tells_the_value_before(open_store: Callable[..., lowtide.Store]) -> None:
    store = open_store(before_images=True)
    one, two = store.begin(), store.begin()
    for tx in (one, two):
        tx.quads("people").add((ANN, LIKES, LONG))
        tx.keyspace("other").put(tx.isolation.value.encode() + str(id(tx)).encode(), b"1")
    one.commit()
    two.commit()
    told = list(store.changes(since=1, before=True))
    assert {change.before for change in told if change.keyspace == "quads/people/spoc"} == {b"e"}
    assert {change.before for change in told if change.keyspace == "other"} == {None}


@pytest.mark.parametrize("first", ["add", "remove"])
def test_an_add_and_a_removal_conflict(store: lowtide.Store, first: str) -> None:
    store.quads("people").add((ANN, LIKES, LONG))
    adding, removing = store.begin(), store.begin()
    adding.quads("people").add((ANN, LIKES, LONG))
    assert removing.quads("people").remove((ANN, LIKES, LONG)) == 1
    winner, loser = (adding, removing) if first == "add" else (removing, adding)
    winner.commit()
    with pytest.raises(ConflictError):
        loser.commit()
    assert store.quads("people").count() == (first == "add")


def test_explicit_and_inferred_adds_of_one_statement_conflict(store: lowtide.Store) -> None:
    one, two = store.begin(), store.begin()
    one.quads("people").add((ANN, LIKES, LONG))
    two.quads("people").add((ANN, LIKES, LONG), inferred=True)
    one.commit()
    with pytest.raises(ConflictError):
        two.commit()
    assert store.quads("people").count(inferred=False) == 1


@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
def test_equal_adds_merge_within_a_commit_group(store: lowtide.Store, isolation: str) -> None:
    store.quads("people").add((ANN, LIKES, LONG))

    def add(extra: URIRef) -> Callable[[], int]:
        tx = store.begin(isolation)
        tx.quads("people").add_many([(ANN, LIKES, LONG), (extra, LIKES, LONG)])
        return tx.commit

    def remove() -> Callable[[], int]:
        tx = store.begin(isolation)
        tx.quads("people").remove((ANN, LIKES, LONG))
        return tx.commit

    outcomes = commit_in_one_group(store, [add(ANN), add(BOB), remove(), add(CYD)])
    assert [type(each) for each in outcomes] == [type(None), type(None), ConflictError, type(None)]
    assert store.quads("people").count() == 3
    assert store.verify().ok
    inserted = [change for change in store.changes(keyspaces=["quads/people/terms"]) if change.kind == "insert"]
    assert len(inserted) == len({change.key for change in inserted}) == 5


def test_threads_that_add_the_same_terms_never_conflict(store: lowtide.Store) -> None:
    statements = [(URIRef(f"urn:{n % 7}"), KNOWS, Literal(f"text number {n % 5}")) for n in range(35)]
    failed: list[BaseException] = []

    def work() -> None:
        try:
            for statement in statements:
                with store.transaction() as tx:
                    tx.quads("people").add(statement)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert store.stats().conflicts == 0
    assert store.quads("people").count() == 35
    assert len(rows(store)) == 7 + 5 + 1
    assert store.verify().ok


def test_terms_that_collide_are_told_apart(store: lowtide.Store) -> None:
    with short_hashes():
        people = [(URIRef(f"urn:{n}"), URIRef(f"urn:p{n % 3}"), Literal(f"a long text {n}")) for n in range(20)]
        quads = store.quads("people")
        with store.transaction() as tx:
            for person in people[:7]:
                tx.quads("people").add(person)
        quads.add_many(people[7:])
        for person in people:
            assert [each[:3] for each in quads.match(person)] == [person]
            assert quads.contains((person[0], None, None))
        assert not quads.contains((URIRef("urn:nobody"), None, None))
        assert {each[:3] for each in quads.match()} == set(people)
        report = store.verify()
        assert report.problems == []
        quads.remove((None, None, None))
        store.collect_garbage()
        for person in reversed(people):
            quads.add(person)
        assert {each[:3] for each in quads.match()} == set(people)
        assert store.verify().ok


def test_two_terms_that_collide_in_two_transactions_conflict_and_are_retried(store: lowtide.Store) -> None:
    with short_hashes(1):
        one, two = store.begin(), store.begin()
        one.quads("people").add((ANN, ANN, ANN))
        two.quads("people").add((BOB, BOB, BOB))
        one.commit()
        with pytest.raises(ConflictError):
            two.commit()
        store.quads("people").add((BOB, BOB, BOB))
        assert set(store.quads("people").match()) == {(ANN, ANN, ANN, None), (BOB, BOB, BOB, None)}
        assert store.verify().ok


def test_a_rolled_back_term_is_not_remembered_for_one_that_collides(store: lowtide.Store) -> None:
    with short_hashes(1):
        tx = store.begin()
        tx.quads("people").add((ANN, ANN, ANN))
        assert list(tx.quads("people").match()) == [(ANN, ANN, ANN, None)]
        tx.rollback()
        store.quads("people").add((BOB, BOB, BOB))
        assert list(store.quads("people").match()) == [(BOB, BOB, BOB, None)]
        assert not store.quads("people").contains((ANN, None, None))


def test_a_rolled_back_term_that_was_looked_up_is_not_remembered_for_one_that_collides(store: lowtide.Store) -> None:
    with short_hashes(1):
        tx = store.begin()
        tx.quads("people").add((ANN, ANN, ANN))
        assert tx.quads("people").contains((ANN, None, None))
        tx.rollback()
        store.quads("people").add((BOB, BOB, BOB))
        assert store.quads("people").contains((BOB, None, None))
        assert not store.quads("people").contains((ANN, None, None))


def test_unused_terms_are_collected_beside_a_snapshot(store: lowtide.Store) -> None:
    quads = store.quads("people")
    quads.add_many([(ANN, LIKES, LONG, G), (ANN, KNOWS, BOB), (BOB, AGE, Literal(5))])
    with store.snapshot() as snapshot:
        quads.remove((ANN, None, None))
        store.collect_garbage()
        assert len(rows(store)) == 2
        assert store.verify().ok
        assert snapshot.quads("people").count() == 3
        assert (ANN, LIKES, LONG, G) in set(snapshot.quads("people").match())
        assert snapshot.quads("people").contains((ANN, KNOWS, BOB))
    assert not quads.contains((ANN, None, None))
    quads.add((ANN, LIKES, LONG))
    assert set(quads.match()) == {(ANN, LIKES, LONG, None), (BOB, AGE, Literal(5), None)}
    quads.drop()
    store.checkpoint()
    store.collect_garbage()
    assert rows(store) == set()
    commits = store.stats().last_commit
    store.collect_garbage()
    assert store.stats().last_commit == commits


@pytest.mark.parametrize("isolation", ["read_committed", "snapshot_read", "snapshot", "serializable"])
def test_a_term_that_was_found_cannot_vanish_before_the_commit(store: lowtide.Store, isolation: str) -> None:
    quads = store.quads("people")
    quads.add((ANN, LIKES, LONG))
    quads.remove((ANN, LIKES, LONG))
    tx = store.begin(isolation)
    tx.quads("people").add((BOB, LIKES, LONG))
    store.collect_garbage()
    assert rows(store) == set()
    with pytest.raises(ConflictError):
        tx.commit()
    assert store.run(lambda tx: tx.quads("people").add((BOB, LIKES, LONG)), isolation) is None
    assert list(quads.match()) == [(BOB, LIKES, LONG, None)]
    assert store.verify().ok


def test_a_term_that_is_used_again_is_not_collected(store: lowtide.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The add commits when the collection has found the terms to be unused, and has not yet committed."""
    quads = store.quads("people")
    quads.add_many([(ANN, LIKES, LONG), (ANN, KNOWS, CYD)])
    quads.remove((None, None, None))
    found: list[int] = []

    def removed(*arguments: Any) -> int:
        found.append(remove_terms(*arguments))
        if len(found) == 1:
            quads.add((BOB, LIKES, LONG))
        return found[-1]

    monkeypatch.setattr(collecting, "remove_terms", removed)
    store.collect_garbage()
    assert found == [5, 3]
    assert list(quads.match()) == [(BOB, LIKES, LONG, None)]
    assert len(rows(store)) == 3
    assert store.verify().ok


def test_reads_of_the_dictionary_are_no_reads_of_the_transaction(store: lowtide.Store) -> None:
    """Blind adds and removals of statements that are fully given read nothing, so no commit can refuse them."""
    quads = store.quads("people")
    quads.add((ANN, LIKES, LONG))
    tx = store.begin("serializable")
    tx.quads("people").add_many([(ANN, LIKES, CYD), (BOB, KNOWS, LONG)])
    tx.quads("people").remove((ANN, LIKES, LONG, DEFAULT))
    quads.add_many([(CYD, LIKES, LONG), (BOB, LIKES, ANN), (CYD, CYD, CYD)])
    quads.remove((CYD, CYD, CYD))
    tx.commit()
    assert quads.count() == 4


def test_a_term_that_was_not_found_is_a_read(store: lowtide.Store) -> None:
    store.quads("people").add((ANN, LIKES, LONG))
    tx = store.begin("serializable")
    assert not tx.quads("people").contains((CYD, None, None))
    tx.quads("people").add((ANN, LIKES, BOB))
    store.quads("people").add((CYD, LIKES, LONG))
    with pytest.raises(ConflictError):
        tx.commit()


def test_two_inferred_adds_below_snapshot_do_not_hide_an_explicit_one(store: lowtide.Store) -> None:
    tx = store.begin("read_committed")
    tx.quads("people").add((ANN, LIKES, LONG), inferred=True)
    store.quads("people").add((ANN, LIKES, LONG))
    with pytest.raises(ConflictError):
        tx.commit()
    assert store.quads("people").count(inferred=False) == 1
