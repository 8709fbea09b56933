"""The fast path for uniform documents: the same columns as the general path, or none."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.columnar import uniform
from lowtide.columnar.columns import Columns, Mode
from lowtide.columnar.inference import Fields
from lowtide.columnar.nodes import Object
from lowtide.columnar.uniform import Uniform
from lowtide.values.codec import encode_document
from tests.unit.columnar.documents import EARLY, LATE, VALUES, ZONES

SCHEMA = pa.schema(
    [
        ("_id", pa.int64()),
        ("name", pa.string()),
        ("price", pa.float64()),
        ("open", pa.bool_()),
        ("at", pa.timestamp("us", "UTC")),
        ("raw", pa.binary()),
        ("exact", pa.decimal128(10, 2)),
    ]
)
PLACE = pa.struct([("x", pa.int64()), ("y", pa.string()), ("to", pa.struct([("z", pa.float64())]))])
NESTED = pa.schema(
    [
        ("_id", pa.int64()),
        ("place", PLACE),
        ("tags", pa.list_(pa.string())),
        ("lines", pa.list_(pa.struct([("sku", pa.string()), ("n", pa.int64())]))),
        ("at", pa.large_list(pa.timestamp("us", "UTC"))),
        ("last", pa.int64()),
    ]
)
LENGTHS = (0, 1, 31, 32, 255, 256, 65_535, 65_536)
SIZES = (0, 127, 128, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**63 - 1)
NUMBERS = [*SIZES, *(-each for each in SIZES), -32, -33, -(2**63)]
FIELDS = {
    "_id": st.integers(-(2**63), 2**63 - 1),
    "name": st.text(max_size=40),
    "price": st.floats(allow_nan=False) | st.integers(-(2**63), 2**63 - 1),
    "open": st.booleans(),
    "at": st.datetimes(EARLY, LATE) | st.datetimes(EARLY, LATE, timezones=ZONES),
    "raw": st.binary(max_size=40),
    "exact": st.decimals(-1000, 1000, places=2) | st.integers(-1000, 1000),
}


INTEGERS = st.integers(-(2**63), 2**63 - 1)


def objects(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with these fields, in this order."""
    return st.tuples(*fields.values()).map(lambda values: dict(zip(fields, values, strict=True)))


OBJECTS: dict[str, st.SearchStrategy[Any]] = {
    "_id": INTEGERS,
    "place": objects(
        x=st.none() | INTEGERS, y=st.none() | st.text(max_size=40), to=objects(z=st.floats(allow_nan=False))
    ),
    "tags": st.lists(st.none() | st.text(max_size=40), max_size=16),
    "lines": st.lists(objects(sku=st.none() | st.text(max_size=3), n=st.none() | INTEGERS), max_size=4),
    "at": st.lists(st.none() | st.datetimes(EARLY, LATE), max_size=3),
    "last": st.none() | INTEGERS,
}


@pytest.fixture(autouse=True, scope="module")
def however_few() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uniform, "LEAST", 1)
        yield


def quick(schema: pa.Schema, documents: list[dict[str, Any]], *, every: bool = False) -> pa.RecordBatch | None:
    root = Object(pa.struct(list(schema)), "", None)
    arrays = Uniform(root.declared, root.nodes, every=every).columns(list(map(encode_document, documents)))
    if arrays is None:
        return None
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    batch.validate(full=True)
    return batch


def general(schema: pa.Schema, documents: list[dict[str, Any]]) -> pa.RecordBatch:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uniform, "LEAST", 1 << 30)
        return Columns(schema).batch(list(map(encode_document, documents)))


def same(one: pa.RecordBatch | None, other: pa.RecordBatch) -> bool:
    """Whether two batches are equal, and NaN is equal to itself."""
    return one is not None and one.schema == other.schema and repr(one.to_pylist()) == repr(other.to_pylist())


def column(found: pa.DataType, *values: Any) -> list[Any] | None:
    """The column of these values of ``v``, which has a neighbour on each side."""
    batch = quick(pa.schema([("v", found)]), [{"_id": 1, "v": each, "w": "x"} for each in values])
    return batch.column(0).to_pylist() if batch is not None else None


@given(st.lists(st.tuples(*(st.none() | each for each in FIELDS.values())), min_size=1))
def test_documents_with_the_same_fields_come_out_as_by_the_general_way(values: list[tuple[Any, ...]]) -> None:
    documents = [dict(zip(FIELDS, each, strict=True)) for each in values]
    assert quick(SCHEMA, documents) == general(SCHEMA, documents)


@given(st.lists(st.fixed_dictionaries({}, optional={name: st.none() | each for name, each in FIELDS.items()})))
def test_documents_that_lack_fields_come_out_as_by_the_general_way_or_not(
    documents: list[dict[str, Any]],
) -> None:
    assert quick(SCHEMA, documents) in (None, general(SCHEMA, documents))


@given(st.lists(objects(**OBJECTS), min_size=1))
def test_objects_and_arrays_come_out_as_by_the_general_way(documents: list[dict[str, Any]]) -> None:
    batch = quick(NESTED, documents)
    assert same(batch, general(NESTED, documents))


@given(st.lists(st.fixed_dictionaries({}, optional={name: st.none() | each for name, each in OBJECTS.items()})))
def test_objects_and_arrays_that_are_null_or_missing_come_out_as_by_the_general_way_or_not(
    documents: list[dict[str, Any]],
) -> None:
    found = quick(NESTED, documents)
    assert found is None or same(found, general(NESTED, documents))


@given(st.lists(objects(_id=INTEGERS, v=st.none() | VALUES), min_size=1, max_size=6))
def test_any_values_come_out_as_by_the_general_way_or_not(documents: list[dict[str, Any]]) -> None:
    """Strict columns, which refuse what they have no column for."""
    fields = Fields()
    fields.add(documents[:3])
    schema, stored = fields.schema(), list(map(encode_document, documents))
    root = Object(pa.struct(list(schema)), "", fields.shape())
    arrays = Uniform(root.declared, root.nodes, every=True).columns(stored)
    if arrays is not None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(uniform, "LEAST", 1 << 30)
            whole = Columns(schema, fields=fields).batch(stored)
        assert same(pa.RecordBatch.from_arrays(arrays, schema=schema), whole)


@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 300, 65_535, 65_536])
def test_arrays_of_every_form(length: int) -> None:
    row = [1] * length
    assert column(pa.list_(pa.int64()), *([row] * 16), []) == [*([row] * 16), []]


def test_one_long_array_is_left_to_the_general_way() -> None:
    assert column(pa.list_(pa.int64()), [1] * 16, [1]) is not None
    assert column(pa.list_(pa.int64()), [1] * 17, [1]) is None


def test_of_arrays_those_with_unlike_objects_are_left_to_the_general_way() -> None:
    found = pa.list_(pa.struct([("a", pa.int64()), ("b", pa.int64())]))
    rows: list[Any] = [[], [{"a": 1}, {"a": 2}], [{"a": 3}]]
    assert column(found, *rows) == [[], [{"a": 1, "b": None}, {"a": 2, "b": None}], [{"a": 3, "b": None}]]
    for odd in ([{"a": 1}, {"b": 1}], [{"a": 1}, 2], [2, {"a": 1}], [{"a": {"c": 1}}], [{"a": [1]}], [[1]]):
        assert column(found, *rows, odd) is None, odd
    assert column(pa.list_(pa.int64()), [1], [1, {}]) is None
    assert column(pa.list_(pa.list_(pa.int64())), [[1]]) is None


def test_objects_where_another_kind_is_declared_are_left_to_the_general_way() -> None:
    place, many = pa.struct([("x", pa.int64())]), pa.list_(pa.int64())
    assert column(place, {"x": 1}, None, {"x": 2}) == [{"x": 1}, None, {"x": 2}]
    assert column(many, [1], None, [2]) == [[1], None, [2]]
    for found, values in (
        (place, ([1], 1, {}, {"x": "x"})),
        (many, ({"x": 1}, 1, ["x"])),
        (pa.string(), ({"x": 1}, [1])),
    ):
        for value in values:
            assert column(found, value) is None, (found, value)
    assert column(pa.map_(pa.string(), pa.int64()), {"x": 1}) is None
    strict = pa.list_(pa.field("item", pa.int64(), nullable=False))
    assert column(strict, [1, 2]) == [[1, 2]]
    assert column(strict, [1, None]) is None
    assert column(pa.struct([pa.field("x", pa.int64(), nullable=False)]), {"x": None}) is None


@given(st.lists(st.sampled_from(["_id", "name", "price"]), max_size=3, unique=True), st.lists(VALUES, max_size=5))
def test_what_has_no_column_does_not_matter(names: list[str], others: list[Any]) -> None:
    schema = pa.schema([SCHEMA.field(name) for name in names])
    documents = [{"_id": 1, "other": each, "name": "n", "price": 1.5} for each in others]
    assert quick(schema, documents) in (None, general(schema, documents))


def test_documents_of_a_few_patterns_come_out_in_their_order() -> None:
    documents = [
        {"_id": row, "name": "n" * row} | ({"price": row / 2} if row % 3 else {}) | ({"new": 1} if row % 5 else {})
        for row in range(100)
    ]
    found = quick(SCHEMA, documents)
    assert found == general(SCHEMA, documents)
    assert found is not None
    assert found.column("_id").to_pylist() == list(range(100))


def test_of_too_many_patterns_it_lets_go() -> None:
    documents = [{"_id": row, f"f{row}": 1} for row in range(9)]
    assert quick(SCHEMA, documents[:8]) == general(SCHEMA, documents[:8])
    assert quick(SCHEMA, documents) is None


def test_names_that_are_alike_in_their_beginning_are_told_apart() -> None:
    name = "a name that is longer than eight bytes, and longer than sixteen"
    documents = [{name: 1}, {name[:-1] + "N": 2}, {name[:10] + "_" + name[11:]: 3}, {name: 4}, {"s": 5}]
    found = quick(pa.schema([(name, pa.int64())]), documents)
    assert found is not None
    assert found.column(0).to_pylist() == [1, None, None, 4, None]


def test_a_field_in_another_place_is_the_same_field() -> None:
    documents = [{"a": 1, "b": 2}, {"b": 3, "a": 4}, {"c": 5, "a": 6}]
    found = quick(pa.schema([("a", pa.int64())]), documents)
    assert found is not None
    assert found.column(0).to_pylist() == [1, 4, 6]


def test_a_field_that_the_first_document_lacks_is_not_taken_for_missing_in_others() -> None:
    documents = [{"a": 1, "b": 2}, {"a": 3, "c": 4}]
    assert quick(pa.schema([("a", pa.int64()), ("c", pa.int64())]), documents) == general(
        pa.schema([("a", pa.int64()), ("c", pa.int64())]), documents
    )


@pytest.mark.parametrize("count", [15, 16, 300])
def test_any_number_of_fields(count: int) -> None:
    names = [f"f{each}" for each in range(count)]
    documents = [{name: place * row for place, name in enumerate(names)} for row in range(3)]
    schema = pa.schema([(name, pa.int64()) for name in reversed(names)])
    assert quick(schema, documents) == general(schema, documents)


@pytest.mark.parametrize("length", LENGTHS)
def test_strings_and_bytes_of_every_form(length: int) -> None:
    for text in ("x" * length, "é" * (length // 2)):
        assert column(pa.string(), text, "", None, text) == [text, "", None, text]
        assert column(pa.large_string(), text) == [text]
    assert column(pa.binary(), b"\xff" * length, None) == [b"\xff" * length, None]
    assert column(pa.large_binary(), b"\xff" * length) == [b"\xff" * length]


def test_integers_of_every_form() -> None:
    assert column(pa.int64(), *NUMBERS, None) == [*NUMBERS, None]
    assert column(pa.float64(), *NUMBERS, None, 0.5) == [*map(float, NUMBERS), None, 0.5]
    for number in NUMBERS:
        assert column(pa.int64(), number, number) == [number, number]


@pytest.mark.parametrize(
    ("found", "values"),
    [
        (pa.int64(), [2**63, 1.0, True, "1", b"1", 2**70, Decimal(1), datetime(2026, 1, 1), [], {}]),
        (pa.int8(), [128, -129]),
        (pa.uint8(), [256, -1]),
        (pa.float64(), ["1", True, 2**63, 2**70, Decimal(1)]),
        (pa.bool_(), [0, 1, "true"]),
        (pa.string(), [1, b"x", True, UUID(int=1)]),
        (pa.binary(), ["x"]),
        (pa.timestamp("us", "UTC"), [1, "2026", UUID(int=1)]),
        (pa.timestamp("s", "UTC"), [datetime(2026, 1, 1, 0, 0, 0, 1)]),
        (pa.date32(), [datetime(2026, 1, 1, 1)]),
        (pa.decimal128(3, 1), [Decimal("0.01"), 1.5]),
        (pa.null(), [0, "x"]),
    ],
    ids=str,
)
def test_at_a_value_of_another_kind_it_lets_go(found: pa.DataType, values: list[Any]) -> None:
    good = {"bool": True, "string": "x", "binary": b"x", "double": 1.5, "null": None, "decimal128(3, 1)": 1}
    fits = good.get(str(found), datetime(2026, 1, 1) if pa.types.is_temporal(found) else 1)
    assert column(found, fits, fits) is not None
    for value in values:
        assert column(found, fits, value, fits) is None, value


def test_uuids_alone_are_strings() -> None:
    assert column(pa.string(), UUID(int=1), None) == [str(UUID(int=1)), None]


def test_null_in_a_column_that_is_declared_without_is_left_to_the_general_way() -> None:
    strict = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    assert quick(strict, [{"a": 1}, {"a": 2}]) is not None
    assert quick(strict, [{"a": 1}, {"a": None}]) is None
    assert quick(strict, [{"a": 1}, {"b": 1}]) is None


def test_a_field_without_a_column_matters_where_every_one_must_have_one() -> None:
    schema = pa.schema([("a", pa.int64())])
    assert quick(schema, [{"a": 1}, {"a": 2}], every=True) is not None
    assert quick(schema, [{"a": 1}, {"a": 2, "b": 3}], every=True) is None
    assert quick(schema, [{"a": 1, "b": 3}], every=True) is None


def test_objects_behind_the_last_wanted_field_are_not_met() -> None:
    schema = pa.schema([("a", pa.int64())])
    assert quick(schema, [{"a": 1, "b": {}}, {"a": 2, "b": []}]) is not None
    assert quick(schema, [{"b": {}, "a": 1}]) is None


def test_damaged_documents_are_left_to_the_general_way() -> None:
    root = Object(pa.struct([("a", pa.string()), ("b", pa.int64())]), "", None)
    good = encode_document({"a": "text", "b": 1})
    for damaged in (
        b"",
        b"\xc1",
        good[:3],
        good[:-1],
        good.replace(b"text", b"\xff\xfe\xfd\xfc"),
        good[:3] + b"\xdb\xff\xff",
    ):
        assert Uniform(root.declared, root.nodes, every=False).columns([good, damaged]) is None, damaged
    for cut in range(1, 5):
        assert Uniform(root.declared, root.nodes, every=False).columns([good, good[: 7 - cut], good]) is None, cut


def test_damaged_arrays_are_left_to_the_general_way() -> None:
    root = Object(pa.struct([("a", pa.list_(pa.int64()))]), "", None)
    good = encode_document({"a": [1, 2]})
    assert Uniform(root.declared, root.nodes, every=False).columns([good, good]) is not None
    for damaged in (
        good[:-1],
        good[:-2],
        *(good[:3] + each for each in (b"\xdd\xff\xff\xff\xff", b"\xdc\x00", b"\x9f")),
    ):
        assert Uniform(root.declared, root.nodes, every=False).columns([good, damaged]) is None, damaged


def test_after_letting_go_it_tries_again_later_and_later() -> None:
    root = Object(pa.struct([("a", pa.int64())]), "", None)
    tried = Uniform(root.declared, root.nodes, every=False)
    good, odd = [encode_document({"a": 1})], [encode_document({"a": []})]
    assert [tried.columns(each) is not None for each in (good, odd, good, good, odd, good, good, good, good, odd)] == [
        *(True, False, False, True),
        *(False, False, True, True, True, False),
    ]
    assert [tried.columns(each) is not None for each in (odd, odd, good, good, good, good)] == [
        *(False, False, False, False, False, True),
    ]


@pytest.mark.parametrize("mode", list(Mode))
def test_columns_treat_a_misfit_among_many_as_the_mode_says(mode: Mode) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    documents = [{"_id": row, "name": "n", "at": moment + timedelta(seconds=row)} for row in range(300)]
    documents[200]["name"] = 5
    columns = Columns(SCHEMA, mode=mode)
    stored = list(map(encode_document, documents))
    if mode is Mode.FAILFAST:
        with pytest.raises(Exception, match="document with _id 200, field 'name'"):
            columns.batch(stored)
    else:
        batch = columns.batch(stored)
        assert batch.num_rows == (299 if mode is Mode.DROPMALFORMED else 300)
    assert columns.batch(stored[:200]).column("_id").to_pylist() == list(range(200))


def test_a_conversion_does_not_import_pandas(tmp_path: Path) -> None:
    """Importing it takes longer than converting 100,000 documents."""
    pytest.importorskip("pandas")
    program = """if True:
        import sys
        import lowtide
        with lowtide.open(sys.argv[1]) as store:
            store["c"].insert_many([{"_id": n, "a": "x", "b": [1.5, None], "c": {"d": n % 2 == 0}} for n in range(999)])
            assert store["c"].to_arrow().num_rows == 999
        assert "pandas" not in sys.modules
        """
    subprocess.run([sys.executable, "-c", program, tmp_path / "store"], check=True)
