"""Reads a snapshot. It is planned once per DataFrame and read by tasks in any process on the store's machine.

The plan is one pin and a list of parts. A task opens the store's files at that pin, converts the stored documents of
its part to record batches, and renews the pin while it reads.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import BinaryType, StructType

from lowtide.columnar import table
from lowtide.columnar.blocks import content_of, plan_blocks, stable_cuts
from lowtide.columnar.cache import LIMIT, Cache
from lowtide.columnar.columns import Columns, Mode
from lowtide.documents.filters import Filter, compile_filter
from lowtide.documents.plans.plan import Plan
from lowtide.documents.reader import CollectionReader, picked
from lowtide.engine import EngineSnapshot
from lowtide.errors import Error, SnapshotExpired, UsageError
from lowtide.sharing.pins.snapshot import renew_pin
from lowtide.spark.inference import look_at, undecodable
from lowtide.spark.load_pin import LoadPin
from lowtide.spark.location import StoreLocation
from lowtide.spark.options import FEED, SparkOptions
from lowtide.spark.partitions import (
    EVERYTHING,
    Bounds,
    EntryRange,
    RowRange,
    bounds,
    cut,
    narrowed,
    of_plan,
    parts_of,
    stretches,
)
from lowtide.spark.schemas import KEYSPACE, arrow_schema, check_types
from lowtide.values.codec import decode_document

BATCH: Final = 10_000
"""Rows per record batch."""
_MOST_NUMBERED: Final = 1_000_000
"""Rows per record batch without columns."""
CORRUPT: Final = "_corrupt_record"
"""Spark's default name for the column of corrupt records."""


class SnapshotReader(DataSourceReader):
    """Reads a collection or a keyspace as of one commit."""

    def __init__(
        self, options: SparkOptions, schema: StructType, location: StoreLocation, pin: LoadPin, mode: str
    ) -> None:
        self._options = options
        self._schema = schema
        self._location = location
        self._pin = pin
        self._mode = Mode(options.text("mode") or mode)
        self._filter = options.json("filter")
        self._bounds = bounds(options)
        self._size = options.number("batchSize", BATCH) or BATCH
        self._parts = options.number("partitions")
        options.refuse(FEED, "without readChangeFeed")
        if options.keyspace is not None:
            _check_keyspace(options, schema)
            return
        if self._filter is not None and not isinstance(self._filter, dict):
            raise UsageError(f"option 'filter' must be a MongoDB filter, a JSON object, not {options.text('filter')}")
        compile_filter(self._filter)
        columns = options.names("columns")
        if columns is not None and list(dict.fromkeys(columns)) != schema.names:
            raise UsageError(
                f"option 'columns' asks for {', '.join(columns)}, and the given schema has {', '.join(schema.names)}: "
                "a schema chooses the columns by itself"
            )
        check_types(schema)
        self._columns()  # refuses here what each task would refuse
        _ = self._cache

    def partitions(self) -> Sequence[InputPartition]:
        """Return the parts. They are planned once per DataFrame; later actions reuse them."""
        with self._explained(), self._open(Path(self._location.path)) as snapshot:
            if self._options.keyspace is not None:
                parts = parts_of(self._parts, snapshot, self._options.keyspace, self._bounds)
                return list(cut(snapshot, self._options.keyspace, self._bounds, parts))
            look = look_at(snapshot, self._collection)
            parts = parts_of(self._parts, snapshot, look.row.keyspace, self._bounds)
            if self._filter is None and self._cache is not None and self._schema.names:
                return self._blocks(self._cache, snapshot, look.row.keyspace, parts)
            return list(of_plan(snapshot, look, self._plan(look)[1], self._bounds, parts))

    def _blocks(self, cache: Cache, snapshot: EngineSnapshot, keyspace: str, parts: int) -> list[RowRange]:
        """Return the ranges of rows, with their cache blocks. Missing blocks are filled by this read."""
        store, low, high = self._location.store_id, self._bounds.low, self._bounds.high
        cuts = stable_cuts(cache, store, snapshot, keyspace, parts, within=(low, high))
        ranges = list(zip([low, *cuts], [*cuts, high], strict=True))
        details = (self._mode, self._corrupt, self._size)
        content = content_of(store, keyspace, self._arrow, *details)
        path = Path(self._location.path)
        blocks = plan_blocks(cache, path, store, snapshot, keyspace, ranges=ranges, of=content)
        return [RowRange(*each, block) for each, block in zip(ranges, blocks, strict=True)]

    @property
    def _cache(self) -> Cache | None:
        """Return the columnar cache, or None if it is disabled."""
        if not self._options.flag("cache", True):
            return None
        return Cache(Path(self._location.path), self._options.number("cacheBytes", LIMIT, least=0) or 0)

    @property
    def _collection(self) -> str:
        assert self._options.collection is not None
        return self._options.collection

    @property
    def _arrow(self) -> pa.Schema:
        return arrow_schema(self._schema, self._options.names("jsonColumns") or ())

    @property
    def _corrupt(self) -> str | None:
        """Return the column for corrupt records, if the schema has it."""
        name = self._options.text("columnNameOfCorruptRecord", CORRUPT)
        return name if name in self._schema.names else None

    def _columns(self) -> Columns:
        return Columns(self._arrow, collection=self._collection, mode=self._mode, corrupt=self._corrupt)

    def _plan(self, look: CollectionReader) -> tuple[Filter, Plan]:
        compiled = compile_filter(self._filter)
        return compiled, look.plan(compiled, None)

    def _open(self, path: Path) -> EngineSnapshot:
        return self._pin.open(path)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Add the store and the collection to errors."""
        where = f"{self._options.what} of the store {self._location.path}, at commit {self._pin.ts}"
        try:
            yield
        except SnapshotExpired as error:
            raise SnapshotExpired(
                f"{where}: the snapshot of this DataFrame is no longer kept. It was not read for {self._pin.ttl:g} "
                "seconds (option pinTtl), it was released, or the application that loaded it has ended: load() it "
                f"again ({error})"
            ) from error
        except Error as error:
            raise Error(f"{where}: {error}") from error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the record batches of one part, in a task."""
        with self._explained():
            path = self._location.check()
            renew = _Renewal(path, self._pin)
            with self._open(path) as snapshot:
                for batch in self._batches(snapshot, partition):
                    renew()
                    if batch.num_rows:
                        yield batch

    def _batches(self, snapshot: EngineSnapshot, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if self._options.keyspace is not None:
            return self._entries(snapshot, self._options.keyspace, partition)
        if not self._schema.names and self._filter is None and isinstance(partition, RowRange):
            return self._numbers(look_at(snapshot, self._collection), partition)
        if isinstance(partition, RowRange) and partition.block is not None and self._cache is not None:
            return self._cache.read_or_fill(partition.block, lambda: self._documents(snapshot, partition))
        return self._documents(snapshot, partition)

    def _entries(self, snapshot: EngineSnapshot, keyspace: str, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RowRange)
        schema = arrow_schema(self._schema)
        entries = snapshot.keyspace(keyspace).scan(partition.low or None, partition.high)
        while rows := _part(entries, self._size):
            columns = {"key": [key for key, _ in rows], "value": [value for _, value in rows]}
            if not schema.names:
                yield pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
            else:
                yield pa.RecordBatch.from_pydict({name: columns[name] for name in schema.names}, schema=schema)

    def _numbers(self, look: CollectionReader, partition: RowRange) -> Iterator[pa.RecordBatch]:
        """Yield batches without columns, one row per document. No document is decoded."""
        left = look.count(partition.low, partition.high)
        while left > 0:
            rows = min(left, _MOST_NUMBERED)
            yield pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), rows, [None]))
            left -= rows

    def _documents(self, snapshot: EngineSnapshot, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        look = look_at(snapshot, self._collection)
        columns = self._columns()
        try:
            for stored in self._stored(look, partition):
                for each in list(table.portions((stored,))) or [stored]:  # even without rows, to renew the pin
                    yield columns.batch(each)
        except Error:
            raise
        except Exception as error:
            raise _damaged(look, partition, columns, error) from error

    def _stored(self, look: CollectionReader, partition: InputPartition) -> Iterator[list[bytes]]:
        """Yield the stored documents of a part that match the filter, in batches."""
        compiled, by = self._plan(look)
        batches: Iterator[list[bytes]]
        if isinstance(partition, RowRange):
            ranges = stretches(by, Bounds(partition.low, partition.high))
            batches = chain.from_iterable(look.batches_between(each.low, each.high, self._size) for each in ranges)
        else:
            assert isinstance(partition, EntryRange)
            found = narrowed(by, partition)
            batches = (
                look.batches(found, self._size)
                if self._bounds == EVERYTHING
                else _between(look.stored(found), self._bounds, self._size)
            )
        return picked(batches, compiled, by)


def _part(entries: Iterator[tuple[bytes, bytes]], most: int) -> list[tuple[bytes, bytes]]:
    """Return the next entries, up to ``most`` of them and up to the bytes of a batch."""
    found: list[tuple[bytes, bytes]] = []
    size = 0
    for key, value in islice(entries, most):
        found.append((key, value))
        size += len(key) + len(value)
        if size >= table.MOST_BYTES:
            break
    return found


def _check_keyspace(options: SparkOptions, schema: StructType) -> None:
    """Refuse options and columns that do not apply to a keyspace."""
    options.refuse(("filter", "columns", "jsonColumns"), "for a keyspace, whose rows are bytes")
    for field in schema:
        if field.name not in KEYSPACE.names or field.dataType != BinaryType():
            raise UsageError(
                "a keyspace has the columns key and value, both binary, "
                f"not {field.name!r} of type {field.dataType.simpleString()}"
            )


def _damaged(look: CollectionReader, partition: InputPartition, columns: Columns, error: Exception) -> Error:
    """Return an error that names the document that cannot be read."""
    low, high = (partition.low, partition.high) if isinstance(partition, RowRange) else (b"", None)
    for key, stored in look.between(low, high):
        try:
            decode_document(stored)
            columns.batch([stored])
        except Error:
            pass  # it can be read but does not fit
        except Exception as reason:
            return undecodable(key, reason)
    return Error(f"a batch of documents cannot be converted: {error}")


class _Renewal:
    """Renews the pin when a third of its time to live has passed. Called between batches, by one task."""

    def __init__(self, path: Path, pin: LoadPin) -> None:
        self._path = path
        self._pin = pin
        self._renewed = 0.0
        self()

    def __call__(self) -> None:
        now = time.monotonic()
        if now - self._renewed > self._pin.ttl / 3 or not self._renewed:
            try:
                renew_pin(self._path, self._pin.name)
            except SnapshotExpired:
                renew_pin(self._path, self._pin.current_name(self._path) or self._pin.name)
            self._renewed = now


def _between(stored: Iterator[tuple[bytes, bytes]], within: Bounds, size: int) -> Iterator[list[bytes]]:
    found = (value for key, value in stored if within.low <= key and (within.high is None or key < within.high))
    while batch := list(islice(found, size)):
        yield batch
