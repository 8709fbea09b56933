"""Rows of arbitrary bytes in the tables of the base: everything that reads them fails with an error of Lowtide, or not
at all.

The bytes are written through LMDB, so its pages are valid: only Lowtide's decoding is fuzzed.
"""

from __future__ import annotations

from pathlib import Path

import lmdb
import msgspec
from hypothesis import given
from hypothesis import strategies as st

from lowtide.engine.base.consumers import ConsumerRow
from lowtide.engine.base.pin_table import PinRow
from tests.crash.stores import Content
from tests.fuzz.guard import bounded
from tests.fuzz.mutation import Edit, edits
from tests.fuzz.profile import whole_store
from tests.fuzz.stores import MEMORY, ask_everything, copy_of

TABLES = [b"rows", b"history", b"tombstones", b"keyspaces", b"pins", b"consumers", b"meta"]

_bytes = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([0, 1, 6, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]).map(lambda ts: ts.to_bytes(8, "big")),
    st.sampled_from([b"boundary", b"store", b"unpinned", b"fruit", b"nut", b"nightly", b"mirror", b"\xff" * 4]),
)
_key = st.one_of(
    _bytes.filter(bool),
    st.builds(lambda end, begin, key: end + begin + key, _bytes, _bytes, _bytes).filter(bool),
    st.binary(max_size=20).map(lambda key: b"\x00\x00\x00\x01" + key),
)
Wild = list[tuple[bytes, bytes, bytes]]


def spoil(path: Path, wild: Wild) -> None:
    """Put keys and values of any bytes into the tables."""
    with lmdb.open(str(path / "base"), max_dbs=16, map_size=1 << 24) as env:
        tables = {name: env.open_db(name, create=False) for name in TABLES}
        with env.begin(write=True) as txn:
            for table, key, value in wild:
                txn.put(key[:500], value, db=tables[table])


@whole_store
@given(wild=st.lists(st.tuples(st.sampled_from(TABLES), _key, _bytes), min_size=1, max_size=4))
def test_rows_of_any_bytes_are_read_or_refused_in_our_words(template: tuple[Path, list[Content]], wild: Wild) -> None:
    with copy_of(template[0]) as path:
        spoil(path, wild)
        bounded(0, lambda: ask_everything(path), more=MEMORY)


@whole_store
@given(chosen=st.lists(st.tuples(st.sampled_from(TABLES), st.integers(0, 99), edits), min_size=1, max_size=4))
def test_rows_that_are_nearly_right_are_read_or_refused_in_our_words(
    template: tuple[Path, list[Content]], chosen: list[tuple[bytes, int, Edit]]
) -> None:
    with copy_of(template[0]) as path:
        with lmdb.open(str(path / "base"), max_dbs=16, map_size=1 << 24) as env:
            tables = {name: env.open_db(name, create=False) for name in TABLES}
            with env.begin(write=True) as txn:
                for table, which, edit in chosen:
                    entries = list(txn.cursor(tables[table]))
                    if entries:
                        key, value = entries[which % len(entries)]
                        txn.put(key, edit(value), db=tables[table])
        bounded(0, lambda: ask_everything(path), more=MEMORY)


_number = st.sampled_from([-(1 << 63), -1, 0, 1, 5, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
_time = st.floats()
_names = st.none() | st.lists(st.text(max_size=5), max_size=3).map(tuple)
_prefixes = st.none() | st.lists(st.binary(max_size=5), max_size=3).map(tuple)


@whole_store
@given(
    pin=st.builds(PinRow, st.binary(max_size=9), _number, _time, _time, _time, _names, _prefixes, st.text(max_size=9)),
    consumer=st.builds(ConsumerRow, _number, _time),
)
def test_pins_and_consumers_of_any_values_are_served_or_refused_in_our_words(
    template: tuple[Path, list[Content]], pin: PinRow, consumer: ConsumerRow
) -> None:
    with copy_of(template[0]) as path:
        spoil(
            path,
            [
                (b"pins", b"nightly", msgspec.msgpack.encode(pin)),
                (b"consumers", b"mirror", msgspec.msgpack.encode(consumer)),
            ],
        )
        bounded(0, lambda: ask_everything(path), more=MEMORY)
