"""The documents that Spark reads: six typed columns, about 120 bytes, and the same as files of each format.

They are computed by arithmetic alone, so they are the same in every run. Each format has them in the order of their
ids. File formats have two files, so that Spark's own readers get two partitions of equal length.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec

import lowtide
from bench.section import Data

Document = dict[str, Any]

FIELDS = ("_id", "name", "category", "score", "quantity", "at")
SCHEMA = "_id BIGINT, name STRING, category STRING, score DOUBLE, quantity INT, at TIMESTAMP"
"""In Spark's words, for every reader the same."""
PROJECTION = "_id BIGINT, score DOUBLE"
COLLECTION = "items"
INDEXED = "quantity"
QUANTITIES = 10_000
"""Each of them occurs once in this many consecutive documents."""
SELECTED = QUANTITIES // 100
"""Quantities below this are one percent of the documents."""
FILES = 2

_BATCH = 10_000
_CATEGORIES = ("anchors", "buoys", "charts", "dinghies", "engines", "flares", "gauges", "halyards")
_HARBOURS = ("Aberdeen", "Bergen", "Cuxhaven", "Den Helder", "Esbjerg", "Fremantle", "Galway", "Husum", "Izmir")
_STRIDE = 7_919  # a prime that does not divide QUANTITIES
_FIRST = datetime(2026, 1, 1, tzinfo=UTC)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def make_document(number: int) -> Document:
    """The document with this number.

    >>> sorted(make_document(number)["quantity"] for number in range(QUANTITIES)) == list(range(QUANTITIES))
    True
    """
    mixed = number * 2_654_435_761 % 4_294_967_296
    return {
        "_id": number,
        "name": f"item {number:08d}, ordered in {_HARBOURS[mixed % 9]}, not delivered",
        "category": _CATEGORIES[mixed >> 8 & 7],
        "score": mixed / 4_294_967_296,
        "quantity": number * _STRIDE % QUANTITIES,
        "at": _FIRST + timedelta(seconds=number, microseconds=mixed % 1_000_000),
    }


def make_documents(start: int, stop: int) -> Iterator[Document]:
    return map(make_document, range(start, stop))


def batches(start: int, stop: int, length: int = _BATCH) -> Iterator[list[Document]]:
    """The documents in lists of ``length``.

    >>> [len(batch) for batch in batches(0, 25, 10)]
    [10, 10, 5]
    """
    waiting = make_documents(start, stop)
    while batch := list(islice(waiting, length)):
        yield batch


def shares(count: int, parts: int = FILES) -> list[range]:
    """The numbers of ``count`` documents, cut into equal parts.

    >>> shares(5)
    [range(0, 2), range(2, 5)]
    """
    return [range(count * part // parts, count * (part + 1) // parts) for part in range(parts)]


def selected(count: int) -> int:
    """How many of the first ``count`` documents have one of the quantities that are selected."""
    whole, rest = divmod(count, QUANTITIES)
    return whole * SELECTED + sum(number * _STRIDE % QUANTITIES < SELECTED for number in range(rest))


# -- the same in each format ------------------------------------------------------------------------------------------


def build_lowtide(place: str, count: int, indexed: bool) -> Data:
    """A store with one collection of them, checkpointed and closed."""
    started = perf_counter()
    with lowtide.open(place, durability="relaxed") as store:
        items = store.collection(COLLECTION)
        if indexed:
            items.create_index(INDEXED)
        for batch in batches(0, count):
            items.insert_many(batch)
        store.checkpoint()
    return {"seconds": perf_counter() - started}


def build_parquet(place: str, count: int) -> Data:
    """Files as Spark writes them by default: Snappy, timestamps in microseconds."""
    import pyarrow
    from pyarrow import parquet

    schema = pyarrow.schema(
        [
            ("_id", pyarrow.int64()),
            ("name", pyarrow.string()),
            ("category", pyarrow.string()),
            ("score", pyarrow.float64()),
            ("quantity", pyarrow.int32()),
            ("at", pyarrow.timestamp("us", tz="UTC")),
        ]
    )
    started = perf_counter()
    Path(place).mkdir(mode=0o700)
    for at, share in enumerate(shares(count)):
        with parquet.ParquetWriter(f"{place}/part-{at}.parquet", schema, compression="snappy") as out:
            for batch in batches(share.start, share.stop, 100_000):
                out.write_table(pyarrow.Table.from_pylist(batch, schema))
    return {"seconds": perf_counter() - started}


def build_lines(place: str, count: int) -> Data:
    """JSON Lines, timestamps in ISO 8601."""
    encode = msgspec.json.Encoder().encode
    started = perf_counter()
    Path(place).mkdir(mode=0o700)
    for at, share in enumerate(shares(count)):
        with open(f"{place}/part-{at}.json", "wb") as out:
            out.writelines(encode(document) + b"\n" for document in make_documents(share.start, share.stop))
    return {"seconds": perf_counter() - started}


def build_sqlite(place: str, count: int) -> Data:
    """A table whose rowid is the id. Timestamps are microseconds since 1970: a source makes of them what it likes."""
    started = perf_counter()
    connection = sqlite3.connect(place, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute(
        "CREATE TABLE items (_id INTEGER PRIMARY KEY, name TEXT, category TEXT, score REAL, quantity INTEGER, "
        "at INTEGER)"
    )
    for batch in batches(0, count):
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO items VALUES (?, ?, ?, ?, ?, ?)", map(_as_row, batch))
        connection.execute("COMMIT")
    connection.close()
    return {"seconds": perf_counter() - started}


def _as_row(document: Document) -> tuple[Any, ...]:
    *fields, at = document.values()
    return (*fields, (at - _EPOCH) // _MICROSECOND)
