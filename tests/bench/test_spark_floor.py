"""The floor of Spark's reads: the sources return the selected rows, and look each of them up."""

from __future__ import annotations

from pathlib import Path

import lmdb
import pytest
from pyspark.sql.types import DoubleType, IntegerType, LongType, StringType, StructType, TimestampType

from bench.spark.floor_sources import LookUpReader, MemoryReader, build_rows
from bench.spark.rows import INDEXED, SELECTED, make_documents, selected

COUNT = 2_000


@pytest.fixture
def schema() -> StructType:
    names = StructType().add("_id", LongType()).add("name", StringType()).add("category", StringType())
    return names.add("score", DoubleType()).add("quantity", IntegerType()).add("at", TimestampType())


def ids(reader: MemoryReader) -> list[int]:
    return [each for part in reader.partitions() for batch in reader.read(part) for each in batch["_id"].to_pylist()]


@pytest.mark.parametrize("kept", [False, True])
def test_both_sources_return_the_selected_rows(tmp_path: Path, schema: StructType, kept: bool) -> None:
    build_rows(str(tmp_path / "rows"), COUNT)
    wanted = [each["_id"] for each in make_documents(0, COUNT) if each[INDEXED] < SELECTED]
    assert len(wanted) == selected(COUNT)
    looked_up = LookUpReader(COUNT, str(tmp_path / "rows"), kept, schema)
    assert ids(looked_up) == ids(looked_up) == ids(MemoryReader(COUNT, 1, schema)) == wanted


def test_a_missing_row_is_noticed(tmp_path: Path, schema: StructType) -> None:
    build_rows(str(tmp_path / "rows"), COUNT // 2)
    with pytest.raises(AssertionError, match="rows are missing"):
        ids(LookUpReader(COUNT, str(tmp_path / "rows"), False, schema))


def test_the_file_has_a_row_for_each_document(tmp_path: Path) -> None:
    build_rows(str(tmp_path / "rows"), COUNT)
    with lmdb.open(str(tmp_path / "rows"), readonly=True) as environment:
        assert environment.stat()["entries"] == COUNT
