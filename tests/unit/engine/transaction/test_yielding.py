"""Keys that a commit yields: those that others changed are left out, and the rest is committed."""

from __future__ import annotations

import pytest

import lowtide
from lowtide.engine.transaction.transaction import EngineTransaction
from tests.support.groups import commit_in_one_group


def giving_way(
    store: lowtide.Store, *keys: bytes, firmly: bytes | None = None
) -> tuple[EngineTransaction, list[bytes]]:
    """A transaction that writes these keys, and gives way at them; and one key besides, ``firmly``."""
    tx = store.begin()._tx
    space = tx.keyspace("k")
    before = {space.prefix + key: space.get(key) for key in (*keys, *((firmly,) if firmly else ()))}
    for key in keys:
        space.put(key, b"ours")
    if firmly is not None:
        space.put(firmly, b"ours")
    return tx, tx.give_way({space.prefix + key for key in keys}, before)


def content(store: lowtide.Store) -> dict[bytes, bytes]:
    return dict(store.keyspace("k").scan())


@pytest.mark.parametrize("flushed", [False, True])
def test_what_others_changed_is_left_out(store: lowtide.Store, flushed: bool) -> None:
    """Whether the change is still in memory or in the base; a key that came and went was changed as well."""
    space = store.keyspace("k")
    space.put_many({b"a": b"0", b"b": b"0"})
    tx, left_out = giving_way(store, b"a", b"b", b"c", b"d", b"e")
    space.put(b"b", b"theirs")
    space.put(b"c", b"theirs")
    space.put(b"d", b"theirs")
    space.delete(b"d")
    if flushed:
        store.checkpoint()
    tx.commit()
    assert content(store) == {b"a": b"ours", b"b": b"theirs", b"c": b"theirs", b"e": b"ours"}
    assert sorted(key[-1:] for key in left_out) == [b"b", b"c", b"d"]


def test_the_log_has_what_was_committed_and_no_more(store: lowtide.Store) -> None:
    space = store.keyspace("k")
    space.put(b"a", b"0")
    tx, _ = giving_way(store, b"a", b"b", b"c")
    space.put(b"b", b"theirs")
    ts = tx.commit()
    assert [(each.key, each.kind) for each in store.changes(since=ts - 1)] == [(b"a", "update"), (b"c", "insert")]


def test_a_commit_of_which_nothing_is_left_is_refused(store: lowtide.Store) -> None:
    tx, _ = giving_way(store, b"a", b"b")
    store.keyspace("k").put_many({b"a": b"theirs", b"b": b"theirs"})
    with pytest.raises(lowtide.ConflictError):
        tx.commit()
    assert content(store) == {b"a": b"theirs", b"b": b"theirs"}


def test_a_key_at_which_it_does_not_give_way_refuses_all(store: lowtide.Store) -> None:
    tx, left_out = giving_way(store, b"a", firmly=b"z")
    store.keyspace("k").put(b"z", b"theirs")
    with pytest.raises(lowtide.ConflictError):
        tx.commit()
    assert content(store) == {b"z": b"theirs"}
    assert left_out == []


def test_nothing_is_left_out_if_nothing_was_changed(store: lowtide.Store) -> None:
    tx, left_out = giving_way(store, b"a", firmly=b"z")
    store.keyspace("k").put(b"other", b"theirs")
    tx.commit()
    assert content(store) == {b"a": b"ours", b"other": b"theirs", b"z": b"ours"}
    assert left_out == []


def test_what_an_earlier_member_of_the_group_writes_is_left_out(store: lowtide.Store) -> None:
    first, second = store.begin(), giving_way(store, b"a", b"b")
    first.keyspace("k").put(b"a", b"theirs")
    assert commit_in_one_group(store, [first.commit, second[0].commit]) == [None, None]
    assert content(store) == {b"a": b"theirs", b"b": b"ours"}
    assert [key[-1:] for key in second[1]] == [b"a"]
