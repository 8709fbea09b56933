"""A collection as a table holds every value of every document, whatever they are and however they are batched."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.columnar import table as module
from lowtide.columnar.inference import infer_schema
from lowtide.columnar.table import covering_schema, reader, to_table
from lowtide.errors import UsageError
from tests.unit.columnar.documents import collections, expected, stored

pytestmark = pytest.mark.usefixtures("least")


@settings(max_examples=300)
@given(collections(), st.integers(1, 5), st.integers(0, 4))
def test_a_table_holds_what_the_documents_hold(documents: list[dict[str, Any]], size: int, sample: int) -> None:
    batches = stored(documents, size)
    before = module.SAMPLE
    module.SAMPLE = sample  # type: ignore[misc]  # so that the guess is often wrong
    try:
        table = to_table(lambda: batches)
    finally:
        module.SAMPLE = before  # type: ignore[misc]
    table.validate(full=True)
    schema = infer_schema(documents)
    assert table.schema.equals(schema, check_metadata=True)
    assert table.num_rows == len(documents)
    assert table.to_pylist() == expected(documents, schema)


@given(collections(), st.integers(1, 5))
def test_a_reader_gives_the_same_in_pieces(documents: list[dict[str, Any]], size: int) -> None:
    batches = stored(documents, size)
    table = to_table(lambda: batches)
    stream = reader(lambda: batches)
    assert stream.schema.equals(table.schema, check_metadata=True)
    pieces = list(stream)
    assert pa.Table.from_batches(pieces, table.schema).equals(table)
    assert all(piece.num_rows <= size for piece in pieces)


@given(collections(), st.sampled_from([["_id"], ["name", "_id"], ["none", "a.b", "f0"]]))
def test_columns_are_what_was_asked_for(documents: list[dict[str, Any]], columns: list[str]) -> None:
    batches = stored(documents)
    table = to_table(lambda: batches, columns)
    schema = infer_schema(documents, columns)
    assert table.schema.equals(schema, check_metadata=True)
    assert table.to_pylist() == expected(documents, schema)


@given(collections())
def test_a_schema_that_covers_everything_gives_the_same(documents: list[dict[str, Any]]) -> None:
    batches = stored(documents)
    table = to_table(lambda: batches)
    assert to_table(lambda: batches, schema=table.schema).equals(table, check_metadata=True)


class Counted:
    """A source that counts how often each document was given."""

    def __init__(self, batches: list[list[bytes]]) -> None:
        self.batches = batches
        self.given = [0] * len(batches)

    def __call__(self) -> Iterable[Sequence[bytes]]:
        for index, batch in enumerate(self.batches):
            self.given[index] += 1
            yield batch


def test_documents_that_are_alike_are_read_once() -> None:
    source = Counted(stored(({"_id": each, "at": datetime(2026, 1, 1)} for each in range(5000)), 1000))
    assert to_table(source).num_rows == 5000
    assert source.given == [2, 1, 1, 1, 1], "the first one for the sample"


def test_after_a_surprise_only_what_came_before_is_read_again() -> None:
    documents: list[dict[str, Any]] = [{"_id": each} for each in range(6000)]
    documents[3500]["late"] = 1.5
    source = Counted(stored(documents, 1000))
    table = to_table(source)
    assert source.given == [3, 2, 2, 1, 1, 1]
    assert table["late"].null_count == 5999
    assert table["_id"].to_pylist() == list(range(6000))


def test_digits_that_were_not_counted_before_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The large integer fits int64, so its digits were not counted. They matter only with the Decimal."""
    monkeypatch.setattr(module, "SAMPLE", 1)
    batches = stored([{"v": 1}, {"v": 10**18}, {"v": Decimal("1E-25")}], 1)
    table = to_table(lambda: batches)
    assert table["v"].to_pylist() == ["1", str(10**18), "1E-25"]


def test_the_scale_is_that_of_all_decimals_as_they_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a later one would fit without its last zeros: the schema does not depend on what the sample had."""
    monkeypatch.setattr(module, "SAMPLE", 1)
    batches = stored([{"v": Decimal("1.5")}, {"v": Decimal("2.500")}], 1)
    assert to_table(lambda: batches).schema == pa.schema([("v", pa.decimal128(38, 3))])


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([{}, {"a": None}, {"a": 1}], pa.struct([("a", pa.int64())])),
        ([[{}], [{"a": 1}]], pa.list_(pa.struct([("a", pa.int64())]))),
        ([Decimal("1E-30"), 10**10, 0.5], pa.float64()),
        ([{"a": {}}, {"a": {"b": "x"}}], pa.struct([("a", pa.struct([("b", pa.string())]))])),
    ],
)
def test_what_seemed_to_need_text_does_not_if_later_values_say_so(
    values: list[Any], found: pa.DataType, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = [{"v": each} for each in values]
    for sample in range(len(values) + 1):
        monkeypatch.setattr(module, "SAMPLE", sample)
        batches = stored(documents, 1)
        table = to_table(lambda batches=batches: batches)  # type: ignore[misc]
        assert table.schema == pa.schema([("v", found)])
        assert table.to_pylist() == expected(documents, table.schema)


def test_batches_with_very_many_bytes_are_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 100)
    batches = stored([{"_id": each, "text": "x" * 40} for each in range(8)], 8)
    pieces = list(reader(lambda: batches))
    assert [piece.num_rows for piece in pieces] == [1, 1, 1, 1, 1, 1, 1, 1]
    assert pa.Table.from_batches(pieces)["_id"].to_pylist() == list(range(8))


def test_no_documents_are_an_empty_table() -> None:
    assert to_table(list).num_rows == 0
    assert to_table(list, ["a"]).schema == pa.schema([("a", pa.null())])
    assert covering_schema(list) == pa.schema([])


def test_columns_that_a_schema_has_not_are_named() -> None:
    with pytest.raises(UsageError, match="no column 'c'; it has a, b"):
        to_table(list, ["a", "c"], pa.schema([("a", pa.int64()), ("b", pa.int64())]))


def test_the_schema_of_a_mixed_collection() -> None:
    documents: list[dict[str, Any]] = [
        {"_id": UUID(int=7), "n": 1, "price": Decimal("9.90"), "at": datetime(2026, 5, 1), "mixed": 1, "raw": b"\x00"},
        {"_id": "text", "n": 2.5, "price": 3, "mixed": "x", "home": {"city": "Oslo"}, "tags": ["a", None]},
        {"_id": "z", "at": datetime(2026, 5, 1, 2, tzinfo=timezone(timedelta(hours=2))), "home": None, "tags": []},
    ]
    batches = stored(documents, 2)
    assert to_table(lambda: batches).to_pylist() == [
        {
            "_id": "00000000-0000-0000-0000-000000000007",
            "n": 1.0,
            "price": Decimal("9.90"),
            "at": datetime(2026, 5, 1, tzinfo=UTC),
            "mixed": "1",
            "raw": b"\x00",
            "home": None,
            "tags": None,
        },
        {
            "_id": "text",
            "n": 2.5,
            "price": Decimal("3.00"),
            "at": None,
            "mixed": '"x"',
            "raw": None,
            "home": {"city": "Oslo"},
            "tags": ["a", None],
        },
        {
            "_id": "z",
            "n": None,
            "price": None,
            "at": datetime(2026, 5, 1, tzinfo=UTC),
            "mixed": None,
            "raw": None,
            "home": None,
            "tags": [],
        },
    ]
