"""Rows that are written to the base without the log: every snapshot sees them, and repeating a put changes nothing."""

from __future__ import annotations

import pytest

import lowtide
from lowtide.engine.base.codec import row_ts, row_value
from lowtide.engine.base.direct import FILLED, filled_in, note_filled, put_entries
from lowtide.errors import Error
from lowtide.upkeep.verify import verify_files
from tests.conftest import OpenStore
from tests.support.parts import parts_of

KEYS = [b"%03d" % number for number in range(200)]
VALUES = [b"value %d" % number for number in range(200)]


def prefix_of(store: lowtide.Store, name: str) -> bytes:
    """The prefix of a keyspace whose name is in the base."""
    store.keyspace(name).put(b"zzz", b"")
    store.checkpoint()
    return parts_of(store).engine.catalog.prefix_of(name)


def test_every_snapshot_that_knows_the_keyspace_sees_them(open_store: OpenStore) -> None:
    store = open_store(checkpointer="thread")
    prefix = prefix_of(store, "k")
    base = parts_of(store).base
    put_entries(base, prefix, KEYS, VALUES)
    put_entries(base, prefix, KEYS[50:], VALUES[50:])
    assert store.keyspace("k").get(KEYS[7]) == VALUES[7]
    row = base.row(prefix + KEYS[7])
    assert row is not None
    assert (row_ts(row), row_value(row)) == (0, VALUES[7])
    with store.snapshot() as held:
        store.keyspace("k").put(KEYS[7], b"new")
        store.keyspace("k").delete(KEYS[8])
        store.checkpoint()
        assert [value for key, value in held.keyspace("k").scan() if key != b"zzz"] == VALUES
        assert store.verify().ok
    assert (store.keyspace("k").get(KEYS[7]), store.keyspace("k").get(KEYS[8])) == (b"new", None)
    store.close()
    assert verify_files(store.path).ok


def test_they_fill_their_pages_at_the_end_of_the_table(open_store: OpenStore) -> None:
    store = open_store(checkpointer="thread")
    first, second = prefix_of(store, "a"), prefix_of(store, "b")
    base = parts_of(store).base
    values = [bytes(200)] * 200

    def leaves() -> int:
        return int(base.read(lambda txn: txn.stat(base.rows)["leaf_pages"]))

    before = leaves()
    put_entries(base, first, KEYS, values)
    between = leaves() - before
    put_entries(base, second, [b"zzzz" + key for key in KEYS], values)
    assert leaves() - before - between < between


def test_no_row_is_left_out_in_silence(open_store: OpenStore) -> None:
    store = open_store(checkpointer="thread")
    prefix = prefix_of(store, "k")
    base = parts_of(store).base
    with pytest.raises(Error, match=r"1 rows .* order"):
        put_entries(base, prefix, [b"zzzz2", b"zzzz1", b"zzzz3"], [b"2", b"1", b"3"])
    assert [key for key, _ in store.keyspace("k").scan()] == [b"zzz"]


def test_a_timestamp_of_0_is_damage_in_a_base_without_them(open_store: OpenStore) -> None:
    store = open_store(checkpointer="thread")
    prefix = prefix_of(store, "k")
    base = parts_of(store).base
    base.write(lambda txn: txn.put(prefix + b"x", bytes(8) + b"value", db=base.rows))
    assert not store.verify().ok
    put_entries(base, prefix, [b"y"], [b"value"])
    assert store.verify().ok


def test_changes_without_the_log_are_counted(store: lowtide.Store) -> None:
    base = parts_of(store).base
    assert base.read(lambda txn: txn.get(FILLED, db=base.meta)) is None
    put_entries(base, b"\0\0\0\x63", [], [])
    assert base.read(lambda txn: txn.get(FILLED, db=base.meta)) is None
    assert filled_in(base) == 0
    note_filled(base)
    note_filled(base)
    assert filled_in(base) == 2
