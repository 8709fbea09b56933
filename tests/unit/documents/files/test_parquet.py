"""Parquet files, of Lowtide and of other writers."""

from __future__ import annotations

import datetime as dt
import io
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lowtide.documents.files.documents import write_documents
from lowtide.documents.files.parquet import read_parquet
from lowtide.documents.files.problems import BadFile
from lowtide.values.values import Document


def read(columns: dict[str, Any], **options: Any) -> list[Document]:
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream, **options)
    stream.seek(0)
    return [each for batch in read_parquet(stream, "f") for each in batch.documents]


KEY = UUID("018f2f5e-6d1c-7000-8000-0123456789ab")
NOON = dt.datetime(2026, 5, 1, 12)


@pytest.mark.parametrize(
    ("value", "kind", "found"),
    [
        (7, "int16", 7),
        (2.5, "float32", 2.5),
        (float("nan"), "float64", None),
        ("x", "large_string", "x"),
        (b"\x00", "binary", b"\x00"),
        (Decimal("9.90"), "decimal128(10, 2)", Decimal("9.90")),
        (NOON, "timestamp[us]", NOON),
        (NOON, "timestamp[ns]", NOON),
        (NOON.replace(tzinfo=dt.UTC), "timestamp[ms, UTC]", NOON.replace(tzinfo=dt.UTC)),
        (dt.date(2026, 5, 1), "date32", dt.datetime(2026, 5, 1)),
        (KEY.bytes, "uuid", KEY),
        ([1, None], "list", [1, None]),
        ({"a": 1, "b": None, "c": NOON.date()}, "struct", {"a": 1, "c": dt.datetime(2026, 5, 1)}),
        ([("k", 1)], "map", {"k": 1}),
        ("x", "dictionary", "x"),
    ],
    ids=str,
)
def test_a_value_is_read_as_what_it_is(value: Any, kind: str, found: Any) -> None:
    types = {
        "decimal128(10, 2)": pa.decimal128(10, 2),
        "timestamp[us]": pa.timestamp("us"),
        "timestamp[ns]": pa.timestamp("ns"),
        "timestamp[ms, UTC]": pa.timestamp("ms", "UTC"),
        "uuid": pa.uuid(),
        "list": pa.list_(pa.int64()),
        "struct": pa.struct([("a", pa.int64()), ("b", pa.string()), ("c", pa.date32())]),
        "map": pa.map_(pa.string(), pa.int64()),
        "dictionary": pa.dictionary(pa.int32(), pa.string()),
    }
    column = pa.array([value, None], types.get(kind) or getattr(pa, kind)())
    first, second = read({"n": [1, 2], "v": column})
    assert first == ({"n": 1} if found is None else {"n": 1, "v": found})
    assert second == {"n": 2}


def test_a_type_that_documents_have_not_is_refused_with_the_name_of_its_column() -> None:
    with pytest.raises(BadFile, match=r"field 'at': the type time64\[us\] is not supported in documents; convert"):
        read({"at": pa.array([dt.time(12)], pa.time64("us"))})


def test_rows_come_in_batches_and_know_their_number() -> None:
    stream = io.BytesIO()
    pq.write_table(pa.table({"n": list(range(5000))}), stream)
    stream.seek(0)
    batches = list(read_parquet(stream, "f"))
    assert [len(batch.documents) for batch in batches] == [2000, 2000, 1000]
    assert batches[1].place(5) == "row 2006"


def test_what_is_no_parquet_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="f: not a readable Parquet file"):
        list(read_parquet(io.BytesIO(b"PAR1 but no"), "f"))


def test_documents_come_back_with_the_types_that_columns_have() -> None:
    found: list[Document] = [
        {"_id": 1, "at": NOON.replace(tzinfo=dt.UTC), "price": Decimal("9.90"), "raw": b"\x00", "in": {"a": [1, 2]}},
        {"_id": 2, "mixed": 5, "flag": True, "text": "x", "size": 2.5},
        {"_id": 3, "mixed": "five", "in": {"b": None}},
        {"_id": 4, "mixed": {"n": [5]}, "size": float("inf")},
    ]
    stream = io.BytesIO()
    assert write_documents(stream, "parquet", lambda: found) == 4
    stream.seek(0)
    (batch,) = read_parquet(stream, "f")
    assert batch.documents == [*found[:2], {"_id": 3, "mixed": "five", "in": {}}, found[3]]


def test_no_documents_are_a_file_too() -> None:
    stream = io.BytesIO()
    assert write_documents(stream, "parquet", list) == 0
    stream.seek(0)
    assert list(read_parquet(stream, "f")) == []


def test_many_documents_are_several_groups_of_rows() -> None:
    stream = io.BytesIO()
    assert write_documents(stream, "parquet", lambda: ({"_id": n} for n in range(120_000))) == 120_000
    stream.seek(0)
    assert pq.ParquetFile(stream).num_row_groups == 3
    stream.seek(0)
    assert sum(len(batch.documents) for batch in read_parquet(stream, "f")) == 120_000
