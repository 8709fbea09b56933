"""Kinds of data: what belongs to one is written by it alone, users see no full keys, and a new kind is one mixin."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide import UsageError
from lowtide.documents.catalog import CATALOG
from lowtide.engine import PrefixOf, ReadView, Statements, WriteView
from lowtide.options import Options
from lowtide.store import kinds

WRITES: dict[str, Callable[[Any], None]] = {
    "put": lambda keyspace: keyspace.put(b"a", b"b"),
    "put_many": lambda keyspace: keyspace.put_many({b"a": b"b"}),
    "delete": lambda keyspace: keyspace.delete(b"a"),
}
RESERVED = ("documents/x", "index/x", CATALOG, "lowtide/x")


@pytest.mark.parametrize("name", RESERVED)
@pytest.mark.parametrize("write", WRITES)
def test_a_keyspace_of_a_kind_of_data_refuses_writes_and_can_be_read(
    store: lowtide.Store, name: str, write: str
) -> None:
    with store.transaction() as tx:
        for opened in (store, tx):
            keyspace = opened.keyspace(name)
            with pytest.raises(UsageError, match=rf"keyspace {name!r} is reserved: .* writes to it"):
                WRITES[write](keyspace)
            assert keyspace.get(b"a") is None
            assert list(keyspace.scan()) == []
    assert store.stats().last_commit == 0


@pytest.mark.parametrize("name", ["documents", "document/x", "indexes/x", "my/documents/x"])
def test_other_keyspaces_are_the_users(store: lowtide.Store, name: str) -> None:
    store.keyspace(name).put(b"a", b"b")
    with store.transaction() as tx:
        tx.keyspace(name).put(b"c", b"d")
    assert dict(store.keyspace(name).scan()) == {b"a": b"b", b"c": b"d"}


ENGINE_ONLY = {"apply", "give_way", "note_replaced", "read", "read_many", "rely_on", "scan", "write", "write_many"}


@pytest.mark.parametrize("shown", [lowtide.Transaction, lowtide.Snapshot, lowtide.Store])
def test_users_see_nothing_that_takes_full_keys(shown: type) -> None:
    assert ENGINE_ONLY.isdisjoint(dir(shown))


class Counters:
    """A toy kind of data: named numbers, each under one key of the keyspace ``counters/all``."""

    __slots__ = ()

    def _statements(self) -> Statements:
        raise NotImplementedError

    def increment(self, name: str) -> int:
        def work(writing: WriteView, prefix_of: PrefixOf) -> int:
            key = prefix_of("counters/all") + name.encode()
            before = writing.read(key)
            value = int(before or b"0") + 1
            writing.apply({key: b"%d" % value}, (), {key: before})
            return value

        return self._statements().write(work)

    def count(self, name: str) -> int:
        def work(reading: ReadView, prefix_of: PrefixOf) -> int:
            return int(reading.read(prefix_of("counters/all") + name.encode()) or b"0")

        return self._statements().read(work)


class CountingStore(lowtide.Store, Counters):
    """A store with counters, as ``store.kinds`` would make it."""


class CountingTransaction(lowtide.Transaction, Counters):
    """A transaction with counters."""


def test_a_kind_of_data_is_a_mixin_over_statements(tmp_path: Path) -> None:
    store = CountingStore(tmp_path, Options())
    with store:
        assert [store.increment("a"), store.increment("a"), store.count("b")] == [1, 2, 0]
        tx = CountingTransaction(store.begin()._tx)
        other = CountingTransaction(store.begin()._tx)
        assert (tx.increment("a"), tx.count("a"), store.count("a")) == (3, 3, 2)
        assert other.increment("a") == 3
        tx.commit()
        with pytest.raises(lowtide.ConflictError):
            other.commit()
        assert store.count("a") == 3


def test_the_keyspaces_of_a_kind_are_its_own_once_it_names_them(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.keyspace("counters/all").put(b"a", b"1")
    monkeypatch.setitem(kinds.RESERVED, "counters/", "store.increment(name)")
    monkeypatch.setattr(kinds, "_RESERVED_PREFIXES", tuple(kinds.RESERVED))
    with pytest.raises(UsageError, match=r"only store\.increment\(name\) writes to it"):
        store.keyspace("counters/all").put(b"a", b"2")
    assert store.keyspace("counters/all").get(b"a") == b"1"
