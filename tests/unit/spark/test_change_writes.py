"""``writeMode`` changes: the rows of a change feed make a replica, in one commit for each write."""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

import lowtide
from lowtide.errors import UsageError
from lowtide.sharing.loading import bulk
from lowtide.spark.options import SparkOptions
from lowtide.spark.schemas import CHANGE
from lowtide.spark.writing import BatchWriter
from tests.conftest import OpenStore
from tests.unit.sharing.loading.past import KEPT, Past, last, settle
from tests.unit.spark.streams import USERS, reader, rows


def write(path: Path, *parts: list[dict[str, Any]], schema: StructType = USERS, **options: str) -> None:
    """A whole write, a task for each part."""
    given = {"path": str(path), "collection": "copy", "writeMode": "changes", **options}
    made = BatchWriter(SparkOptions(given), schema, False)
    arrow = to_arrow_schema(schema, timezone="UTC")
    messages = [
        pickle.loads(pickle.dumps(made)).write(iter([pa.RecordBatch.from_pylist(part, schema=arrow)])) for part in parts
    ]
    pickle.loads(pickle.dumps(made)).commit(messages)


@pytest.mark.parametrize("images", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_a_replica_follows_over_writes_and_loads(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch, images: bool, seed: int
) -> None:
    monkeypatch.setattr(bulk, "STEP", 3)
    store = open_store(before_images=images, **KEPT)
    past = Past(store, "users", seed, monkeypatch)
    past.happen()
    monkeypatch.undo()
    replica = open_store("replica", **KEPT)
    chance, since, end = random.Random(seed), 0, last(store)
    while since < end:
        until = min(end, since + chance.randrange(1, 12))
        found = rows(reader(store.path, startingVersion=since + 1, endingVersion=until))
        chance.shuffle(found)
        cut = chance.randrange(len(found) + 1)
        before = last(replica)
        write(replica.path, found[:cut], found[cut:], bulkBytes=chance.choice(("0", "1000000")))
        settle(replica)
        assert {each["_id"]: each for each in replica["copy"].find()} == past.states[until]
        shown = {change.ts for change in replica.changes(before, keyspaces=["documents/copy"])}
        assert len(shown) <= 1, "never half of it"
        since = until


def row(**given: Any) -> dict[str, Any]:
    return {
        "_id": 1,
        "city": "Oslo",
        "_change_type": "insert",
        "_commit_version": 1,
        "_commit_timestamp": None,
        **given,
    }


def test_the_columns_of_the_feed_are_no_fields(store: lowtide.Store) -> None:
    write(store.path, [row(), row(_change_type="update_preimage"), row(_id=2, _change_type="delete", city=None)])
    assert list(store["copy"].find()) == [{"_id": 1, "city": "Oslo"}]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"_change_type": "upsert"}, "has 'upsert'; it has insert, update_postimage, delete, update_preimage"),
        ({"_change_type": None}, "has None"),
        ({"_commit_version": None}, "null or below 0"),
        ({"_commit_version": -1}, "null or below 0"),
    ],
)
def test_a_row_that_is_no_change_is_refused(store: lowtide.Store, wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        write(store.path, [row(), row(_id=2, **wrong)])
    assert list(store["copy"].find()) == []


def test_rows_that_do_not_say_what_they_are_are_refused(tmp_path: Path) -> None:
    for schema, words in (
        (StructType([StructField("_id", LongType())]), "have a column '_change_type'; there are '_id'"),
        (StructType([StructField("_id", LongType()), CHANGE[0]]), "have a column '_commit_version'"),
        (StructType([*USERS.fields[:3], StructField("_commit_version", StringType())]), "of type string"),
        (
            StructType([StructField("city", StringType()), *CHANGE]),
            "to apply changes to documents, give a column '_id'",
        ),
    ):
        with pytest.raises(UsageError, match=words):
            write(tmp_path / "new", schema=schema)
    assert not (tmp_path / "new").exists()
