"""The change feed as a DataFrame, without a session."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType, VariantType

import lowtide
from lowtide.errors import UsageError
from lowtide.spark import changes as module
from lowtide.spark.changes import ChangeReader
from lowtide.spark.options import SparkOptions
from lowtide.spark.schemas import CHANGE
from tests.conftest import OpenStore
from tests.unit.feed.stores import SHORT, fill, kept_from
from tests.unit.spark.streams import BYTES, USERS, read, reader, rows, short


def write(store: lowtide.Store) -> None:
    users = store["users"]
    users.insert_one({"_id": 1, "city": "Oslo"})
    users.update_one({"_id": 1}, {"$set": {"city": "Bergen"}})
    store["others"].insert_one({"_id": 1})
    users.delete_one({"_id": 1})
    users.insert_one({"_id": 2, "city": "Voss"})


EVERYTHING = [
    (1, "Oslo", "insert", 1),
    (1, "Oslo", "update_preimage", 2),
    (1, "Bergen", "update_postimage", 2),
    (1, "Bergen", "delete", 4),
    (2, "Voss", "insert", 5),
]


def test_changes_have_deltas_columns_and_both_images(open_store: OpenStore) -> None:
    store = open_store(before_images=True)
    write(store)
    assert short(rows(reader(store.path, startingVersion=0))) == EVERYTHING
    found = rows(reader(store.path, startingVersion=1))
    times = [datetime.fromtimestamp(change.time, UTC) for change in store.changes(keyspaces=["documents/users"])]
    assert found[0]["_commit_timestamp"] == times[0]
    assert list(found[0]) == USERS.names


def test_without_images_updates_are_what_they_left_and_deletes_the_id(store: lowtide.Store) -> None:
    write(store)
    expected = [EVERYTHING[0], EVERYTHING[2], (1, None, "delete", 4), EVERYTHING[4]]
    assert short(rows(reader(store.path, startingVersion=0))) == expected
    with pytest.raises(lowtide.UsageError, match=r"collection 'users' of the store .*commit 2 was logged without"):
        rows(reader(store.path, startingVersion=0, preimages="require"))


def test_images_can_be_left_out(open_store: OpenStore) -> None:
    store = open_store(before_images=True)
    write(store)
    expected = [EVERYTHING[0], EVERYTHING[2], (1, None, "delete", 4), EVERYTHING[4]]
    assert short(rows(reader(store.path, startingVersion=0, preimages="none"))) == expected
    assert short(rows(reader(store.path, startingVersion=0, preimages="REQUIRE"))) == EVERYTHING


@pytest.mark.parametrize(
    ("start", "end", "commits"),
    [(1, 5, {1, 2, 4, 5}), (2, 4, {2, 4}), (3, 3, set()), (4, None, {4, 5}), (6, None, set()), (4, 2, set())],
)
def test_both_ends_are_included(store: lowtide.Store, start: int, end: int | None, commits: set[int]) -> None:
    write(store)
    ends: dict[str, Any] = {} if end is None else {"endingVersion": end}
    assert {row["_commit_version"] for row in rows(reader(store.path, startingVersion=start, **ends))} == commits


def test_latest_begins_with_what_comes_next(store: lowtide.Store) -> None:
    write(store)
    assert rows(reader(store.path, startingVersion="latest")) == []


def test_times_of_day_mean_the_commits_between_them(store: lowtide.Store) -> None:
    write(store)
    times = {change.ts: datetime.fromtimestamp(change.time, UTC).isoformat() for change in store.changes()}

    def found(**ends: Any) -> set[int]:
        return {row["_commit_version"] for row in rows(reader(store.path, **ends))}

    assert found(startingTimestamp="2001-01-01") == {1, 2, 4, 5}
    assert found(startingTimestamp=times[2], endingTimestamp=times[4]) == {2, 4}
    assert found(startingTimestamp="2001-01-01", endingTimestamp="2001-01-02") == set()
    assert found(startingTimestamp="2999-01-01") == set()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "needs a start"),
        ({"startingVersion": 7}, "startingVersion 7 does not exist yet: the last version is 5"),
        ({"startingVersion": 1, "endingVersion": 6}, "endingVersion 6 does not exist yet: the last version is 5"),
        ({"startingVersion": 1, "startingTimestamp": "2001-01-01"}, "both set the start"),
        ({"startingVersion": 1, "endingVersion": 1, "endingTimestamp": "2001-01-01"}, "both set the end"),
        ({"startingVersion": "soon"}, "whole number"),
        ({"startingVersion": 1, "preimages": "perhaps"}, "auto, require, none"),
        ({"startingVersion": 1, "filter": "{}"}, "'filter' has no meaning for changes"),
        ({"startingVersion": 1, "mode": "LENIENT"}, "the mode is PERMISSIVE"),
    ],
)
def test_what_cannot_be_served_is_refused(store: lowtide.Store, options: dict[str, Any], words: str) -> None:
    write(store)
    with pytest.raises(lowtide.UsageError, match=words):
        rows(reader(store.path, **options))


@pytest.mark.parametrize("start", [{"startingVersion": 3}, {"startingTimestamp": "2001-01-01T00:00:00Z"}])
def test_a_start_before_what_is_kept_names_what_is_and_what_to_do(open_store: OpenStore, start: dict[str, Any]) -> None:
    store = open_store(**SHORT)
    fill(store)
    store.checkpoint()
    kept = kept_from(store)
    assert kept > 3
    with pytest.raises(
        lowtide.UsageError, match=f"lies before what the store .* begins with version {kept}.*consumer.*feed_bytes"
    ):
        rows(reader(store.path, BYTES, **start))
    assert len(rows(reader(store.path, BYTES, startingVersion=kept))) == 60 - kept + 1


def test_what_is_released_between_planning_and_reading_is_said_to_be_lost(open_store: OpenStore) -> None:
    store = open_store(**SHORT | {"feed_bytes": 1 << 30})
    fill(store)
    source = reader(store.path, BYTES, startingVersion=1)
    parts = source.partitions()
    store.close()
    store = open_store(**SHORT)
    fill(store)
    store.checkpoint()
    with pytest.raises(
        lowtide.Error,
        match=f"'fruit' .* after version 0 are no longer kept; its log begins.* {kept_from(store)}",
    ):
        read(source, parts)


def test_the_changes_of_a_keyspace_are_bytes(store: lowtide.Store) -> None:
    fruit = store.keyspace("fruit")
    fruit.put(b"apple", b"red")
    fruit.delete(b"apple")
    assert short(rows(reader(store.path, BYTES, startingVersion=1))) == [
        (b"apple", b"red", "insert", 1),
        (b"apple", b"", "delete", 2),
    ]
    nullable = StructType([BYTES["key"], StructField("value", BinaryType()), CHANGE[0]])
    assert short(rows(reader(store.path, nullable, startingVersion=2))) == [(b"apple", None, "delete")]


def test_columns_may_be_left_out_and_ordered_at_will(store: lowtide.Store) -> None:
    write(store)
    few = StructType([CHANGE[1], StructField("_id", LongType())])
    assert rows(reader(store.path, few, startingVersion=5)) == [{"_commit_version": 5, "_id": 2}]
    only = StructType([CHANGE[0]])
    assert rows(reader(store.path, only, startingVersion=5)) == [{"_change_type": "insert"}]
    source = reader(store.path, StructType([]), startingVersion=1)
    assert sum(batch.num_rows for part in source.partitions() for batch in source.read(part)) == 4


def test_a_schema_that_is_none_of_changes_is_refused(store: lowtide.Store) -> None:
    write(store)
    with pytest.raises(lowtide.UsageError, match="'_commit_version' of the change feed is of type bigint"):
        reader(store.path, StructType([StructField("_commit_version", StringType())]), startingVersion=1)
    with pytest.raises(lowtide.UsageError, match=r"changes of a keyspace have the columns key, value, .*, not 'x'"):
        reader(store.path, StructType([*BYTES, StructField("x", StringType())]), startingVersion=1)


def test_what_does_not_fit_follows_the_mode(store: lowtide.Store) -> None:
    users = store["users"]
    users.insert_many([{"_id": number, "city": number if number % 3 == 0 else "Oslo"} for number in range(10)])
    odd = {0, 3, 6, 9}
    permissive = rows(reader(store.path, startingVersion=1))
    assert {row["_id"] for row in permissive if row["city"] is None} == odd
    dropped = rows(reader(store.path, startingVersion=1, mode="DROPMALFORMED"))
    assert [row["_id"] for row in dropped] == [1, 2, 4, 5, 7, 8]
    assert {row["_commit_version"] for row in dropped} == {1}
    with pytest.raises(lowtide.UsageError, match=r"collection 'users'.*document with _id 0, field 'city'"):
        rows(reader(store.path, startingVersion=1, mode="FAILFAST"))
    corrupt = StructType([*USERS, StructField("odd", StringType())])
    found = rows(reader(store.path, corrupt, startingVersion=1, columnNameOfCorruptRecord="odd"))
    assert {row["_id"] for row in found if row["odd"] is not None} == odd


def test_large_ranges_are_read_by_several_tasks_and_each_commit_by_one(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = store["users"]
    for turn in range(3):
        for number in range(20):
            users.replace_one({"_id": number}, {"city": str(turn)}, upsert=True)
    whole = rows(reader(store.path, startingVersion=1))
    assert len(reader(store.path, startingVersion=1, partitions=3).partitions()) == 1
    monkeypatch.setattr(module, "SMALL", 1 << 10)
    source = reader(store.path, startingVersion=1, partitions=3)
    parts = read(source, source.partitions())
    assert len(parts) == 3
    assert all(parts)
    assert sorted(short([row for part in parts for row in part])) == sorted(short(whole))
    versions = [[row["_commit_version"] for row in part] for part in parts]
    assert [each for part in versions for each in part] == list(range(1, 61)), "ranges of commits, in their order"
    assert all(15 <= len(each) <= 25 for each in versions)
    planned = [(part.since, part.until) for part in source.partitions()]  # type: ignore[union-attr]
    assert planned == [(each[0] - 1, each[-1]) for each in versions], "no task reads the log of another"


def test_a_collection_that_was_replaced_is_refused_where_that_is_in_the_range(store: lowtide.Store) -> None:
    write(store)
    store["users"].rename("people")
    commit = store.stats().last_commit
    store["users"].insert_one({"_id": 7, "city": "Bodø"})
    ranges: list[dict[str, Any]] = [{"startingVersion": 1}, {"startingVersion": 1, "endingVersion": commit}]
    for ends in ranges:
        with pytest.raises(lowtide.UsageError, match=f"'users' was replaced as a whole at commit {commit}"):
            rows(reader(store.path, **ends))
    before = rows(reader(store.path, startingVersion=1, endingVersion=commit - 1))
    assert [row["_commit_version"] for row in before] == sorted(row["_commit_version"] for row in before)
    assert before
    assert short(rows(reader(store.path, startingVersion=commit + 1))) == [(7, "Bodø", "insert", commit + 1)]


def test_a_collection_that_does_not_exist_has_no_changes(store: lowtide.Store) -> None:
    store["others"].insert_one({"_id": 1})
    assert rows(reader(store.path, startingVersion=0)) == []


def test_a_type_that_no_document_has_is_refused(store: lowtide.Store) -> None:
    write(store)
    schema = StructType([StructField("_id", LongType()), StructField("v", VariantType())])
    options = SparkOptions({"path": str(store.path), "collection": "users", "startingVersion": "1"})
    with pytest.raises(UsageError, match="column 'v': a document has no values of the type variant"):
        ChangeReader(options, schema)
