"""The audit on Spark gives the verdict of the audit in one process, and shows what it found."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from lowtide import UsageError, pipeline
from lowtide.audit import History, audit
from tests.support.attack import FULL
from tests.unit.audit.histories import SMALLEST
from tests.unit.audit.simulator import Simulator
from tests.unit.pipeline.audit.test_pieces import disturbed, forms_of_the_whole, with_ranges

Row = dict[str, Any]
Rows = list[Row]
CORRECT = 10_000 if FULL else 40
"""Random correct histories."""


def written(directory: Path, rows: Rows, files: int = 3) -> Path:
    """The rows, in any order, in several files."""
    directory.mkdir()
    shuffled = rows[:]
    random.Random(1).shuffle(shuffled)
    for number in range(files):
        lines = [json.dumps(row) for row in shuffled[number::files]]
        (directory / f"{number}.jsonl").write_text("\n".join(lines) + "\n")
    return directory


def apart(number: int, rows: Rows) -> Rows:
    """A history as one of many in a larger one: with its own keys, transactions, versions and times."""
    prefix, moved_rows = f"{number:05}", []
    for row in rows:
        moved = dict(row) | {"tx": f"{prefix}/{row['tx']}"}
        if row.get("key") is not None:
            moved["key"] = prefix + row["key"]
        if row["op"] == "scan":
            moved["low"], moved["high"] = prefix + (row["low"] or ""), prefix + (row["high"] or "~")
            moved["values"] = {prefix + key: value for key, value in row["values"].items()}
        for field in ("version", "time"):
            if row.get(field):
                moved[field] = row[field] + 1000 * number
        moved_rows.append(moved)
    return moved_rows


def labelled() -> Rows:
    """The smallest history of each anomaly, all in one."""
    smallest = ([row for transaction in each for row in transaction] for each in SMALLEST.values())
    return [row for number, rows in enumerate(smallest) for row in apart(number, rows)]


def of_the_labelled(report: pipeline.AuditReport) -> set[tuple[str, frozenset[Any], tuple[str, ...]]]:
    """The forms of what was found in the labelled set and in the correct histories."""
    return {
        (each.name, frozenset(each.transactions), tuple(each.keys))
        for each in report.anomalies
        if str(next(iter(each.transactions)))[0].isdigit()
    }


def correct(first: int) -> Rows:
    """Random correct histories, all in one, from the number ``first`` on; in one process none shows anything."""
    rows: Rows = []
    for seed in range(CORRECT):
        chance = random.Random(seed)
        simulator = Simulator(seed, snapshot=True, writers=True, readers=True, lists=seed % 2 == 0, blind=seed % 3 == 0)
        found = with_ranges(simulator.run(chance.randint(2, 20), chance.randint(1, 4)), chance)
        assert audit(History.of(found)).names == [], seed
        rows += apart(first + seed, found)
    return rows


def broken(lists: bool) -> Rows:
    """With faults, unknown outcomes, sessions, transactions without times, and scans of ranges. Keys, versions
    and times are its own, and its transactions have names that begin with a letter."""
    simulator = Simulator(7, snapshot=True, writers=True, readers=False, lists=lists)
    rows = disturbed(with_ranges(simulator.run(150, 4), random.Random(2)), random.Random(22), lists)
    prefix, end = ("l", "m") if lists else ("r", "s")
    for row in rows:
        row |= {field: row[field] + 10**6 for field in ("version", "time") if row.get(field)}
        row["tx"] = f"{prefix}{row['tx']}"
        if "key" in row:
            row["key"] = prefix + row["key"]
        if row["op"] == "scan":
            row["low"], row["high"] = prefix + (row["low"] or ""), prefix + row["high"] if row["high"] else end
            row["values"] = {prefix + key: value for key, value in row["values"].items()}
    return rows


def test_every_anomaly_of_the_labelled_set_is_named_and_drawn(spark: SparkSession, tmp_path: Path) -> None:
    """And none is found in random correct histories beside it: the names of their transactions and keys begin with
    larger numbers. Beside it there is a broken history as well, which shows what it shows in one process."""
    rows, damaged = labelled(), broken(lists=False) + broken(lists=True)
    others = correct(first=len(SMALLEST))
    expected = audit(History.of(rows + damaged + others))
    assert {"stale-read", "G1a", "G2", "incompatible-order"} <= set(audit(History.of(damaged)).names)
    history = written(tmp_path / "history", rows + damaged + others)
    report = pipeline.audit(spark, history, whole=0)
    assert report.names == expected.names
    assert not report.ok
    assert report.violations == report.names
    assert audit(History.of(rows)).names == list(SMALLEST)
    assert of_the_labelled(report) == forms_of_the_whole(rows)
    assert report.committed == expected.committed > CORRECT
    assert report.largest < report.transactions
    assert report.operations == sum(len(each.operations) for each in expected.transactions)
    at_once = pipeline.audit(spark, history, "snapshot")
    assert of_the_labelled(at_once) == of_the_labelled(report)
    assert at_once.violations == audit(History.of(rows + damaged), "snapshot").violations
    assert (at_once.committed, at_once.operations) == (report.committed, report.operations)
    assert report.of("write-skew")[0].startswith("write-skew (two transactions each missed")
    drawn = report.draw(tmp_path / "pictures")
    assert {path.stem for path in drawn} >= {"G0", "G1c", "lost-update", "write-skew", "G2-item", "long-fork"}
    for path in drawn:
        ElementTree.parse(path)
    json.dumps(report.to_dict())
    assert "PROSCRIBED" in str(report)


def test_a_right_history_in_a_table_has_no_anomaly(spark: SparkSession, tmp_path: Path) -> None:
    rows = Simulator(5, snapshot=True, writers=True, readers=True, lists=False).run(200, 3)
    types = {"tx": pa.int64(), "op": pa.string(), "index": pa.int32(), "key": pa.string(), "value": pa.int64()}
    types |= {"version": pa.int64(), "time": pa.float64(), "low": pa.string(), "high": pa.string()}
    types |= {"values": pa.map_(pa.string(), pa.int64())}
    listed = [{**row, "values": list(row["values"].items()) if "values" in row else None} for row in rows]
    (tmp_path / "history").mkdir()
    parquet.write_table(pa.Table.from_pylist(listed, pa.schema(types.items())), tmp_path / "history" / "1.parquet")
    report = pipeline.audit(spark, tmp_path / "history", "serializable")
    assert report.names == []
    assert report.ok
    assert report.committed == audit(History.of(rows)).committed


def test_a_table_that_spark_made_of_the_lines_shows_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """A column has one type: values that are numbers in some rows and lists in others become text."""
    lines = written(tmp_path / "history", labelled())
    spark.read.json(str(lines)).write.parquet(str(tmp_path / "table"))
    assert dict(spark.read.parquet(str(tmp_path / "table")).dtypes)["value"] == "string"
    assert pipeline.audit(spark, tmp_path / "table").names == list(SMALLEST)


def test_columns_of_floating_point_numbers_and_of_lists_are_understood(spark: SparkSession, tmp_path: Path) -> None:
    """Numbers are such where some are missing, as pandas makes them; lists, where a history has only appends."""
    skew = [each for transaction in SMALLEST["write-skew"] for each in transaction]
    numbers = ("tx", "index", "value", "version", "time")
    columns = {name: pa.array([each.get(name) for each in skew], pa.float64()) for name in numbers}
    columns |= {name: pa.array([each.get(name) for each in skew], pa.string()) for name in ("op", "key")}
    parquet.write_table(pa.table(columns), tmp_path / "numbers.parquet")
    assert pipeline.audit(spark, tmp_path / "numbers.parquet").names == ["write-skew"]

    simulated = Simulator(3, snapshot=True, writers=True, readers=True, lists=True).run(30, 2)
    appended = [each for each in simulated if each["op"] != "scan"]
    lists: list[Any] = [each.get("value") for each in appended]
    columns = {"value": pa.array([[each] if isinstance(each, int) else each for each in lists], pa.list_(pa.int64()))}
    columns |= {name: pa.array([each.get(name) for each in appended]) for name in ("tx", "op", "index", "key")}
    parquet.write_table(pa.table(columns), tmp_path / "lists.parquet")
    report = pipeline.audit(spark, tmp_path / "lists.parquet")
    assert (report.names, report.unresolved) == ([], 0)


def test_a_number_with_a_fraction_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = pa.table({"tx": [1, 1], "op": ["write", "commit"], "key": ["x", None], "value": [1.5, None]})
    parquet.write_table(table, tmp_path / "one.parquet")
    with pytest.raises(UsageError, match=r"1\.5"):
        pipeline.audit(spark, tmp_path / "one.parquet")


def skewed(count: int) -> Rows:
    """Whole transactions, as a store records them, in pairs: each pair reads two keys, and each of the two overwrites
    one of them. One pair in ten does so at once, which is a write skew; of the others the second reads what the first
    wrote. Now and then a transaction scans a range in which one key is missing."""
    rows: Rows = []
    newest = dict.fromkeys((f"k{number:02}" for number in range(20)), 0)
    version = 0
    for number in range(1, count, 2):
        first, second = f"k{number % 20:02}", f"k{(number + 1) % 20:02}"
        begun = float(10 * number)
        at_once = number % 20 == 1
        reads = [[first, newest[first]], [second, newest[second]]]
        version += 1
        rows.append(whole(number, begun, begun + 2, version, reads, [first]))
        newest[first] = version
        if not at_once:
            reads = [[first, newest[first]], [second, newest[second]]]
        version += 1
        late = begun + (1 if at_once else 3)
        rows.append(whole(number + 1, late, late + 4, version, reads, [second]))
        newest[second] = version
        if number % 30 == 1:
            found = {key: seen for key, seen in newest.items() if key < "k05" and seen}
            rows.append(whole(10_000 + number, begun + 8, begun + 9, None, [["k00", "k05", found]], []))
    return rows


def whole(name: int, begun: float, ended: float, version: int | None, reads: list[Any], writes: list[str]) -> Row:
    row = {"tx": name, "op": "transaction", "begun": begun, "time": ended, "reads": reads, "writes": writes}
    return row if version is None else row | {"version": version}


def test_whole_transactions_of_plain_keys_show_the_same(spark: SparkSession, tmp_path: Path) -> None:
    rows = skewed(200)
    expected = audit(History.of(rows))
    assert expected.names == ["write-skew"]
    directory = tmp_path / "history"
    directory.mkdir()
    lines = [json.dumps(row) for row in rows]
    (directory / "1.jsonl").write_text("\n".join([*lines, lines[-1][:50]]))  # the last line is torn
    report = pipeline.audit(spark, directory, whole=0)
    assert report.names == expected.names
    assert report.committed == expected.committed
    assert {frozenset(each.transactions) for each in report.anomalies} == {
        frozenset(expected.transactions[tx].name for tx in each.transactions) for each in expected.findings
    }
    assert 0 < report.largest < 10
    assert report.draw(tmp_path / "pictures")[0].name == "write-skew.svg"


def test_a_row_that_is_none_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    history = written(tmp_path / "history", [{"tx": 1, "op": "read", "key": "x", "colour": "red"}])
    for whole in (0, 100):
        with pytest.raises(UsageError, match="colour"):
            pipeline.audit(spark, history, whole=whole)
