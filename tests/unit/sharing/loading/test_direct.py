"""A load that writes directly to the base: no reader misses a row or sees one too early, whenever it is cut short."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide.documents.catalog import CATALOG, row_of
from lowtide.engine.base.direct import filled_in, note_filled, put_entries
from lowtide.engine.garbage import emptying
from lowtide.engine.garbage.emptying import empty_keyspace
from lowtide.errors import DuplicateKeyError, OperationFailure
from lowtide.sharing.loading import bulk, direct, loader, staged
from lowtide.sharing.loading.job import Counts, How
from lowtide.sharing.loading.staged import JobCancelled, cancel, remove_staging, staging_of
from lowtide.upkeep.verify import verify_files
from tests.conftest import OpenStore
from tests.crash.stores import child
from tests.support.attack import FULL
from tests.support.parts import copy_as_crashed, parts_of
from tests.unit.sharing.loading.jobs import apply, check_indexes, check_nothing_left, documents, load, prepare

HOWS: tuple[How, ...] = ("append", "upsert", "delete", "overwrite")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "DIRECT_ROWS", 1)
    monkeypatch.setattr(bulk, "STEP", 4)
    monkeypatch.setattr(direct, "CHUNK_ROWS", 5)
    monkeypatch.setattr(staged, "_ROWS", 3)


def settle(store: lowtide.Store) -> None:
    parts_of(store).loader.finish()


def numbered(*numbers: int, **more: Any) -> list[dict[str, Any]]:
    return [{"_id": each, "n": each, **more} for each in numbers]


def at_each_put(monkeypatch: pytest.MonkeyPatch, what: Callable[[], object]) -> list[int]:
    """Do ``what`` after each put into the base, and before the swap; how often it was done."""
    done = [0]

    def doing(work: Callable[..., None]) -> Callable[..., None]:
        def both(*arguments: Any) -> None:
            work(*arguments)
            done[0] += 1
            what()

        return both

    monkeypatch.setattr(bulk, "put_entries", doing(put_entries))
    monkeypatch.setattr(bulk, "note_filled", doing(note_filled))
    return done


@pytest.mark.parametrize(
    ("how", "indexed"),
    [(how, indexed) for how in HOWS for indexed in (True, False) if FULL or indexed or how == "upsert"],
)
def test_a_crash_at_any_step_leaves_what_was_there_or_the_whole_load(
    open_store: OpenStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: How, indexed: bool
) -> None:
    store = open_store(checkpointer="thread")
    if indexed:
        store["c"].create_index("n", unique=True)
    store["c"].insert_many(numbered(*range(0, 30, 3)))
    before = documents(store)
    copies: list[Path] = []

    def crash() -> None:
        copies.append(tmp_path / f"crashed {len(copies)}")
        copy_as_crashed(store, store.path, copies[-1])

    job = numbered(*range(31, 50) if how == "append" else range(20), new=True)
    with monkeypatch.context() as patched:
        done = at_each_put(patched, crash)
        load(store, how, job, bulk_bytes=0)
    settle(store)
    after = documents(store)
    crash()
    assert done[0] > 5
    for number, copy in enumerate(copies):
        with lowtide.open(copy) as crashed:
            last = number == len(copies) - 1
            assert documents(crashed) == (after if last else before)
            assert crashed.verify().ok
            if not last:
                load(crashed, how, job, bulk_bytes=0)
            settle(crashed)
            assert documents(crashed) == after
            check_indexes(crashed)
            check_nothing_left(crashed)
            assert crashed.verify().ok
        assert verify_files(copy).ok


READING = """
import json, sys, lowtide
path, how = sys.argv[1], sys.argv[2]
store = lowtide.open(path, read_only=how == "follower")
held = None
for line in sys.stdin:
    with store.snapshot() as snapshot:
        found = [each["_id"] for each in snapshot["c"].find({}, sort=[("_id", 1)])]
        counted = snapshot["c"].count_documents({})
    if held is None:
        held = store.snapshot()
    old = [each["_id"] for each in held["c"].find({}, sort=[("_id", 1)])]
    print(json.dumps([found, counted, old]), flush=True)
"""


class Reader:
    """Another process that reads the collection when it is asked."""

    def __init__(self, process: Any) -> None:
        self._process = process

    def read(self) -> list[Any]:
        self._process.stdin.write("read\n")
        self._process.stdin.flush()
        found: list[Any] = json.loads(self._process.stdout.readline())
        return found


@pytest.mark.parametrize("kind", ["follower", "joined"])
@pytest.mark.parametrize("how", ["append", "overwrite"])
def test_another_process_sees_the_load_at_its_swap_and_not_before(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch, kind: str, how: How
) -> None:
    store = open_store(checkpointer="thread")
    store["c"].insert_many(numbered(*range(10)))
    before, job = list(range(10)), list(range(20, 40))
    after = before + job if how == "append" else job
    with child(READING, store.path, kind) as process:
        reader = Reader(process)
        assert reader.read() == [before, 10, before]

        def look() -> None:
            assert reader.read() == [before, 10, before]

        with monkeypatch.context() as patched:
            assert at_each_put(patched, look)[0] == 0
            load(store, how, numbered(*job), bulk_bytes=0)
        assert reader.read() == [after, len(after), before]
        store.checkpoint()
        assert reader.read() == [after, len(after), before]


def test_a_pin_keeps_what_was_there_and_a_later_one_has_the_load(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(checkpointer="thread")
    store["c"].insert_many(numbered(*range(10)))
    names = iter(range(1000))
    at_each_put(monkeypatch, lambda: store.pin(f"during {next(names)}", ttl=600))
    load(store, "overwrite", numbered(*range(100, 130)), bulk_bytes=0)
    store.pin("after", ttl=600)
    settle(store)
    store["c"].delete_many({"_id": {"$lt": 110}})
    for pin in store.pins():
        with lowtide.open_snapshot(store.path, pin=pin.name) as snapshot:
            found = [each["_id"] for each in snapshot["c"].find({}, sort=[("_id", 1)])]
        assert found == list(range(100, 130) if pin.name == "after" else range(10)), pin.name
    assert store.verify().ok


@pytest.mark.parametrize("how", ["upsert", "overwrite"])
def test_what_others_change_during_a_load_is_shown_in_its_place_among_what_it_inserts(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch, how: How
) -> None:
    """Documents that a load inserts share rows of the difference. Others change the first of such documents, one in the
    middle, and one between two of them."""
    monkeypatch.setattr(staged, "_ROWS", 100)
    touched = numbered(0, 7, 9, n2="theirs")
    done = at_each_put(monkeypatch, lambda: store["c"].insert_many(touched) if done[0] == 1 else None)
    ts = load(store, how, numbered(*range(0, 40, 2), 7), bulk_bytes=0).ts
    gone = [9] if how == "overwrite" else []
    kept = touched[2:] if how == "upsert" else []
    assert documents(store) == sorted([*numbered(*range(0, 40, 2), 7), *kept], key=lambda each: each["_id"])
    with store["c"].watch(since=ts - 1, timeout=0) as changes:
        found = [(change.kind, change.id) for change in changes if change.ts == ts]
    updated = [("replace", 0), ("replace", 7)]
    inserted = [("insert", each) for each in range(2, 40, 2)]
    assert found == sorted([*updated, *inserted, *(("delete", each) for each in gone)], key=lambda each: each[1])


def test_a_document_that_another_inserts_during_an_append_of_it_is_refused(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staged, "_ROWS", 100)
    done = at_each_put(monkeypatch, lambda: store["c"].insert_one({"_id": 7}) if done[0] == 1 else None)
    with pytest.raises(DuplicateKeyError):
        load(store, "append", numbered(*range(20)), bulk_bytes=0)
    assert documents(store) == [{"_id": 7}]


@pytest.mark.parametrize("upkeep", ["checkpoint", "collect_garbage", "compact", "verify"])
def test_upkeep_beside_a_load_changes_nothing(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch, upkeep: str
) -> None:
    store = open_store(checkpointer="thread")
    store["c"].create_index("n")
    store["c"].insert_many(numbered(*range(10)))
    with store.snapshot() as held:

        def work() -> None:
            store["other"].update_one({"_id": 1}, {"$inc": {"n": 1}}, upsert=True)
            store["c"].update_one({"_id": 3}, {"$inc": {"w": 1}})
            report = getattr(store, upkeep)()
            assert upkeep != "verify" or report.ok

        done = at_each_put(monkeypatch, work)
        load(store, "append", numbered(*range(20, 60)), bulk_bytes=0)
        settle(store)
        assert [each["_id"] for each in held["c"].find()] == list(range(10))
    expected = numbered(*range(10), *range(20, 60))
    expected[3]["w"] = done[0]
    assert documents(store) == expected
    check_indexes(store)
    check_nothing_left(store)
    assert store.verify().ok


@pytest.mark.parametrize("change", ["drop", "rename"])
def test_rows_that_are_put_after_their_keyspace_was_emptied_are_emptied_too(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    store = open_store(checkpointer="thread")
    store["c"].insert_many(numbered(*range(10)))
    left = [3]

    def late(*arguments: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            store["c"].drop() if change == "drop" else store["c"].rename("elsewhere")
            settle(store)
        put_entries(*arguments)

    monkeypatch.setattr(bulk, "put_entries", late)
    load(store, "append", numbered(*range(20, 60)), bulk_bytes=0)
    settle(store)
    assert documents(store) == numbered(*range(20, 60))
    if change == "rename":
        assert store["elsewhere"].count_documents({}) == 10
        store["elsewhere"].drop()
    check_nothing_left(store)


@pytest.mark.parametrize("place", ["put_entries", "note_filled"])
def test_an_error_anywhere_leaves_the_collection_as_it_was(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    store["c"].insert_many(numbered(*range(10)))
    original, left = getattr(bulk, place), [0 if place == "note_filled" else 3]

    def failing(*arguments: Any) -> None:
        if not left[0]:
            raise OSError("no room")
        left[0] -= 1
        original(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(bulk, place, failing)
        with pytest.raises(OSError, match="no room"):
            load(store, "upsert", numbered(*range(5, 40)), bulk_bytes=0)
    settle(store)
    assert documents(store) == numbered(*range(10))
    check_nothing_left(store)
    assert store.verify().ok


def test_one_that_is_taken_back_changes_nothing(store: lowtide.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store["c"].insert_one({"_id": 1})
    name = prepare(store.path, "append", numbered(*range(10, 40)), bulk_bytes=0)
    at_each_put(monkeypatch, lambda: cancel(staging_of(store.path, name)))
    with pytest.raises(JobCancelled):
        apply(store, name)
    settle(store)
    remove_staging(store.path, name)
    assert documents(store) == [{"_id": 1}]
    check_nothing_left(store)


# Backups


def test_a_second_backup_has_what_a_load_put_into_the_base(open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store(checkpointer="thread")
    store["c"].insert_many(numbered(*range(10)))
    store.backup(tmp_path / "backup")
    load(store, "append", numbered(*range(20, 60)), bulk_bytes=0)
    report = store.backup(tmp_path / "backup")
    assert report.base_copied
    store["c"].insert_one({"_id": 1000})
    assert not store.backup(tmp_path / "backup").base_copied, "the base has the load, so the log is enough"
    with lowtide.open(tmp_path / "backup") as copy:
        assert documents(copy) == [*numbered(*range(10), *range(20, 60)), {"_id": 1000}]
        assert copy.verify().ok


def test_a_load_while_the_base_is_copied_is_in_the_backup(open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store(checkpointer="thread")
    store["c"].insert_many(numbered(*range(10)))
    loads: list[object] = []

    def progress(step: str) -> None:
        if "data.mdb" in step and not loads:
            loads.append(load(store, "append", numbered(*range(20, 60)), bulk_bytes=0))

    store.backup(tmp_path / "backup", progress=progress)
    assert loads
    with lowtide.open(tmp_path / "backup") as copy:
        assert documents(copy) == numbered(*range(10), *range(20, 60))
        assert copy.verify().ok


def test_a_backup_during_a_load_has_what_was_there(
    open_store: OpenStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(checkpointer="thread")
    store["c"].insert_many(numbered(*range(10)))
    numbers = iter(range(1000))
    done = at_each_put(monkeypatch, lambda: store.backup(tmp_path / f"backup {next(numbers)}"))
    load(store, "append", numbered(*range(20, 60)), bulk_bytes=0)
    for number in range(done[0]):
        with lowtide.open(tmp_path / f"backup {number}") as copy:
            assert documents(copy) == numbered(*range(10))
            assert copy.verify().ok


# What goes where


def test_the_log_has_no_document_of_the_load(open_store: OpenStore) -> None:
    store = open_store(checkpointer="thread", feed_bytes=1 << 30)
    load(store, "append", numbered(*range(20, 60), text="of the load"), bulk_bytes=0)
    assert not any(b"of the load" in each.read_bytes() for each in (store.path / "log").iterdir())
    assert filled_in(parts_of(store).base) == 1
    assert len(documents(store)) == 40


@pytest.mark.parametrize(("how", "generation"), [("append", 1), ("upsert", 1), ("overwrite", 1), ("delete", 0)])
def test_many_documents_for_an_empty_collection_are_a_bulk_load(
    store: lowtide.Store, how: How, generation: int
) -> None:
    load(store, how, numbered(*range(20)))
    assert row_of("c", store.keyspace(CATALOG).get(b"c")).generation == generation


def test_many_documents_beside_others_are_one_transaction(store: lowtide.Store) -> None:
    store["c"].insert_one({"_id": 1000})
    load(store, "append", numbered(*range(20)))
    assert store.keyspace(CATALOG).get(b"c") is None


def test_an_application_that_owns_the_store_loads_through_the_log(store: lowtide.Store) -> None:
    """Beside its threads each put would wait for the GIL."""
    name = prepare(store.path, "append", numbered(*range(20)))
    parts_of(store).loader.load(name)
    remove_staging(store.path, name)
    assert store.keyspace(CATALOG).get(b"c") is None
    name = prepare(store.path, "append", numbered(*range(30, 40)), bulk_bytes=0)
    parts_of(store).loader.load(name)
    remove_staging(store.path, name)
    assert filled_in(parts_of(store).base) == 0


def test_documents_in_too_many_runs_go_through_the_log(store: lowtide.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "MOST_RUNS", 2)
    load(store, "append", *(numbered(each, each + 10) for each in range(5)), bulk_bytes=0)
    assert filled_in(parts_of(store).base) == 0
    assert len(documents(store)) == 10


def test_files_in_any_order_are_merged(store: lowtide.Store) -> None:
    files = [numbered(*range(start, 100, 7)) for start in (3, 1, 0, 6, 5, 2, 4)]
    counts = load(store, "append", *(reversed(each) for each in files), bulk_bytes=0).counts
    assert counts == Counts(inserted=100)
    assert documents(store) == numbered(*range(100))


@pytest.mark.parametrize("indexed", [False, True])
def test_a_document_twice_is_refused_wherever_it_stands(store: lowtide.Store, indexed: bool) -> None:
    if indexed:
        store["c"].create_index("n")
    for other in (0, 17, 39):
        with pytest.raises(OperationFailure, match=f"several rows.*_id {other};"):
            load(store, "overwrite", numbered(*range(40)), numbered(other), bulk_bytes=0)
    store["c"].insert_many(numbered(100))
    with pytest.raises(DuplicateKeyError, match="'_id': 100"):
        load(store, "append", numbered(*range(40), 100), bulk_bytes=0)
    settle(store)
    assert documents(store) == numbered(100)
    check_nothing_left(store)


# What a load leaves


def outlived(store: lowtide.Store) -> None:
    """Commit so much that the log no longer has the load, and let go of its difference."""
    settle(store)  # a thread that still empties what the load has left would empty the difference too
    for number in range(60):
        store.keyspace("other").put(b"%d" % number, b"x" * 1000)
    store.checkpoint()
    parts_of(store).loader.tidy()
    settle(store)


SHORT: dict[str, Any] = {
    "segment_bytes": 4096,
    "feed_bytes": 0,
    "checkpointer": "thread",
    "monitor_interval": 3600,
    "checkpoint_bytes": 1 << 30,
}


def rows_of(store: lowtide.Store, name: str) -> int:
    prefix = parts_of(store).engine.catalog.prefix_of(name)
    return len(parts_of(store).base.changed_keys(prefix, prefix + b"\xff" * 100, -1, 1 << 30)[0])


@pytest.mark.parametrize("holder", ["", "snapshot", "pin"])
def test_the_difference_is_emptied_in_the_base_unless_a_reader_may_see_it(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch, holder: str
) -> None:
    monkeypatch.setattr(loader, "LARGE", 1)
    store = open_store(**SHORT)
    load(store, "append", numbered(*range(40)))
    changes = row_of("c", store.keyspace(CATALOG).get(b"c")).former[0].changes
    rows = rows_of(store, changes)
    assert rows > 10
    emptied: list[bool] = []

    def watched(*arguments: Any) -> bool:
        emptied.append(empty_keyspace(*arguments))
        return emptied[-1]

    monkeypatch.setattr(loader, "empty_keyspace", watched)
    held = store.snapshot() if holder == "snapshot" else None
    if holder == "pin":
        store.pin("held", ttl=600)
    before = store.stats().last_commit
    outlived(store)
    assert emptied == [not holder]
    check_nothing_left(store)
    if held is not None:
        assert len(list(held.keyspace(changes).scan())) == rows
        held.close()
    if holder == "pin":
        with lowtide.open_snapshot(store.path, pin="held") as snapshot:
            assert len(list(snapshot.keyspace(changes).scan())) == rows
    if not holder:
        assert rows_of(store, changes) == 0
        assert store.stats().last_commit - before < 70, "the rows were not deleted by commits"
    assert store.verify().ok
    assert documents(store) == numbered(*range(40))


def test_what_the_log_still_writes_to_is_emptied_by_commits(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "LARGE", 1)
    store = open_store(feed_bytes=1 << 30, checkpointer="thread")
    store["c"].insert_many(numbered(*range(30)))
    load(store, "overwrite", numbered(*range(100, 120)), bulk_bytes=0)
    settle(store)
    assert documents(store) == numbered(*range(100, 120))
    check_nothing_left(store)
    assert store.verify().ok


def test_a_crash_while_a_difference_is_emptied_leaves_it_to_the_next_time(
    open_store: OpenStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "LARGE", 1)
    monkeypatch.setattr(emptying, "STEP", 7)
    store = open_store(**SHORT)
    load(store, "append", numbered(*range(40)))
    store.backup(tmp_path / "backup")
    copies: list[Path] = []

    def crash(*arguments: Any) -> None:
        copies.append(tmp_path / f"crashed {len(copies)}")
        copy_as_crashed(store, store.path, copies[-1])
        note_filled(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(loader, "note_filled", crash)
        outlived(store)
    assert len(copies) == 1
    with lowtide.open(copies[0], **SHORT) as crashed:
        assert row_of("c", crashed.keyspace(CATALOG).get(b"c")).doomed
        load(crashed, "upsert", numbered(7))
        settle(crashed)
        assert documents(crashed) == numbered(*range(40))
        check_nothing_left(crashed)
        assert crashed.verify().ok
    assert store.backup(tmp_path / "backup").base_copied
    with lowtide.open(tmp_path / "backup", **SHORT) as copy:
        check_nothing_left(copy)
        assert documents(copy) == numbered(*range(40))
