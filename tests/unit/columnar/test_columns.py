"""Declared columns: what fits, and what each mode does with the rest."""

from __future__ import annotations

import gc
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.columnar.columns import Columns, Mode
from lowtide.columnar.inference import JSON
from lowtide.errors import OperationFailure, UsageError, ValueMisfit
from lowtide.system.cycles import MANY
from lowtide.values.codec import encode_document
from tests.unit.columnar.documents import EARLY, LATE, VALUES, ZONES

pytestmark = pytest.mark.usefixtures("least")

MOMENT = datetime(2026, 5, 1, 12, 30, 15, 123456, tzinfo=UTC)
ODD = object()


def encoded(*values: Any) -> list[bytes]:
    """Documents with these values of ``v``; with ODD, without."""
    return [encode_document({"_id": row} | ({} if each is ODD else {"v": each})) for row, each in enumerate(values)]


def column(found: Any, *values: Any, mode: str = "PERMISSIVE") -> list[Any]:
    field = found if isinstance(found, pa.Field) else pa.field("v", found)
    batch = Columns(pa.schema([field]), mode=mode).batch(encoded(*values))
    batch.validate(full=True)
    assert batch.schema.field(0).equals(field, check_metadata=True)
    return list(batch.column(0).to_pylist())


@pytest.mark.parametrize(
    ("found", "fits", "does_not"),
    [
        (pa.bool_(), {True: True, False: False}, [0, 1.0, "true", None.__class__.__name__]),
        (pa.int64(), {2**63 - 1: 2**63 - 1, -5: -5}, [2**63, 1.0, True, "1", Decimal(1), 2**70]),
        (pa.int32(), {2**31 - 1: 2**31 - 1}, [2**31, -(2**31) - 1, 2**64]),
        (pa.int8(), {-128: -128}, [128]),
        (pa.uint8(), {255: 255}, [256, -1]),
        (pa.float64(), {1: 1.0, 2.5: 2.5, Decimal("0.5"): 0.5, 2**70: 2.0**70}, [10**38, "1", True, Decimal("inf")]),
        (pa.float32(), {1.5: 1.5, 7: 7.0}, ["x", MOMENT]),
        (pa.decimal128(5, 2), {Decimal("1.500"): Decimal("1.50"), 999: Decimal("999.00")}, [1000, Decimal("0.001")]),
        (pa.decimal128(5, 2), {Decimal("0E-9"): Decimal(0), -1: Decimal(-1)}, [1.5, "1", 10**400, Decimal("-inf")]),
        (pa.string(), {"x": "x", "": "", UUID(int=1): str(UUID(int=1))}, [1, b"x", MOMENT, True]),
        (pa.large_string(), {"x": "x", UUID(int=2): str(UUID(int=2))}, [1]),
        (pa.binary(), {b"x": b"x", b"": b""}, ["x", UUID(int=1)]),
        (pa.timestamp("us", "UTC"), {MOMENT: MOMENT, MOMENT.replace(tzinfo=None): MOMENT}, ["2026", 5, UUID(int=1)]),
        (pa.timestamp("us"), {MOMENT: MOMENT.replace(tzinfo=None)}, [1.5]),
        (pa.timestamp("s", "UTC"), {datetime(2026, 5, 1): datetime(2026, 5, 1, tzinfo=UTC)}, [MOMENT]),
        (pa.timestamp("ns", "UTC"), {}, [datetime(9000, 1, 1)]),
        (pa.date32(), {datetime(2026, 5, 1): date(2026, 5, 1), datetime(1960, 1, 2): date(1960, 1, 2)}, [MOMENT, "x"]),
        (pa.null(), {}, [1, "x", [], {}]),
        (pa.field("v", pa.string(), metadata=JSON), {1: "1", "x": '"x"', b"x": '"eA=="'}, []),
    ],
    ids=str,
)
def test_what_fits_a_column(found: Any, fits: dict[Any, Any], does_not: list[Any]) -> None:
    """Each by itself, all together, and beside null and what is missing."""
    for value, is_held in fits.items():
        assert column(found, value) == [is_held]
        assert column(found, None, value, ODD, mode="FAILFAST") == [None, is_held, None]
    for value in does_not:
        assert column(found, value) == [None], value
        with pytest.raises(ValueMisfit):
            column(found, value, mode="FAILFAST")
    assert column(found, *fits, *does_not) == [*fits.values(), *[None] * len(does_not)]


@pytest.mark.parametrize(
    ("found", "value", "is_held", "paths"),
    [
        (pa.struct([("a", pa.int64()), ("b c", pa.string())]), {"b c": "x", "z": 1}, {"a": None, "b c": "x"}, []),
        (pa.struct([("a", pa.int64())]), {"a": "x"}, {"a": None}, ["v.a"]),
        (pa.struct([("a", pa.int64())]), [1], None, ["v"]),
        (pa.struct([("a", pa.struct([("b", pa.int64())]))]), {"a": {"b": 1.5}}, {"a": {"b": None}}, ["v.a.b"]),
        (pa.struct([("a", pa.struct([("b", pa.int64())]))]), {"a": 1}, {"a": None}, ["v.a"]),
        (pa.struct([]), {"a": 1}, {}, []),
        (pa.list_(pa.int64()), [1, None, "x", 2**63], [1, None, None, None], ["v.2", "v.3"]),
        (pa.list_(pa.int64()), [1, 2**63, 3], [1, None, 3], ["v.1"]),
        (pa.list_(pa.int64()), {"0": 1}, None, ["v"]),
        (pa.large_list(pa.string()), ["x", 1], ["x", None], ["v.1"]),
        (
            pa.list_(pa.list_(pa.int64())),
            [[1], [], None, [2, "x"], 5],
            [[1], [], None, [2, None], None],
            ["v.3.1", "v.4"],
        ),
        (
            pa.list_(pa.struct([("a", pa.bool_())])),
            [{"a": True}, {}, {"a": 1}],
            [{"a": True}, {"a": None}, {"a": None}],
            ["v.2.a"],
        ),
        (pa.list_(pa.timestamp("us", "UTC")), [MOMENT, "x"], [MOMENT, None], ["v.1"]),
        (
            pa.map_(pa.string(), pa.int64()),
            {"k": 1, "l": None, "m": "x"},
            [("k", 1), ("l", None), ("m", None)],
            ["v.m"],
        ),
        (pa.map_(pa.string(), pa.list_(pa.int64())), {"k": [1]}, [("k", [1])], []),
        (pa.map_(pa.string(), pa.int64()), "x", None, ["v"]),
    ],
    ids=str,
)
def test_what_fits_inside_of_objects_and_arrays(found: Any, value: Any, is_held: Any, paths: list[str]) -> None:
    good: Any = {"struct": {}, "list": [], "map": {}, "large_list": []}[str(found).partition("<")[0]]
    assert column(found, value) == [is_held]
    assert column(found, None, value, good, ODD, value)[1::3] == [is_held, is_held]
    schema = pa.schema([("v", found)])
    if paths:
        with pytest.raises(ValueMisfit) as caught:
            Columns(schema, mode="FAILFAST").batch(encoded(good, value))
        assert (caught.value.path, caught.value.document_id) == (paths[0], 1)
    assert Columns(schema, mode="DROPMALFORMED").batch(encoded(value, good)).num_rows == (1 if paths else 2)


SCHEMA = pa.schema([("_id", pa.int64()), ("age", pa.int64()), ("home", pa.struct([("zip", pa.string())]))])
PEOPLE = [
    {"_id": 1, "age": 30, "home": {"zip": "1011"}},
    {"_id": 2, "age": "old", "home": {"zip": 1012}},
    {"_id": 3, "age": 40, "home": {"zip": "1013"}, "more": True},
]


def test_failing_fast_names_collection_document_and_path() -> None:
    columns = Columns(SCHEMA, collection="people")
    with pytest.raises(ValueMisfit) as caught:
        columns.batch([encode_document(each) for each in PEOPLE])
    assert (caught.value.collection, caught.value.document_id, caught.value.path) == ("people", 2, "age")
    assert str(caught.value) == (
        "collection 'people', document with _id 2, field 'age': str 'old' does not fit its column, of type int64"
    )
    assert isinstance(caught.value, OperationFailure)


def test_the_cyclic_collector_is_as_it_was_after_a_large_batch_and_after_one_that_fails() -> None:
    fitting = [encode_document({"_id": number, "n": number}) for number in range(MANY)]
    columns = Columns(pa.schema([("n", pa.int64())]), collection="c", mode=Mode.FAILFAST)
    assert columns.batch(fitting).num_rows == MANY
    assert gc.isenabled()
    with pytest.raises(ValueMisfit):
        columns.batch([*fitting, encode_document({"_id": -1, "n": "text"})])
    assert gc.isenabled()
    gc.disable()
    try:
        columns.batch(fitting)
        assert not gc.isenabled(), "the program has switched it off"
    finally:
        gc.enable()


def test_dropping_leaves_out_the_document() -> None:
    batch = Columns(SCHEMA, mode="dropMalformed").batch([encode_document(each) for each in PEOPLE])
    assert batch.column("_id").to_pylist() == [1, 3]


def test_permissive_puts_null_and_goes_on() -> None:
    batch = Columns(SCHEMA, mode=Mode.PERMISSIVE).batch([encode_document(each) for each in PEOPLE])
    assert batch.column("age").to_pylist() == [30, None, 40]
    assert batch.column("home").to_pylist() == [{"zip": "1011"}, {"zip": None}, {"zip": "1013"}]


@pytest.mark.parametrize("declared", [False, True])
def test_permissive_may_keep_the_whole_document(declared: bool) -> None:
    schema = pa.schema([pa.field("_corrupt", pa.string()), *SCHEMA]) if declared else SCHEMA
    columns = Columns(schema, mode="PERMISSIVE", corrupt="_corrupt")
    assert columns.schema.names.index("_corrupt") == (0 if declared else 3)
    batch = columns.batch([encode_document(each) for each in PEOPLE])
    assert batch.schema == columns.schema
    assert batch.column("_corrupt").to_pylist() == [None, '{"_id":2,"age":"old","home":{"zip":1012}}', None]


def test_a_column_that_met_an_odd_value_goes_on_as_before() -> None:
    columns = Columns(SCHEMA, mode="PERMISSIVE")
    for _ in range(3):
        batch = columns.batch([encode_document(each) for each in PEOPLE])
        assert batch.column("age").to_pylist() == [30, None, 40]
        assert columns.batch([encode_document(PEOPLE[0])]).to_pylist() == [PEOPLE[0]]


def test_null_in_a_column_that_is_declared_without_is_a_misfit_that_no_null_can_mend() -> None:
    strict = pa.schema([pa.field("v", pa.int64(), nullable=False)])
    assert Columns(strict, mode="DROPMALFORMED").batch(encoded(1, None, ODD, "x")).column(0).to_pylist() == [1]
    for odd, words in ((None, "null or missing"), (ODD, "null or missing"), ("x", "str 'x' does not fit")):
        for mode in ("PERMISSIVE", "FAILFAST"):
            with pytest.raises(ValueMisfit, match=words):
                Columns(strict, mode=mode).batch(encoded(1, odd))
    inside = pa.schema([("v", pa.struct([pa.field("a", pa.int64(), nullable=False)]))])
    assert Columns(inside).batch(encoded(None, {"a": 1})).column(0).to_pylist() == [None, {"a": 1}]
    with pytest.raises(ValueMisfit, match=r"field 'v\.a'"):
        Columns(inside, mode="PERMISSIVE").batch(encoded({}))
    elements = pa.schema([("v", pa.list_(pa.field("item", pa.int64(), nullable=False)))])
    assert Columns(elements).batch(encoded(None, [1], [])).column(0).to_pylist() == [None, [1], []]
    with pytest.raises(ValueMisfit, match=r"field 'v\.1'"):
        Columns(elements, mode="PERMISSIVE").batch(encoded([1, None]))


@given(st.lists(st.none() | st.datetimes(EARLY, LATE, timezones=st.one_of(st.none(), ZONES))))
def test_datetimes_of_every_form_come_out_as_the_instant(moments: list[datetime | None]) -> None:
    utc = [each and (each.replace(tzinfo=UTC) if each.tzinfo is None else each) for each in moments]
    assert column(pa.timestamp("us", "UTC"), *moments, mode="FAILFAST") == utc


def test_datetimes_of_one_form_take_the_short_way() -> None:
    for zone in (None, UTC, timezone(timedelta(hours=1))):
        for step in (timedelta(days=400), timedelta(microseconds=1), timedelta(days=365 * 600)):
            moments = [datetime(1900, 1, 1, tzinfo=zone) + step * each for each in range(10)]
            utc = [each.replace(tzinfo=UTC) if zone is None else each for each in moments]
            assert column(pa.timestamp("us", "UTC"), *moments, mode="FAILFAST") == utc


@given(st.lists(st.none() | st.uuids() | st.text(max_size=40)), st.lists(st.none() | st.uuids()))
def test_uuids_come_out_as_their_text(mixed: list[Any], alone: list[Any]) -> None:
    for values in (mixed, alone):
        assert column(pa.string(), *values) == [None if each is None else str(each) for each in values]


TYPES = st.recursive(
    st.sampled_from([pa.int64(), pa.int8(), pa.string(), pa.timestamp("us", "UTC"), pa.decimal128(5, 2), pa.null()]),
    lambda inner: (
        st.builds(pa.list_, inner)
        | st.builds(lambda a, b: pa.struct([("a", a), ("b", b)]), inner, inner)
        | st.builds(lambda each: pa.map_(pa.string(), each), inner)
    ),
    max_leaves=4,
)


@given(TYPES, st.lists(VALUES, max_size=6))
def test_whatever_meets_whatever_the_modes_agree_on_what_fits(found: pa.DataType, values: list[Any]) -> None:
    schema = pa.schema([("v", found)])
    documents = encoded(*values)
    permissive = Columns(schema, mode="PERMISSIVE", corrupt="_corrupt").batch(documents)
    permissive.validate(full=True)
    odd = [each is not None for each in permissive.column("_corrupt").to_pylist()]
    alone = []
    for each in documents:
        try:
            alone.append(not Columns(schema).batch([each]).num_rows)
        except ValueMisfit:
            alone.append(True)
    assert odd == alone
    dropped = Columns(schema, mode="DROPMALFORMED").batch(documents)
    kept = permissive.filter(pa.array([not each for each in odd], pa.bool_())).column("v")
    assert dropped.column("v").equals(kept)


@pytest.mark.parametrize(
    ("schema", "options", "words"),
    [
        (pa.schema([("a", pa.time64("us"))]), {}, "column 'a' cannot be of type time64"),
        (pa.schema([("a", pa.struct([("b", pa.duration("s"))]))]), {}, "column 'a.b' cannot be of type duration"),
        (pa.schema([("a", pa.map_(pa.int64(), pa.int64()))]), {}, "map keys must be of type string"),
        (pa.schema([("a", pa.int64()), ("a", pa.int64())]), {}, "more than one column 'a'"),
        (pa.schema([("a", pa.int64())]), {"mode": "STRICT"}, "PERMISSIVE, DROPMALFORMED or FAILFAST, not 'STRICT'"),
        (pa.schema([("c", pa.int64())]), {"corrupt": "c"}, "must be of type string"),
    ],
    ids=str,
)
def test_what_cannot_be_declared_is_refused(schema: pa.Schema, options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Columns(schema, **options)


def test_without_the_library_the_error_says_what_to_install() -> None:
    program = """
import sys
sys.modules["pyarrow"] = None
import lowtide.documents
from lowtide.errors import UsageError
try:
    import lowtide.columnar
except UsageError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "pip install 'lowtide[arrow]'" in run.stdout


@pytest.mark.parametrize("mode", list(Mode))
def test_without_a_column_documents_are_counted(mode: Mode) -> None:
    batch = Columns(pa.schema([]), mode=mode).batch(encoded(1, "x", ODD))
    batch.validate(full=True)
    assert (batch.num_rows, batch.num_columns) == (3, 0)
    corrupt = Columns(pa.schema([]), mode=mode, corrupt="_corrupt").batch(encoded(1, "x", ODD))
    assert corrupt.to_pydict() == {"_corrupt": [None, None, None]}
