"""The change feed distinguishes replaced from updated documents, at every level, whatever is committed meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import lowtide
from lowtide import Isolation


def kinds(store: lowtide.Store) -> list[tuple[str, object]]:
    with store.collection("a").watch(since=0, timeout=0) as changes:
        return [(change.kind, change.id) for change in changes]


@pytest.mark.parametrize("level", Isolation)
def test_each_statement_has_the_kind_that_it_is(store: lowtide.Store, level: Isolation) -> None:
    statements: tuple[Callable[[lowtide.Collection], object], ...] = (
        lambda documents: documents.insert_one({"_id": 1}),
        lambda documents: documents.replace_one({"_id": 1}, {"v": 1}),
        lambda documents: documents.update_one({"_id": 1}, {"$set": {"v": 2}}),
        lambda documents: documents.find_one_and_replace({"_id": 1}, {"v": 3}),
        lambda documents: documents.replace_one({"_id": 2}, {"v": 3}, upsert=True),
        lambda documents: documents.delete_many({}),
    )
    for work in statements:
        with store.transaction(level) as tx:
            work(tx["a"])
    assert kinds(store) == [
        ("insert", 1),
        ("replace", 1),
        ("update", 1),
        ("replace", 1),
        ("insert", 2),
        ("delete", 1),
        ("delete", 2),
    ]
    assert store.verify().ok


def test_one_commit_shows_one_change_of_a_document(store: lowtide.Store) -> None:
    with store.transaction() as tx:
        tx["a"].insert_one({"_id": 1})
        tx["a"].replace_one({"_id": 1}, {"v": 1})
    with store.transaction() as tx:
        tx["a"].replace_one({"_id": 1}, {"v": 2})
        tx["a"].update_one({"_id": 1}, {"$inc": {"v": 1}})
    assert kinds(store) == [("insert", 1), ("replace", 1)]


@pytest.mark.parametrize("level", [Isolation.READ_COMMITTED, Isolation.SNAPSHOT_READ])
def test_a_commit_that_looks_again_keeps_the_kind(store: lowtide.Store, level: Isolation) -> None:
    """Below SNAPSHOT, what was there before is looked up under the lock if others have committed since."""
    store["a"].insert_one({"_id": 1})
    with store.transaction(level) as tx:
        tx["a"].replace_one({"_id": 1}, {"v": 1})
        store["b"].insert_one({"_id": 1})
        tx.keyspace("k").put(b"key", b"value")
    assert kinds(store) == [("insert", 1), ("replace", 1)]


def test_what_a_savepoint_undid_was_not_replaced(store: lowtide.Store) -> None:
    store["a"].insert_one({"_id": 1})
    with store.transaction() as tx:
        with tx.savepoint() as savepoint:
            tx["a"].replace_one({"_id": 1}, {"v": 1})
            savepoint.rollback()
        tx["a"].update_one({"_id": 1}, {"$set": {"v": 2}})
    assert kinds(store) == [("insert", 1), ("update", 1)]
