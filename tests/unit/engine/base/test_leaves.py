"""Leaf pages that are decoded without LMDB give what a cursor gives (I3). A damaged page does no harm (K8)."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import hypothesis.strategies as st
import lmdb
import pytest
from hypothesis import given

from lowtide.engine.base.codec import encode_row
from lowtide.engine.base.environment import Base
from lowtide.engine.base.exchange import copy_base, reopen
from lowtide.engine.base.leaf_file import LeafFile
from lowtide.engine.base.leaves import LeafWalk
from lowtide.engine.base.pages import Table, Unreadable, decode_table
from lowtide.errors import CorruptionError
from tests.unit.engine.base.bases import PREFIX, STORE_ID, Rows, fill, new_base, temporary_directory

BEGINNING, END = PREFIX, b"\x00\x00\x00\x02"
TS = 50

keys = st.binary(max_size=2) | st.binary(min_size=300, max_size=400)
lengths = st.integers(0, 30) | st.integers(1990, 2030) | st.integers(4000, 20_000)
versions = st.tuples(st.integers(1, 2 * TS), st.none() | lengths.map(lambda length: b"v" * length))
tables = st.dictionaries(keys.map(PREFIX.__add__), versions, max_size=60)
bounds = keys.map(PREFIX.__add__)


def leaf_file(base: Base) -> LeafFile:
    """Whether it pays or not."""
    return LeafFile(base.directory / "data.mdb", int(base.env.stat()["psize"]))


@pytest.fixture
def base() -> Iterator[Base]:
    with new_base() as base:
        base.leaves = leaf_file(base)
        yield base


def visible(rows: Rows, low: bytes, high: bytes | None) -> list[tuple[bytes, bytes]]:
    within = sorted(key for key in rows if low <= key and (high is None or key < high))
    return [(key, value) for key in within for ts, value in (rows[key],) if ts <= TS and value is not None]


def in_chunks(
    leaves: LeafFile, txn: lmdb.Transaction[bytes], low: bytes, high: bytes | None, limit: int
) -> Iterator[list[tuple[bytes, bytes]]]:
    """The chunks of a range, each with the last key that was read."""
    start: bytes | None = low
    while start is not None:
        entries, last = leaves.entries(txn, start, high, limit=limit, ts=TS, strip=0)
        values, last_of_values = leaves.values(txn, start, high, limit=limit, ts=TS)
        assert values == [value for _, value in entries]
        assert last_of_values == last
        yield entries
        start = last + b"\x00" if last is not None else None


@given(tables, bounds, st.none() | bounds, st.integers(1, 40))
def test_a_range_in_chunks_is_what_is_visible_in_it(table: Rows, low: bytes, high: bytes | None, limit: int) -> None:
    with new_base() as base:
        fill(base, table)
        with base.env.begin() as txn:
            chunks = list(in_chunks(leaf_file(base), txn, low, high, limit))
    assert [entry for chunk in chunks for entry in chunk] == visible(table, low, high)
    assert all(len(chunk) <= limit for chunk in chunks)


def test_a_large_table_with_holes_is_read_whole_and_in_parts(base: Base) -> None:
    choose = random.Random(5)
    table: Rows = {}
    for number in range(12_000):
        ts = choose.randrange(1, 2 * TS)
        value = None if choose.random() < 0.05 else b"x" * choose.choice((3, 150, 150, 700, 2500))
        table[PREFIX + b"%08d" % choose.randrange(10**8)] = (ts, value)
        if number == 6_000:
            fill(base, table)
    fill(base, table)
    gone = set(choose.sample(sorted(table), 4_000))
    base.write(lambda txn: [txn.delete(key, db=base.rows) for key in gone])
    table = {key: row for key, row in table.items() if key not in gone}
    leaves = leaf_file(base)
    with base.env.begin() as txn:
        assert decode_table(txn.get(b"rows")).depth > 2
        for limit in (64, 10**9):
            found = [entry for chunk in in_chunks(leaves, txn, BEGINNING, END, limit) for entry in chunk]
            assert found == visible(table, BEGINNING, END)
        cuts = sorted(choose.sample(sorted(table), 20))
        for low, high in pairwise(cuts):
            found = [entry for chunk in in_chunks(leaves, txn, low, high, 64) for entry in chunk]
            assert found == visible(table, low, high)


def test_keys_lose_the_prefix_and_rows_their_timestamp(base: Base) -> None:
    fill(base, {PREFIX + b"a": (1, b"small"), PREFIX + b"b": (2, b"L" * 9000), PREFIX + b"c": (3, b"")})
    base.history_below = 0
    entries, last = base.chunk(BEGINNING, END, TS, limit=10, reverse=False, strip=4)
    assert entries == [(b"a", b"small"), (b"b", b"L" * 9000), (b"c", b"")]
    assert last is None
    assert base.chunk(BEGINNING, END, 1, limit=10, reverse=False, strip=4) == ([(b"a", b"small")], None)
    assert base.values(BEGINNING, END, 2, 10) == ([b"small", b"L" * 9000], None)


def test_an_empty_table_and_an_empty_range_have_nothing(base: Base) -> None:
    assert base.chunk(BEGINNING, END, TS, limit=10, reverse=False, strip=4) == ([], None)
    fill(base, {PREFIX + b"a": (1, b"x")})
    base.history_below = 0
    assert base.chunk(PREFIX + b"b", END, TS, limit=10, reverse=False, strip=4) == ([], None)
    assert base.chunk(BEGINNING, BEGINNING, TS, limit=10, reverse=False, strip=4) == ([], None)


def test_many_large_values_end_a_stretch_early(base: Base) -> None:
    fill(base, {PREFIX + b"%d" % number: (1, bytes(17 << 20)) for number in range(5)})
    base.history_below = 0
    values, last = base.values(BEGINNING, END, TS, 100)
    assert len(values) == 4
    assert last == PREFIX + b"3"


def test_a_read_whose_transaction_ended_meanwhile_is_repeated(base: Base, monkeypatch: pytest.MonkeyPatch) -> None:
    """The map grows while pages are read, which ends the transaction: what was read must not be returned."""
    fill(base, {PREFIX + b"%04d" % number: (1, b"old" * 30) for number in range(2000)})
    base.history_below = 0
    leaves = leaf_file(base)
    walks: list[int] = []

    def after_growth(walk: LeafWalk) -> object:
        walks.append(1)
        base.grow()
        return walk.entries(BEGINNING, END, 5000, TS, 4)

    with pytest.raises(lmdb.Error), base.env.begin() as txn:
        leaves._read(txn, after_growth)
    assert len(walks) == 1
    assert len(base.chunk(BEGINNING, END, TS, limit=5000, reverse=False, strip=4)[0]) == 2000


def test_a_chunk_is_of_one_commit_while_a_writer_reuses_pages_and_the_map_grows() -> None:
    count, done, errors, looks = 300, threading.Event(), [], [0]

    def read(base: Base) -> None:
        try:
            while not done.is_set():
                entries, _ = base.chunk(BEGINNING, END, 1 << 60, limit=10 * count, reverse=False, strip=4)
                assert [key for key, _ in entries] == [b"%06d" % number for number in range(count)]
                assert len({value for _, value in entries}) == 1, "rows of two commits"
                looks[0] += 1
        except BaseException as error:
            errors.append(error)

    with new_base(1 << 20) as base:
        base.leaves = leaf_file(base)

        def rewrite(ts: int) -> None:
            value = b"%d" % ts * 50

            def change(txn: lmdb.Transaction[bytes]) -> None:
                for number in range(count):
                    txn.put(PREFIX + b"%06d" % number, encode_row(ts, value), db=base.rows)

            base.write(change)

        rewrite(1)
        readers = [threading.Thread(target=read, args=(base,)) for _ in range(2)]
        for reader in readers:
            reader.start()
        ts = 1
        while not errors and (ts < 100 or looks[0] < 100):
            ts += 1
            rewrite(ts)
            if ts % 40 == 0 and ts < 400:
                base.grow()
        done.set()
        for reader in readers:
            reader.join()
    assert not errors, errors


def test_a_base_whose_file_is_exchanged_is_read_from_the_new_one(base: Base, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lowtide.engine.base.leaf_file.PAYS", True)
    fill(base, {PREFIX + b"%d" % number: (1, b"x" * 500) for number in range(100)})
    fill(base, {PREFIX + b"%d" % number: (2, b"y" * 500) for number in range(100)})
    base.history_below = 0
    data, compacted = base.directory / "data.mdb", base.directory / "compacted"
    descriptor = os.open(compacted, os.O_WRONLY | os.O_CREAT)
    copy_base(base, descriptor)
    os.close(descriptor)
    with base.env.begin() as txn:
        before = decode_table(txn.get(b"rows")).root
    with base.writing:
        reopen(base, lambda: os.replace(compacted, data))
    with base.env.begin() as txn:
        assert decode_table(txn.get(b"rows")).root != before
    entries, _ = base.chunk(BEGINNING, END, TS, limit=200, reverse=False, strip=4)
    assert len(entries) == 100
    assert {value for _, value in entries} == {b"y" * 500}


# Damage


@pytest.fixture(scope="module")
def damaged() -> Iterator[tuple[Path, Table, list[int], bytes]]:
    """A file to damage, its table of rows, the pages of that, and the file's bytes."""
    with temporary_directory() as directory:
        base = Base(directory, 1 << 24, create=True)
        base.initialise(STORE_ID)
        rows: Rows = {PREFIX + b"%04d" % number: (1, b"value" * 20) for number in range(600)}
        rows |= {PREFIX + b"%04d" % number: (1, b"L" * 5000) for number in range(0, 600, 60)}
        fill(base, rows)
        with base.env.begin() as txn:
            table = decode_table(txn.get(b"rows"))
        base.close()
        data = directory / "data.mdb"
        whole = data.read_bytes()
        found = [
            at // 4096
            for at in range(2 * 4096, len(whole), 4096)
            if PREFIX + b"0" in whole[at : at + 4096] or at // 4096 == table.root
        ]
        yield data, table, found, whole


def read_all(data: Path, table: Table) -> list[tuple[bytes, bytes]]:
    """What is read of the file chunk by chunk. It ends, whatever the pages have."""
    descriptor = os.open(data, os.O_RDONLY)
    found: list[tuple[bytes, bytes]] = []
    start: bytes | None = BEGINNING
    try:
        chunks = 0
        while start is not None:
            chunks += 1
            assert chunks < 10_000, "it goes round in circles"
            entries, last = LeafWalk(descriptor, 4096, table.root, table.depth).entries(start, END, 50, TS, 0)
            found += entries
            assert last is None or last >= start
            start = last + b"\x00" if last is not None else None
    finally:
        os.close(descriptor)
    return found


def test_damaged_pages_are_refused_or_read_but_never_run_forever(
    damaged: tuple[Path, Table, list[int], bytes],
) -> None:
    data, table, pages, whole = damaged
    assert len(read_all(data, table)) == 600
    choose = random.Random(7)
    refused = 0
    for _ in range(600):
        copy = bytearray(whole)
        at = choose.choice(pages) * 4096
        where = at + choose.choice((choose.randrange(16), choose.randrange(16, 120), choose.randrange(4096)))
        length = choose.choice((1, 2, 8))
        copy[where : where + length] = choose.randbytes(length)
        data.write_bytes(copy)
        try:
            read_all(data, table)
        except (Unreadable, IndexError):
            refused += 1
    data.write_bytes(whole)
    assert refused > 100


def test_a_stretch_that_would_end_before_its_beginning_is_refused(
    damaged: tuple[Path, Table, list[int], bytes],
) -> None:
    """A scan goes on after the last key of a stretch, so it would read the same stretch again and again."""
    data, table, _, whole = damaged
    refused = 0
    for number in range(301, 340):
        data.write_bytes(whole.replace(PREFIX + b"%04d" % number, PREFIX + b"0001"))
        low = PREFIX + b"%04d" % (number - 3)
        descriptor = os.open(data, os.O_RDONLY)
        try:
            _, last = LeafWalk(descriptor, 4096, table.root, table.depth).entries(low, END, 4, TS, 0)
            assert last is None or last >= low
        except Unreadable:
            refused += 1
        finally:
            os.close(descriptor)
    data.write_bytes(whole)
    assert refused > 10


def test_a_file_that_was_cut_is_refused(damaged: tuple[Path, Table, list[int], bytes]) -> None:
    data, table, _, whole = damaged
    for length in (0, 2 * 4096, table.root * 4096, table.root * 4096 + 100, len(whole) // 2):
        data.write_bytes(whole[:length])
        with pytest.raises((Unreadable, IndexError)):
            read_all(data, table)
    data.write_bytes(whole)


def test_a_damaged_page_raises_a_corruption_error_and_is_noted(base: Base) -> None:
    fill(base, {PREFIX + b"%04d" % number: (1, b"value" * 20) for number in range(600)})
    base.history_below = 0
    with base.env.begin() as txn:
        root = decode_table(txn.get(b"rows")).root
    descriptor = os.open(base.directory / "data.mdb", os.O_WRONLY)
    os.pwrite(descriptor, b"\xff" * 16, root * 4096)
    os.close(descriptor)
    with pytest.raises(CorruptionError, match="LMDB cannot read a page: the number of a page is too large"):
        base.chunk(BEGINNING, END, TS, limit=10, reverse=False, strip=4)
    assert base.soundness.damage is not None
