"""A bulk load leaves what one transaction would, whatever is written concurrently, or nothing at all."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

import lowtide
from lowtide.documents.catalog import CATALOG, row_of
from lowtide.engine.transaction.isolation import SNAPSHOT
from lowtide.engine.transaction.transaction import begin
from lowtide.errors import DocumentRefused, DuplicateKeyError, OperationFailure, SnapshotExpired
from lowtide.sharing.loading import bulk, direct, staged
from lowtide.sharing.loading.beside import Beside
from lowtide.sharing.loading.bulk import BulkLoad
from lowtide.sharing.loading.job import Counts, How
from lowtide.sharing.loading.staged import JobCancelled, cancel, remove_staging, staging_of
from lowtide.store.owned import OwnedStore
from tests.conftest import OpenStore
from tests.support.clocks import ManualClock
from tests.support.parts import parts_of
from tests.support.patience import wait_until
from tests.unit.sharing.loading.jobs import apply, check_indexes, check_nothing_left, documents, load, prepare

HOWS: tuple[How, ...] = ("append", "upsert", "delete", "overwrite")


@pytest.fixture(autouse=True, params=["logged", "direct"])
def small_steps(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each load in many steps, through the log and straight to the base."""
    monkeypatch.setattr(bulk, "STEP", 7)
    monkeypatch.setattr(bulk, "FEW", 3)
    if request.param == "direct":
        monkeypatch.setattr(bulk, "DIRECT_ROWS", 0)
        monkeypatch.setattr(direct, "CHUNK_ROWS", 5)
        monkeypatch.setattr(staged, "_ROWS", 4)


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loads in small transactions."""
    monkeypatch.setattr(bulk, "DIRECT_ROWS", 1 << 40)
    monkeypatch.setattr(staged, "_ROWS", 10_000)


def finish(store: lowtide.Store) -> None:
    parts = store._backend
    assert isinstance(parts, OwnedStore)
    parts.loader.finish()


def numbered(*numbers: int, **more: Any) -> list[dict[str, Any]]:
    return [{"_id": each, "n": each, "tags": ["x", each % 3], **more} for each in numbers]


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("indexes", [[], [("n", {"unique": True}), ("tags", {})]])
@pytest.mark.parametrize("schema", [None, {"properties": {"n": {"maximum": 1000}}}])
def test_it_leaves_what_one_transaction_would(
    open_store: OpenStore, how: How, indexes: list[tuple[str, dict[str, Any]]], schema: dict[str, Any] | None
) -> None:
    found = []
    for name, size in (("one", 1 << 30), ("bulk", 0)):
        store = open_store(name)
        for field, options in indexes:
            store["c"].create_index(field, **options)
        store["c"].insert_many(numbered(*range(0, 60, 2), 2000))
        if schema is not None:
            store["c"].set_schema(schema)  # which the last document breaks, and may stay
        first = 60 if how == "append" else 0
        job = [numbered(*range(first, first + 31), new=True), numbered(*range(first + 31, first + 50))]
        load(store, how, *job, bulk_bytes=size)
        finish(store)
        check_indexes(store)
        check_nothing_left(store)
        assert store.verify().ok
        assert store.list_collection_names() == ["c"]
        found.append((documents(store), store["c"].index_information(), name == "bulk"))
    assert found[0][0] == found[1][0]
    if how != "delete":  # that one has never had an entry of an array that is gone
        assert found[0][1] == found[1][1]


@pytest.mark.usefixtures("logged")
def test_a_small_transaction_has_so_many_documents_or_bytes(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "STEP_BYTES", 1000)
    steps: list[list[int]] = []
    enter = Beside.enter

    def entered(self: Beside, writing: Any, keys: list[bytes], given: list[bytes]) -> Any:
        steps.append([len(key) + len(document) for key, document in zip(keys, given, strict=True)])
        return enter(self, writing, keys, given)

    monkeypatch.setattr(Beside, "enter", entered)
    texts = [10] * 9 + [400] * 5 + [5000, 5000] + [10]
    load(store, "append", [{"_id": n, "text": "x" * size} for n, size in enumerate(texts)], bulk_bytes=0)
    assert [len(step) for step in steps] == [7, 5, 3, 1, 1]
    for step in steps:
        assert len(step) <= bulk.STEP
        assert sum(step[:-1]) < bulk.STEP_BYTES, "the last document is the one that fills it"
    assert len(documents(store)) == len(texts)


def test_it_is_one_commit_for_readers(store: lowtide.Store) -> None:
    store["c"].insert_many(numbered(1, 2))
    with store.snapshot() as before:
        receipt = load(store, "append", numbered(*range(10, 40)), bulk_bytes=0)
        finish(store)
        assert [each["_id"] for each in before["c"].find()] == [1, 2]
    with store.snapshot(at=None) as after:
        assert after["c"].count_documents({}) == 32
    assert receipt.counts == Counts(inserted=30)


def test_the_counts_are_those_of_the_documents(store: lowtide.Store) -> None:
    store["c"].insert_many(numbered(*range(20)))
    assert load(store, "upsert", numbered(*range(15, 30)), bulk_bytes=0).counts == Counts(inserted=10, replaced=5)
    assert load(store, "delete", numbered(0, 1, 99, 1), bulk_bytes=0).counts == Counts(deleted=2)
    assert load(store, "overwrite", numbered(5), bulk_bytes=0).counts == Counts(inserted=1, deleted=28)


def test_an_overwrite_of_much_is_a_bulk_load(store: lowtide.Store) -> None:
    store["c"].insert_many([{"_id": each, "text": "x" * 100} for each in range(50)])
    load(store, "overwrite", numbered(1), bulk_bytes=1000)
    assert documents(store) == numbered(1)
    assert row_of("c", store.keyspace(CATALOG).get(b"c")).generation == 1


@pytest.mark.parametrize("how", HOWS)
def test_what_fails_leaves_the_collection_as_it_was(store: lowtide.Store, how: How) -> None:
    store["c"].create_index("n", unique=True)
    store["c"].insert_many(numbered(*range(30)))
    before = documents(store)
    if how in ("append", "upsert", "overwrite"):
        with pytest.raises(OperationFailure, match=r"several rows.*_id 77"):
            load(store, how, numbered(*range(70, 90)), numbered(77), bulk_bytes=0)
        store["c"].set_schema({"properties": {"tags": {"maxItems": 2}}})
        with pytest.raises(DocumentRefused, match="_id 100"):
            load(store, how, numbered(*range(70, 90)), [{"_id": 100, "tags": [1, 2, 3]}], bulk_bytes=0)
        with pytest.raises(DuplicateKeyError, match="index 'n_1'"):
            load(store, how, numbered(*range(70, 90)), [{"_id": 100, "n": 75}], bulk_bytes=0)
    if how == "append":
        with pytest.raises(DuplicateKeyError, match=r"collection 'c', index '_id_': \{'_id': 29\}"):
            load(store, how, numbered(*range(29, 50)), bulk_bytes=0)
        with pytest.raises(DuplicateKeyError, match="index 'n_1'"):
            load(store, how, numbered(*range(70, 90)), [{"_id": 100, "n": 5}], bulk_bytes=0)
    finish(store)
    assert documents(store) == before
    check_indexes(store)
    check_nothing_left(store)


@pytest.mark.usefixtures("logged")
@pytest.mark.parametrize(("where", "place"), [(Beside, "enter"), (Beside, "copy"), (BulkLoad, "_swap")])
@pytest.mark.parametrize("how", ["append", "upsert"])
def test_an_error_anywhere_leaves_the_collection_as_it_was(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch, where: Any, place: str, how: How
) -> None:
    store["c"].insert_many(numbered(*range(30)))
    before = documents(store)
    original, left = getattr(where, place), [0 if place == "_swap" else 2]

    def failing(*arguments: Any) -> Any:
        if not left[0]:
            raise OSError("no room")
        left[0] -= 1
        return original(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(where, place, failing)
        with pytest.raises(OSError, match="no room"):
            load(store, how, numbered(*range(50, 90)), bulk_bytes=0)
    finish(store)
    assert documents(store) == before
    check_nothing_left(store)
    load(store, how, numbered(*range(50, 90)), bulk_bytes=0)
    finish(store)
    assert len(documents(store)) == 70
    check_nothing_left(store)


def test_one_that_was_cut_short_is_cleared_away_by_the_next(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store()
    store["c"].insert_many(numbered(*range(30)))
    with monkeypatch.context() as patched:
        patched.setattr(BulkLoad, "_give_up", lambda *_: None)  # as after a kill
        patched.setattr(BulkLoad, "_finish", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            load(store, "append", numbered(*range(50, 90)), bulk_bytes=0)
    store.close()
    store = open_store()
    assert row_of("c", store.keyspace(CATALOG).get(b"c")).loading
    store["c"].insert_one({"_id": 1000})
    load(store, "append", numbered(*range(50, 90)), bulk_bytes=0)
    finish(store)
    assert len(documents(store)) == 71
    check_nothing_left(store)


def test_an_empty_collection_does_not_exist_until_it_is_loaded(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = BulkLoad._finish

    def looking(load: BulkLoad) -> Any:
        assert store.list_collection_names() == []
        return original(load)

    monkeypatch.setattr(BulkLoad, "_finish", looking)
    load(store, "append", numbered(*range(20)), bulk_bytes=0)
    assert store.list_collection_names() == ["c"]


@pytest.mark.usefixtures("logged")
def test_one_that_is_taken_back_changes_nothing(store: lowtide.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store["c"].insert_one({"_id": 1})
    name = prepare(store.path, "append", numbered(*range(10, 40)), bulk_bytes=0)
    original = Beside.copy

    def taken_back(*arguments: Any) -> Any:
        assert cancel(staging_of(store.path, name))
        return original(*arguments)

    monkeypatch.setattr(Beside, "copy", taken_back)
    with pytest.raises(JobCancelled):
        apply(store, name)
    finish(store)
    remove_staging(store.path, name)
    assert documents(store) == [{"_id": 1}]
    check_nothing_left(store)


@pytest.mark.parametrize("change", ["drop", "rename", "create_index", "drop_index", "set_schema"])
def test_one_whose_collection_is_changed_under_it_begins_anew(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    store["c"].create_index("tags")
    store["c"].insert_many(numbered(*range(30)))
    original = BulkLoad._finish
    done: list[bool] = []

    def changed(load: BulkLoad) -> Any:
        if not done:
            done.append(True)
            match change:
                case "drop":
                    store["c"].drop()
                case "rename":
                    store["c"].rename("elsewhere")
                case "create_index":
                    store["c"].create_index("n", unique=True)
                case "drop_index":
                    store["c"].drop_index("tags_1")
                case "set_schema":
                    store["c"].set_schema({"properties": {"n": {"maximum": 1000}}})
        return original(load)

    monkeypatch.setattr(BulkLoad, "_finish", changed)
    load(store, "append", numbered(*range(50, 90)), bulk_bytes=0)
    finish(store)
    assert len(documents(store)) == (40 if change in ("drop", "rename") else 70)
    check_indexes(store)
    if change == "rename":
        assert store["elsewhere"].count_documents({"tags": "x"}) == 30
        store["elsewhere"].drop()
    check_nothing_left(store)


def test_changes_of_others_are_caught_up_with(store: lowtide.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each round of the last transaction meets commits of others, some with more than it takes in itself."""
    store["c"].create_index("n")
    store["c"].insert_many(numbered(*range(30)))
    original = BulkLoad._swap
    rounds: list[bool] = []

    def beaten(*arguments: Any) -> Any:
        match len(rounds):
            case 0:
                store["c"].update_many({"_id": {"$lt": 10}}, {"$set": {"n": 500}})
                store["c"].delete_one({"_id": 20})
            case 1:
                store.checkpoint()
                store["c"].delete_many({"_id": {"$in": [21, 22, 23, 24, 300]}})
                store.checkpoint()
            case 2:
                store["c"].insert_one({"_id": 300, "n": 7})
                store["c"].delete_one({"_id": 20})
        rounds.append(True)
        return original(*arguments)

    claims: list[object] = []

    def late(directory: Any) -> None:
        if not claims and len(rounds) == 3:
            claims.append(store["c"].insert_one({"_id": 20, "n": "again"}))
        staged.claim(directory)

    monkeypatch.setattr(BulkLoad, "_swap", beaten)
    monkeypatch.setattr(bulk, "claim", late)
    load(store, "append", numbered(*range(50, 90)), bulk_bytes=0)
    finish(store)
    found = {each["_id"]: each["n"] for each in documents(store)}
    expected = {each: each for each in (*range(30), *range(50, 90))} | dict.fromkeys(range(10), 500)
    for _id in range(21, 25):
        del expected[_id]
    assert found == expected | {300: 7, 20: "again"}
    check_indexes(store)
    check_nothing_left(store)


@pytest.mark.parametrize("few", [0, 100])
def test_unique_values_that_others_exchange_meanwhile_are_no_duplicates(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    """In whatever order the documents are caught up with, in one transaction or in many."""
    monkeypatch.setattr(bulk, "FEW", few)
    monkeypatch.setattr(bulk, "STEP", 1)
    store["c"].create_index("n", unique=True)
    store["c"].insert_many(numbered(*range(10)))
    original = BulkLoad._swap
    rounds: list[bool] = []

    def beaten(*arguments: Any) -> Any:
        if not rounds:
            for _id, n in ((1, -1), (2, 1), (1, 2)):
                store["c"].update_one({"_id": _id}, {"$set": {"n": n}})
            store["c"].delete_one({"_id": 9})
            store["c"].update_one({"_id": 3}, {"$set": {"n": 9}})
            store["c"].insert_one({"_id": -5, "n": 3})
        rounds.append(True)
        return original(*arguments)

    monkeypatch.setattr(BulkLoad, "_swap", beaten)
    load(store, "append", numbered(*range(50, 60)), bulk_bytes=0)
    finish(store)
    found = {each["_id"]: each["n"] for each in documents(store)}
    expected = {each: each for each in (*range(9), *range(50, 60))} | {1: 2, 2: 1, 3: 9, -5: 3}
    assert found == expected
    check_indexes(store)
    check_nothing_left(store)


def test_one_whose_instant_is_expired_misses_no_deletion(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what was deleted after an instant that is no longer held, no trace may be left."""
    clock = ManualClock()
    store = open_store(clock=clock, monitor_interval=3600, max_snapshot_age=30)
    store["c"].insert_many(numbered(*range(10)))
    original = BulkLoad._catch_up

    def beaten(load: BulkLoad, anchor: Any, later: Any, everything: Any, **more: Any) -> Any:
        clock.advance(60)
        parts_of(store).monitor.tick()
        store["c"].delete_one({"_id": 5})
        for _ in range(2):
            store.collect_garbage()
            store.checkpoint()
        with begin(parts_of(store).engine, SNAPSHOT, False) as later:
            return original(load, anchor, later, everything, **more)

    monkeypatch.setattr(BulkLoad, "_catch_up", beaten)
    with pytest.raises(SnapshotExpired):
        load(store, "append", numbered(50), bulk_bytes=0)
    finish(store)
    assert [each["_id"] for each in documents(store)] == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    check_nothing_left(store)


def test_an_id_that_another_inserts_meanwhile_is_refused(store: lowtide.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    original = BulkLoad._swap

    def inserted(*arguments: Any) -> Any:
        if store["c"].find_one({"_id": 55}) is None:
            store["c"].insert_one({"_id": 55, "mine": True})
        return original(*arguments)

    monkeypatch.setattr(BulkLoad, "_swap", inserted)
    with pytest.raises(DuplicateKeyError, match="'_id': 55"):
        load(store, "append", numbered(*range(50, 60)), bulk_bytes=0)
    finish(store)
    assert documents(store) == [{"_id": 55, "mine": True}]


@pytest.mark.parametrize("how", ["append", "upsert", "delete"])
def test_nothing_is_lost_beside_writing_threads(store: lowtide.Store, how: How) -> None:
    """Writers change documents of their own, and, where the job replaces, those of the job too."""
    store["c"].create_index("n")
    store["c"].insert_many([{"_id": each, "n": 0} for each in range(300)])
    job = range(1000, 1200) if how == "append" else range(100, 250)
    stop, failures = threading.Event(), []
    models: list[dict[int, int]] = [{}, {}]

    def write(number: int) -> None:
        chance, model = random.Random(number), models[number]
        try:
            for _ in range(500):  # so that the load comes to its end on whatever machine
                if stop.is_set():
                    break
                _id = chance.choice((chance.randrange(100), 250 + chance.randrange(100))) // 2 * 2 + number
                action = chance.randrange(3)
                if action == 0:
                    store["c"].delete_one({"_id": _id})
                    model[_id] = -1
                else:
                    value = chance.randrange(1, 1000)
                    store["c"].update_one({"_id": _id}, {"$set": {"n": value}}, upsert=True)
                    model[_id] = value
                if how == "upsert":
                    store["c"].update_one({"_id": 100 + chance.randrange(150)}, {"$inc": {"w": 1}})
        except Exception as error:
            failures.append(error)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(2)]
    for each in writers:
        each.start()
    try:
        receipt = load(store, how, [{"_id": each, "n": -7} for each in job], bulk_bytes=0)
    finally:
        stop.set()
        for each in writers:
            each.join()
    finish(store)
    assert not failures
    assert not receipt.repeated
    found = {each["_id"]: each["n"] for each in documents(store)}
    expected = dict.fromkeys(range(300), 0) | models[0] | models[1]
    for _id in job:
        expected[_id] = -1 if how == "delete" else -7
    assert found == {_id: n for _id, n in expected.items() if n != -1}
    check_indexes(store)
    check_nothing_left(store)
    assert store.verify().ok


@pytest.mark.parametrize("how", ["append", "upsert", "overwrite"])
def test_no_writer_is_too_fast_for_it(store: lowtide.Store, how: How, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads change the collection without a pause, and without an end before the load's."""
    monkeypatch.setattr(bulk, "PATIENCE", 2)  # beside such writers each round takes long
    store["c"].create_index("n")
    store["c"].insert_many([{"_id": each, "n": 0} for each in range(40)])
    stop, rounds = threading.Event(), [0, 0]

    def write(number: int) -> None:
        while not stop.is_set():
            rounds[number] += 1
            store["c"].update_one({"_id": number * 20 + rounds[number] % 20}, {"$inc": {"n": 1}})

    writers = [threading.Thread(target=write, args=(number,)) for number in range(2)]
    for each in writers:
        each.start()
    try:
        wait_until(lambda: min(rounds) > 0)
        receipt = load(store, how, [{"_id": 1000 + each, "n": -1} for each in range(50)], bulk_bytes=0)
        after = list(rounds)
        wait_until(lambda: all(now > then for now, then in zip(rounds, after, strict=True)))
    finally:
        stop.set()
        for each in writers:
            each.join()
    finish(store)
    assert receipt.counts.inserted == 50
    found = {each["_id"]: each["n"] for each in documents(store)}
    assert [found.pop(1000 + each) for each in range(50)] == [-1] * 50
    if how == "overwrite":
        assert found == {}, "an update inserts nothing"
    else:
        assert sum(found.values()) == sum(rounds), "no change of theirs is lost"
    check_indexes(store)
    check_nothing_left(store)


def test_what_is_few_enough_grows_until_the_load_ends(store: lowtide.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others always change more than goes into the last transaction."""
    monkeypatch.setattr(bulk, "FEW", 1)
    monkeypatch.setattr(bulk, "PATIENCE", 2)
    store["c"].insert_many([{"_id": each, "n": 0} for each in range(10)])
    rounds: list[bool] = []

    def beaten(directory: Any) -> None:
        rounds.append(True)
        assert len(rounds) < 50
        store["c"].update_many({}, {"$inc": {"n": 1}})
        staged.claim(directory)

    monkeypatch.setattr(bulk, "claim", beaten)
    load(store, "append", [{"_id": 10, "n": 0}], bulk_bytes=0)
    finish(store)
    assert len(rounds) == 7, "three rounds with 1, then 2, 4, 8 and 16"
    assert documents(store) == [*({"_id": each, "n": 7} for each in range(10)), {"_id": 10, "n": 0}]
