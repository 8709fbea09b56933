"""Keys, rows and timestamps: decoding returns what was encoded, and the bytes sort like the values."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lowtide.engine import types
from lowtide.engine.base import codec
from lowtide.engine.base.codec import MAX_TS
from lowtide.engine.base.history import Interval, decode_interval
from lowtide.engine.base.names import check_keyspaces, check_name
from lowtide.engine.log.frame import is_prefix
from lowtide.engine.transaction.catalog import NOWHERE, Catalog
from lowtide.errors import UsageError
from tests.fuzz.guard import bounded, ours
from tests.fuzz.profile import pure

_ts = st.integers(0, MAX_TS)
_number = st.integers(1, 0xFFFF_FFFD)
_anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.text(st.characters(), max_size=300),
    st.binary(),
    st.lists(st.text(max_size=5), max_size=3),
    st.dictionaries(st.text(max_size=3), st.none(), max_size=2),
)


@pure
@given(_ts, _ts, st.binary(), st.binary())
def test_rows_order_by_their_timestamp_and_come_back(one: int, two: int, first: bytes, second: bytes) -> None:
    row, other = codec.encode_row(one, first), codec.encode_row(two, second)
    assert (codec.row_ts(row), codec.row_value(row), codec.is_tombstone(row)) == (one, first, False)
    if one != two:
        assert (row < other) == (one < two)
    assert (row < codec.horizon(two)) == (one <= two)
    tombstone = codec.encode_tombstone(one)
    assert (codec.row_ts(tombstone), codec.is_tombstone(tombstone)) == (one, True)
    assert not tombstone < codec.horizon(two)
    assert row < codec.LATEST <= tombstone


@pure
@given(_number, _number, st.binary(max_size=12), st.binary(max_size=12))
def test_full_keys_order_by_keyspace_and_then_by_key(one: int, two: int, first: bytes, second: bytes) -> None:
    prefix, other = codec.encode_keyspace(one), codec.encode_keyspace(two)
    assert codec.decode_keyspace(prefix) == one
    assert is_prefix(prefix)
    assert (prefix + first < other + second) == ((one, first) < (two, second))


@pure
@given(st.binary(max_size=6), st.binary(max_size=6))
def test_a_prefix_ends_where_no_key_begins_with_it_any_more(prefix: bytes, key: bytes) -> None:
    beyond = types.after_prefix(prefix)
    if beyond is None:
        assert set(prefix) <= {0xFF}
    else:
        assert prefix < beyond
        assert (prefix <= key < beyond) == key.startswith(prefix)


@pure
@given(_ts, _ts, st.binary(min_size=4, max_size=40))
def test_an_interval_comes_back_from_its_row(begin: int, end: int, key: bytes) -> None:
    interval = Interval(begin, end, key)
    assert decode_interval(interval.row_key) == interval
    assert interval.row_key == interval.index_value + key


@pure
@given(st.binary(max_size=40))
def test_rows_of_any_bytes_have_a_timestamp_and_a_value(data: bytes) -> None:
    assert 0 <= codec.row_ts(data) < 1 << 63
    assert bounded(len(data), lambda: codec.encode_row(codec.row_ts(data), codec.row_value(data)))
    decode_interval(data)


@pure
@given(_anything)
def test_a_name_of_anything_is_a_name_or_refused(name: object) -> None:
    refused = isinstance(ours(100, lambda: check_name(name)), UsageError)
    assert refused == (not _is_name(name))
    prefix = ours(100, lambda: Catalog([]).prefix_of(name))  # type: ignore[arg-type]
    assert isinstance(prefix, UsageError) if refused else isinstance(prefix, bytes) and prefix != NOWHERE
    ours(100, lambda: check_keyspaces(name))  # type: ignore[arg-type]


def _is_name(name: object) -> bool:
    if not isinstance(name, str) or not name:
        return False
    try:
        return len(name.encode()) <= 200
    except UnicodeEncodeError:
        return False


@pure
@given(_anything)
def test_a_value_of_anything_is_bytes_or_refused(value: object) -> None:
    found = ours(100, lambda: types.check_value(value))
    assert isinstance(found, UsageError) == (not isinstance(value, bytes))
