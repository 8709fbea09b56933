"""Keys, timestamps and rows compare as bytes exactly as what they stand for (I3, G4)."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from lowtide.engine.base import codec
from lowtide.errors import UsageError

timestamps = st.integers(0, (1 << 63) - 2) | st.integers(0, 20)
values = st.binary(max_size=12)
numbers = st.integers(0, (1 << 32) - 1) | st.integers(0, 20)
keys = st.binary(max_size=6) | st.text("\x00a\xff", max_size=5).map(lambda text: text.encode("latin-1"))


@given(timestamps)
def test_a_timestamp_survives_encoding(ts: int) -> None:
    assert codec.decode_ts(codec.encode_ts(ts)) == ts
    assert codec.decode_ts(codec.encode_ts(ts) + b"what follows") == ts


@given(timestamps, timestamps)
def test_timestamps_compare_as_their_bytes_do(first: int, second: int) -> None:
    assert (codec.encode_ts(first) < codec.encode_ts(second)) == (first < second)


@given(timestamps, values)
def test_a_row_survives_encoding(ts: int, value: bytes) -> None:
    row = codec.encode_row(ts, value)
    assert (codec.row_ts(row), codec.row_value(row), codec.is_tombstone(row)) == (ts, value, False)


@given(timestamps)
def test_a_tombstone_keeps_its_timestamp_and_has_no_value(ts: int) -> None:
    row = codec.encode_tombstone(ts)
    assert (codec.row_ts(row), codec.row_value(row), codec.is_tombstone(row)) == (ts, b"", True)


@given(timestamps, timestamps, values)
def test_a_row_is_below_the_horizon_iff_it_is_visible(ts: int, reader: int, value: bytes) -> None:
    """One comparison of bytes decides, whatever the value starts with; ``begin == t`` is visible (G4)."""
    assert (codec.encode_row(ts, value) < codec.horizon(reader)) == (ts <= reader)


@given(timestamps, timestamps)
def test_a_tombstone_is_below_no_horizon(ts: int, reader: int) -> None:
    assert not codec.encode_tombstone(ts) < codec.horizon(reader)
    assert codec.encode_tombstone(ts) >= codec.LATEST


@given(timestamps, values)
def test_every_row_that_is_no_tombstone_is_below_latest(ts: int, value: bytes) -> None:
    assert codec.encode_row(ts, value) < codec.LATEST


@given(numbers, keys, numbers, keys)
def test_full_keys_sort_by_keyspace_and_then_by_key(first: int, key: bytes, second: int, other: bytes) -> None:
    full, full_other = codec.encode_keyspace(first) + key, codec.encode_keyspace(second) + other
    assert (full < full_other) == ((first, key) < (second, other))
    assert codec.decode_keyspace(full[: codec.KEYSPACE_PREFIX]) == first


@given(keys, keys, st.booleans())
def test_exactly_the_keys_with_a_prefix_lie_between_it_and_its_end(prefix: bytes, key: bytes, inside: bool) -> None:
    key = prefix + key if inside else key
    end = codec.after_prefix(prefix)
    within = prefix <= key and (end is None or key < end)
    assert within == key.startswith(prefix)


@pytest.mark.parametrize("prefix", [b"", b"\xff", b"\xff\xff\xff"])
def test_a_prefix_of_highest_bytes_only_has_no_end(prefix: bytes) -> None:
    assert codec.after_prefix(prefix) is None


def test_a_prefix_that_ends_in_the_highest_byte_carries_over() -> None:
    assert codec.after_prefix(b"a\xff\xff") == b"b"


def test_the_longest_key_is_taken_and_a_longer_one_refused() -> None:
    prefix = codec.encode_keyspace(1)
    codec.check_key(prefix + b"k" * codec.MAX_KEY)
    with pytest.raises(UsageError, match=r"491 bytes long at most, this one is 492: b'kkk"):
        codec.check_key(prefix + b"k" * (codec.MAX_KEY + 1))


@pytest.mark.parametrize("value", [b"plain", bytearray(b"plain"), memoryview(b"plain")])
def test_a_value_becomes_bytes_of_its_own(value: object) -> None:
    assert codec.check_value(value) == b"plain"
    assert type(codec.check_value(value)) is bytes


@pytest.mark.parametrize("value", ["text", 7, None, [b"x"]])
def test_what_is_not_bytes_is_refused_as_a_value(value: object) -> None:
    with pytest.raises(UsageError, match=rf"not {type(value).__name__}; use delete\(\)"):
        codec.check_value(value)


def test_a_value_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "MAX_VALUE", 3)
    assert codec.check_value(b"123") == b"123"
    with pytest.raises(UsageError, match="3 bytes long at most, this one is 4"):
        codec.check_value(b"1234")


def test_a_bad_key_is_named_in_the_error() -> None:
    assert "not int: 7" in str(codec.bad_key(7))
