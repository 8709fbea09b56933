"""The change feed shows a bulk load as its changes to documents: a replica that applies them is equal to the source,
from every commit to every other one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest

import lowtide
from lowtide.documents.catalog import CATALOG, encode_row, row_of
from lowtide.errors import ChangesLost, UsageError
from lowtide.feed.change import Change
from lowtide.sharing.loading import bulk, direct, staged
from lowtide.sharing.loading.job import How
from lowtide.values.codec import decode_document
from lowtide.values.ids import id_of
from tests.conftest import OpenStore
from tests.support.attack import some
from tests.support.parts import parts_of
from tests.unit.feed.stores import SHORT, fill, kept_from
from tests.unit.sharing.loading.jobs import load
from tests.unit.sharing.loading.past import KEPT, Past, last, settle


@pytest.fixture(autouse=True, params=["logged", "direct"])
def small_steps(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "STEP", 3)
    monkeypatch.setattr(bulk, "FEW", 2)
    if request.param == "direct":
        monkeypatch.setattr(bulk, "DIRECT_ROWS", 0)
        monkeypatch.setattr(direct, "CHUNK_ROWS", 4)
        monkeypatch.setattr(staged, "_ROWS", 3)


class Seen(NamedTuple):
    """A change, independent of which interface reported it."""

    kind: str
    id: int
    document: dict[str, Any] | None
    before: dict[str, Any] | None = None


def seen(change: Change) -> Seen:
    value, before = (None if each is None else decode_document(each) for each in (change.value, change.before))
    return Seen(change.kind, id_of(change.key), value, before)


def replayed(start: dict[int, dict[str, Any]], changes: Iterable[Any], images: bool) -> dict[int, dict[str, Any]]:
    """What a replica has after these changes. Each change must fit what it had before."""
    found = dict(start)
    for change in changes:
        assert (change.id in found) == (change.kind != "insert"), change
        assert change.document != found.get(change.id)
        assert change.before == (found.get(change.id) if images else None)
        found.pop(change.id, None)
        if change.kind != "delete":
            found[change.id] = change.document
    return found


@pytest.mark.parametrize("images", [False, True])
@pytest.mark.parametrize("seed", some(range(6), 2))
def test_a_replica_has_equal_documents_from_every_commit_to_every_other(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch, images: bool, seed: int
) -> None:
    store = open_store(before_images=images, **KEPT)
    store["c"].create_index("city")
    past = Past(store, "c", seed, monkeypatch)
    past.happen()
    end = last(store)
    with lowtide.open(store.path, read_only=True) as follower:
        for since in range(end + 1):
            of = past.chance.choice((store, follower))
            for until in past.chance.sample(range(since, end + 1), min(2, end + 1 - since)):
                changes = list(of.changes(since, until, ["documents/c"], before=images))
                assert {change.keyspace for change in changes} <= {"documents/c"}
                assert [change.ts for change in changes] == sorted(change.ts for change in changes)
                assert replayed(past.states[since], map(seen, changes), images) == past.states[until], (since, until)
            with of["c"].watch(since=since, before=images, timeout=0) as watched:
                assert replayed(past.states[since], watched, images) == past.states[end]


@pytest.mark.parametrize("how", ["append", "upsert", "delete", "overwrite"])
def test_a_load_is_the_same_changes_in_bulk_as_in_one_transaction(open_store: OpenStore, how: How) -> None:
    found = []
    for name, size in (("one", 1 << 30), ("bulk", 0)):
        store = open_store(name, before_images=True, **KEPT)
        store["c"].insert_many([{"_id": each, "n": each} for each in range(10)])
        before = last(store)
        rows = [{"_id": each, "n": 5} for each in (range(20, 25) if how == "append" else range(3, 13))]
        ts = load(store, how, rows, bulk_bytes=size).ts
        settle(store)
        with store["c"].watch(since=before, before=True, timeout=0) as changes:
            shown = [(each.ts - ts, each.kind, each.id, each.document, each.before) for each in changes]
        found.append(sorted(shown, key=lambda each: each[2]))
    assert found[0] == found[1]
    assert found[0]


def test_who_watches_while_a_load_comes_sees_it_and_what_comes_after(store: lowtide.Store) -> None:
    store["c"].insert_many([{"_id": each, "n": 0} for each in range(5)])
    with store["c"].watch(timeout=0) as changes:
        ts = load(store, "upsert", [{"_id": 4, "n": 1}, {"_id": 5, "n": 1}], bulk_bytes=0).ts
        settle(store)
        assert [(each.kind, each.id, each.ts) for each in changes] == [("replace", 4, ts), ("insert", 5, ts)]
        store["c"].delete_one({"_id": 0})
        assert [(each.kind, each.id) for each in changes] == [("delete", 0)]
        assert changes.position == last(store)


def test_one_that_stops_in_the_middle_of_a_load_goes_on_before_it(store: lowtide.Store) -> None:
    ts = load(store, "append", [{"_id": each} for each in range(9)], bulk_bytes=0).ts
    with store["c"].watch(since=0, timeout=0) as changes:
        assert [next(changes).id for _ in range(4)] == [0, 1, 2, 3]
        assert changes.position == ts - 1
        with store["c"].watch(since=changes.position, timeout=0) as again:
            assert [each.id for each in again] == list(range(9))


def test_a_difference_goes_with_the_log(open_store: OpenStore) -> None:
    store = open_store(monitor_interval=3600, **SHORT)
    ts = load(store, "append", [{"_id": each} for each in range(20)], bulk_bytes=0).ts
    settle(store)
    (former,) = row_of("c", store.keyspace(CATALOG).get(b"c")).former
    assert former.ts == ts
    parts_of(store).loader.tidy()
    assert list(store.keyspace(former.changes).scan()), "the log still has the commit"
    watch = store["c"].watch(since=ts - 1, timeout=0)
    fill(store, 200)
    store.checkpoint()
    assert kept_from(store) > ts
    parts_of(store).monitor.tick()
    settle(store)
    assert row_of("c", store.keyspace(CATALOG).get(b"c")).former == ()
    assert list(store.keyspace(former.changes).scan()) == []
    with pytest.raises(ChangesLost):
        next(watch)
    with store["c"].watch(since=last(store), timeout=0) as changes:
        store["c"].insert_one({"_id": 100})
        assert [each.id for each in changes] == [100]


def test_a_difference_that_went_while_the_log_was_read_is_lost(open_store: OpenStore) -> None:
    """Never taken for none."""
    store = open_store(**KEPT)
    ts = load(store, "append", [{"_id": 1}], bulk_bytes=0).ts
    settle(store)
    row = row_of("c", store.keyspace(CATALOG).get(b"c"))
    with store.transaction() as tx:
        tx._tx.keyspace(CATALOG).put(b"c", encode_row(row.having(former=())))
    with store["c"].watch(since=ts - 1, timeout=0) as changes, pytest.raises(ChangesLost):
        next(changes)


def test_values_before_a_load_are_asked_for_where_there_are_none(open_store: OpenStore) -> None:
    store = open_store(before_images=False, **KEPT)
    store["c"].insert_one({"_id": 1})
    ts = load(store, "delete", [{"_id": 1}], bulk_bytes=0).ts
    with pytest.raises(UsageError, match=f"commit {ts} was logged without"):
        list(store.changes(ts - 1, ts, ["documents/c"], before=True))


def test_a_collection_that_was_renamed_is_not_taken_for_a_later_one_of_its_name(open_store: OpenStore) -> None:
    store = open_store(**KEPT)
    store["c"].insert_one({"_id": 1})
    store["c"].rename("old")
    load(store, "append", [{"_id": 2}], bulk_bytes=0)
    settle(store)
    with store["old"].watch(timeout=0) as old, store["c"].watch(timeout=0) as new:
        store["old"].insert_one({"_id": 3})
        store["c"].insert_one({"_id": 4})
        assert [each.id for each in old] == [3]
        assert [each.id for each in new] == [4]


def test_a_store_without_collections_is_left_alone(store: lowtide.Store) -> None:
    """A keyspace that is named and never written to would cost each commit a look."""
    store.keyspace("fruit").put(b"apple", b"red")
    parts_of(store).monitor.tick()
    assert list(store.changes(0, keyspaces=["documents/c"])) == []
    assert set(parts_of(store).engine.catalog.prefixes) == {"fruit"}
