"""Encoded keys, timestamps and rows sort as bytes exactly like the values (I3, G4)."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from lowtide.engine import types
from lowtide.engine.base import codec

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
    assert codec.decode_keyspace(full[: types.KEYSPACE_PREFIX]) == first
