"""What is dropped goes, however busy the collection is, and leaves nothing behind."""

from __future__ import annotations

import pytest

import lowtide
from lowtide.documents import management
from tests.support.collections import check_store

DOCUMENTS = [{"_id": n, "v": n, "w": -n} for n in range(7)]


@pytest.fixture
def busy(store: lowtide.Store, monkeypatch: pytest.MonkeyPatch) -> lowtide.Store:
    """A store whose collection ``a`` is written to whenever somebody has read a whole keyspace to empty it."""
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
