"""The stored form of documents: every value is read back unchanged, and an error names the path of an invalid one."""

from __future__ import annotations

import enum
from collections import OrderedDict, UserDict, namedtuple
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from types import MappingProxyType
from typing import Any
from uuid import UUID, SafeUUID, uuid4

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given, settings

from lowtide.errors import InvalidDocument
from lowtide.values.cleaning import MAX_DEPTH
from lowtide.values.codec import (
    MAX_DOCUMENT,
    clean,
    decode_document,
    decode_value,
    encode_changed,
    encode_document,
    encode_plain,
    encode_value,
)
from tests.unit.documents.everything import values


def stored(value: Any) -> Any:
    return decode_document(encode_document({"v": value}))["v"]


def same(first: Any, second: Any) -> bool:
    """Equal, of the same types all the way down, and with the same order of fields and the same sign of zero."""
    if type(first) is not type(second):
        return False
    if isinstance(first, dict):
        return list(first) == list(second) and all(same(first[name], second[name]) for name in first)
    if isinstance(first, list):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, datetime):
        return bool(first == second and first.utcoffset() == second.utcoffset())
    if isinstance(first, Decimal):
        return bool(first.as_tuple() == second.as_tuple())
    return bool(first == second) and repr(first) == repr(second)


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, False, 0, -1, 2**63 - 1, -(2**63), 2**64 - 1, "", "\x00", "\U0001f30a", b"", b"\x00\xff"),
        *(-0.0, 0.0, 5e-324, 1.7976931348623157e308, float("inf"), float("-inf")),
        *(UUID(int=0), UUID(int=2**128 - 1), [], [[]], {}, {"": {"": []}}, {"a.b": {"c d": 1}}, [1, [2, {"a": [3]}]]),
    ],
    ids=repr,
)
def test_simple_values_come_back_as_they_were(value: Any) -> None:
    assert same(stored(value), value)


@pytest.mark.parametrize(
    "value", [2**64, -(2**63) - 1, 2**64 - 2**71, 255 * 2**64, -(2**71), 10**5000, -(10**5000)], ids=hex
)
def test_integers_beyond_64_bits_come_back_as_they_were(value: int) -> None:
    found = stored(value)
    assert type(found) is int
    assert found == value


@pytest.mark.parametrize(
    "text", ["0", "-0", "0E+3", "1.50", "1E+3", "1E-999999", "9" * 60 + ".1", "Infinity", "-Infinity", "-1.00E+400"]
)
def test_decimals_come_back_digit_by_digit(text: str) -> None:
    assert stored(Decimal(text)).as_tuple() == Decimal(text).as_tuple()


@pytest.mark.parametrize(
    "moment",
    [
        *(datetime.min, datetime.max, datetime(1970, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999_999)),
        *(datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC), datetime(2020, 2, 29, 1, 2, 3, 4, UTC)),
        datetime(2020, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=30))),
        datetime(2020, 1, 1, tzinfo=timezone(-timedelta(hours=23, minutes=59, seconds=59, microseconds=999_999))),
        datetime(2020, 1, 1, tzinfo=timezone(timedelta(microseconds=1))),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
        datetime.max.replace(tzinfo=timezone(-timedelta(hours=12))),
    ],
    ids=str,
)
def test_datetimes_come_back_with_their_offset(moment: datetime) -> None:
    assert same(stored(moment), moment)


def test_a_zone_comes_back_as_its_offset() -> None:
    zone = timezone(timedelta(0), "GMT")
    assert stored(datetime(2020, 1, 1, tzinfo=zone)).tzinfo == UTC
    named = timezone(timedelta(hours=1), "CET")
    assert stored(datetime(2020, 1, 1, tzinfo=named)).tzinfo == timezone(timedelta(hours=1))


@settings(max_examples=200)
@given(st.lists(st.dictionaries(st.sampled_from("abc"), values, max_size=3), max_size=4))
def test_every_way_to_encode_a_document_gives_the_same(documents: list[dict[str, Any]]) -> None:
    expected = list(map(encode_document, documents))
    assert list(map(encode_changed, documents)) == expected
    assert encode_plain(documents) in (expected, None)


def test_plain_documents_are_encoded_together() -> None:
    documents = [{"_id": 1, "a": "x", "b": None}, {"_id": "y", "c": 1.5, "d": True, "e": b"x"}]
    assert encode_plain(documents) == list(map(encode_document, documents))


@pytest.mark.parametrize("value", [float("nan"), "\ud800", object(), [float("nan")]])
def test_what_cannot_be_stored_is_refused_however_it_is_encoded(value: Any) -> None:
    assert encode_plain([{"a": 1}, {"a": value}]) is None
    with pytest.raises(InvalidDocument):
        encode_changed({"a": value})


def test_a_document_that_is_too_large_is_refused_however_it_is_encoded() -> None:
    large = {"a": "x" * MAX_DOCUMENT}
    assert encode_plain([large]) is None
    with pytest.raises(InvalidDocument):
        encode_changed(large)


@given(values)
def test_whatever_can_be_stored_comes_back_exactly(value: Any) -> None:
    assert same(stored(value), value)
    assert same(clean(value), value)
    assert same(decode_value(encode_value(value)), value)


class _Level(enum.IntEnum):
    HIGH = 3


class _Colour(enum.StrEnum):
    RED = "red"


class _Text(str):
    def __str__(self) -> str:
        return "something else"


class _Real(float):
    pass


class _Moment(datetime):
    pass


class _Exact(Decimal):
    pass


class _Marked(UUID):
    pass


_Pair = namedtuple("_Pair", "x y")


@pytest.mark.parametrize(
    ("given_value", "back"),
    [
        *(((1, (2,)), [1, [2]]), (_Pair(1, 2), [1, 2]), (_Level.HIGH, 3), (_Colour.RED, "red"), (_Text("t"), "t")),
        *((_Real(1.5), 1.5), (_Moment(2020, 1, 1), datetime(2020, 1, 1)), (_Exact("1.0"), Decimal("1.0"))),
        *((bytearray(b"ab"), b"ab"), (memoryview(b"ab"), b"ab"), (_Marked(int=5), UUID(int=5))),
        *((OrderedDict(b=1, a=2), {"b": 1, "a": 2}), (UserDict(a=1), {"a": 1}), (MappingProxyType({"a": 1}), {"a": 1})),
        *(({_Text("n"): 1}, {"n": 1}), ({_Colour.RED: _Level.HIGH}, {"red": 3})),
        *((UUID(int=7, is_safe=SafeUUID.safe), UUID(int=7)), ([(1,), {"a": (2,)}], [[1], {"a": [2]}])),
    ],
    ids=lambda each: type(each).__name__,
)
def test_subclasses_and_tuples_come_back_as_the_plain_types(given_value: Any, back: Any) -> None:
    for found in (stored(given_value), clean(given_value)):
        assert found == back
        assert type(found) is type(back)


@dataclass
class _Agreeable:
    """msgspec encodes it as an object."""

    a: int = 1


@pytest.mark.parametrize(
    ("inner", "back"),
    [
        ((1, 2), [1, 2]),
        (Decimal("1.50"), Decimal("1.50")),
        (UUID(int=7), UUID(int=7)),
        (datetime(2020, 1, 1), datetime(2020, 1, 1)),
        (datetime(2020, 1, 1, tzinfo=timezone(timedelta(hours=2))), None),
        (b"bytes", b"bytes"),
        (2**80, 2**80),
        (-0.0, -0.0),
        (True, True),
        (_Level.HIGH, 3),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        ([[[[[[[["deep"]]]]]]]], None),
        ({"a": {"b": {"c": {"d": {"e": {"f": {"g": 1}}}}}}}, None),
    ],
    ids=repr,
)
def test_nested_values_are_stored_as_they_are_at_the_top(inner: Any, back: Any) -> None:
    for nested in ({"x": inner}, [inner], [{"x": [inner]}]):
        wanted = clean(nested)
        assert same(stored(nested), wanted)
        assert same(stored({"n": 1, "y": nested}), {"n": 1, "y": wanted})
    assert same(stored({"x": inner})["x"], inner if back is None else back)


@pytest.mark.parametrize(
    "inner",
    [{1, 2}, {1: 2}, {b"x": 1}, date(2020, 1, 1), timedelta(1), _Agreeable(), msgspec.msgpack.Ext(1, b"x")],
    ids=lambda inner: type(inner).__name__,
)
def test_nested_values_that_msgspec_would_encode_are_refused_all_the_same(inner: Any) -> None:
    for nested in ({"x": inner}, [inner], [{"x": [inner]}]):
        for encode in (encode_document, encode_changed):
            with pytest.raises(InvalidDocument):
                encode({"a": 1, "b": nested})


def test_numbers_of_a_subclass_keep_their_size() -> None:
    class Large(int):
        pass

    assert stored(Large(2**80)) == 2**80
    assert type(stored([Large(2**80)])[0]) is int


def _deep(levels: int, leaf: Any, array: bool) -> Any:
    value = leaf
    for _ in range(levels):
        value = [value] if array else {"a": value}
    return value


_LOOP: dict[str, Any] = {"x": {"y": []}}
_LOOP["x"]["y"].append(_LOOP)
_RING: list[Any] = []
_RING.append(_RING)


@pytest.mark.parametrize(
    ("document", "path", "reason"),
    [
        ([], "", "a document is a dict, not list"),
        (None, "", "a document is a dict, not NoneType"),
        ({"a": float("nan")}, "a", "NaN"),
        ({"a": [1, {"b": float("nan")}]}, "a.1.b", "NaN"),
        ({"a": Decimal("NaN")}, "a", "NaN"),
        ({"a": (Decimal("sNaN"),)}, "a.0", "NaN"),
        ({"a": _Real("nan")}, "a", "NaN"),
        ({1: "x"}, "", "names of fields are strings, not int 1"),
        ({"a": {"b": {None: 1}}}, "a.b", "names of fields are strings, not NoneType"),
        ({"a": [{b"x": 1}]}, "a.0", "names of fields are strings, not bytes"),
        ({"a": {1, 2}}, "a", "set"),
        ({"a": {"b": [object]}}, "a.b.0", "type"),
        ({"a": date(2020, 1, 1)}, "a", "date"),
        ({"a": 1j}, "a", "complex"),
        ({"a": timedelta(1)}, "a", "timedelta"),
        ({"$set": 1}, "$set", "may not begin with $"),
        ({"a": [{"b": {"$gt": 1}}]}, "a.0.b.$gt", "may not begin with $"),
        ({"a": "\ud800"}, "a", "no Unicode text"),
        ({"a": ["b", {"c": "\udfff"}]}, "a.1.c", "no Unicode text"),
        ({"a": {"\ud800": 1}}, "a", "no Unicode text"),
        ({"a": {"ok": (1, "\ud800")}}, "a.ok.1", "no Unicode text"),
        (_LOOP, ".".join(["x.y.0"] * 34)[:-4], "nests deeper than 100 levels; does it contain itself?"),
        ({"r": _RING}, "r" + ".0" * 99, "nests deeper than 100 levels; does it contain itself?"),
    ],
    ids=lambda each: repr(each)[:40] if not isinstance(each, str) else None,
)
def test_what_cannot_be_stored_is_refused_by_its_path(document: Any, path: str, reason: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        encode_document(document)
    assert caught.value.path == path
    assert reason in str(caught.value)
    assert (repr(path) in str(caught.value)) == bool(path)


@pytest.mark.parametrize("array", [False, True])
def test_documents_nest_up_to_the_limit(array: bool) -> None:
    deepest = {"top": _deep(MAX_DEPTH - 1, 1, array)}
    assert decode_document(encode_document(deepest)) == deepest
    with pytest.raises(InvalidDocument, match="nests deeper"):
        encode_document({"top": _deep(MAX_DEPTH, 1, array)})


def test_a_document_over_the_limit_is_refused_by_its_largest_field() -> None:
    room = MAX_DOCUMENT - 100
    assert decode_document(encode_document({"a": b"x" * room}))["a"][:1] == b"x"
    with pytest.raises(InvalidDocument) as caught:
        encode_document({"small": 1, "large": b"x" * room, "other": "y" * 200})
    assert caught.value.path == "large"
    assert "the limit is 16,777,216" in str(caught.value)


def test_a_dollar_is_only_refused_at_the_beginning_of_a_name() -> None:
    document = {"a$": "$set", "b": ["$gt", {"c$d": "$"}]}
    assert decode_document(encode_document(document)) == document
    assert decode_value(encode_value({"$gt": 1})) == {"$gt": 1}, "a filter is no document"


def test_what_is_encoded_stays_as_it_is() -> None:
    inner = (1, 2**70)
    document: dict[str, Any] = {"a": inner, "b": {"c": Decimal(1)}, "d": [uuid4()]}
    before = {**document, "b": dict(document["b"]), "d": list(document["d"])}
    encode_document(document)
    clean(document)
    assert document == before
    assert document["a"] is inner


def test_each_decoding_and_cleaning_is_a_copy_of_its_own() -> None:
    encoded = encode_document({"a": [{"b": 1}]})
    first, second = decode_document(encoded), decode_document(encoded)
    first["a"][0]["b"] = 2
    assert second == {"a": [{"b": 1}]}
    operand = {"a": [{"b": 1}]}
    copied = clean(operand)
    copied["a"][0]["b"] = 2
    assert operand == {"a": [{"b": 1}]}


@pytest.mark.parametrize("value", [{"a": {1}}, float("nan"), [Decimal("NaN")], {1: 2}], ids=repr)
def test_clean_refuses_what_no_document_can_hold(value: Any) -> None:
    with pytest.raises(InvalidDocument):
        clean(value, "somewhere")


def test_clean_names_the_path_that_it_was_given() -> None:
    with pytest.raises(InvalidDocument) as caught:
        clean({"a": [float("nan")]}, "$set.x")
    assert caught.value.path == "$set.x.a.0"


def test_any_mapping_is_a_document() -> None:
    class Lazy(Mapping[str, Any]):
        def __getitem__(self, name: str) -> Any:
            return {"_id": 1, "a": (2,)}[name]

        def __iter__(self) -> Any:
            return iter(("_id", "a"))

        def __len__(self) -> int:
            return 2

    assert decode_document(encode_document(Lazy())) == {"_id": 1, "a": [2]}


def test_an_unknown_extension_is_an_error_and_not_a_wrong_value() -> None:
    with pytest.raises(Exception, match="unknown extension 9"):
        decode_document(b"\x81\xa1a\xd4\x09\x00")
