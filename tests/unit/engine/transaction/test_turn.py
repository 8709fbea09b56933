"""A transaction that has its turn commits without a conflict, and all others commit after it."""

from __future__ import annotations

import threading

import pytest

import lowtide
from lowtide.engine.transaction.isolation import SNAPSHOT
from lowtide.engine.transaction.transaction import begin
from lowtide.errors import ConflictError, UsageError
from tests.support.parts import parts_of
from tests.support.patience import PATIENCE


def test_commits_of_others_wait_for_a_turn_and_come_after_it(store: lowtide.Store) -> None:
    fruit = store.keyspace("fruit")
    fruit.put(b"apple", b"red")
    tx = store.begin()
    tx.keyspace("fruit").put(b"apple", b"yellow")
    other = threading.Thread(target=fruit.put, args=(b"pear", b"green"))
    with parts_of(store).engine.in_turn() as engine:
        mine = begin(engine, SNAPSHOT, False)
        other.start()
        mine.keyspace("fruit").put(b"apple", b"brown")
        ts = mine.commit()
        assert fruit.get(b"apple") == b"brown"
        assert fruit.get(b"pear") is None
    other.join(PATIENCE)
    assert ts == mine.ts + 1
    assert store.stats().last_commit == ts + 1
    assert fruit.get(b"pear") == b"green"
    with pytest.raises(ConflictError):
        tx.commit()


def test_a_turn_that_fails_leaves_nothing(store: lowtide.Store) -> None:
    fruit = store.keyspace("fruit")

    def fail() -> None:
        with parts_of(store).engine.in_turn() as engine, begin(engine, SNAPSHOT, False) as tx:
            tx.keyspace("fruit").put(b"apple", b"red")
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    fruit.put(b"pear", b"green")
    assert dict(fruit.scan()) == {b"pear": b"green"}
    assert store.stats().snapshots == []


def test_there_is_no_turn_inside_a_turn_nor_in_a_store_that_only_reads(store: lowtide.Store) -> None:
    with (
        parts_of(store).engine.in_turn() as engine,
        pytest.raises(UsageError, match="inside another turn"),
        engine.in_turn(),
    ):
        pass
    reader = lowtide.open(store.path, read_only=True)
    with reader, pytest.raises(UsageError, match="read-only"), reader._backend.engine.in_turn():
        pass
