"""Members of one commit group are validated against each other, at every level that validates (C5)."""

from __future__ import annotations

import pytest

import lowtide
from lowtide import Isolation
from tests.isolation.world import BUFFERED
from tests.support.collections import check_store
from tests.support.groups import commit_in_one_group


@pytest.mark.parametrize("level", BUFFERED)
def test_increments_in_one_group_are_acknowledged_once_for_each_that_is_stored(
    store: lowtide.Store, level: Isolation
) -> None:
    """Below SNAPSHOT the documents are guards: they were read at an instant of their own, and no earlier member of the
    group may have changed them."""
    store["c"].insert_one({"_id": 1, "n": 0})
    transactions = [store.begin(level) for _ in range(4)]
    for tx in transactions:
        tx["c"].update_one({"_id": 1}, {"$inc": {"n": 1}})
    raised = commit_in_one_group(store, [tx.commit for tx in transactions])
    assert raised[0] is None
    assert all(isinstance(error, lowtide.ConflictError) for error in raised[1:]), raised
    assert check_store(store)["c"][1] == {"_id": 1, "n": 1}


@pytest.mark.parametrize("level", BUFFERED)
def test_writers_of_different_documents_in_one_group_all_commit(store: lowtide.Store, level: Isolation) -> None:
    store["c"].insert_many([{"_id": each, "n": 0} for each in range(4)])
    transactions = [store.begin(level) for _ in range(4)]
    for each, tx in enumerate(transactions):
        tx["c"].update_one({"_id": each}, {"$inc": {"n": 1}})
    assert commit_in_one_group(store, [tx.commit for tx in transactions]) == [None] * 4
    assert [each["n"] for each in store["c"].find()] == [1] * 4
