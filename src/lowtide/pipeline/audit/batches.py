"""Arrow batches that go in and out of the steps of the audit on Spark: groups of rows, and rows of one wide schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from itertools import groupby
from typing import Any, Final, TypeVar, cast

import pyarrow as pa

from lowtide.system.cycles import without_collector

Batches = Iterator[Any]
"""What ``mapInArrow`` hands to a function, and takes from it."""

HEADER, SHARE, SCAN, LINK, GLIMPSE, FIRST, ANOMALY, COUNT, BACK, ERROR, LINES = range(11)
"""What a row is; see ``records``. BACK is an edge that leads back, without more than its positions. LINES are rows of a
history, of a transaction that is not whole where they stand."""

FIELDS: Final = {
    "what": ("tinyint", pa.int8()),
    "name": ("string", pa.string()),  # of a transaction, as records.label has it; of an anomaly
    "other": ("string", pa.string()),  # the target of an edge
    "key": ("string", pa.string()),  # of a share; the begin of a scan
    "high": ("string", pa.string()),  # the end of a scan
    "at": ("double", pa.float64()),  # positions, of the source of an edge or of the transaction
    "other_at": ("double", pa.float64()),
    "begin": ("double", pa.float64()),  # the span of a read
    "end": ("double", pa.float64()),
    "kind": ("string", pa.string()),  # of an edge; the outcome of a transaction
    "number": ("bigint", pa.int64()),  # of a piece or a stretch; a turn in a session
    "size": ("bigint", pa.int64()),
    "payload": ("binary", pa.binary()),
}
COLUMNS: Final = tuple(FIELDS)
SCHEMA: Final = ", ".join(f"{name} {kind}" for name, (kind, _) in FIELDS.items())
_ARROW: Final = pa.schema([(name, kind) for name, (_, kind) in FIELDS.items()])
_SIZE = 10_000
"""Rows of a batch: as many as Spark keeps together. It knows of each batch what is in it, and so a step that wants rows
of one sort does not read the others."""


class TaskOutput:
    """Gathers rows, and hands them on in batches of one sort each."""

    def __init__(self) -> None:
        self._rows: dict[int, list[tuple[Any, ...]]] = {}
        self._full: list[list[tuple[Any, ...]]] = []

    def add(
        self,
        what: int,
        name: str | None = None,
        other: str | None = None,
        key: str | None = None,
        high: str | None = None,
        at: float | None = None,
        other_at: float | None = None,
        begin: float | None = None,
        end: float | None = None,
        kind: str | None = None,
        number: int | None = None,
        size: int | None = None,
        payload: bytes | None = None,
    ) -> None:
        """Add a row; the fields that are not given are null."""
        rows = self._rows.setdefault(what, [])
        rows.append((what, name, other, key, high, at, other_at, begin, end, kind, number, size, payload))
        if len(rows) == _SIZE:
            self._full.append(self._rows.pop(what))

    def full(self) -> Batches:
        """Yield the batches that are full."""
        while self._full:
            yield _batch(self._full.pop())

    def rest(self) -> Batches:
        """Yield what is left."""
        yield from self.full()
        for rows in self._rows.values():
            yield _batch(rows)
        self._rows = {}


def _batch(rows: list[tuple[Any, ...]]) -> Any:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, kind.type) for column, kind in zip(columns, _ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)


def columns_of(what: int, count: int, **columns: Any) -> Any:
    """A batch of ``count`` rows of one sort, from whole columns; those that are not given are null."""
    columns["what"] = pa.repeat(pa.scalar(what, pa.int8()), count)
    return pa.RecordBatch.from_arrays(
        [_column(columns.get(each.name), each.type, count) for each in _ARROW], schema=_ARROW
    )


def _column(values: Any, kind: Any, count: int) -> Any:
    if values is None:
        return pa.nulls(count, kind)
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks().cast(kind)
    return values.cast(kind) if isinstance(values, pa.Array) else pa.array(values, kind)


def by(column: str, batches: Batches, columns: str) -> Iterator[tuple[Any, Iterator[tuple[Any, ...]]]]:
    """Group the rows of sorted batches by a column; ``columns`` are the names of the others that are wanted."""
    found = groupby(each(batches, f"{column} {columns}"), key=lambda row: row[0])
    return ((value, (row[1:] for row in rows)) for value, rows in found)


def each(batches: Batches, columns: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of batches; ``columns`` are the names of those that are wanted."""
    for batch in batches:
        yield from zip(*(batch.column(name).to_pylist() for name in columns.split()), strict=True)


_Step = TypeVar("_Step", bound=Callable[..., Batches])


def pausing_collector(step: _Step) -> _Step:
    """Run a step without Python's garbage collector: it makes millions of small objects and hardly any cycles, and
    looking through them takes a third of the time."""

    @wraps(step)
    def run(*arguments: Any) -> Batches:
        with without_collector():
            yield from step(*arguments)

    return cast(_Step, run)
