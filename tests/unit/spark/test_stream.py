"""The change feed as a stream: where it starts, what it holds, and how it continues after a restart."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxFiles, ReadMaxRows
from pyspark.sql.types import LongType, StructField, StructType

import lowtide
from lowtide.spark import changes
from lowtide.spark import stream as module
from lowtide.spark.options import SparkOptions
from lowtide.spark.stream import ChangeStream
from tests.conftest import OpenStore
from tests.unit.feed.stores import SHORT, kept_from
from tests.unit.spark.streams import BYTES, USERS, Query, short, stream


def insert(store: lowtide.Store, first: int, count: int = 1, city: str = "Oslo") -> None:
    store["users"].insert_many([{"_id": number, "city": city} for number in range(first, first + count)])


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return [row["_id"] for row in rows]


def sizes(query: Query) -> list[int]:
    return [sum(map(len, batch)) for batch in query.batches]


def only_consumer(store: lowtide.Store) -> Any:
    (found,) = store.consumers()
    return found


def test_a_stream_without_a_start_delivers_the_snapshot_and_then_the_changes(store: lowtide.Store) -> None:
    insert(store, 0, 3)
    store["users"].update_one({"_id": 1}, {"$set": {"city": "Voss"}})
    query = Query(store.path)
    assert query.plan()
    insert(store, 10)
    found = query.run()
    assert short(found) == [
        (0, "Oslo", "insert", 2),
        (1, "Voss", "insert", 2),
        (2, "Oslo", "insert", 2),
        (10, "Oslo", "insert", 3),
    ]
    assert len({row["_commit_timestamp"] for row in found[:3]}) == 1
    assert query.run() == []
    store["users"].delete_one({"_id": 0})
    assert short(query.run()) == [(0, None, "delete", 4)]


def test_consumer_and_pin_are_held_for_as_long_as_they_are_needed(store: lowtide.Store) -> None:
    insert(store, 0, 3)
    query = Query(store.path, maxRowsPerTrigger=2)
    query.plan()
    (pin,) = store.pins()
    assert pin.expires - pin.taken == pytest.approx(86_400)
    assert only_consumer(store).position == 1
    query.run()
    insert(store, 10)
    query.run()
    assert store.pins() == []
    insert(store, 11)
    query.run()
    assert query.version == 3
    assert only_consumer(store).position == 3, "as the next batch was looked for, the last one was committed"


def test_the_log_is_kept_while_a_stream_is_stopped(open_store: OpenStore) -> None:
    store = open_store(**SHORT)
    insert(store, 0)
    query = Query(store.path)
    query.run()
    for number in range(1, 100):
        insert(store, number, city="x" * 100)
    store.checkpoint()
    assert kept_from(store) <= 2
    query.restart()
    assert ids(query.run()) == list(range(1, 100))
    for number in range(100, 200):
        insert(store, number, city="x" * 100)
    query.run()
    store.checkpoint()
    assert kept_from(store) > 100, "what is processed is let go"


@pytest.mark.parametrize(
    ("start", "expected"), [({"startingVersion": 2}, [1, 2]), ({"startingVersion": "latest"}, []), ({}, [0, 1, 2])]
)
def test_a_stream_begins_where_it_is_told_to(store: lowtide.Store, start: dict[str, Any], expected: list[int]) -> None:
    for number in range(3):
        insert(store, number)
    query = Query(store.path, **start)
    assert ids(query.run()) == expected
    insert(store, 3)
    query.restart()
    assert ids(query.run()) == [3]
    assert store.pins() == []


def test_a_stream_can_begin_at_a_time_of_day(store: lowtide.Store) -> None:
    insert(store, 0)
    assert ids(Query(store.path, startingTimestamp="2001-01-01").run()) == [0]
    later = Query(store.path, startingTimestamp="2999-01-01")
    assert later.run() == []
    insert(store, 1)
    assert ids(later.run()) == [1]


def test_latest_means_the_first_look_also_after_a_restart(store: lowtide.Store) -> None:
    insert(store, 0)
    query = Query(store.path, startingVersion="latest")
    assert query.plan(), "an empty batch, so that the place is in the checkpoint"
    insert(store, 1)
    query.restart()
    assert ids(query.run()) == [1]


def test_the_first_batch_is_repeated_as_it_was_although_its_start_is_not_in_the_checkpoint(
    store: lowtide.Store,
) -> None:
    insert(store, 0, 3)
    query = Query(store.path)
    query.plan()
    query.deliver()
    insert(store, 3)
    query.restart()
    query.deliver()
    assert ids(query.run()) == [0, 1, 2, 3]
    assert len(store.consumers()) == 1


def test_a_commit_is_never_split_and_limits_are_kept_to(store: lowtide.Store) -> None:
    insert(store, 0)
    query = Query(store.path, startingVersion=1, maxRowsPerTrigger=3)
    for first, count in ((1, 1), (2, 5), (10, 2), (20, 1), (30, 1)):
        insert(store, first, count)
    query.run()
    assert sizes(query) == [2, 5, 3, 1]
    by_commits = Query(store.path, startingVersion=1, maxCommitsPerTrigger=4)
    by_commits.run()
    assert sizes(by_commits) == [1 + 1 + 5 + 2, 2]
    both = Query(store.path, startingVersion=1, maxCommitsPerTrigger=2, maxRowsPerTrigger=5)
    both.run()
    assert sizes(both) == [2, 5, 3, 1]


def test_bytes_are_limited_too(store: lowtide.Store) -> None:
    for number in range(4):
        insert(store, number, city="x" * 1000)
    query = Query(store.path, startingVersion=1, maxBytesPerTrigger=2500)
    query.run()
    assert sizes(query) == [2, 2]
    small = Query(store.path, startingVersion=1, maxBytesPerTrigger=1)
    small.run()
    assert sizes(small) == [1, 1, 1, 1]


def test_all_that_is_available_goes_before_the_limits(store: lowtide.Store) -> None:
    insert(store, 0, 5)
    for number in range(5, 9):
        insert(store, number)
    query = Query(store.path, maxRowsPerTrigger=2)
    query.limit = ReadAllAvailable()
    query.run()
    assert sizes(query) == [9]


def test_a_limited_snapshot_is_delivered_by_ranges_of_keys(store: lowtide.Store) -> None:
    insert(store, 0, 7)
    query = Query(store.path, maxRowsPerTrigger=3)
    query.plan()
    query.deliver()
    store["users"].delete_many({})
    query.restart()
    query.run()
    assert sizes(query)[:3] == [3, 3, 1]
    everything = [row for batch in query.batches for part in batch for row in part]
    assert ids(everything[:7]) == list(range(7))
    assert sorted(ids(everything[7:])) == list(range(7))


def test_a_snapshot_that_is_not_limited_is_read_by_several_tasks(store: lowtide.Store) -> None:
    insert(store, 0, 100)
    query = Query(store.path, partitions=4)
    query.plan()
    parts = query.deliver()
    assert len(parts) == 4
    assert all(parts)
    assert sorted(row["_id"] for part in parts for row in part) == list(range(100))


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({}, ReadAllAvailable()),
        ({"maxRowsPerTrigger": 5, "maxBytesPerTrigger": 6}, ReadMaxRows(5)),
        ({"maxBytesPerTrigger": 6, "maxCommitsPerTrigger": 7}, ReadMaxBytes(6)),
        ({"maxCommitsPerTrigger": 7}, ReadMaxFiles(7)),
    ],
)
def test_spark_is_told_of_the_limits(store: lowtide.Store, options: dict[str, Any], limit: object) -> None:
    assert stream(store.path, **options).getDefaultReadLimit() == limit


def test_available_now_ends_with_what_was_there(store: lowtide.Store) -> None:
    insert(store, 0)
    query = Query(store.path, startingVersion=1, maxRowsPerTrigger=1)
    insert(store, 1)
    query.stream.prepareForTriggerAvailableNow()
    insert(store, 2)
    assert ids(query.run()) == [0, 1]
    query.restart()
    query.stream.prepareForTriggerAvailableNow()
    assert ids(query.run()) == [2]


def test_a_stream_of_a_keyspace_is_one_of_bytes(store: lowtide.Store) -> None:
    fruit = store.keyspace("fruit")
    fruit.put(b"", b"nothing")
    fruit.put(b"apple", b"red")
    query = Query(store.path, BYTES, maxRowsPerTrigger=1)
    assert short(query.run()) == [(b"", b"nothing", "insert", 2), (b"apple", b"red", "insert", 2)]
    fruit.put(b"apple", b"green")
    assert short(query.run()) == [(b"apple", b"green", "update_postimage", 3)]


def test_a_collection_that_comes_into_being_later_is_followed(store: lowtide.Store) -> None:
    store["others"].insert_one({"_id": 1})
    query = Query(store.path)
    assert query.run() == []
    insert(store, 0)
    store["users"].create_index("city")
    insert(store, 1)
    assert ids(query.run()) == [0, 1]


def test_a_replaced_collection_ends_the_stream_after_what_came_before(store: lowtide.Store) -> None:
    insert(store, 0)
    query = Query(store.path)
    query.run()
    insert(store, 1)
    store["users"].rename("people")
    commit = store.stats().last_commit
    insert(store, 2)
    query.restart()
    query.plan()
    query.deliver()
    query.committed += 1
    assert ids(query.batches[-1][0]) == [1]
    with pytest.raises(lowtide.UsageError, match=f"'users' was replaced as a whole at commit {commit}.* new stream"):
        query.plan()
    with pytest.raises(lowtide.UsageError, match="replaced as a whole"):
        Query(store.path, startingVersion=1).plan()
    assert len(store.consumers()) == 1, "one that could not begin holds nothing"
    assert ids(Query(store.path).run()) == [2]


def test_a_consumer_that_was_removed_is_registered_again(store: lowtide.Store) -> None:
    insert(store, 0)
    query = Query(store.path, consumer="mirror")
    query.run()
    store.consumer("mirror").remove()
    insert(store, 1)
    query.restart()
    assert ids(query.run()) == [1]
    assert only_consumer(store).name == "mirror"
    store.consumer("mirror").remove()
    insert(store, 2)
    query.run()
    assert only_consumer(store).position == 3, "of a stream that runs as well"


def test_a_consumer_that_stands_later_is_taken_back(store: lowtide.Store) -> None:
    insert(store, 0)
    insert(store, 1)
    store.consumer("mirror")
    Query(store.path, consumer="mirror", startingVersion=1).plan()
    assert only_consumer(store).position == 0


def test_a_consumer_that_stands_earlier_moves_on_with_the_stream(store: lowtide.Store) -> None:
    store.consumer("mirror", since=0)
    insert(store, 0)
    insert(store, 1)
    query = Query(store.path, consumer="mirror", startingVersion=2)
    query.plan()
    assert only_consumer(store).position == 0
    query.run()
    assert only_consumer(store).position == 2


def test_changes_that_are_lost_are_told_of_and_never_passed_over(open_store: OpenStore) -> None:
    store = open_store(**SHORT)
    insert(store, 0)
    query = Query(store.path)
    query.run()
    query.stream.stop()
    only = only_consumer(store)
    store.consumer(only.name).remove()
    for number in range(1, 100):
        insert(store, number, city="x" * 100)
    store.checkpoint()
    kept = kept_from(store)
    assert kept > 2
    query.restart()
    with pytest.raises(
        lowtide.UsageError, match=f"the position of the stream, version 2, .* begins with version {kept}"
    ):
        query.plan()
    assert store.consumers() == []


def test_a_snapshot_that_has_expired_is_told_of(store: lowtide.Store) -> None:
    insert(store, 0, 5)
    query = Query(store.path, maxRowsPerTrigger=2)
    query.plan()
    (pin,) = store.pins()
    pin.release()
    for attempt in (query.deliver, query.plan):
        query.restart()
        with pytest.raises(lowtide.Error, match=r"the snapshot with which the stream began, at version 1, .* pinTtl"):
            attempt()
        query.committed = 1


def test_a_commit_that_cannot_be_noted_ends_nothing(store: lowtide.Store, caplog: pytest.LogCaptureFixture) -> None:
    insert(store, 0, 5)
    query = Query(store.path, maxRowsPerTrigger=2)
    query.plan()
    (pin,) = store.pins()
    pin.release()
    query.restart()
    query.stream.commit(json.loads(query.offsets[0]))
    assert "the snapshot with which the stream began" in caplog.text


def test_a_checkpoint_of_something_else_is_refused(open_store: OpenStore) -> None:
    store, other = open_store("one"), open_store("two")
    insert(store, 0)
    insert(other, 0)
    start = json.loads(_checkpoint(store))
    limit = ReadAllAvailable()
    with pytest.raises(lowtide.UsageError, match="of another store"):
        stream(other.path).latestOffset(start, limit)
    with pytest.raises(lowtide.UsageError, match="of a stream of collection 'users'"):
        stream(store.path, collection="people").latestOffset(start, limit)
    with pytest.raises(lowtide.UsageError, match="not from a lowtide stream"):
        stream(store.path).latestOffset({"files": 7}, limit)
    with pytest.raises(lowtide.Error, match="up to version 9, but the last version of the store is 1: it was restored"):
        stream(store.path).latestOffset({**start, "version": 9}, limit)


def _checkpoint(store: lowtide.Store) -> str:
    query = Query(store.path)
    query.run()
    return query.offsets[-1]


def test_a_stream_of_documents_without_their_changes_is_refused(store: lowtide.Store) -> None:
    plain = StructType([StructField("_id", LongType())])
    options = {"path": str(store.path), "collection": "users"}
    with pytest.raises(lowtide.UsageError, match="readChangeFeed"):
        ChangeStream(SparkOptions(options), plain)
    ChangeStream(SparkOptions({**options, "readChangeFeed": "true"}), plain)
    ChangeStream(SparkOptions(options), USERS)
    with pytest.raises(lowtide.UsageError, match="'endingVersion' has no meaning for a stream"):
        ChangeStream(SparkOptions({**options, "endingVersion": "7"}), USERS)


def test_large_ranges_are_split_and_keep_the_order_of_a_key(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(segment_bytes=4096)
    monkeypatch.setattr(changes, "SMALL", 1 << 10)
    query = Query(store.path, startingVersion=1, partitions=3)
    for turn in range(3):
        for number in range(20):
            store["users"].replace_one({"_id": number}, {"city": str(turn)}, upsert=True)
    query.plan()
    parts = query.deliver()
    assert len(parts) == 3
    for part in parts:
        for key in ids(part):
            assert [row["city"] for row in part if row["_id"] == key] == ["0", "1", "2"]


def test_the_latest_offset_is_reported(store: lowtide.Store) -> None:
    insert(store, 0)
    assert stream(store.path).reportLatestOffset() == {"version": 1}


def test_no_batch_is_run_for_what_others_write_until_it_is_much(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert(store, 0)
    query = Query(store.path)
    query.run()
    others = store["others"]
    others.insert_one({"_id": 1})
    assert not query.plan()
    others.insert_one({"_id": 2})
    insert(store, 1)
    others.insert_one({"_id": 3})
    assert ids(query.run()) == [1]
    assert query.version == 5
    others.insert_one({"_id": 4})
    assert not query.plan()
    monkeypatch.setattr(module, "QUIET_COMMITS", 1)
    others.insert_one({"_id": 5})
    assert query.run() == []
    assert query.version == 7
    assert only_consumer(store).position == 7
    monkeypatch.undo()
    others.insert_one({"_id": 6})
    assert not query.plan()
    monkeypatch.setattr(module, "QUIET_SECONDS", -1.0)
    assert query.plan(), "when some time has passed"
    query.run()
    monkeypatch.undo()
    others.insert_one({"_id": 7})
    assert not query.plan(), "and then anew"


def test_available_now_goes_to_the_end_whoever_wrote(store: lowtide.Store) -> None:
    insert(store, 0)
    query = Query(store.path)
    query.run()
    store["others"].insert_one({"_id": 1})
    query.restart()
    query.stream.prepareForTriggerAvailableNow()
    assert query.run() == []
    assert query.version == 2
