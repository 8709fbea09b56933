"""Change feeds and streams of a collection that is loaded in bulk show the changes of the load, at its commit."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from lowtide.errors import UsageError
from lowtide.sharing.loading import bulk
from lowtide.spark.changes import DifferencePart
from tests.conftest import OpenStore
from tests.unit.feed.stores import SHORT, fill, kept_from
from tests.unit.sharing.loading.jobs import load
from tests.unit.sharing.loading.past import KEPT, Documents, Past, last, settle
from tests.unit.spark.streams import Query, read, reader, rows, short

Row = dict[str, Any]


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "STEP", 3)
    monkeypatch.setattr(bulk, "FEW", 2)


def replayed(start: Documents, changes: list[Row]) -> Documents:
    """What a replica has that applies changes in the order of their commits."""
    found = dict(start)
    for row in sorted(changes, key=lambda row: row["_commit_version"]):
        kind, document = row["_change_type"], {name: row[name] for name in ("_id", "city") if row[name] is not None}
        if kind == "delete":
            del found[row["_id"]]
        elif kind == "update_preimage":
            assert found[row["_id"]] == document
        else:
            assert (row["_id"] in found) == (kind == "update_postimage")
            found[row["_id"]] = document
    return found


@pytest.mark.parametrize("images", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_a_replica_has_equal_documents_from_every_version_to_every_other(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch, images: bool, seed: int
) -> None:
    store = open_store(before_images=images, **KEPT)
    past = Past(store, "users", seed, monkeypatch)
    past.happen()
    end = last(store)
    for since in range(end):
        until = past.chance.randrange(since + 1, end + 1)
        found = rows(reader(store.path, startingVersion=since + 1, endingVersion=until))
        assert replayed(past.states[since], found) == past.states[until], (since, until)
    for ts in past.loads:
        alone = rows(reader(store.path, startingVersion=ts, endingVersion=ts))
        assert {row["_commit_version"] for row in alone} <= {ts}
        assert replayed(past.states[ts - 1], alone) == past.states[ts]


@pytest.mark.parametrize("options", [{}, {"maxRowsPerTrigger": 2}, {"maxCommitsPerTrigger": 3}])
@pytest.mark.parametrize("start", [{}, {"startingVersion": 1}])
def test_a_stream_goes_on_over_loads(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], start: dict[str, Any]
) -> None:
    """It is stopped and begun again at each place, and each batch is run twice."""
    store = open_store(before_images=False, **KEPT)
    past = Past(store, "users", 5, monkeypatch)
    past.write()
    query = Query(store.path, partitions=2, **options, **start)
    replica: Documents = {}
    for turn in range(6):
        (past.load if turn % 2 else past.write)()
        while query.plan():
            query.deliver()
            query.restart()
            batch = query.deliver()
            query.committed += 1
            replica = replayed(replica, [row for part in batch for row in part])
            keys: dict[int, int] = defaultdict(int)
            for part in batch:
                for key in {row["_id"] for row in part}:
                    keys[key] += 1
            assert set(keys.values()) <= {1}, "a key is in one part"
            version = query.version
            if "after" not in query.offsets[-1]:
                assert replica == past.states[version]
        assert replica == past.now
    query.stream.stop()


def test_a_stream_may_begin_with_a_load(open_store: OpenStore) -> None:
    store = open_store(**KEPT)
    store["users"].insert_one({"_id": 1, "city": "Oslo"})
    ts = load(store, "upsert", [{"_id": 1, "city": "Voss"}], collection="users", bulk_bytes=0).ts
    query = Query(store.path, startingVersion=ts)
    assert query.plan()
    first = query.deliver()
    query.restart()
    assert query.deliver() == first
    query.committed += 1
    assert short([row for part in first for row in part]) == [(1, "Voss", "update_postimage", ts)]
    store["users"].delete_one({"_id": 1})
    assert [row["_change_type"] for row in query.run()] == ["delete"]
    query.stream.stop()


def test_a_load_is_read_by_several_tasks(open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(**KEPT)
    monkeypatch.setattr(bulk, "STEP", 1000)
    ts = load(
        store, "append", [{"_id": each, "city": "x"} for each in range(3000)], collection="users", bulk_bytes=0
    ).ts
    settle(store)
    store.checkpoint()
    source = reader(store.path, startingVersion=ts, endingVersion=ts, partitions=3, batchSize=100)
    planned = source.partitions()
    assert [type(each) for each in planned] == [DifferencePart] * 3
    parts = read(source, planned)
    assert all(parts)
    assert sorted(row["_id"] for part in parts for row in part) == list(range(3000))


def test_versions_around_a_load_can_be_read_alone(open_store: OpenStore) -> None:
    """Before, only those after it could, and not all of these."""
    store = open_store(**KEPT)
    store["users"].insert_one({"_id": 1, "city": "Oslo"})
    before = last(store)
    ts = load(store, "append", [{"_id": 2, "city": "Voss"}], collection="users", bulk_bytes=0).ts
    settle(store)
    store["users"].insert_one({"_id": 3, "city": "Bodø"})
    found = [
        short(rows(reader(store.path, startingVersion=version, endingVersion=version)))
        for version in range(1, last(store) + 1)
    ]
    expected: list[list[tuple[Any, ...]]] = [[] for _ in found]
    expected[before - 1] = [(1, "Oslo", "insert", before)]
    expected[ts - 1] = [(2, "Voss", "insert", ts)]
    expected[-1] = [(3, "Bodø", "insert", last(store))]
    assert found == expected


def test_a_difference_that_is_gone_is_told(open_store: OpenStore) -> None:
    store = open_store(monitor_interval=3600, **SHORT)
    ts = load(store, "append", [{"_id": 2, "city": "Voss"}], collection="users", bulk_bytes=0).ts
    fill(store, 200)
    store.checkpoint()
    assert kept_from(store) > ts
    with pytest.raises(UsageError, match=f"startingVersion {ts} lies before what the store"):
        rows(reader(store.path, startingVersion=ts))
    assert rows(reader(store.path, startingVersion=kept_from(store))) == []


def test_preimages_of_a_load_are_asked_for_where_there_are_none(open_store: OpenStore) -> None:
    store = open_store(before_images=False, **KEPT)
    store["users"].insert_one({"_id": 1})
    ts = load(store, "delete", [{"_id": 1}], collection="users", bulk_bytes=0).ts
    with pytest.raises(UsageError, match=f"commit {ts} was logged without the values"):
        rows(reader(store.path, startingVersion=ts, preimages="require"))
    assert short(rows(reader(store.path, startingVersion=ts))) == [(1, None, "delete", ts)]
