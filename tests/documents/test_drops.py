"""A drop completes, however busy the collection is, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from sortedcontainers import SortedSet

import lowtide
from lowtide.documents import management
from lowtide.documents.collection import Collection
from lowtide.documents.indexes import build
from lowtide.engine.transaction.transaction import EngineTransaction
from lowtide.engine.types import Range
from tests.support.collections import check_store

DOCUMENTS = [{"_id": n, "v": n, "w": -n} for n in range(7)]


@pytest.fixture
def busy(store: lowtide.Store, monkeypatch: pytest.MonkeyPatch) -> lowtide.Store:
    """A store whose collection ``a`` is written to whenever a drop has read a whole keyspace to empty it."""
    store["a"].insert_many(DOCUMENTS)
    store["a"].create_index("v")
    store["a"].create_index("w", unique=True)
    empty, written = management._empty, iter(range(100, 200))

    def be_overtaken(writing: object, *arguments: object) -> None:
        empty(writing, *arguments)  # type: ignore[arg-type]
        number = next(written)
        store["a"].insert_one({"_id": number, "v": number, "w": number})

    monkeypatch.setattr(management, "_empty", be_overtaken)
    monkeypatch.setattr(management, "STEP", 2)
    return store


def test_an_index_is_dropped_beside_a_writer_that_never_rests(busy: lowtide.Store) -> None:
    busy["a"].drop_index("v_1")
    assert list(busy["a"].index_information()) == ["_id_", "w_1"]
    assert list(busy.keyspace("index/a/v_1").scan()) == []
    check_store(busy)


def test_a_collection_is_dropped_beside_a_writer_that_never_rests(busy: lowtide.Store) -> None:
    busy["a"].drop()
    for keyspace in ("documents/a", "index/a/v_1", "index/a/w_1"):
        assert list(busy.keyspace(keyspace).scan()) == []
    busy["a"].insert_one({"_id": 1, "v": 1})
    assert list(busy["a"].find()) == [{"_id": 1, "v": 1}]
    assert list(busy["a"].index_information()) == ["_id_"]
    check_store(busy)


class Passed:
    """Counts the keys of index entries and documents that the scans of transactions pass: those that they give, and
    those that an earlier scan gave, and that were removed since. These stay in memory until the next checkpoint."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows = 0
        self._given: SortedSet[bytes] = SortedSet()
        original = EngineTransaction.scan

        def scan(tx: EngineTransaction, wanted: Range) -> Iterator[tuple[bytes, bytes]]:
            return self._counting(original(tx, wanted), wanted.low)

        monkeypatch.setattr(EngineTransaction, "scan", scan)

    def _counting(self, entries: Iterator[tuple[bytes, bytes]], low: bytes) -> Iterator[tuple[bytes, bytes]]:
        prefix = low[:4]
        for key, value in entries:
            self._given.add(prefix + key)
            self.rows += sum(1 for _ in self._given.irange(low, prefix + key))
            low = prefix + key + b"\x00"
            yield key, value


def drop_the_index(collection: Collection) -> None:
    collection.drop_index("v_1")


def drop_the_collection(collection: Collection) -> None:
    """In steps, as beside writers that never rest."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(management, "_drop", conflict)
        collection.drop()


def conflict(*_: object) -> None:
    raise lowtide.ConflictError("documents/a", b"", 1, 2)


def fail_to_build(collection: Collection) -> None:
    """The last document cannot be entered."""
    collection.insert_one({"_id": "last", "w": "last", "v": 0})
    with pytest.raises(lowtide.DuplicateKeyError):
        collection.create_index([("v", 1), ("u", 1)], unique=True)


@pytest.mark.parametrize("remove", [drop_the_index, drop_the_collection, fail_to_build])
def test_a_drop_passes_each_key_once(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch, remove: Callable[[Collection], None]
) -> None:
    monkeypatch.setattr(build, "STEP", 5)
    monkeypatch.setattr(management, "STEP", 5)
    monkeypatch.setattr(management, "ATTEMPTS", 1)
    store["a"].insert_many([{"_id": n, "v": n, "w": n} for n in range(200)])
    store["a"].create_index("v")
    passed = Passed(monkeypatch)
    remove(store["a"])
    assert 200 <= passed.rows <= 1000
    check_store(store)


def test_an_interrupted_drop_is_finished_by_the_next_one(store: lowtide.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store["a"].insert_many(DOCUMENTS)
    store["a"].create_index("v")
    drop_and_be_interrupted(store, monkeypatch)
    assert list(store["a"].index_information()) == ["_id_"]
    store["a"].create_index("v")  # elsewhere, since its first place is not empty yet
    assert [each["_id"] for each in store["a"].find({"v": {"$gte": 5}})] == [5, 6]
    store["a"].drop_index("v_1")
    assert list(store.keyspace("index/a/v_1").scan()) == []
    assert list(store.keyspace("index/a/v_1~1").scan()) == []
    check_store(store)


def drop_and_be_interrupted(store: lowtide.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drop the index, and be interrupted before its entries go."""
    with monkeypatch.context() as patch:
        patch.setattr(management, "finish_drops", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store["a"].drop_index("v_1")


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_drop_in_a_transaction_takes_what_an_interrupted_one_has_left(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store["a"].insert_many(DOCUMENTS)
    store["a"].create_index("v")
    drop_and_be_interrupted(store, monkeypatch)
    with store.transaction() as tx:
        tx["a"].drop()
    assert [list(store.keyspace(name).scan()) for name in store.keyspaces()] == [[]] * len(store.keyspaces())
