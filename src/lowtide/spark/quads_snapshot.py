"""Reads the statements of a quad store as of one commit: a range of one index for each task.

The options ``s``, ``p``, ``o`` and ``g`` are a pattern, which selects the index and the range of it that is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from lowtide.engine import EngineSnapshot, SnapshotStatements, after_prefix
from lowtide.errors import Error, UsageError
from lowtide.quads.ids import DEFAULT, Term
from lowtide.quads.indexes import check_quads_name
from lowtide.quads.read_quads import ids_of_pattern
from lowtide.quads.reading import open_reader
from lowtide.quads.text import term_of_text
from lowtide.spark.load_pin import LoadPin
from lowtide.spark.location import StoreLocation
from lowtide.spark.options import FEED, PATTERN, SparkOptions
from lowtide.spark.partitions import Bounds, parts_of
from lowtide.spark.snapshot import BATCH, SnapshotReader
from lowtide.spark.statements import Rows, StatementBatches, keyspace_of
from lowtide.store.opening import open_store

FOREIGN: Final = ("filter", "columns", "jsonColumns", "keyStart", "keyEnd", "keyPrefix", "cache", "cacheBytes", "mode")
"""Options of documents and keyspaces, which do not apply here."""
_DEFAULT: Final = "default"


@dataclass(frozen=True)
class StatementRange(InputPartition):
    """The statements whose keys in an index are in ``[low, high)`` and have the ids of ``filter`` at their
    positions."""

    order: str
    low: bytes
    high: bytes | None
    filter: tuple[tuple[int, int, bytes], ...] = ()


class QuadsReader(SnapshotReader):
    """Reads a quad store as of one commit."""

    def __init__(self, options: SparkOptions, schema: StructType, location: StoreLocation, pin: LoadPin) -> None:
        options.refuse(FOREIGN, "for quads")
        options.refuse(FEED, "without readChangeFeed")
        self._options = options
        self._schema = schema
        self._location = location
        self._pin = pin
        self._size = options.number("batchSize", BATCH) or BATCH
        self._parts = options.number("partitions")
        self._name = check_quads_name(options.quads)
        pattern_of(options)
        StatementBatches(schema)  # refuses here what each task would refuse

    def partitions(self) -> Sequence[InputPartition]:
        """Return the parts. They are planned once per DataFrame; later actions reuse them."""
        with self._explained(), self._open(Path(self._location.path)) as snapshot:
            with open_reader(SnapshotStatements(snapshot), self._name) as reader:
                ids = ids_of_pattern(reader, pattern_of(self._options))
                if ids is None:
                    return [StatementRange("spoc", b"", b"")]
                access = reader.access(ids)
            low = access.key(ids)
            within = Bounds(low, after_prefix(low) if low else None)
            keyspace = keyspace_of(self._name, access.order)
            parts = parts_of(self._parts, snapshot, keyspace, within)
            cuts = snapshot.cuts(keyspace, parts, within.low or None, within.high)
            wanted = tuple(access.filter(ids))
            ranges = zip([within.low, *cuts], [*cuts, within.high], strict=True)
            return [StatementRange(access.order, *each, wanted) for each in ranges]

    def _batches(self, snapshot: EngineSnapshot, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, StatementRange)
        columns = StatementBatches(self._schema)
        order, wanted = partition.order, partition.filter
        rows = rows_at(snapshot, self._name)
        entries = snapshot.keyspace(keyspace_of(self._name, order)).scan(partition.low or None, partition.high)
        while found := list(islice(entries, self._size)):
            for start, end, id in wanted:
                found = [each for each in found if each[0][start:end] == id]
            yield columns.batch([key for key, _ in found], [value for _, value in found], rows, order)


def pattern_of(options: SparkOptions) -> tuple[Any, Any, Any, Any]:
    """Return the pattern that the options give: terms, None for any. It must not be pickled: that would change the
    lexical form of rdflib's literals."""
    s, p, o, g = (_term(options, name) for name in PATTERN)
    return s, p, o, g


def _term(options: SparkOptions, name: str) -> Term | Any:
    text = options.text(name)
    if text is None:
        return None
    if name == "g" and text == _DEFAULT:
        return DEFAULT
    try:
        return term_of_text(text)
    except UsageError as error:
        raise UsageError(f"option {name!r}: {error}") from error


def rows_at(snapshot: EngineSnapshot, name: str) -> Rows:
    """Returns rows of a quad store's dictionary at a snapshot, all of which must be there."""
    prefix = snapshot.keyspace(keyspace_of(name, "terms")).prefix

    def rows(ids: list[bytes]) -> list[bytes]:
        found = snapshot.peek([prefix + id for id in ids])
        for id, row in zip(ids, found, strict=True):
            if row is None:
                raise Error(f"the dictionary has no term with the id {id.hex()}; run store.verify()")
        return found  # type: ignore[return-value]

    return rows


def check_quads(options: SparkOptions) -> None:
    """Refuse a quad store that never existed. One whose statements were all removed can be read as of an earlier
    commit."""
    with open_store(options.path, read_only=True) as store:
        is_known = keyspace_of(options.quads or "") in store.keyspaces()
        names = [] if is_known else store.list_quads()
    if not is_known:
        there = f"it has {', '.join(map(repr, names))}" if names else "it has none"
        raise UsageError(
            f"the store {options.path} has no quad store {options.quads!r}; {there}. To read what may not be there "
            "yet, give a schema"
        )
