"""The writers as Spark calls them: pickled to tasks, and to the process that commits."""

from __future__ import annotations

import logging
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

import lowtide
from lowtide.errors import Error, UsageError
from lowtide.spark.options import SparkOptions
from lowtide.spark.sink import StreamSink, query_of
from lowtide.spark.writing import BatchWriter, Staged
from tests.conftest import OpenStore

SCHEMA = StructType([StructField("_id", LongType()), StructField("v", StringType())])
Row = tuple[int, str | None]


def batches(rows: list[Row], size: int = 2) -> list[Any]:
    return [
        pa.record_batch(
            {"_id": pa.array([a for a, _ in part], pa.int64()), "v": pa.array([b for _, b in part], pa.string())}
        )
        for part in (rows[start : start + size] for start in range(0, len(rows), size))
    ]


def task(writer: Any, rows: list[Row]) -> Staged:
    """What a task does, in a process of its own."""
    found = pickle.loads(pickle.dumps(writer)).write(iter(batches(rows)))
    assert isinstance(found, Staged)
    return found


def writer(path: Path, overwrite: bool = False, **options: str) -> BatchWriter:
    return BatchWriter(SparkOptions({"path": str(path), "collection": "c", **options}), SCHEMA, overwrite)


def write(path: Path, *parts: list[Row], overwrite: bool = False, **options: str) -> None:
    """A whole write."""
    made = writer(path, overwrite, **options)
    messages: list[Any] = [pickle.loads(pickle.dumps(task(made, each))) for each in parts]
    pickle.loads(pickle.dumps(made)).commit(messages)


def rows(store: lowtide.Store) -> list[tuple[Any, Any]]:
    return [(each["_id"], each.get("v")) for each in store["c"].find({}, sort=[("_id", 1)])]


def litter(path: Path) -> list[str]:
    return os.listdir(path / "staging")


def test_what_tasks_staged_is_committed_at_once(store: lowtide.Store) -> None:
    before = store.stats().last_commit
    write(store.path, [(1, "a"), (2, None), (3, "c")], [], [(4, "d")])
    assert rows(store) == [(1, "a"), (2, None), (3, "c"), (4, "d")]
    assert "v" not in (store["c"].find_one({"_id": 2}) or {})
    assert store.stats().last_commit == before + 1
    assert litter(store.path) == []


def test_a_store_is_made_where_none_is(tmp_path: Path) -> None:
    write(tmp_path / "new", [(1, "a")])
    with lowtide.open(tmp_path / "new") as store:
        assert rows(store) == [(1, "a")]


def test_an_overwrite_an_upsert_and_a_delete(store: lowtide.Store) -> None:
    write(store.path, [(1, "a"), (2, "b")])
    write(store.path, [(2, "B"), (3, "c")], writeMode="upsert")
    assert rows(store) == [(1, "a"), (2, "B"), (3, "c")]
    write(store.path, [(1, None), (9, None)], writeMode="delete")
    assert rows(store) == [(2, "B"), (3, "c")]
    write(store.path, [(7, "x")], overwrite=True)
    assert rows(store) == [(7, "x")]


def test_documents_are_deleted_by_another_column(store: lowtide.Store) -> None:
    store["c"].insert_many([{"_id": "a"}, {"_id": "b"}])
    write(store.path, [(1, "a")], writeMode="delete", deleteBy="v")
    assert rows(store) == [("b", None)]


def test_an_attempt_that_no_message_names_changes_nothing(store: lowtide.Store) -> None:
    made = writer(store.path)
    task(made, [(1, "lost")])
    made.commit([task(made, [(1, "kept")])])
    assert rows(store) == [(1, "kept")]
    assert litter(store.path) == []
    with pytest.raises(UsageError, match="has ended"):
        task(made, [(2, "late")])
    assert litter(store.path) == []


def test_an_abort_leaves_nothing(store: lowtide.Store) -> None:
    made = writer(store.path)
    message = task(made, [(1, "a")])
    made.abort([message, None])
    made.abort([])
    assert litter(store.path) == []
    assert rows(store) == []


def test_a_commit_that_fails_says_where_and_leaves_nothing(store: lowtide.Store) -> None:
    store["c"].insert_one({"_id": 1})
    made = writer(store.path)
    message = task(made, [(1, "a")])
    with pytest.raises(Error, match=rf"write to collection 'c' of the store {store.path}: duplicate key .*'_id': 1"):
        made.commit([message])
    made.abort([message])
    assert litter(store.path) == []
    with pytest.raises(UsageError, match="1 of 1 tasks did not report"):
        writer(store.path).commit([None])


def test_a_write_that_is_repeated_with_its_version_is_done_once(store: lowtide.Store) -> None:
    for _ in range(2):
        write(store.path, [(1, "a")], txnAppId="nightly", txnVersion="7")
    assert rows(store) == [(1, "a")]
    with pytest.raises(UsageError, match="must be given together"):
        writer(store.path, txnAppId="nightly")


@pytest.mark.parametrize(
    ("options", "overwrite", "words"),
    [
        ({"writeMode": "upsert"}, True, "replaces all documents"),
        ({"idField": "none"}, False, "no column 'none'"),
        ({"deleteBy": "v"}, False, "unless writeMode is delete"),
        ({"writeMode": "merge"}, False, "insert, upsert, delete"),
        ({"filter": "{}"}, False, "no meaning for a write"),
        ({"collection": "a/b"}, False, "collection's name"),
        ({"jsonColumns": "nope"}, False, "is not a column"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_made(
    tmp_path: Path, options: dict[str, str], overwrite: bool, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        writer(tmp_path / "new", overwrite, **options)
    assert not (tmp_path / "new").exists()


def test_without_an_id_new_ones_are_made_but_nothing_can_be_replaced(store: lowtide.Store) -> None:
    schema = StructType([StructField("v", IntegerType())])
    options = {"path": str(store.path), "collection": "c"}
    made = BatchWriter(SparkOptions(options), schema, False)
    made.commit([made.write(iter([pa.record_batch({"v": pa.array([1, 2], pa.int32())})]))])
    assert sorted(each["v"] for each in store["c"].find()) == [1, 2]
    with pytest.raises(UsageError, match="to upsert documents, give a column '_id'"):
        BatchWriter(SparkOptions({**options, "writeMode": "upsert"}), schema, False)


def test_a_value_that_cannot_be_stored_fails_its_task(store: lowtide.Store) -> None:
    made = writer(store.path, jsonColumns="v")
    with pytest.raises(UsageError, match=rf"the store {store.path}: collection 'c', document with _id 2, field 'v'"):
        task(made, [(1, "1"), (2, "{")])
    made.abort([])
    assert litter(store.path) == []


# Streams


def batch_of(path: Path, number: int, *parts: list[Row], **options: str) -> StreamSink:
    options = {"path": str(path), "collection": "c", "checkpointLocation": "/checkpoints/s", **options}
    made = StreamSink(SparkOptions(options), SCHEMA, False)
    messages: list[Any] = [task(made, each) for each in parts]
    committer = StreamSink(SparkOptions(options), SCHEMA, False)  # another one, as Spark has it
    committer.commit(messages, number)
    return made


def test_each_batch_of_a_stream_is_done_once(store: lowtide.Store) -> None:
    batch_of(store.path, 0, [(1, "a")], [(2, "b")])
    batch_of(store.path, 0, [(1, "a")], [(2, "b")])
    batch_of(store.path, 1, [(3, "c")])
    batch_of(store.path, 0, [(9, "old")], checkpointLocation="file:/checkpoints//s/")
    assert rows(store) == [(1, "a"), (2, "b"), (3, "c")]
    batch_of(store.path, 0, [(4, "d")], txnAppId="another")
    assert len(rows(store)) == 4
    assert litter(store.path) == []


def test_batches_survive_a_restart(open_store: OpenStore) -> None:
    store = open_store()
    batch_of(store.path, 5, [(1, "a")])
    store.close()
    batch_of(store.path, 5, [(1, "a")])
    batch_of(store.path, 6, [(2, "b")])
    assert rows(open_store()) == [(1, "a"), (2, "b")]


def test_a_batch_that_fails_says_why_in_the_log(store: lowtide.Store, caplog: pytest.LogCaptureFixture) -> None:
    store["c"].insert_one({"_id": 1})
    with caplog.at_level(logging.ERROR, "lowtide"), pytest.raises(Error, match="duplicate key"):
        batch_of(store.path, 0, [(1, "a")])
    assert "batch 0 of stream 'checkpoint /checkpoints/s' was not written" in caplog.text
    batch_of(store.path, 0, [(2, "b")])
    assert len(rows(store)) == 2


def test_an_abort_of_a_batch_leaves_nothing_of_it_alone(store: lowtide.Store) -> None:
    options = {"path": str(store.path), "collection": "c", "txnAppId": "one"}
    failed = StreamSink(SparkOptions(options), SCHEMA, False)
    task(failed, [(1, "a")])
    other = StreamSink(SparkOptions({**options, "txnAppId": "another"}), SCHEMA, False)
    message = task(other, [(2, "b")])
    StreamSink(SparkOptions(options), SCHEMA, False).abort([], 0)
    assert litter(store.path) == [message.job]
    other.commit([message], 0)
    assert rows(store) == [(2, "b")]


def test_an_abort_leaves_alone_what_goes_to_another_collection(store: lowtide.Store) -> None:
    options = {"path": str(store.path), "collection": "c", "txnAppId": "one"}
    message = task(StreamSink(SparkOptions(options), SCHEMA, False), [(1, "a")])
    StreamSink(SparkOptions({**options, "collection": "other"}), SCHEMA, False).abort([], 0)
    assert litter(store.path) == [message.job]


def test_a_stream_that_begins_anew_in_the_same_place_is_another_one(store: lowtide.Store, tmp_path: Path) -> None:
    """Its batches have the numbers of the former one's, and are not those."""
    checkpoint = tmp_path / "progress"
    for query in ("a", "b"):
        checkpoint.mkdir()
        (checkpoint / "metadata").write_text(f'{{"id":"{query}"}}')
        for _ in range(2):
            batch_of(store.path, 0, [(ord(query), query)], checkpointLocation=f"file://{checkpoint}")
        shutil.rmtree(checkpoint)
    assert rows(store) == [(97, "a"), (98, "b")]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"id":7}', "\udcff"])
def test_a_checkpoint_that_does_not_tell_its_query_is_known_by_its_place(tmp_path: Path, content: str) -> None:
    (tmp_path / "metadata").write_bytes(content.encode(errors="surrogateescape"))
    assert query_of(SparkOptions({"checkpointLocation": str(tmp_path)})) == f"checkpoint {tmp_path}"


def test_a_batch_without_rows_counts(store: lowtide.Store) -> None:
    batch_of(store.path, 0)
    batch_of(store.path, 0, [(1, "a")])
    assert rows(store) == []
    assert litter(store.path) == []


def test_an_overwrite_without_rows_empties_the_collection(store: lowtide.Store) -> None:
    store["c"].insert_one({"_id": 1})
    write(store.path, overwrite=True)
    assert rows(store) == []


@pytest.mark.parametrize(
    ("options", "query"),
    [
        ({"txnAppId": "me", "checkpointLocation": "/x"}, "me"),
        ({"checkpointLocation": "/x//y/"}, "checkpoint /x/y"),
        ({"checkpointLocation": "file:///x/y"}, "checkpoint /x/y"),
        ({"checkpointLocation": "file:/x/../y"}, "checkpoint /y"),
        ({"checkpointLocation": "hdfs://host//x/"}, "checkpoint hdfs://host/x"),
    ],
)
def test_a_stream_is_known_by_its_name_or_its_checkpoint(options: dict[str, str], query: str) -> None:
    assert query_of(SparkOptions(options)) == query


def test_a_stream_without_a_name_is_refused(store: lowtide.Store) -> None:
    make: Callable[..., StreamSink] = StreamSink
    with pytest.raises(UsageError, match="txnAppId"):
        make(SparkOptions({"path": str(store.path), "collection": "c"}), SCHEMA, False)
    with pytest.raises(UsageError, match="whose batches have numbers"):
        make(SparkOptions({"path": str(store.path), "collection": "c", "txnVersion": "1"}), SCHEMA, False)
