"""The outline of a range from LMDB's pages, compared with counts, and files that are not LMDB pages."""

from __future__ import annotations

import os
import struct
import threading
from bisect import bisect_left
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random

import lmdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.engine.base import outline as outlines
from lowtide.engine.base.codec import encode_row, horizon
from lowtide.engine.base.environment import Base
from lowtide.engine.base.history import Interval
from lowtide.engine.base.outline import Outline, outline
from lowtide.engine.base.pages import PageFile, Unreadable, decode_table
from lowtide.engine.types import after_prefix
from tests.unit.engine.base.bases import PREFIX, Rows, fill, new_base

OTHERS: Rows = {bytes([0, 0, 0, number]) + b"%03d" % each: (1, b"x") for number in (0, 2) for each in range(300)}
"""Rows of other keyspaces, before and after the one that is looked at."""


def uniform(random: Random) -> bytes:
    return random.randbytes(16)


def ascending(random: Random) -> bytes:
    return b"%012d" % random.randrange(10**9)


def skewed(random: Random) -> bytes:
    """Half of them with one long beginning, of very different lengths."""
    start = b"a" * 200 if random.random() < 0.5 else b"b"
    return start + random.randbytes(random.choice((3, 4, 200)))


def small(random: Random) -> int:
    return 20


def mixed(random: Random) -> int:
    """Some so large that they lie on pages of their own."""
    return random.choice((0, 30, 1200, 3000)) if random.random() < 0.99 else 20_000


def filled(base: Base, count: int, seed: int, key: Callable[[Random], bytes], size: Callable[[Random], int]) -> Rows:
    random = Random(seed)
    rows: Rows = {}
    while len(rows) < count:
        rows[PREFIX + key(random)] = (1, bytes(size(random)))
    fill(base, {**rows, **OTHERS})
    return rows


def put(base: Base, batch: list[tuple[bytes, bytes]], txn: lmdb.Transaction[bytes]) -> None:
    txn.cursor(base.rows).putmulti(batch)


def delete(base: Base, batch: list[tuple[bytes, bytes]], txn: lmdb.Transaction[bytes]) -> None:
    for key, _ in batch:
        txn.delete(key, db=base.rows)


def outlined(base: Base, parts: int, low: bytes = PREFIX, high: bytes | None = after_prefix(PREFIX)) -> Outline:
    found = base.read(lambda txn: outline(txn, base, low, high, parts))
    assert found is not None
    return found


def shares(keys: list[bytes], cuts: list[bytes], parts: int) -> list[float]:
    """How many of the keys each part has, beside what it should have."""
    edges = [0, *(bisect_left(keys, cut) for cut in cuts), len(keys)]
    return [(end - start) * parts / len(keys) for start, end in pairwise(edges)]


@settings(max_examples=25)
@given(
    st.integers(0, 1000),
    st.sampled_from([uniform, ascending, skewed]),
    st.sampled_from([small, mixed]),
    st.integers(2, 8),
    st.tuples(st.binary(max_size=2), st.binary(max_size=2)),
)
def test_cuts_lie_in_the_range_and_are_as_even_as_counting(
    seed: int, key: Callable[[Random], bytes], size: Callable[[Random], int], parts: int, ends: tuple[bytes, bytes]
) -> None:
    with new_base(1 << 26) as base:
        rows = filled(base, 3000, seed, key, size)
        low, high = (PREFIX + each for each in sorted(ends))
        for start, stop in ((PREFIX, after_prefix(PREFIX)), (low, high), (low, None)):
            keys = sorted(key for key in {**rows, **OTHERS} if start <= key and (stop is None or key < stop))
            found = outlined(base, parts, start, stop)
            assert found.cuts == sorted(set(found.cuts))
            assert all(start < cut and (stop is None or cut < stop) for cut in found.cuts)
            # All leaves were looked at, so only those at the range's ends are counted whole: 250 rows and fewer each.
            assert abs(found.rows - len(keys)) <= 500
            if len(keys) > 2500:
                assert len(found.cuts) == parts - 1
                assert max(abs(share - 1) for share in shares(keys, found.cuts, parts)) <= 500 * parts / len(keys)


def test_a_sample_of_the_leaves_gives_even_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlines, "_LEAST_SAMPLE", 256)
    monkeypatch.setattr(outlines, "_SAMPLE_OF_A_PART", 64)
    with new_base(1 << 26) as base:
        rows = filled(base, 40_000, 7, uniform, lambda random: 2000 if random.random() < 0.1 else 40)
        found = outlined(base, 4)
        assert abs(found.rows / len(rows) - 1) < 0.1
        assert all(0.8 < share < 1.2 for share in shares(sorted(rows), found.cuts, 4))


def test_only_the_rows_below_a_horizon_are_counted_if_it_is_given() -> None:
    """Large ones, which lie elsewhere, and tombstones too."""
    random = Random(1)
    rows: Rows = {}
    for _ in range(5000):
        ts, size = random.randrange(1, 10), 5000 if random.random() < 0.1 else 50
        rows[PREFIX + random.randbytes(12)] = (ts, None if random.random() < 0.1 else bytes(size))
    with new_base(1 << 26) as base:
        fill(base, rows)
        for ts in (0, 4, 9):
            seen = sorted(key for key, (began, value) in rows.items() if began <= ts and value is not None)
            found = base.read(lambda txn, ts=ts: outline(txn, base, PREFIX, None, 4, below=horizon(ts)))  # type: ignore[misc]
            assert found is not None
            assert found.rows == len(seen)
            assert not seen or all(0.9 < share < 1.1 for share in shares(seen, found.cuts, 4))


def test_the_keys_of_the_history_are_counted_once_each() -> None:
    kept = [
        (Interval(begin, begin + 1, PREFIX + b"%05d" % number), b"x")
        for number in range(3000)
        for begin in range(1, 2 + number % 40)
    ]
    with new_base(1 << 26) as base:
        fill(base, {}, kept)
        found = base.read(lambda txn: outline(txn, base, PREFIX, None, 3, table=b"history-index"))
        assert found is not None
        assert found.rows == 3000
        assert found.cuts == [PREFIX + b"01000", PREFIX + b"02000"]


def test_large_values_are_told() -> None:
    with new_base(1 << 26) as base:
        filled(base, 1000, 1, uniform, small)
        assert not outlined(base, 2).heavy
        filled(base, 300, 2, uniform, lambda _: 20_000)
        assert outlined(base, 2).heavy


def test_the_outline_is_right_beside_a_writer() -> None:
    """What the read transaction sees stays where it is, whatever is committed meanwhile."""
    with new_base(1 << 26) as base:
        rows = filled(base, 5000, 3, uniform, small)
        keys = sorted(rows)
        expected = outlined(base, 5).cuts
        stop = threading.Event()

        def write() -> None:
            random = Random(1)
            while not stop.is_set():
                batch = [(b"\x00\x00\x00\x05" + random.randbytes(8), encode_row(2, bytes(100))) for _ in range(500)]
                base.write(partial(put, base, sorted(batch)))
                base.write(partial(delete, base, batch))

        thread = threading.Thread(target=write)
        thread.start()
        try:
            for _ in range(100):
                cuts = outlined(base, 5).cuts
                # The neighbouring keyspace shares a leaf with the last keys, which moves the cuts by a row or two.
                assert len(cuts) == len(expected)
                assert all(abs(share - 1) < 0.2 for share in shares(keys, cuts, 5))
        finally:
            stop.set()
            thread.join()


def test_a_base_without_branch_pages_has_no_outline() -> None:
    with new_base() as base:
        assert base.read(lambda txn: outline(txn, base, PREFIX, None, 2)) is None
        fill(base, {PREFIX + b"a": (1, b"x")})
        assert base.read(lambda txn: outline(txn, base, PREFIX, None, 2)) is None


@pytest.mark.parametrize(
    ("offset", "damage"),
    [
        (16, b"\xde\xc0\xef\xbf"),  # the magic
        (20, struct.pack("=I", 2)),  # the version
        (40, struct.pack("=I", 4095)),  # the size of a page
        (8 + 2, struct.pack("=H", 2)),  # the flags
        (4096, b"\x07"),  # the number of the second page
    ],
)
def test_a_file_of_another_format_is_not_read(tmp_path: Path, offset: int, damage: bytes) -> None:
    with new_base() as base:
        data = bytearray((base.directory / "data.mdb").read_bytes())
    copy = tmp_path / "data.mdb"
    copy.write_bytes(data)
    with PageFile(copy, 0):
        pass
    data[offset : offset + len(damage)] = damage
    copy.write_bytes(data)
    with pytest.raises(Unreadable):
        PageFile(copy, 0)


def test_a_file_that_has_not_seen_the_transaction_or_is_too_short_is_not_read(tmp_path: Path) -> None:
    with new_base() as base:
        data = (base.directory / "data.mdb").read_bytes()
    copy = tmp_path / "data.mdb"
    copy.write_bytes(data)
    with pytest.raises(Unreadable, match="has seen"):
        PageFile(copy, 1000)
    for length in (0, 30, 4200):
        copy.write_bytes(data[:length])
        with pytest.raises(Unreadable):
            PageFile(copy, 0)


@pytest.mark.parametrize("record", [None, b"short", struct.pack("=IHHQQQQQ", 0, 8, 2, 1, 1, 0, 5, 3)])
def test_a_record_that_is_no_plain_table_is_refused(record: bytes | None) -> None:
    with pytest.raises(Unreadable):
        decode_table(record)


class Elsewhere:
    """Rows whose pages are read from another file."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def pages(self, txn: lmdb.Transaction[bytes]) -> PageFile:
        return PageFile(self._directory / "data.mdb", txn.id())


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 1 << 20), st.binary(min_size=1, max_size=4)), min_size=1, max_size=30))
def test_whatever_the_pages_hold_nothing_but_keys_of_the_range_comes_out(damage: list[tuple[int, bytes]]) -> None:
    """As if the transaction had been cut short, and the pages had been used for something else."""
    with new_base(1 << 24) as base:
        filled(base, 2000, 5, skewed, mixed)
        data = bytearray((base.directory / "data.mdb").read_bytes())
        for place, content in damage:
            at = 8192 + place % (len(data) - 8200)
            data[at : at + len(content)] = content
        copy = base.directory / "copy"
        os.mkdir(copy)
        (copy / "data.mdb").write_bytes(data)
        high = after_prefix(PREFIX) or b""
        for below in (None, horizon(1)):
            found = base.read(partial(outline, rows=Elsewhere(copy), low=PREFIX, high=high, parts=4, below=below))
            cuts = found.cuts if found is not None else []
            assert cuts == sorted(set(cuts))
            assert all(PREFIX < cut < high for cut in cuts)
