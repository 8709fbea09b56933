"""The parts of the Spark section that need no session: its documents, sources, rounds, targets and tables."""

from __future__ import annotations

import json
import os
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet
from pyspark.sql.types import DoubleType, IntegerType, LongType, StringType, StructType, TimestampType

import lowtide
from bench.__main__ import main
from bench.figures import BASE
from bench.section import Data, Plan
from bench.spark import rows
from bench.spark.driver import Order, Outcome, reason, run_rounds
from bench.spark.jobs import (
    ALONE,
    ARROW,
    CACHED,
    FILL,
    FILTER,
    GROWTH,
    LINES,
    PARQUET,
    SCAN,
    TUPLES,
    WRITE,
    Files,
    Job,
    Sources,
    Timing,
    WrongRows,
    reading_jobs,
)
from bench.spark.running import FULL, QUICK, DriverFailed, buildings, driven, order_of
from bench.spark.section import SECTION
from bench.spark.session import lacking
from bench.spark.sources import ArrowReader, Rows, SqliteReader, TuplesReader
from bench.spark.streams import LATENCY, STREAM
from bench.spark.targets import TARGETS, findings, growth
from lowtide.values.codec import encode_document
from tests.bench.support import check_shown, check_step, on_disk

COUNT = 2_345
DOCUMENTS = list(rows.make_documents(0, COUNT))
WHOLE = (
    StructType()
    .add("_id", LongType())
    .add("name", StringType())
    .add("category", StringType())
    .add("score", DoubleType())
    .add("quantity", IntegerType())
    .add("at", TimestampType())
)


# -- the documents ----------------------------------------------------------------------------------------------------


def test_a_document_has_six_typed_fields_in_about_120_bytes() -> None:
    lengths = [len(encode_document(document)) for document in DOCUMENTS]
    assert 115 <= sum(lengths) / COUNT <= 130
    assert all(tuple(document) == rows.FIELDS for document in DOCUMENTS)
    assert [type(value) for value in DOCUMENTS[1].values()] == [int, str, str, float, int, datetime]


@pytest.mark.parametrize("count", [0, 1, 250, 10_000, 12_345])
def test_one_percent_is_selected(count: int) -> None:
    found = sum(document["quantity"] < rows.SELECTED for document in rows.make_documents(0, count))
    assert rows.selected(count) == found
    if count % rows.QUANTITIES == 0:
        assert found == count // 100


def test_every_format_has_the_same_documents(tmp_path: Path) -> None:
    files = Files(tmp_path)
    rows.build_parquet(str(files.parquet), COUNT)
    rows.build_lines(str(files.lines), COUNT)
    rows.build_sqlite(str(files.sqlite), COUNT)
    rows.build_lowtide(str(files.lowtide), COUNT, indexed=True)
    table = parquet.read_table(files.parquet)
    assert table.to_pylist() == DOCUMENTS
    lines = [json.loads(line) for file in sorted(files.lines.iterdir()) for line in file.read_text().splitlines()]
    assert [line | {"at": datetime.fromisoformat(line["at"])} for line in lines] == DOCUMENTS
    assert [len(list(place.iterdir())) for place in (files.parquet, files.lines)] == [rows.FILES] * 2
    connection = sqlite3.connect(files.sqlite)
    assert [row[:-1] for row in connection.execute("SELECT * FROM items ORDER BY _id")] == [
        tuple(document.values())[:-1] for document in DOCUMENTS
    ]
    connection.close()
    with lowtide.open(files.lowtide) as store:
        items = store.collection(rows.COLLECTION)
        assert items.find({}).sort("_id").to_list() == DOCUMENTS
        assert "IXSCAN" in str(items.find({rows.INDEXED: {"$lt": rows.SELECTED}}).explain())


# -- the sources over sqlite3 -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = str(tmp_path_factory.mktemp("sqlite") / "items.db")
    rows.build_sqlite(file, COUNT)
    return file


def read_all(reader: SqliteReader) -> list[Any]:
    return [each for partition in reader.partitions() for each in reader.read(partition)]


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_partitions_are_even_and_have_every_row_once(database: str, partitions: int) -> None:
    found = TuplesReader(database, partitions, WHOLE).partitions()
    assert [number for part in found for number in range(part.first, part.last)] == list(range(COUNT))
    lengths = [part.last - part.first for part in found]
    assert len(lengths) == partitions
    assert max(lengths) - min(lengths) <= 1


def test_both_sources_yield_the_documents(database: str) -> None:
    assert read_all(TuplesReader(database, 2, WHOLE)) == [tuple(document.values()) for document in DOCUMENTS]
    batches = read_all(ArrowReader(database, 2, WHOLE))
    assert [row for batch in batches for row in batch.to_pylist()] == DOCUMENTS


def test_both_sources_yield_only_the_columns_of_the_schema(database: str) -> None:
    two = StructType().add("score", DoubleType()).add("_id", LongType())
    wanted = [(document["score"], document["_id"]) for document in DOCUMENTS]
    assert read_all(TuplesReader(database, 2, two)) == wanted
    batches = read_all(ArrowReader(database, 2, two))
    assert [tuple(row.values()) for batch in batches for row in batch.to_pylist()] == wanted
    assert [field.name for field in batches[0].schema] == ["score", "_id"]


def test_an_empty_table_has_no_rows(tmp_path: Path) -> None:
    rows.build_sqlite(str(tmp_path / "items.db"), 0)
    reader = TuplesReader(str(tmp_path / "items.db"), 2, WHOLE)
    assert reader.partitions() == [Rows(0, 0), Rows(0, 0)]
    assert read_all(reader) == []


# -- rounds -----------------------------------------------------------------------------------------------------------


def make_job(line: str, said: list[str], *, broken_after: int = 1_000) -> Job:
    def carry_out(frame: Any) -> None:
        said.append(line)
        if said.count(line) > broken_after:
            raise ValueError(f"broken in /somewhere/{line}")

    def check() -> None:
        said.append(f"{line} checked")

    return Job(line, BASE, 10, load=lambda: None, carry_out=carry_out, check=check, after=lambda: said.append("after"))  # type: ignore[arg-type, return-value]


def test_every_job_takes_a_turn_in_each_round_after_one_that_is_checked_and_not_counted() -> None:
    said: list[str] = []
    outcome = Outcome()
    run_rounds([make_job("a", said), make_job("b", said)], 2, outcome, "/somewhere", check_step)
    without = [each for each in said if each != "after"]
    assert without == ["a", "a checked", "b", "b checked", "a", "b", "b", "a"]
    assert said.count("after") == 6
    assert [(each.line, each.round) for each in outcome.timings] == [("a", 0), ("b", 0), ("b", 1), ("a", 1)]
    assert all(each.seconds >= 0 and each.load_seconds >= 0 for each in outcome.timings)


def test_a_job_that_fails_is_left_out_and_the_others_go_on() -> None:
    said: list[str] = []
    outcome = Outcome()
    jobs = [make_job("a", said, broken_after=1), make_job("b", said)]
    run_rounds(jobs, 3, outcome, "/somewhere", check_step)
    assert said.count("a") == 2
    assert said.count("after") == 6
    assert [each.line for each in outcome.timings] == ["b"] * 3
    (failure,) = outcome.failed.values()
    assert failure == {"line": "a", "peer": BASE, "why": "ValueError: broken in …/a"}
    assert "Traceback" in outcome.told[0]


def test_an_error_of_the_jvm_is_told_by_its_cause() -> None:
    error = RuntimeError("An error occurred while calling o61.load.\n: java.lang.Oops: no such thing\n\tat here")
    assert reason(error, "/x") == "RuntimeError: java.lang.Oops: no such thing"


def test_an_error_of_a_worker_is_told_by_the_end_of_its_traceback() -> None:
    error = RuntimeError("[X] Failed: Traceback (most recent call last):\n  File a\nKeyError: 'b'\n SQLSTATE: 38000\n")
    assert reason(error, "/x") == "RuntimeError: KeyError: 'b'"


def test_nothing_is_called_a_read_from_the_cache_before_the_cache_has_something(tmp_path: Path) -> None:
    files = Files(tmp_path)
    by_line = {job.line: job for job in reading_jobs(Sources(None, files), files, 10) if job.peer == BASE}  # type: ignore[arg-type]
    kept = files.lowtide / "cache" / "boot" / "block.arrow"
    for act in (by_line[FILL].check, by_line[CACHED].before):
        with pytest.raises(WrongRows, match="the columnar cache is empty"):
            act()
    kept.parent.mkdir(parents=True)
    kept.touch()
    by_line[CACHED].before()
    by_line[FILL].before()
    assert not kept.exists()
    assert files.lowtide.exists()


# -- what is run ------------------------------------------------------------------------------------------------------


def make_order(place: Path, **changes: Any) -> Order:
    return replace(order_of(Plan(place, True, check_step), QUICK), **changes)


def test_a_full_run_is_of_the_published_size() -> None:
    order = order_of(Plan(Path("x"), False, check_step), FULL)
    assert (order.documents, order.written, order.sizes) == (2_000_000, 1_000_000, [100_000, 1_000_000, 10_000_000])
    assert order.rounds >= 5


def test_numbers_that_are_asked_for_bound_all_of_it() -> None:
    order = order_of(Plan(Path("x"), False, check_step, documents=5_000, rounds=2), FULL)
    assert (order.documents, order.written, order.sizes, order.changes) == (5_000, 5_000, [500, 5_000], 5_000)
    assert (order.rounds, order.few) == (2, 2)


def test_only_what_is_needed_is_built(tmp_path: Path) -> None:
    files = Files(tmp_path)

    def built(**changes: Any) -> list[str]:
        return [Path(each.arguments["place"]).name for each in buildings(make_order(tmp_path, **changes), files)]

    assert built(sizes=[7]) == ["store", "parquet", "lines", "items.db", "empty.db", "unwritten", "store-7"]
    assert built(lines=[WRITE]) == ["unwritten"]
    assert built(lines=[GROWTH], sizes=[7, 8]) == ["store-7", "store-8"]
    assert built(lines=[FILTER]) == ["store", "parquet"]
    assert built(lines=[SCAN], peers=[PARQUET, "lowtide", "sqlite3"]) == ["store", "parquet", "items.db"]
    assert built(lines=[STREAM]) == []


def test_without_java_the_section_is_skipped_with_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert (lacking() or "").startswith("Spark needs Java 17 or 21 or 25, but JAVA_HOME is ")
    assert main(["--only", "spark", "--quick", "--directory", str(on_disk(tmp_path))]) == 0
    assert "spark: skipped, Spark needs Java" in capsys.readouterr().out
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no java is on the PATH" in (lacking() or "")


def test_a_driver_that_cannot_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(Path.cwd())]))
    with pytest.raises(DriverFailed, match=r"(?s)status 1, and said:.*Spark needs Java"):
        driven(Plan(tmp_path, True, check_step), make_order(tmp_path))


# -- what follows from it ---------------------------------------------------------------------------------------------

SECONDS = {
    (SCAN, BASE): 1.0,
    (SCAN, PARQUET): 0.5,
    (SCAN, LINES): 1.0,
    (SCAN, ARROW): 1.5,
    (SCAN, TUPLES): 3.0,
    (CACHED, BASE): 0.75,
    (FILTER, BASE): 0.05,
    (ALONE, BASE): 1.6,
    (WRITE, BASE): 4.0,
    (WRITE, PARQUET): 1.0,
}


def example(**changes: Any) -> Data:
    """Two rounds in which every target is met exactly, but for these seconds of jobs."""
    seconds = SECONDS | changes.pop("seconds", {})
    grown = changes.pop("grown", {100: 1.0, 1_000: 13.0})
    timings = [
        [line, peer, number, 1_000, 0.1, each * factor]
        for number, factor in enumerate((1.0, 8.0))
        for (line, peer), each in seconds.items()
    ] + [[GROWTH, BASE, 0, size, 0.1, each] for size, each in grown.items()]
    fields = list(Timing.__dataclass_fields__)
    data: Data = {
        "documents": 1_000,
        "written": 500,
        "sizes": [100, 1_000],
        "rounds": 2,
        "few": 1,
        "timings": {"fields": fields, "rows": timings},
        "failed": {},
        "versions": {"spark": "4", "java": "17"},
        STREAM: {"changes": 1_000, "commit_length": 10, "rounds": [{"seconds": 2.0, "micro_batches": 1}]},
        LATENCY: {"trigger_milliseconds": 50, "milliseconds": [200.0, 300.0, 900.0]},
    }
    return data | changes


def test_every_target_is_met_at_its_bound() -> None:
    found = findings(example())
    assert len(found) == len(TARGETS) + 1
    assert [each.target for each in found if not each.met] == []
    assert {each.measured for each in found} == {"1.50x", "3.00x", "1.00x", "2.00x", "20.00x", "1.60x", "1.30x"}


@pytest.mark.parametrize(
    ("job", "seconds", "missed"),
    [
        ((SCAN, ARROW), 1.49, ["full scan: at least 1.5x sqlite3, Arrow"]),
        ((SCAN, TUPLES), 2.99, ["full scan: at least 3.0x sqlite3, tuples"]),
        ((SCAN, LINES), 0.99, ["full scan: at least 1.0x JSON Lines by Spark's own reader"]),
        ((FILTER, BASE), 0.051, ["1 % by an indexed field: at least 20.0x Lowtide's full scan"]),
        ((ALONE, BASE), 1.59, ["full scan: at least 1.6x one partition"]),
        (
            (CACHED, BASE),
            0.76,
            ["full scan again, from the cache: at most 1.5x the time of Parquet, which is read in the JVM"],
        ),
    ],
)
def test_a_target_is_missed_beyond_its_bound(job: tuple[str, str], seconds: float, missed: list[str]) -> None:
    found = [each for each in findings(example(seconds={job: seconds})) if not each.met]
    assert [each.target for each in found] == missed
    assert all(each.why for each in found)


def test_a_scan_may_take_three_and_a_half_times_the_time_of_parquet() -> None:
    for seconds, met in ((0.2858, True), (0.2856, False)):
        found = findings(example(seconds={(SCAN, PARQUET): seconds, (CACHED, BASE): 0.1}))
        (scan,) = [each for each in found if each.target == "full scan: at most 3.5x the time of Parquet"]
        assert (scan.met, scan.measured) == (met, "3.50x")


def test_a_row_that_costs_more_in_a_larger_store_misses_its_target() -> None:
    *_, found = findings(example(grown={100: 1.0, 1_000: 13.1}))
    assert (found.met, found.measured) == (False, "1.31x")
    assert found.target == "scan time of a row from 100 to 1,000 documents: grows by at most 1.3x"
    assert growth({1: 9.0, 2: 3.0, 3: 6.0}) == 2.0


def test_a_job_that_failed_misses_its_targets_with_the_error_as_the_reason() -> None:
    failed = {"x": {"line": CACHED, "peer": BASE, "why": "ValueError: gone"}}
    without = {key: each for key, each in SECONDS.items() if key != (CACHED, BASE)}
    data = example(failed=failed)
    data["timings"]["rows"] = [row for row in data["timings"]["rows"] if (row[0], row[1]) in without]
    missed = [each for each in findings(data) if not each.met]
    assert [(each.measured, each.why) for each in missed] == [("failed", "ValueError: gone")]
    assert missed[0].target.startswith("full scan again")


def test_what_was_not_measured_has_no_target() -> None:
    data = example()
    data["timings"]["rows"] = [row for row in data["timings"]["rows"] if row[0] == WRITE]
    assert findings(data) == []
    data["failed"] = {"x": {"line": CACHED, "peer": BASE, "why": "ValueError: gone"}}
    assert findings(data) == []


def test_tables_and_plot_show_all_of_it(tmp_path: Path) -> None:
    failed = {"x": {"line": GROWTH, "peer": BASE, "why": "ValueError: gone"}}
    seconds, ratios, by_size, streams, failures = check_shown(SECTION, example(failed=failed), tmp_path)
    assert len(seconds.rows) == len(SECONDS)
    assert ("bulk write: lowtide", "18.000", "4.000..32.000", "56", "0.100") in seconds.rows
    assert ("bulk write", "0.25 (0.25..0.25)", "–", "–", "–") in ratios.rows
    assert [row[0] for row in by_size.rows] == ["100", "1,000"]
    assert [row[1] for row in streams.rows] == ["500 changes/s", "p50 300 ms, p95 900 ms"]
    assert failures.rows == [("growth: lowtide", "ValueError: gone")]
    assert (tmp_path / "spark.svg").exists()


def test_a_section_of_a_single_line_is_shown_as_well(tmp_path: Path) -> None:
    data = example()
    data["timings"]["rows"] = [row for row in data["timings"]["rows"] if row[0] == GROWTH]
    del data[STREAM], data[LATENCY]
    (by_size,) = check_shown(SECTION, data, tmp_path)
    assert by_size.title == "Full scan by the size of the store"


def test_times_are_those_of_the_first_documents() -> None:
    moments = [document["at"] for document in DOCUMENTS]
    assert moments == sorted(moments)
    assert datetime(2026, 1, 1, tzinfo=UTC) <= moments[0] < moments[0] + timedelta(seconds=1) <= moments[2]
