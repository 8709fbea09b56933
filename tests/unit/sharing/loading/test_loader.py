"""A job is applied completely in one commit, once, or not at all."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

import lowtide
from lowtide.documents.catalog import CATALOG, row_of
from lowtide.documents.management import finish_drops
from lowtide.errors import DocumentRefused, DuplicateKeyError, OperationFailure, UsageError
from lowtide.sharing.loading import loader, receipts, staged
from lowtide.sharing.loading.job import Counts, How
from lowtide.sharing.loading.staged import JobCancelled, cancel, remove_staging, staging_of
from tests.conftest import OpenStore
from tests.support.parts import parts_of
from tests.support.patience import wait_until
from tests.unit.sharing.loading.jobs import apply, check_indexes, check_nothing_left, documents, load, prepare


def numbered(*numbers: int, **more: Any) -> list[dict[str, Any]]:
    return [{"_id": each, "n": each, **more} for each in numbers]


def test_an_append_inserts_the_documents_of_all_files_in_one_commit(store: lowtide.Store) -> None:
    before = store.stats().last_commit
    receipt = load(store, "append", numbered(1, 2), numbered(3))
    assert documents(store) == numbered(1, 2, 3)
    assert receipt.ts == before + 1 == store.stats().last_commit
    assert receipt.counts == Counts(inserted=3)


def test_an_append_that_meets_an_id_changes_nothing(store: lowtide.Store) -> None:
    store["c"].insert_one({"_id": 2, "old": True})
    with pytest.raises(DuplicateKeyError, match=r"collection 'c'.*'_id': 2") as failure:
        load(store, "append", numbered(1), numbered(2, 3))
    assert failure.value.details["_id"] == 2
    assert documents(store) == [{"_id": 2, "old": True}]


@pytest.mark.parametrize("how", ["append", "upsert", "overwrite"])
@pytest.mark.parametrize("files", [[numbered(1, 7, 7)], [numbered(1, 7), numbered(7)]])
@pytest.mark.parametrize("batch", [1, 1000])
def test_an_id_that_comes_twice_is_refused_since_rows_have_no_order(
    store: lowtide.Store, how: How, files: list[list[dict[str, Any]]], batch: int
) -> None:
    store["c"].insert_one({"_id": 100})
    with pytest.raises(OperationFailure, match=r"several rows.*collection 'c'.*_id 7"):
        load(store, how, *files, batch=batch)
    assert documents(store) == [{"_id": 100}]


def test_an_upsert_inserts_and_replaces_and_leaves_alone_what_is_the_same(store: lowtide.Store) -> None:
    store["c"].insert_many([*numbered(1, 2), {"_id": 3, "old": True}])
    receipt = load(store, "upsert", numbered(2, 3, 4))
    assert documents(store) == numbered(1, 2, 3, 4)
    assert receipt.counts == Counts(inserted=1, replaced=1)
    changes = [(each.kind, each.id) for each in store["c"].watch(since=receipt.ts - 1, timeout=0)]
    assert sorted(changes) == [("insert", 4), ("replace", 3)]


def test_a_delete_removes_what_is_there(store: lowtide.Store) -> None:
    store["c"].insert_many(numbered(1, 2, 3))
    receipt = load(store, "delete", numbered(2, 9, 2), numbered(2))
    assert documents(store) == numbered(1, 3)
    assert receipt.counts == Counts(deleted=1)


def test_an_overwrite_leaves_what_was_staged_and_nothing_else(store: lowtide.Store) -> None:
    store["c"].insert_many([{"_id": 1, "old": True}, *numbered(2, 3)])
    receipt = load(store, "overwrite", numbered(1, 3), numbered(4))
    assert documents(store) == numbered(1, 3, 4)
    assert receipt.counts == Counts(inserted=1, replaced=1, deleted=1)


@pytest.mark.parametrize("options", [{}, {"unique": True}, {"sparse": True}])
@pytest.mark.parametrize("how", ["append", "upsert", "overwrite", "delete"])
def test_indexes_are_kept_up(store: lowtide.Store, how: How, options: dict[str, Any]) -> None:
    store["c"].create_index("n", **options)
    store["c"].create_index([("tags", 1)])
    store["c"].insert_many([{"_id": each, "n": each, "tags": "x"} for each in range(5)])
    names = store["c"].index_information()
    first = 5 if how == "append" else 3
    load(store, how, [{"_id": each, "n": each + 100, "tags": ["y", "z"]} for each in range(first, 8)])
    assert store["c"].index_information().keys() == names.keys()
    check_indexes(store)
    assert store["c"].count_documents({"tags": "z"}) == (0 if how == "delete" else 8 - first)
    assert store.verify().ok


@pytest.mark.parametrize("how", ["append", "upsert"])
def test_a_unique_value_that_is_taken_is_refused(store: lowtide.Store, how: How) -> None:
    store["c"].create_index("n", unique=True)
    store["c"].insert_many(numbered(1, 2))
    with pytest.raises(DuplicateKeyError, match=r"index 'n_1': {'n': 2} already exists, in the document with _id 2"):
        load(store, how, [{"_id": 5, "n": 5}, {"_id": 6, "n": 2}])
    assert documents(store) == numbered(1, 2)
    check_indexes(store)


def test_an_overwrite_may_give_a_unique_value_to_another_document(store: lowtide.Store) -> None:
    store["c"].create_index("n", unique=True)
    store["c"].insert_many(numbered(1, 2))
    load(store, "overwrite", [{"_id": 9, "n": 2}])
    assert store["c"].find_one({"n": 2}) == {"_id": 9, "n": 2}


@pytest.mark.parametrize("how", ["append", "upsert", "overwrite"])
def test_the_schema_holds_and_the_refused_document_is_named(store: lowtide.Store, how: How) -> None:
    store["c"].set_schema({"properties": {"n": {"maximum": 5}}})
    store["c"].insert_one({"_id": 1, "n": 1})
    with pytest.raises(DocumentRefused, match=r"_id 6.*'c'.*field 'n'"):
        load(store, how, numbered(2, 6))
    assert documents(store) == numbered(1)
    load(store, how, numbered(2))
    with pytest.raises(DocumentRefused):
        store["c"].insert_one({"_id": 7, "n": 7})


def test_a_job_that_is_asked_for_again_is_done_once(store: lowtide.Store) -> None:
    name = prepare(store.path, "append", numbered(1, 2))
    first = apply(store, name)
    store["c"].delete_one({"_id": 1})
    again = apply(store, name)
    assert again.repeated
    assert (again.ts, again.counts) == (first.ts, first.counts)
    assert documents(store) == numbered(2)
    store.checkpoint()
    assert apply(store, name).ts == first.ts


def test_the_receipt_outlives_the_owner(open_store: OpenStore) -> None:
    store = open_store()
    name = prepare(store.path, "append", numbered(1))
    first = apply(store, name)
    store.close()
    store = open_store()
    store["c"].drop()
    assert apply(store, name).ts == first.ts
    assert documents(store) == []


def test_a_version_that_is_not_beyond_the_last_of_its_series_is_skipped(store: lowtide.Store) -> None:
    first = load(store, "append", numbered(1), app="stream", version=3)
    for version in (3, 2):
        again = load(store, "append", numbered(1), app="stream", version=version)
        assert again.skipped
        assert again.ts == first.ts
    assert load(store, "append", numbered(2), app="stream", version=4).counts.inserted == 1
    assert load(store, "append", numbered(3), app="another" * 100, version=0).counts.inserted == 1
    assert load(store, "append", numbered(3), app="another" * 100, version=0).skipped
    assert documents(store) == numbered(1, 2, 3)


def test_each_collection_has_its_own_versions_of_a_series(store: lowtide.Store) -> None:
    """One batch of a stream may be written to several collections."""
    load(store, "append", numbered(1), app="stream", version=3)
    other = load(store, "append", numbered(1), app="stream", version=3, collection="other")
    assert not other.skipped
    assert store["other"].count_documents({}) == 1
    assert load(store, "append", numbered(2), app="stream", version=3, collection="other").skipped


def test_a_job_that_fails_counts_for_no_version(store: lowtide.Store) -> None:
    store["c"].insert_one({"_id": 1})
    with pytest.raises(DuplicateKeyError):
        load(store, "append", numbered(1), app="stream", version=0)
    assert load(store, "append", numbered(2), app="stream", version=0).counts.inserted == 1


def test_a_job_that_was_taken_back_is_not_done(store: lowtide.Store) -> None:
    name = prepare(store.path, "append", numbered(1))
    assert cancel(staging_of(store.path, name))
    assert cancel(staging_of(store.path, name))
    with pytest.raises(JobCancelled):
        apply(store, name)
    assert documents(store) == []


def test_a_job_that_is_taken_back_before_its_commit_changes_nothing(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = prepare(store.path, "append", numbered(1))
    directory = staging_of(store.path, name)
    claim = staged.claim

    def too_late(of: Any) -> None:
        assert cancel(directory)
        claim(of)

    monkeypatch.setattr(loader, "claim", too_late)
    with pytest.raises(JobCancelled):
        apply(store, name)
    assert documents(store) == []


def test_a_job_that_a_killed_owner_had_claimed_can_be_taken_back_again(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = prepare(store.path, "append", numbered(1))
    directory = staging_of(store.path, name)
    staged.claim(directory)
    assert not cancel(directory)

    def taken_back(of: Any) -> None:
        assert cancel(directory)
        staged.claim(of)

    monkeypatch.setattr(loader, "claim", taken_back)
    with pytest.raises(JobCancelled):
        apply(store, name)
    assert documents(store) == []


def test_an_owner_needs_no_pyarrow(store: lowtide.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    load(store, "append", numbered(1))
    assert documents(store) == numbered(1)


def test_a_job_cannot_be_taken_back_once_it_is_committed(store: lowtide.Store) -> None:
    name = prepare(store.path, "append", numbered(1))
    apply(store, name)
    assert not cancel(staging_of(store.path, name))


def test_a_commit_that_meets_another_is_begun_anew(store: lowtide.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store["c"].insert_one({"_id": 1, "n": 0})
    claim = staged.claim
    met: list[object] = []

    def beaten(directory: Any) -> None:
        if not met:
            met.append(store["c"].update_one({"_id": 1}, {"$inc": {"n": 1}}))
        claim(directory)

    monkeypatch.setattr(loader, "claim", beaten)
    receipt = load(store, "upsert", [{"_id": 1, "n": 100}])
    assert met
    assert receipt.counts == Counts(replaced=1)
    assert documents(store) == [{"_id": 1, "n": 100}]


@pytest.mark.parametrize("rows", [10, 3000])
def test_a_job_ends_beside_a_writer_that_is_always_quicker(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """A small one has its turn; a large one goes on as a bulk load. Either is one commit, with its receipt."""
    monkeypatch.setattr(loader, "ATTEMPTS", 3)
    store["c"].insert_many([{"_id": each, "n": -1} for each in range(rows)])
    claim = staged.claim
    beaten: list[object] = []

    def quicker(directory: Any) -> None:
        if not store._backend.committer._lock.locked():  # type: ignore[union-attr]
            beaten.append(store["c"].update_one({"_id": len(beaten)}, {"$inc": {"w": 1}}))
        claim(directory)

    monkeypatch.setattr(loader, "claim", quicker)
    receipt = load(store, "upsert", numbered(*range(rows)))
    assert len(beaten) == 3
    assert receipt.counts.replaced == rows
    assert documents(store) == numbered(*range(rows))
    is_bulk = row_of("c", store.keyspace(CATALOG).get(b"c")).generation == 1
    assert is_bulk == (rows > loader.SMALL_ROWS)
    assert store._backend.feed.published() >= receipt.ts


def test_a_job_beside_a_thread_that_writes_its_documents_without_a_pause(store: lowtide.Store) -> None:
    store["c"].insert_many([{"_id": each, "n": -1} for each in range(3000)])
    stop, seen = threading.Event(), []

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            store["c"].update_one({"_id": number % 3000}, {"$inc": {"w": 1}})
            if number % 100 == 0:
                seen.append(store["c"].count_documents({"n": {"$gte": 0}}))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        wait_until(lambda: bool(seen))
        receipt = load(store, "upsert", numbered(*range(3000)))
        count = len(seen)
        wait_until(lambda: len(seen) > count + 1)
    finally:
        stop.set()
        writer.join()
    assert receipt.counts.replaced == 3000
    assert set(seen) == {0, 3000}, "all of it or nothing"


def test_receipts_stay_few(store: lowtide.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipts, "KEPT", 3)
    for number in range(20):
        load(store, "append", numbered(number))
    kept = list(store.keyspace(receipts.RECEIPTS).scan())
    assert 3 <= len(kept) <= 6


def test_the_receipt_of_a_job_that_may_be_asked_for_again_is_kept(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long ago it was begun: names tell when that was, not when the job was done."""
    monkeypatch.setattr(receipts, "KEPT", 3)
    name = prepare(store.path, "upsert", numbered(1, v="old"))
    for number in range(10, 26):
        load(store, "append", numbered(number))
    first = apply(store, name)
    for number in range(30, 40):
        load(store, "append", numbered(number))
    store["c"].update_one({"_id": 1}, {"$set": {"v": "new"}})
    assert apply(store, name).ts == first.ts
    assert store["c"].find_one({"_id": 1}) == {"_id": 1, "n": 1, "v": "new"}
    remove_staging(store.path, name)
    for number in range(40, 50):
        load(store, "append", numbered(number))
    assert len(list(store.keyspace(receipts.RECEIPTS).scan())) <= 6


def test_a_job_that_is_committed_is_done_whatever_comes_after(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: Any) -> Any:
        raise OSError("no more")

    monkeypatch.setattr(loader, "CollectionReader", broken)
    assert load(store, "append", numbered(1)).counts.inserted == 1
    assert documents(store) == numbered(1)


def test_what_is_no_job_is_refused(store: lowtide.Store) -> None:
    for wrong in ("../../etc", "", "0" * 31, 7):
        with pytest.raises(UsageError, match="not the name of a load job"):
            apply(store, wrong)  # type: ignore[arg-type]
    with pytest.raises(JobCancelled):
        apply(store, "0" * 32)
    with pytest.raises(UsageError, match="collection"):
        load(store, "append", collection="a/b")
    name = prepare(store.path, "append", numbered(1), format=99)
    with pytest.raises(UsageError, match="format 99"):
        apply(store, name)
    remove_staging(store.path, name)


def test_a_file_that_is_not_whole_is_refused(store: lowtide.Store) -> None:
    name = prepare(store.path, "append", numbered(*range(100)))
    directory = staging_of(store.path, name)
    (file,) = directory.glob("*.staged")
    content = file.read_bytes()
    file.write_bytes(content[:-20])
    with pytest.raises(UsageError, match="cannot be read"):
        apply(store, name)
    file.unlink()
    with pytest.raises(JobCancelled, match="is gone"):
        apply(store, name)
    assert documents(store) == []


def test_what_is_left_while_earlier_leftovers_are_emptied_is_emptied_too(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that empties a collection has looked for the last time, but has not ended when the next load ends."""
    store = open_store()
    emptied, may_end = threading.Event(), threading.Event()

    def slowly(*arguments: Any) -> None:
        finish_drops(*arguments)
        emptied.set()
        assert may_end.wait(60)

    monkeypatch.setattr(loader, "finish_drops", slowly)
    load(store, "overwrite", numbered(1, 2), bulk_bytes=0)
    assert emptied.wait(60)
    load(store, "overwrite", numbered(3), bulk_bytes=0)
    may_end.set()
    parts_of(store).loader.finish()
    assert documents(store) == numbered(3)
    check_nothing_left(store)
