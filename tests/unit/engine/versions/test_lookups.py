"""Lookups of many prefixes find what scans of these ranges find, wherever the versions are (I3, I4)."""

from __future__ import annotations

from random import Random

import pytest

import lowtide
from lowtide import UsageError
from lowtide.engine.statements.runners import statement_of
from lowtide.engine.statements.statement import ReadView, Statement
from lowtide.engine.types import KEYSPACE_PREFIX, Range, after_prefix

LEVELS = ["none", "read_committed", "snapshot_read", "snapshot", "serializable"]
GROUPS = [b"%02d" % number for number in range(12)]


def write(store: lowtide.Store, choose: Random, count: int) -> None:
    """Put and delete keys of all groups; the first has many, the last none."""
    with store.transaction() as tx:
        space = tx.keyspace("k")
        for _ in range(count):
            key = choose.choice(GROUPS[:-1]) + b"%03d" % choose.randrange(12)
            if choose.random() < 0.4:
                space.delete(key)
            else:
                space.put(key, b"x")
        for number in range(150):
            space.put(GROUPS[0] + b"many%03d" % number, b"x")
        for number in range(30):  # a run of deleted keys, which is a gap
            space.put(GROUPS[1] + b"dead%03d" % number, b"x")
    with store.transaction() as tx:
        for number in range(30):
            tx.keyspace("k").delete(GROUPS[1] + b"dead%03d" % number)


def check(view: ReadView, prefix: bytes) -> None:
    wanted = [prefix + group for group in GROUPS]
    scans = [[key for key, _ in view.scan(Range(each, after_prefix(each)))] for each in wanted]
    assert view.keys_under(wanted) == scans
    assert view.keys_under(wanted, 5) == [keys if len(keys) <= 5 else None for keys in scans]
    assert view.keys_under([]) == []
    assert scans[0]
    assert not scans[-1]


@pytest.mark.parametrize("seed", range(3))
def test_they_are_those_of_scans(store: lowtide.Store, seed: int) -> None:
    choose = Random(seed)
    prefix = store.keyspace("k").prefix
    write(store, choose, 60)
    snapshots = [store.snapshot()]
    check(snapshots[0]._snapshot, prefix)  # all in memory
    store.checkpoint()
    for _ in range(2):
        write(store, choose, 10)  # partly in memory, partly in the base; older snapshots need the history
        snapshots.append(store.snapshot())
        for each in snapshots:
            check(each._snapshot, prefix)
        store.checkpoint()
        for each in snapshots:
            check(each._snapshot, prefix)
    for each in snapshots:
        each.close()
    for level in LEVELS:
        with store.transaction(level) as tx:
            statement = statement_of(tx._tx)
            check(statement, prefix)
            tx.keyspace("k").put(GROUPS[3] + b"own", b"x")
            tx.keyspace("k").delete(GROUPS[0] + b"many000")
            steady = Statement(tx._tx, steady=True)
            check(steady, prefix)
            if isinstance(statement, Statement):
                statement.close()
            else:
                check(statement, prefix)
            steady.close()


def test_a_pin_has_the_keys_of_its_instant(store: lowtide.Store) -> None:
    write(store, Random(4), 60)
    store.pin("then")
    write(store, Random(5), 60)
    store.checkpoint()
    with store.snapshot("then") as snapshot:
        check(snapshot._snapshot, store.keyspace("k").prefix)


def test_a_serializable_transaction_has_read_the_ranges(store: lowtide.Store) -> None:
    prefix = store.keyspace("k").prefix
    store.keyspace("k").put(b"ab", b"x")
    with store.transaction("serializable") as tx:
        assert tx._tx.keys_under([prefix + b"a", prefix + b"c"]) == [[b"ab"], []]
        store.keyspace("k").put(b"b", b"x")
        tx.keyspace("k").put(b"z", b"x")
    tx = store.begin("serializable")
    tx._tx.keys_under([prefix + b"a", prefix + b"c"])
    store.keyspace("k").put(b"cd", b"x")
    tx.keyspace("k").put(b"z", b"y")
    with pytest.raises(lowtide.ConflictError):
        tx.commit()


def test_a_closed_store_has_none(store: lowtide.Store) -> None:
    prefix = store.keyspace("k").prefix
    store.keyspace("k").put(b"ab", b"x")
    snapshot = store.snapshot()
    engine_snapshot = snapshot._snapshot
    store.close()
    with pytest.raises(UsageError):
        engine_snapshot.keys_under([prefix + b"a"])
    assert len(prefix) == KEYSPACE_PREFIX
