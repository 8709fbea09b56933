"""The base opens only its own files, shows each snapshot its rows, and says why if it cannot (I3, K1, N3)."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import lmdb
import pytest
from hypothesis import given

from lowtide.engine.base import mapping
from lowtide.engine.base.codec import encode_row, encode_tombstone
from lowtide.engine.base.environment import Base
from lowtide.engine.base.history import Interval
from lowtide.engine.types import MAX_KEY
from lowtide.errors import CorruptionError, Error, UsageError
from tests.unit.engine.base.bases import PREFIX, STORE_ID, Kept, Rows, fill, new_base
from tests.unit.engine.base.test_history import KEYS, LAST, histories

Entries = list[tuple[bytes, bytes]]


def test_a_new_base_holds_nothing_and_knows_its_store() -> None:
    with new_base() as base:
        assert base.read_boundary() == 0
        assert base.store_id() == STORE_ID
        assert base.saved_keyspaces() == []
        assert base.count_history() == 0
        assert base.row(KEYS[0]) is None
        assert base.changed_at(KEYS[0]) == 0


def test_what_was_written_is_there_when_it_is_opened_again(tmp_path: Path) -> None:
    base = Base(tmp_path, 1 << 24, create=True)
    base.initialise(STORE_ID)
    fill(base, {KEYS[0]: (3, b"x")}, [(Interval(1, 3, KEYS[0]), b"old")])
    base.write(lambda txn: base.put_keyspaces(txn, {"fruit": PREFIX}))
    base.close()
    again = Base(tmp_path, 1 << 24)
    assert again.row(KEYS[0]) == encode_row(3, b"x")
    assert again.read_boundary() == 3
    assert again.history_below == 3, "a snapshot below the boundary may need the history"
    assert again.read_history(KEYS[0], 2) == b"old"
    assert again.saved_keyspaces() == [("fruit", PREFIX)]
    again.close()


# Opening


def test_a_base_that_is_missing_is_refused_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(CorruptionError, match="the base is missing"):
        Base(tmp_path, 1 << 24)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_lmdb_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_bytes(b"no such thing" * 1000)
    with pytest.raises(CorruptionError, match="not an LMDB environment"):
        Base(tmp_path, 1 << 24)


def test_the_lmdb_of_somebody_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    other = lmdb.open(str(tmp_path), max_dbs=2)
    other.open_db(b"theirs")
    other.close()
    before = (tmp_path / "data.mdb").read_bytes()
    with pytest.raises(CorruptionError, match="not the base of a Lowtide store"):
        Base(tmp_path, 1 << 24)
    assert (tmp_path / "data.mdb").read_bytes() == before


def test_a_map_that_the_system_does_not_grant_is_halved_until_it_does(tmp_path: Path) -> None:
    base = Base(tmp_path, 1 << 60, create=True)
    assert 1 << 20 <= base.map_size < 1 << 60
    base.close()


# Reading


def test_a_row_is_found_with_its_timestamp_and_a_tombstone_too() -> None:
    with new_base() as base:
        fill(base, {KEYS[0]: (3, b"x"), KEYS[1]: (5, None)})
        assert base.row(KEYS[0]) == encode_row(3, b"x")
        assert base.row(KEYS[1]) == encode_tombstone(5)
        assert [base.changed_at(key) for key in KEYS[:3]] == [3, 5, 0]


def test_the_history_is_not_asked_by_snapshots_that_cannot_need_it() -> None:
    """``history_below`` spares every other reader an LMDB transaction; it must be exact at its edge (G4)."""
    with new_base() as base:
        fill(base, {KEYS[0]: (7, b"new")}, [(Interval(2, 7, KEYS[0]), b"old")])
        assert [base.read_history(KEYS[0], ts) for ts in (1, 2, 6, 7)] == [None, b"old", b"old", None]


def all_chunks(base: Base, low: bytes, high: bytes | None, ts: int, limit: int, reverse: bool) -> Entries:
    """A whole scan, resumed by key as the reader does."""
    found: Entries = []
    last: bytes | None = b""
    while last is not None:
        entries, last = base.chunk(low, high, ts, limit, reverse, 0)
        found += entries
        if last is not None:
            low, high = (low, last) if reverse else (last + b"\x00", high)
    return found


def all_values(base: Base, low: bytes, high: bytes | None, ts: int, limit: int) -> list[bytes]:
    """The values of a whole scan."""
    found: list[bytes] = []
    last: bytes | None = b""
    while last is not None:
        values, last = base.values(low, high, ts, limit)
        found += values
        low = last + b"\x00" if last is not None else low
    return found


rows = st.dictionaries(
    st.sampled_from(KEYS), st.tuples(st.integers(LAST, LAST + 4), st.none() | st.binary(max_size=3)), max_size=4
)


@given(
    rows,
    histories,
    st.integers(0, LAST + 5),
    st.integers(1, 3),
    st.booleans(),
    st.none() | st.sampled_from(KEYS),
    st.sampled_from([PREFIX, *KEYS]),
)
def test_chunks_make_up_what_a_snapshot_sees(
    rows: Rows, kept: Kept, ts: int, limit: int, reverse: bool, high: bytes | None, low: bytes
) -> None:
    """Rows that are too new, tombstones and absent rows are looked up in the history; no gap and no duplicate where
    a chunk of rows and a chunk of the history end at different keys."""
    with new_base() as base:
        fill(base, rows, kept)
        seen = {each.full_key: value for each, value in kept if each.begin <= ts < each.end}
        seen |= {key: value for key, (begin, value) in rows.items() if begin <= ts and value is not None}
        expected = [(key, seen[key]) for key in sorted(seen) if low <= key and (high is None or key < high)]
        found = all_chunks(base, low, high, ts, limit, reverse)
        assert found == (expected[::-1] if reverse else expected)
        assert all_values(base, low, high, ts, limit) == [value for _, value in expected]
        instant = base.at(ts, ts < base.history_below)
        at = base.read(lambda txn: instant.rows_of(txn, KEYS))
        assert {key: row[8:] for key, row in at.items()} == seen
        assert all(row < encode_row(ts + 1, b"") for row in at.values())
        for key in KEYS:
            row = base.row(key)
            if row is None or row >= encode_row(ts + 1, b""):
                assert base.read_history(key, ts) == seen.get(key)


@pytest.mark.parametrize("alone", [False, True], ids=["entries", "values"])
def test_a_checkpoint_that_comes_before_the_transaction_does_not_hide_what_it_superseded(alone: bool) -> None:
    with new_base() as base:
        fill(base, {KEYS[0]: (1, b"old")})
        begin = base._begin

        def late(*arguments: Any, **named: Any) -> lmdb.Transaction[Any]:
            fill(base, {KEYS[0]: (7, b"new")}, [(Interval(1, 7, KEYS[0]), b"old")])
            return begin(*arguments, **named)

        base._begin = late
        if alone:
            assert base.values(PREFIX, None, 1, 10) == ([b"old"], None)
        else:
            assert base.chunk(PREFIX, None, 1, 10, False, 0) == ([(KEYS[0], b"old")], None)


def test_the_keyspace_is_taken_off_the_keys_if_asked() -> None:
    with new_base() as base:
        fill(base, {PREFIX + b"a": (1, b"x")})
        assert base.chunk(PREFIX, None, 1, 10, False, len(PREFIX)) == ([(b"a", b"x")], None)


@given(rows, st.integers(LAST - 1, LAST + 5), st.integers(1, 3))
def test_the_changed_keys_of_a_range_are_those_committed_since_deletions_included(
    rows: Rows, since: int, limit: int
) -> None:
    with new_base() as base:
        fill(base, rows)
        found: list[bytes] = []
        low = b""
        last: bytes | None = b""
        while last is not None:
            keys, last = base.changed_keys(low, None, since, limit)
            found += keys
            low = last + b"\x00" if last is not None else b""
        assert found == sorted(key for key, (ts, _) in rows.items() if ts > since)


@pytest.mark.parametrize("length", [MAX_KEY, MAX_KEY + 1, 600])
def test_a_key_that_is_too_long_to_be_there_is_not_there(length: int) -> None:
    with new_base() as base:
        fill(base, {KEYS[0]: (5, b"x")}, [(Interval(1, 5, KEYS[0]), b"old")])
        key = PREFIX + b"k" * length
        assert base.row(key) is None
        assert base.read_history(key, 2) is None
        assert base.chunk(key, None, 2, 5, False, 0) == ([], None)
        assert base.chunk(PREFIX, key, 2, 5, True, 0) == ([(KEYS[0], b"old")], None)


# Writing


def test_a_change_that_raises_leaves_nothing_behind() -> None:
    def change(txn: lmdb.Transaction[bytes]) -> None:
        txn.put(KEYS[0], b"half", db=base.rows)
        raise ValueError("in the middle")

    with new_base() as base:
        with pytest.raises(ValueError, match="in the middle"):
            base.write(change)
        assert base.row(KEYS[0]) is None
        fill(base, {KEYS[0]: (1, b"x")})
        assert base.row(KEYS[0]) == encode_row(1, b"x")


def test_an_error_of_lmdb_while_writing_becomes_one_of_ours() -> None:
    with new_base() as base, pytest.raises(Error, match="LMDB could not write"):
        base.write(lambda txn: txn.put(b"k" * 600, b"", db=base.rows))


# Those who are gone


def test_a_closed_base_says_so() -> None:
    with new_base() as base:
        base.close()
        for read in (
            lambda: base.row(KEYS[0]),
            lambda: base.chunk(b"", None, 1, 10, False, 0),
            lambda: base.changed_keys(b"", None, 1, 10),
            lambda: base.count_history(),
        ):
            with pytest.raises(UsageError, match="closed"):
                read()


def test_an_abandoned_base_refuses_without_touching_the_environment() -> None:
    """In a forked child the environment belongs to the parent; here the parent goes on using it."""
    with new_base() as base:
        env = base.env
        base.abandon()
        with pytest.raises(UsageError, match="before a fork"):
            base.row(KEYS[0])
        with env.begin() as txn:
            assert base.boundary_in(txn) == 0


READER = """
import sys, lmdb
env = lmdb.open(sys.argv[1], readonly=True, max_dbs=8)
txn = env.begin()
print("reading", flush=True)
sys.stdin.read()
"""


def test_the_slot_of_a_killed_reader_is_freed() -> None:
    """Otherwise LMDB keeps every page from then on: a dead process would hold back the base for ever (N3)."""
    with new_base() as base:
        reader = subprocess.Popen(
            [sys.executable, "-c", READER, str(base.directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        try:
            assert reader.stdout is not None
            assert reader.stdout.readline() == b"reading\n"
            assert base.clear_dead_readers() == 0, "a living one keeps its slot"
            os.kill(reader.pid, signal.SIGKILL)
            reader.wait()
            assert base.clear_dead_readers() == 1
            assert base.clear_dead_readers() == 0
        finally:
            reader.kill()
            reader.communicate()


# Slots of readers

KILLED_READERS = """
import os, signal, sys
import lmdb
for _ in range(int(sys.argv[2])):
    if os.fork() == 0:
        try:
            txn = lmdb.open(sys.argv[1], max_dbs=16).begin()
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.wait()
"""


def test_the_slots_of_killed_processes_are_cleared_when_there_are_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapping, "MAX_READERS", 5)
    with new_base() as base:
        with base.env.begin(), base.env.begin(), base.env.begin():
            subprocess.run([sys.executable, "-c", KILLED_READERS, str(base.directory), "5"], check=True)
            assert base.row(KEYS[0]) is None
            assert base.read_boundary() == 0
        assert base.clear_dead_readers() == 0, "none was left"


def test_when_all_slots_are_in_use_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapping, "MAX_READERS", 5)
    with new_base() as base, contextlib.ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(base.env.begin())
        with pytest.raises(Error, match="more than 5 threads and processes"):
            base.read_boundary()
