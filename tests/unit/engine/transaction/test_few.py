"""What a transaction has read of a range is right when it reads it again, whatever it wrote meanwhile (I3)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lowtide


@pytest.fixture
def store(tmp_path: Path) -> Iterator[lowtide.Store]:
    with lowtide.open(tmp_path / "store", durability="relaxed") as store:
        store["rows"].create_index("k")
        store["rows"].insert_many([{"_id": number, "k": number, "n": 0} for number in range(4)])
        yield store


def found(tx: lowtide.Transaction) -> list[Any]:
    return [row["_id"] for row in tx["rows"].find({"k": {"$gte": 1, "$lt": 10}})]


def test_a_range_that_was_read_shows_own_writes(store: lowtide.Store) -> None:
    with store.transaction() as tx:
        assert found(tx) == found(tx) == [1, 2, 3]
        tx["rows"].insert_one({"_id": 9, "k": 9, "n": 0})
        assert found(tx) == [1, 2, 3, 9]
        tx["rows"].delete_one({"_id": 2})
        assert found(tx) == [1, 3, 9]
        assert tx["rows"].update_many({"k": {"$gte": 1, "$lt": 10}}, {"$inc": {"n": 1}}).modified_count == 3


def test_a_range_that_was_read_shows_what_a_savepoint_left(store: lowtide.Store) -> None:
    with store.transaction() as tx:
        assert found(tx) == [1, 2, 3]
        with contextlib.suppress(ValueError), tx.savepoint():
            tx["rows"].delete_one({"_id": 2})
            assert found(tx) == [1, 3]
            raise ValueError
        assert found(tx) == [1, 2, 3]


def test_a_range_that_was_read_stays_that_of_the_snapshot(store: lowtide.Store) -> None:
    with store.transaction() as tx:
        assert found(tx) == [1, 2, 3]
        store["rows"].insert_one({"_id": 5, "k": 5, "n": 0})
        store["rows"].delete_one({"_id": 1})
        store.checkpoint()
        assert found(tx) == [1, 2, 3]
    with store.transaction() as tx:
        assert found(tx) == [2, 3, 5]


def test_a_larger_part_of_the_same_range_is_read_anew(store: lowtide.Store) -> None:
    with store.transaction() as tx:
        wanted = {"k": {"$gte": 1, "$lt": 10}}
        assert [row["_id"] for row in tx["rows"].find(wanted).limit(2)] == [1, 2]
        assert found(tx) == [1, 2, 3]
        assert [row["_id"] for row in tx["rows"].find(wanted).sort("k", -1)] == [3, 2, 1]
