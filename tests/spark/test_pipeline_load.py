"""Loads of files, tables and DataFrames: good rows are one commit, bad rows are in the quarantine, and nothing is lost
or done twice."""

from __future__ import annotations

import csv
import json
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import lowtide
from lowtide import pipeline
from lowtide.errors import Error, UsageError, WriteError
from tests.conftest import OpenStore
from tests.unit.pipeline.models import MAPPING, modelled, raw_rows


def documents(path: Path, collection: str = "c") -> list[dict[str, Any]]:
    with lowtide.open(path, durability="relaxed") as store:
        return list(store[collection].find({}, sort=[("_id", 1)]))


def quarantined(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pa.table(DeltaTable(path).to_pyarrow_dataset().to_table()).to_pylist()
    return sorted(rows, key=lambda row: (row["reason"], row["source"]))


def test_a_csv_becomes_documents_and_its_bad_rows_are_put_aside(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "people.csv"
    source.write_text(
        "Id,Full name,Age,Town\n1,Ann,33,Oslo\n2,Bo,old,Bergen\n,Cy,5,Oslo\n4,Di,7\n5,Ed,8,\n5,Ed,9,Oslo\n"
    )
    mapping = {
        "_id": {"from": "Id", "cast": "int"},
        "name": "Full name",
        "age": {"from": "Age", "cast": "int"},
        "address.city": "Town",
        "address.country": {"constant": "NO"},
        "shout": {"sql": "upper(`Full name`)"},
    }
    report = pipeline.load(spark, source, tmp_path / "store", "c", mapping=mapping, quarantine=tmp_path / "bad")
    expected = {"cast": 1, "duplicate_id": 2, "no_id": 1, "unreadable": 1}
    assert (report.read, report.written, report.quarantined, report.by_reason) == (6, 1, 5, expected)
    found = documents(tmp_path / "store")
    address = {"city": "Oslo", "country": "NO"}
    assert found == [{"_id": 1, "name": "Ann", "age": 33, "address": address, "shout": "ANN"}]
    rows = quarantined(tmp_path / "bad")
    assert [row["reason"] for row in rows] == ["cast", "duplicate_id", "duplicate_id", "no_id", "unreadable"]
    assert (rows[0]["field"], rows[0]["detail"]) == ("age", "'old' is not of type int")
    assert json.loads(rows[0]["source"]) == {"Id": "2", "Full name": "Bo", "Age": "old", "Town": "Bergen"}
    assert rows[4]["source"] == "4,Di,7"
    assert {row["file"].removeprefix("file://") for row in rows} == {str(source)}
    assert json.loads(json.dumps(report.to_dict()))["by_reason"] == expected
    with lowtide.open(tmp_path / "store") as store:
        assert store.stats().last_commit >= report.commit > 0


def test_json_lines_keep_their_types_and_are_refused_one_by_one(spark: SparkSession, tmp_path: Path) -> None:
    lines = [
        '{"_id": 1, "n": 1, "at": {"$date": "2026-05-01T12:00:00Z"}, "none": null}',
        '{"_id": 2, "n": "one", "price": {"$numberDecimal": "9.90"}}',
        "",
        '{"_id": 3, "n": {"$set": 1}}',
        '{"_id": [4]}',
        "[5]",
        '{"_id": 6',
        '{"_id": 7, "n": -1}',
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    with lowtide.open(tmp_path / "store") as store:
        store["c"].set_schema({"properties": {"n": {"minimum": 0}}})
    report = pipeline.load(
        spark,
        str(tmp_path / "rows.jsonl"),
        tmp_path / "store",
        "c",
        mapping={"*": True, "twice": {"sql": "try_cast(_id AS BIGINT) * 2", "cast": "str"}},
        schema={"required": ["_id"]},
        quarantine=tmp_path / "bad",
    )
    assert report.by_reason == {"bad_id": 1, "name": 1, "schema": 1, "unreadable": 2}
    assert documents(tmp_path / "store") == [
        {"_id": 1, "n": 1, "at": datetime(2026, 5, 1, 12, tzinfo=UTC), "none": None, "twice": "2"},
        {"_id": 2, "n": "one", "price": Decimal("9.90"), "twice": "4"},
    ]
    assert {row["source"] for row in quarantined(tmp_path / "bad")} == {*lines[3:8]}


def test_typed_sources_parquet_delta_table_and_dataframe(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(4).selectExpr(
        "id AS _id",
        "timestamp_micros(id) AS at",
        "DATE'2026-05-01' AS day",
        "named_struct('x', id, 'y', CAST(NULL AS STRING)) AS s",
        "map('k', id) AS m",
        "CAST(id AS DECIMAL(10, 2)) AS d",
        "IF(id = 0, CAST('NaN' AS DOUBLE), id / 2) AS f",
        "CAST(id % 2 AS STRING) AS part",
    )
    expected = [
        {
            "_id": n,
            "at": datetime(1970, 1, 1, 0, 0, 0, n, tzinfo=UTC),
            "day": datetime(2026, 5, 1),
            "s": {"x": n},
            "m": {"k": n},
            "d": Decimal(f"{n}.00"),
            **({"f": n / 2} if n else {}),
            "part": str(n % 2),
        }
        for n in range(4)
    ]
    frame.write.parquet(str(tmp_path / "parquet"))
    write_deltalake(tmp_path / "delta", frame.toArrow(), partition_by=["part"])
    frame.createOrReplaceTempView("four")
    for source in (frame, tmp_path / "parquet", str(tmp_path / "delta"), "four"):
        report = pipeline.load(spark, source, tmp_path / "store", "c", mode="overwrite")
        assert report.read == report.written == 4
        assert sorted(documents(tmp_path / "store"), key=lambda each: each["_id"]) == expected


def test_too_many_bad_rows_fail_before_anything_is_written(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(10).selectExpr("IF(id < 3, NULL, id) AS _id", "id AS n")
    for limits in (
        {},
        {"quarantine": tmp_path / "bad", "max_bad": 2},
        {"quarantine": tmp_path / "bad", "max_bad": 0.2},
    ):
        with pytest.raises(pipeline.LoadRefused, match=r"3 of 10 rows cannot be loaded: 3 no_id") as caught:
            pipeline.load(spark, frame, tmp_path / "store", "c", **limits)  # type: ignore[arg-type]
        assert caught.value.by_reason == {"no_id": 3}
    assert documents(tmp_path / "store") == []
    assert not (tmp_path / "bad").exists()
    report = pipeline.load(spark, frame, tmp_path / "store", "c", quarantine=tmp_path / "bad", max_bad=0.3)
    assert (report.written, report.quarantined) == (7, 3)


def test_modes(spark: SparkSession, open_store: OpenStore) -> None:
    """By the process that owns the store."""
    store = open_store()
    store["c"].insert_many([{"_id": 0, "old": 1}, {"_id": 9}])
    frame = spark.range(3).selectExpr("id AS _id", "'new' AS v")
    with pytest.raises(WriteError, match="duplicate key"):
        pipeline.load(spark, frame, store.path, "c", mode="insert")
    report = pipeline.load(spark, frame, store.path, "c")
    assert (report.inserted, report.replaced, report.commit) == (2, 1, store.stats().last_commit)
    assert store["c"].find_one({"_id": 0}) == {"_id": 0, "v": "new"}
    report = pipeline.load(spark, frame.where("_id < 2"), store.path, "c", mode="overwrite")
    assert (report.deleted, store["c"].distinct("_id")) == (2, [0, 1])


def test_a_load_with_a_name_is_done_once_also_after_a_kill_between_its_steps(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, bad = tmp_path / "store", tmp_path / "bad"

    def run(rows: str, **more: Any) -> pipeline.LoadReport:
        (tmp_path / "rows.csv").write_text(rows)
        return pipeline.load(spark, tmp_path / "rows.csv", store, "c", name="may's", quarantine=bad, **more)

    class Killed(BaseException):
        pass

    def die(*args: object) -> None:
        raise Killed

    module = sys.modules["lowtide.pipeline.load.load"]
    with monkeypatch.context() as patch:
        patch.setattr(module, "hand_over", die)
        with pytest.raises(Killed):
            run("_id,v\n1,a\n,b\n,c\n")
    assert (documents(store), len(quarantined(bad))) == ([], 2)
    first = run("_id,v\n1,a\n,b\n")
    assert ([each["_id"] for each in documents(store)], len(quarantined(bad))) == (["1"], 1)
    again = run("_id,v\n1,other\n,b\n,c\n")
    assert (again.skipped, again.read, again.commit) == (True, 0, first.commit)
    assert (documents(store), len(quarantined(bad))) == ([{"_id": "1", "v": "a"}], 1)
    assert run("_id,v\n2,b\n", version=1).written == 1
    assert [each["_id"] for each in documents(store)] == ["1", "2"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"mapping": {"_id": "nothing"}}, "'nothing', which the source does not have; it has 'id'"),
        ({"mapping": {"x": "id"}}, "no entry defines the _id"),
        ({"mapping": {"_id": {"sql": "nothing + 1"}}}, "an SQL expression does not fit"),
        ({"mapping": {"_id": {"sql": "1 +"}}}, "an SQL expression does not fit"),
        ({"mapping": {"_id": "id"}, "schema": {"type": 7}}, "valid JSON Schema"),
        ({"mapping": {"_id": "id"}, "mode": "merge"}, "'merge' is no mode"),
        ({"mapping": {"_id": "id"}, "max_bad": 1.5}, "max_bad is a number of rows"),
        ({"mapping": {"_id": "id"}, "version": 3}, "give a name too"),
        ({"mapping": {"_id": "id"}, "format": "xml"}, "'xml' is no format"),
    ],
)
def test_a_wrong_call_is_refused_before_anything_runs(
    spark: SparkSession, tmp_path: Path, arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        pipeline.load(spark, spark.range(1), tmp_path / "store", "c", **arguments)
    assert not (tmp_path / "store").exists()


def test_an_expression_that_fails_on_a_row_fails_the_load(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Error, match="nothing was written"):
        pipeline.load(spark, spark.range(3), tmp_path / "store", "c", mapping={"_id": {"sql": "1 DIV id"}})
    assert documents(tmp_path / "store") == []


def test_a_source_of_unknown_kind_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "rows.bin").touch()
    for source in (tmp_path / "rows.bin", "no_such_table", tmp_path / "gone.csv", 7):
        with pytest.raises(Error):
            pipeline.load(spark, source, tmp_path / "store", "c")  # type: ignore[arg-type]


@settings(
    max_examples=3, phases=[Phase.explicit, Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(rows=st.lists(raw_rows, min_size=20, max_size=60))
def test_no_row_is_lost_and_what_is_written_is_what_the_model_says(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, str]]
) -> None:
    here = tmp_path_factory.mktemp("load")
    with open(here / "rows.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, ["id", "n", "name"])
        writer.writeheader()
        writer.writerows(rows)
    report = pipeline.load(spark, here / "rows.csv", here / "store", "c", mapping=MAPPING, quarantine=here / "bad")
    wanted, refused = modelled(rows)
    assert report.read == len(rows) == report.written + report.quarantined
    assert report.by_reason == refused
    assert {each["_id"]: each for each in documents(here / "store")} == wanted
    assert report.quarantined == (len(quarantined(here / "bad")) if refused else 0)
