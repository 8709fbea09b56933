"""A chunk of an LMDB table is exactly the next n entries of a range, in either direction (I3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import hypothesis.strategies as st
import lmdb
import pytest
from hypothesis import given

from lowtide.engine.base import chunks
from lowtide.engine.base.chunks import distinct_keys, stretch, values_of_stretch
from tests.unit.engine.base.bases import temporary_directory

keys = st.binary(min_size=1, max_size=2) | st.sampled_from([b"\x00", b"a", b"a\x00", b"\xff", b"\xff\xff"])
tables = st.lists(keys, max_size=12).map(lambda found: {key: b"value of " + key for key in found})
bounds = st.none() | keys


@dataclass
class Scratch:
    """An LMDB environment with a table of each kind. What a test puts there is undone by aborting."""

    env: lmdb.Environment
    plain: lmdb._Database
    duplicates: lmdb._Database


@pytest.fixture(scope="module")
def scratch() -> Iterator[Scratch]:
    with temporary_directory() as directory:
        env = lmdb.open(str(directory), max_dbs=2)
        yield Scratch(env, env.open_db(b"plain"), env.open_db(b"duplicates", dupsort=True))
        env.close()


def within(table: list[bytes], low: bytes, high: bytes | None, reverse: bool) -> list[bytes]:
    return sorted((key for key in table if low <= key and (high is None or key < high)), reverse=reverse)


@given(tables, keys | st.just(b""), bounds, st.integers(1, 5), st.booleans())
def test_a_stretch_is_the_first_entries_of_the_range(
    scratch: Scratch, table: dict[bytes, bytes], low: bytes, high: bytes | None, limit: int, reverse: bool
) -> None:
    txn = scratch.env.begin(write=True)
    try:
        for key, value in table.items():
            txn.put(key, value, db=scratch.plain)
        entries, more = stretch(txn, scratch.plain, low, high, limit, reverse)
        expected = within(list(table), low, high, reverse)
        assert entries == [(key, table[key]) for key in expected[:limit]]
        assert more or len(expected) <= limit, "it must not say that nothing is left when something is"
        assert not more or len(entries) == limit
    finally:
        txn.abort()


@given(tables, keys | st.just(b""), bounds, st.integers(1, 5), st.booleans())
def test_stretches_that_resume_by_key_make_up_the_range(
    scratch: Scratch, table: dict[bytes, bytes], low: bytes, high: bytes | None, limit: int, reverse: bool
) -> None:
    txn = scratch.env.begin(write=True)
    try:
        for key, value in table.items():
            txn.put(key, value, db=scratch.plain)
        expected, found, more = within(list(table), low, high, reverse), [], True
        while more:
            entries, more = stretch(txn, scratch.plain, low, high, limit, reverse)
            found += [key for key, _ in entries]
            if entries:
                low, high = (low, entries[-1][0]) if reverse else (entries[-1][0] + b"\x00", high)
        assert found == expected
    finally:
        txn.abort()


@pytest.fixture(scope="module", params=[1, 2, 64])
def least_step(request: pytest.FixtureRequest) -> Iterator[int]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "_LEAST_STEP", request.param)
        yield request.param


@given(tables, keys | st.just(b""), bounds, st.integers(1, 5) | st.just(100))
def test_the_values_of_stretches_that_resume_by_key_make_up_the_range(
    scratch: Scratch, least_step: int, table: dict[bytes, bytes], low: bytes, high: bytes | None, limit: int
) -> None:
    txn = scratch.env.begin(write=True)
    try:
        for key, value in table.items():
            txn.put(key, value, db=scratch.plain)
        expected, found = within(list(table), low, high, False), []
        last: bytes | None = b""
        while last is not None:
            values, last = values_of_stretch(txn, scratch.plain, low, high, limit)
            assert len(values) <= limit
            found += values
            if last is not None:
                assert len(values) == limit
                assert values[-1] == table[last]
                low = last + b"\x00"
        assert found == [table[key] for key in expected]
    finally:
        txn.abort()


def test_large_values_make_a_stretch_short_and_the_next_goes_on(
    scratch: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "_MOST_BYTES", 1 << 16)
    table = {number.to_bytes(2, "big"): bytes([number % 256]) * 2000 for number in range(300)}
    txn = scratch.env.begin(write=True)
    try:
        for key, value in table.items():
            txn.put(key, value, db=scratch.plain)
        found, low, lengths = [], b"", []
        for _ in table:
            values, last = values_of_stretch(txn, scratch.plain, low, b"\x01\x20", 10_000)
            found += values
            lengths.append(len(values))
            if last is None:
                break
            low = last + b"\x00"
        assert found == list(table.values())[:288]
        assert max(lengths) * 2000 < 3 << 16
    finally:
        txn.abort()


@given(
    st.lists(st.tuples(keys, st.integers(0, 5)), max_size=16),
    keys | st.just(b""),
    bounds,
    st.integers(1, 4),
    st.booleans(),
)
def test_distinct_keys_counts_a_key_once_however_many_duplicates_it_has(
    scratch: Scratch,
    entries: list[tuple[bytes, int]],
    low: bytes,
    high: bytes | None,
    limit: int,
    reverse: bool,
) -> None:
    txn = scratch.env.begin(write=True)
    try:
        for key, number in entries:
            txn.put(key, b"%d" % number, db=scratch.duplicates)
        expected = within(list({key for key, _ in entries}), low, high, reverse)
        found, more = distinct_keys(txn, scratch.duplicates, low, high, limit, reverse)
        assert found == expected[:limit]
        assert more == (len(expected) > limit)
    finally:
        txn.abort()


@pytest.mark.parametrize("reverse", [False, True])
def test_a_stretch_of_an_empty_table_is_empty(scratch: Scratch, reverse: bool) -> None:
    with scratch.env.begin() as txn:
        assert stretch(txn, scratch.plain, b"", None, 5, reverse) == ([], False)
        assert distinct_keys(txn, scratch.duplicates, b"a", b"b", 5, reverse) == ([], False)
        assert values_of_stretch(txn, scratch.plain, b"", None, 5) == ([], None)
