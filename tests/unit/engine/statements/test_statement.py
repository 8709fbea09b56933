"""Statements: parts of a transaction that read one instant, and write everything or nothing."""

from __future__ import annotations

import gc

import pytest

import lowtide
from lowtide import ConflictError, UsageError
from lowtide.engine.statements.runners import statement_of
from lowtide.engine.statements.statement import Statement
from lowtide.engine.types import Range

BELOW = ["none", "read_committed", "snapshot_read"]
FIXED = ["snapshot", "serializable"]


@pytest.fixture
def prefix(store: lowtide.Store) -> bytes:
    """Of a keyspace that holds a, b and c."""
    space = store.keyspace("k")
    for key in (b"a", b"b", b"c"):
        space.put(key, b"old")
    return space.prefix


def scanned(statement: Statement, prefix: bytes) -> list[bytes]:
    return [key for key, _ in statement.scan(Range(prefix, prefix + b"\xff"))]


@pytest.mark.parametrize("level", FIXED)
def test_a_transaction_of_one_instant_is_its_own_statement(store: lowtide.Store, level: str) -> None:
    with store.transaction(level) as tx:
        assert statement_of(tx._tx) is tx._tx


@pytest.mark.parametrize("level", BELOW)
def test_below_it_has_an_instant_of_its_own_and_gives_it_back(store: lowtide.Store, prefix: bytes, level: str) -> None:
    with store.transaction(level) as tx:
        statement = statement_of(tx._tx)
        assert isinstance(statement, Statement)
        assert len(store.stats().snapshots) == 1
        store.keyspace("k").put(b"a", b"new")
        store.keyspace("k").put(b"d", b"new")
        assert statement.read(prefix + b"a") == b"old"
        assert statement.read_many([prefix + b"d", prefix + b"b"]) == [None, b"old"]
        assert scanned(statement, prefix) == [b"a", b"b", b"c"]
        later = Statement(tx._tx)
        assert scanned(later, prefix) == [b"a", b"b", b"c", b"d"]
        assert later.ts > statement.ts
        statement.close()
        statement.close()
        later.close()
        assert store.stats().snapshots == []


def test_one_that_is_dropped_gives_its_instant_back(store: lowtide.Store, prefix: bytes) -> None:
    with store.transaction("read_committed") as tx:
        statement = Statement(tx._tx)
        assert len(store.stats().snapshots) == 1
        del statement
        gc.collect()
        assert store.stats().snapshots == []


@pytest.mark.parametrize("level", ["read_committed", "snapshot", "serializable"])
def test_a_steady_one_sees_own_writes_as_they_were_when_it_began(
    store: lowtide.Store, prefix: bytes, level: str
) -> None:
    with store.transaction(level) as tx:
        tx._tx.write(prefix + b"a", None)
        tx._tx.write(prefix + b"x", b"mine")
        steady = Statement(tx._tx, steady=True)
        tx._tx.write(prefix + b"b", None)
        tx._tx.write(prefix + b"y", b"mine")
        assert scanned(steady, prefix) == [b"b", b"c", b"x"]
        assert steady.read_many([prefix + each for each in (b"a", b"b", b"x", b"y")]) == [None, b"old", b"mine", None]
        moving = Statement(tx._tx)
        assert scanned(moving, prefix) == [b"c", b"x", b"y"]
        for each in (steady, moving):
            each.close()


@pytest.mark.parametrize("level", ["read_committed", "snapshot_read"])
def test_what_it_writes_is_refused_if_somebody_changed_it_since(
    store: lowtide.Store, prefix: bytes, level: str
) -> None:
    tx = store.begin(level)
    statement = Statement(tx._tx)
    store.keyspace("k").put(b"a", b"theirs")
    statement.apply({prefix + b"a": b"mine", prefix + b"z": b"mine"}, ())
    assert tx.keyspace("k").get(b"a") == b"mine"
    statement.close()
    with pytest.raises(ConflictError):
        tx.commit()
    assert (store.keyspace("k").get(b"a"), store.keyspace("k").get(b"z")) == (b"theirs", None)


@pytest.mark.parametrize("level", ["read_committed", "snapshot_read"])
def test_what_it_relies_on_must_stay(store: lowtide.Store, prefix: bytes, level: str) -> None:
    for ranged in (False, True):
        tx = store.begin(level)
        statement = Statement(tx._tx)
        statement.apply({prefix + b"z": b"mine"}, () if ranged else (prefix + b"c",))
        if ranged:
            statement.rely_on(Range(prefix + b"b", prefix + b"d"))
        store.keyspace("k").put(b"c", b"theirs")
        statement.close()
        with pytest.raises(ConflictError):
            tx.commit()
    assert store.keyspace("k").get(b"z") is None


def test_at_none_it_commits_at_once_or_conflicts(store: lowtide.Store, prefix: bytes) -> None:
    with store.transaction("none") as tx:
        first, second = Statement(tx._tx), Statement(tx._tx)
        first.apply({prefix + b"a": b"first"}, ())
        assert store.keyspace("k").get(b"a") == b"first"
        with pytest.raises(ConflictError):
            second.apply({prefix + b"a": b"second"}, ())
        third = Statement(tx._tx)
        third.apply({prefix + b"a": b"third"}, (prefix + b"b",))
        for each in (first, second, third):
            each.close()
    assert store.keyspace("k").get(b"a") == b"third"


def test_after_the_end_of_its_transaction_it_reads_and_writes_nothing(store: lowtide.Store, prefix: bytes) -> None:
    tx = store.begin("read_committed")
    statement = Statement(tx._tx)
    tx.rollback()
    for use in (
        lambda: statement.read(prefix + b"a"),
        lambda: scanned(statement, prefix),
        lambda: statement.apply({prefix + b"a": b"x"}, ()),
    ):
        with pytest.raises(UsageError, match="cannot be used any more"):
            use()
    statement.close()
    assert store.stats().snapshots == []
