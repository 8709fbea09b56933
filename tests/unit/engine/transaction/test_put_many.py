"""Many keys in one call: the same as separate puts, but all or none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

import lowtide
from lowtide import Isolation
from tests.unit.engine.base.bases import temporary_directory

keys = st.binary(max_size=3)
values = st.binary(max_size=3)


@pytest.mark.parametrize("as_mapping", [True, False])
def test_a_mapping_and_pairs_do_the_same(store: lowtide.Store, as_mapping: bool) -> None:
    entries = {b"a": b"1", b"b": b"", b"": b"3"}
    store.keyspace("k").put_many(entries if as_mapping else iter(entries.items()))
    assert dict(store.keyspace("k").scan()) == entries


def test_outside_a_transaction_it_is_one_commit(store: lowtide.Store) -> None:
    before = store.stats().last_commit
    store.keyspace("k").put_many([(b"a", b"1"), (b"b", b"2")])
    assert store.stats().last_commit == before + 1
    assert [(each.key, each.kind) for each in store.changes(since=before)] == [(b"a", "insert"), (b"b", "insert")]


def test_nothing_is_nothing(store: lowtide.Store) -> None:
    before = store.stats().last_commit
    store.keyspace("k").put_many([])
    assert store.stats().last_commit == before


def test_of_a_key_that_comes_twice_the_last_value_stays(store: lowtide.Store) -> None:
    store.keyspace("k").put_many([(b"a", b"1"), (b"a", b"2")])
    assert store.keyspace("k").get(b"a") == b"2"


@given(st.lists(st.tuples(keys, values), max_size=6), st.lists(st.tuples(keys, values), max_size=6), st.booleans())
def test_it_is_as_many_puts(first: list[tuple[bytes, bytes]], second: list[tuple[bytes, bytes]], undo: bool) -> None:
    """Before and after other writes, and in a savepoint that is rolled back."""
    with temporary_directory() as path, lowtide.open(path / "store", durability="relaxed") as store:
        with store.transaction() as tx:
            rows = tx.keyspace("k")
            rows.put_many(first)
            rows.put(b"other", b"x")
            with tx.savepoint() as savepoint:
                rows.put_many(second)
                assert dict(rows.scan()) == {**dict(first), b"other": b"x", **dict(second)}
                if undo:
                    savepoint.rollback()
        expected = {**dict(first), b"other": b"x", **({} if undo else dict(second))}
        assert dict(store.keyspace("k").scan()) == expected


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([(b"a", b"1"), ("b", b"2")], "keys are bytes, not str"),
        ([(b"a", b"1"), (b"b", "2")], "values are bytes, not str"),
        ([(b"a", b"1"), (b"b", None)], "values are bytes, not NoneType"),
        ([(b"a", b"1"), (b"x" * 500, b"2")], "at most 491 bytes long"),
        ([(b"a", b"1"), (b"b",)], "pairs of key and value"),
        ([(b"a", b"1"), b"b"], "pairs of key and value"),
        ([b"ab"], "pairs of key and value"),
        ([(b"a", b"1"), 7], "pairs of key and value"),
    ],
)
@pytest.mark.parametrize("inside", [True, False])
def test_one_bad_entry_and_none_is_put(store: lowtide.Store, entries: Any, words: str, inside: bool) -> None:
    if inside:
        with store.transaction() as tx:
            with pytest.raises(lowtide.UsageError, match=words):
                tx.keyspace("k").put_many(entries)
            assert list(tx.keyspace("k").scan()) == []
    else:
        with pytest.raises(lowtide.UsageError, match=words):
            store.keyspace("k").put_many(entries)
    assert list(store.keyspace("k").scan()) == []


def test_an_error_of_whoever_makes_the_entries_goes_to_the_caller_and_nothing_is_put(store: lowtide.Store) -> None:
    def entries() -> Iterator[tuple[bytes, bytes]]:
        yield b"a", b"1"
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        store.keyspace("k").put_many(entries())
    assert list(store.keyspace("k").scan()) == []


def test_what_the_caller_does_to_its_mapping_afterwards_changes_nothing(store: lowtide.Store) -> None:
    entries, value = {b"a": b"1"}, bytearray(b"2")
    with store.transaction() as tx:
        tx.keyspace("k").put_many(entries)
        tx.keyspace("k").put_many([(b"b", value)])  # type: ignore[list-item]
        entries[b"c"] = b"3"
        value[:] = b"9"
    assert dict(store.keyspace("k").scan()) == {b"a": b"1", b"b": b"2"}


def test_at_none_it_is_committed_at_once_and_together(store: lowtide.Store) -> None:
    tx = store.begin(Isolation.NONE)
    before = store.stats().last_commit
    tx.keyspace("k").put_many([(b"a", b"1"), (b"b", b"2")])
    assert store.stats().last_commit == before + 1
    tx.commit()


@pytest.mark.parametrize("ended", [True, False])
def test_a_transaction_that_cannot_write_refuses(store: lowtide.Store, ended: bool) -> None:
    tx = store.begin(read_only=not ended)
    rows = tx.keyspace("k")
    if ended:
        tx.rollback()
    with pytest.raises(lowtide.UsageError, match="rolled back" if ended else "read-only"):
        rows.put_many([(b"a", b"1")])


def test_two_that_put_the_same_key_conflict(store: lowtide.Store) -> None:
    first, second = store.begin(), store.begin()
    first.keyspace("k").put_many([(b"a", b"1"), (b"b", b"1")])
    second.keyspace("k").put_many([(b"b", b"2"), (b"c", b"2")])
    first.commit()
    with pytest.raises(lowtide.ConflictError):
        second.commit()
