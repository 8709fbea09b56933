"""Rows become documents, or an error that names the document and the field."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.errors import UsageError, ValueMisfit
from lowtide.spark.encoding import RowEncoder, new_ids
from lowtide.values.codec import decode_document, encode_document
from lowtide.values.ids import id_key

JSON = {b"lowtide": b"json"}
ONE = "00000000-0000-7000-8000-000000000001"
NOON = datetime(2026, 5, 1, 12, 30, 15, 123456, tzinfo=UTC)


def encoded(columns: dict[str, Any], fields: list[Any], id_field: str = "_id", ignore_nulls: bool = True) -> list[Any]:
    schema = pa.schema(fields)
    batch = pa.record_batch([pa.array(columns[each.name], each.type) for each in schema], schema=schema)
    keys, documents = RowEncoder(schema, "c", id_field, ignore_nulls).encode(batch)
    found = [decode_document(each) for each in documents]
    assert keys == [id_key(each["_id"]) for each in found]
    assert documents == [encode_document(each) for each in found], "as encode_document would have made it"
    return found


def one(kind: Any, value: Any, metadata: Any = None, **more: Any) -> Any:
    """What a value of a column becomes; the whole document if that is null."""
    fields = [pa.field("_id", pa.int64()), pa.field("v", kind, metadata=metadata)]
    (found,) = encoded({"_id": [1], "v": [value]}, fields, **more)
    return found.get("v", found)


@pytest.mark.parametrize(
    ("kind", "value", "stored"),
    [
        (pa.int8(), -5, -5),
        (pa.int64(), 2**63 - 1, 2**63 - 1),
        (pa.float64(), 1.5, 1.5),
        (pa.float64(), float("inf"), float("inf")),
        (pa.string(), "Øl\x00", "Øl\x00"),
        (pa.large_string(), "x", "x"),
        (pa.bool_(), True, True),
        (pa.binary(), b"\x00\xff", b"\x00\xff"),
        (pa.decimal128(10, 2), Decimal("9.90"), Decimal("9.90")),
        (pa.timestamp("us", "UTC"), NOON, NOON),
        (pa.timestamp("us", "UTC"), datetime(1, 1, 1, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)),
        (pa.timestamp("us"), NOON.replace(tzinfo=None), NOON.replace(tzinfo=None)),
        (pa.date32(), date(2026, 5, 1), datetime(2026, 5, 1)),
        (pa.list_(pa.int32()), [1, None, 3], [1, None, 3]),
        (pa.list_(pa.int32()), [], []),
        (pa.map_(pa.string(), pa.int32()), [("a", 1), ("b", None)], {"a": 1, "b": None}),
        (pa.struct([("x", pa.int32()), ("y", pa.string())]), {"x": 1, "y": None}, {"x": 1}),
        (pa.struct([]), {}, {}),
        (
            pa.list_(pa.struct([("at", pa.timestamp("us", "UTC")), ("p", pa.decimal128(4, 1))])),
            [{"at": NOON, "p": None}, None, {"at": None, "p": Decimal("1.5")}],
            [{"at": NOON}, None, {"p": Decimal("1.5")}],
        ),
        (pa.map_(pa.string(), pa.list_(pa.float64())), [("a", [1.0, float("nan")])], {"a": [1.0, None]}),
    ],
)
def test_a_value_keeps_its_meaning(kind: Any, value: Any, stored: Any) -> None:
    found = one(kind, value)
    assert found == stored
    assert type(found) is type(stored)


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.string(), pa.struct([("x", pa.int8())]), pa.null()])
def test_a_null_is_left_out_unless_it_is_asked_for(kind: Any) -> None:
    assert one(kind, None) == {"_id": 1}
    assert one(kind, None, ignore_nulls=False) is None


def test_nan_is_null() -> None:
    assert one(pa.float64(), float("nan")) == {"_id": 1}


def test_json_text_becomes_what_it_says() -> None:
    text = f'{{"a": [1, {{"$date": "2026-05-01T12:30:15.123456Z"}}], "u": {{"$uuid": "{ONE}"}}}}'
    assert one(pa.string(), text, JSON) == {"a": [1, NOON], "u": UUID(ONE)}
    assert one(pa.string(), '"text"', JSON) == "text"
    assert one(pa.string(), str(10**30), JSON) == 10**30
    assert one(pa.list_(pa.field("element", pa.string(), metadata=JSON)), ["1", '"x"', None]) == [1, "x", None]


@pytest.mark.parametrize(
    ("kind", "value", "metadata", "path", "reason"),
    [
        (pa.string(), "{", JSON, "v", "must be JSON"),
        (pa.string(), '{"x": {"$date": "never"}}', JSON, "v", "must be JSON"),
        (pa.list_(pa.field("e", pa.string(), metadata=JSON)), ["1", "["], None, "v.1", "must be JSON"),
        (pa.map_(pa.string(), pa.field("e", pa.string(), metadata=JSON)), [("k", "[")], None, "v.k", "must be JSON"),
        (pa.struct([pa.field("x", pa.string(), metadata=JSON)]), {"x": "?"}, None, "v.x", "must be JSON"),
        (pa.map_(pa.string(), pa.int8()), [("$set", 1)], None, "v.$set", "may not begin with"),
        (pa.binary(), bytes(17 << 20), None, "", "17,825,"),
    ],
)
def test_what_cannot_be_stored_is_named(kind: Any, value: Any, metadata: Any, path: str, reason: str) -> None:
    fields = [pa.field("_id", pa.string()), pa.field("v", kind, metadata=metadata)]
    with pytest.raises(ValueMisfit, match=reason) as failure:
        encoded({"_id": ["fine", "wrong"], "v": [None, value]}, fields)
    assert (failure.value.collection, failure.value.document_id, failure.value.path) == ("c", "wrong", path)


def test_a_time_beyond_the_years_is_named() -> None:
    schema = pa.schema([("_id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    batch = pa.record_batch([pa.array([1, 2]), pa.array([0, 2**62]).cast(pa.timestamp("us", "UTC"))], schema=schema)
    with pytest.raises(ValueMisfit, match="years 1 to 9999") as failure:
        RowEncoder(schema, "c", "_id", True).encode(batch)
    assert failure.value.document_id == 2


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ([("_id", pa.float64())], "cast it"),
        ([("_id", pa.int64()), ("d", pa.duration("us"))], "'d': a document has no values of the type"),
        ([("_id", pa.int64()), ("s", pa.struct([("t", pa.time64("us"))]))], r"'s\.t'"),
        ([("_id", pa.int64()), ("m", pa.map_(pa.int64(), pa.int64()))], "keys are strings"),
        ([("_id", pa.int64()), ("$x", pa.int64())], r"begin with \$"),
        ([("_id", pa.int64()), ("s", pa.struct([("$x", pa.int64())]))], r"begin with \$"),
        ([("_id", pa.int64()), ("a", pa.int64()), ("a", pa.int64())], "two columns"),
    ],
)
def test_a_schema_that_cannot_be_stored_is_refused_before_a_row_is_seen(fields: list[Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        RowEncoder(pa.schema(fields), "c", "_id", True)


def test_another_column_becomes_the_id() -> None:
    fields = [pa.field("name", pa.string()), pa.field("sku", pa.string())]
    assert encoded({"name": ["plum"], "sku": ["p1"]}, fields, "sku") == [{"_id": "p1", "name": "plum"}]
    with pytest.raises(UsageError, match="as well as 'sku'"):
        RowEncoder(pa.schema([("_id", pa.int8()), ("sku", pa.int8())]), "c", "sku", True)


def test_the_id_may_be_json_text() -> None:
    ids = ["1", '"x"', f'{{"$uuid": "{ONE}"}}']
    found = encoded({"_id": ids}, [pa.field("_id", pa.string(), metadata=JSON)])
    assert [each["_id"] for each in found] == [1, "x", UUID(ONE)]
    with pytest.raises(ValueMisfit, match=r"an _id is a str, int, bytes or UUID, not float 1\.5"):
        encoded({"_id": ["1.5"]}, [pa.field("_id", pa.string(), metadata=JSON)])


def test_an_id_that_is_null_or_too_long_is_refused() -> None:
    with pytest.raises(UsageError, match=r"collection 'c'.*null in 1 of 2 rows"):
        encoded({"_id": [1, None]}, [pa.field("_id", pa.int64())])
    with pytest.raises(ValueMisfit, match="bytes as a key"):
        encoded({"_id": ["x" * 300]}, [pa.field("_id", pa.string())])


def test_new_ids_are_made_where_there_is_no_column() -> None:
    found = encoded({"v": list(range(100))}, [pa.field("v", pa.int64())])
    assert len({each["_id"] for each in found}) == 100
    assert all(each["_id"].version == 7 for each in found)
    ids, keys = new_ids(3)
    assert [id_key(UUID(bytes=bytes(each.data))) for each in ids] == keys == sorted(keys)


def test_names_that_no_class_would_take_are_kept() -> None:
    fields = [pa.field("_id", pa.int64()), pa.field('a"b\n', pa.int64()), pa.field("class", pa.int64())]
    assert encoded({"_id": [1], 'a"b\n': [2], "class": [None]}, fields) == [{"_id": 1, 'a"b\n': 2}]
    fields = [pa.field("_id", pa.int64()), pa.field("class", pa.int64()), pa.field("f0", pa.int64())]
    assert encoded({"_id": [1], "class": [2], "f0": [3]}, fields) == [{"_id": 1, "class": 2, "f0": 3}]


moments = st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)).map(
    lambda d: d.replace(tzinfo=UTC)
)
rows = st.fixed_dictionaries(
    {
        "_id": st.integers(-(2**63), 2**63 - 1),
        "s": st.none() | st.text(),
        "at": st.none() | moments,
        "list": st.none() | st.lists(st.none() | st.integers(-5, 5), max_size=3),
        "deep": st.none()
        | st.lists(st.none() | st.fixed_dictionaries({"x": st.none() | st.floats(allow_nan=False)}), max_size=3),
        "map": st.none() | st.dictionaries(st.text("abc"), st.none() | st.lists(st.text("xy"), max_size=2), max_size=3),
        "json": st.none() | st.recursive(st.integers() | st.text("ab"), lambda inner: st.lists(inner), max_leaves=4),
    }
)
FIELDS = [
    pa.field("_id", pa.int64()),
    pa.field("s", pa.string()),
    pa.field("at", pa.timestamp("us", "UTC")),
    pa.field("list", pa.list_(pa.int32())),
    pa.field("deep", pa.list_(pa.struct([("x", pa.float64())]))),
    pa.field("map", pa.map_(pa.string(), pa.list_(pa.string()))),
    pa.field("json", pa.string(), metadata=JSON),
]


@given(st.lists(rows, min_size=1, max_size=6), st.data())
def test_any_rows_of_any_part_of_a_batch_become_their_documents(
    found: list[dict[str, Any]], data: st.DataObject
) -> None:
    columns = {name: [each[name] for each in found] for name in found[0]}
    columns["json"] = [None if each is None else json.dumps(each) for each in columns["json"]]
    columns["map"] = [None if each is None else list(each.items()) for each in columns["map"]]
    whole = pa.record_batch([pa.array(columns[each.name], each.type) for each in FIELDS], schema=pa.schema(FIELDS))
    start = data.draw(st.integers(0, len(found) - 1))
    count = data.draw(st.integers(0, len(found) - start))
    keys, documents = RowEncoder(whole.schema, "c", "_id", True).encode(whole.slice(start, count))
    assert [decode_document(each) for each in documents] == [expected(each) for each in found[start : start + count]]
    assert keys == [id_key(each["_id"]) for each in found[start : start + count]]


def _some(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def expected(row: dict[str, Any]) -> dict[str, Any]:
    """The row as a document, without nulls but in arrays and maps."""

    def within(value: Any) -> Any:
        if isinstance(value, list):
            return [
                {k: v for k, v in each.items() if v is not None} if isinstance(each, dict) else each for each in value
            ]
        return value

    return {name: within(value) for name, value in row.items() if value is not None}


def test_moments_are_exact_to_the_microsecond() -> None:
    values = [NOON + timedelta(microseconds=each) for each in range(5)]
    fields = [pa.field("_id", pa.int64()), pa.field("at", pa.timestamp("us", "UTC"))]
    assert [each["at"] for each in encoded({"_id": list(range(5)), "at": values}, fields)] == values


@pytest.mark.parametrize("days", [3_000_000, -800_000])
def test_a_date_out_of_range_is_refused_by_name(days: int) -> None:
    dates = pa.array([0, days], pa.int32()).cast(pa.date32())
    batch = pa.record_batch({"_id": pa.array([1, 2]), "day": dates})
    with pytest.raises(ValueMisfit, match=f"_id 2, field 'day': a date is in the years 1 to 9999, not {days} days"):
        RowEncoder(batch.schema, "c", "_id", True).encode(batch)


def test_json_that_is_nested_too_deeply_is_refused_by_name() -> None:
    schema = pa.schema([pa.field("_id", pa.int64()), pa.field("j", pa.string(), metadata=JSON)])
    batch = pa.record_batch([pa.array([1]), pa.array(["[" * 5000 + "]" * 5000])], schema=schema)
    with pytest.raises(ValueMisfit, match="_id 1, field 'j': it must be JSON"):
        RowEncoder(schema, "c", "_id", True).encode(batch)


def test_a_struct_with_two_fields_of_one_name_is_refused() -> None:
    kind = pa.struct([("x", pa.int32()), ("x", pa.int32())])
    with pytest.raises(UsageError, match="column 's': two fields have the name 'x'"):
        RowEncoder(pa.schema([("_id", pa.int64()), ("s", kind)]), "c", "_id", True)
