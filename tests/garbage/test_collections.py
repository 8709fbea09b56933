"""Documents that are deleted, and collections that are dropped, leave nothing behind (G6, G7, G8)."""

from __future__ import annotations

import threading

import pytest

import lowtide
from tests.conftest import OpenStore
from tests.garbage.test_nothing_stays import size_of
from tests.support.collections import check_store
from tests.support.parts import parts_of
from tests.support.patience import PATIENCE


def leftovers(store: lowtide.Store) -> tuple[int, int, int, int, int]:
    """Versions, chains, history, rows and tombstones of the base."""
    stats, base = store.stats(), parts_of(store).base
    with base.env.begin() as txn:
        rows, tombstones = txn.stat(base.rows)["entries"], txn.stat(base.tombstones)["entries"]
    return stats.versions, stats.chains, stats.history, rows, tombstones


@pytest.mark.parametrize("how", ["delete", "drop", "rename"])
@pytest.mark.parametrize("held", [False, True])
def test_deleted_documents_leave_nothing_in_any_keyspace(store: lowtide.Store, how: str, held: bool) -> None:
    """G6: of documents, of entries, of values that they had in between, also where a reader was open meanwhile."""
    collection = store.collection("c")
    for round_ in range(2):
        for keys, unique in (("v", False), ([("w", -1), ("v", 1)], False), ("u", True)):
            collection.create_index(keys, unique=unique)
        collection.insert_many([{"_id": n, "v": [n, -n], "w": "x" * 300, "u": n} for n in range(50)])
        store.checkpoint()
        reader = store.begin() if held else None
        collection.update_many({"v": {"$gte": 0}}, {"$set": {"w": round_}, "$inc": {"u": 1000}})
        collection.update_many({}, {"$unset": {"v": 1}})
        store.checkpoint()
        if how == "delete":
            assert collection.delete_many({"u": {"$gte": 0}}).deleted_count == 50
        elif how == "rename":
            store.collection("empty").insert_one({"_id": 1})
            store.collection("empty").rename("c", dropTarget=True)
            collection.delete_one({"_id": 1})
        else:
            collection.drop()
        store.checkpoint()
        if reader is not None:
            assert len(list(reader["c"].find({"v": {"$gt": 0}, "w": "x" * 300}))) == 49
            reader.rollback()
    store.collect_garbage()
    check_store(store)
    rows = {"delete": 1, "drop": 0, "rename": 2}[how]  # of the collections themselves
    assert leftovers(store) == (0, 0, 0, rows, 0)


def test_files_and_memory_are_flat_over_updates_of_one_document(open_store: OpenStore) -> None:
    """G7, across reopening, with transactions that are refused, and one pin and one snapshot held throughout."""
    sizes, versions = [], []
    for turn in range(3):
        store = open_store(segment_bytes=65536, checkpoint_bytes=50_000, checkpointer="thread", collect_threshold=1)
        collection = store.collection("c")
        if turn == 0:
            collection.create_index("v")
            collection.create_index("u", unique=True)
            collection.insert_many([{"_id": 1, "v": 0, "u": 0}, {"_id": 2, "u": "taken"}])
            store.pin("held", ttl=3600)
        snapshot = store.snapshot()
        for update in range(700):
            collection.update_one({"_id": 1}, {"$set": {"v": update, "pad": f"{update:0300}"}, "$inc": {"u": 1}})
            if update % 10 == 0:
                with pytest.raises(lowtide.DuplicateKeyError):
                    collection.update_one({"_id": 1}, {"$set": {"v": -update, "u": "taken"}})
            if update % 100 == 99:
                store.checkpoint()
                store.collect_garbage()
                versions.append(store.stats().versions + store.stats().history)
        snapshot.close()
        check_store(store)
        store.close()
        sizes.append(size_of(store.path))
    assert max(versions) <= 12
    assert sizes[2] <= sizes[0] + 200_000, sizes


def test_dropping_a_collection_while_others_collect_and_checkpoint_ends(open_store: OpenStore) -> None:
    """G8: no deadlock between a drop, collection, checkpoint, commits, and in the end the close of the store."""
    store = open_store(collect_threshold=1, checkpoint_bytes=4000, segment_bytes=16384, checkpointer="thread")
    refusals: list[str] = []

    def work(kind: str) -> None:
        collection = store.collection("c")
        try:
            for number in range(100_000):
                if kind == "write":
                    collection.replace_one({"_id": number % 20}, {"v": number}, upsert=True)
                elif kind == "collect":
                    store.collect_garbage()
                elif kind == "checkpoint":
                    store.checkpoint()
                else:
                    collection.create_index("v")
                    collection.drop()
        except lowtide.UsageError as error:
            refusals.append(str(error))

    threads = [threading.Thread(target=work, args=(kind,)) for kind in ("write", "collect", "checkpoint", "drop")]
    for thread in threads:
        thread.start()
    while store.stats().last_commit < 300 and not refusals:
        pass
    check_store(store)
    store.close()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert len(refusals) == 4
    assert all("the store is closed" in refusal or "while it was built" in refusal for refusal in refusals), refusals
    with open_store() as reopened:
        check_store(reopened)
