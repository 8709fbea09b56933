"""Presents a collection as an Arrow dataset that is read lazily while a query runs.

Only the requested columns are built, only the documents that an index selects are read, and reading stops when the
query has enough rows.

The types are guessed from a sample, the first documents. Every document that is read must fit them. If one does not,
the query fails, ``uncovered`` is true, and the query must be rerun over tables of all documents (``table``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.dataset

from lowtide.columnar.columns import Columns, Uncovered
from lowtide.columnar.inference import Fields, Shape
from lowtide.columnar.predicates import columns_of, conditions, document_filter, parsed
from lowtide.columnar.table import SAMPLE, portions
from lowtide.values.codec import decode_document

Stored = Callable[[Mapping[str, Any]], Iterator[Sequence[bytes]]]
"""Returns stored documents in batches, ordered by id: at least those that match a filter."""


class DocumentStream:
    """A collection in one snapshot, read lazily."""

    def __init__(self, stored: Stored) -> None:
        self._stored = stored
        self._fields = Fields()
        self._misfit = False
        self.failure: Exception | None = None
        """Any other error that occurred while one of its datasets was read."""
        found = 0
        batches = stored({})
        for batch in batches:
            self._fields.add(map(decode_document, batch[: SAMPLE - found]))
            found += len(batch)
            if found > SAMPLE:
                break
        self._schema = self._fields.schema()
        self.empty = not found
        self.complete = found <= SAMPLE
        """Whether the sample is the whole collection, so that its schema covers everything."""

    @property
    def names(self) -> list[str]:
        """The schema of the sample."""
        return list(self._fields.shapes)

    @property
    def uncovered(self) -> bool:
        """Whether a document was read that the sample's schema does not cover.

        A column of JSON text accepts every value, but adds it to its shape. If the shape then leads to another type,
        that counts as not covered too.
        """
        return self._misfit or not self._fields.schema().equals(self._schema, check_metadata=True)

    def dataset(self, columns: Collection[str] | None, watched: Sequence[str] = ()) -> Any:
        """Return a ``pyarrow.dataset.Dataset`` of these columns of the sample, or of all of them.

        ``watched`` are fields that the sample lacks: reading fails at a document that has one of them. With all
        columns, reading fails at a document that has any field unknown to the sample.
        """
        schema = self._schema
        if columns is not None:
            schema = pa.schema([field for field in schema if field.name in columns])
        return _Dataset(self, schema, None if columns is None else watched)

    def _read(
        self, schema: pa.Schema, watched: Sequence[str] | None, columns: Sequence[str] | None, filter: Any
    ) -> pa.RecordBatchReader:
        tree = parsed(filter) if filter is not None else None
        wanted = schema.names if columns is None else list(columns)
        strict = self._strict(wanted, set() if filter is None else columns_of(tree), watched)
        shown = pa.schema([schema.field(name) for name in wanted])
        narrowed = document_filter(conditions(tree), schema)

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                for batch in _begun(portions(self._stored(narrowed))):
                    table = pa.Table.from_batches([strict.batch(batch)])
                    found = (table if filter is None else table.filter(filter)).select(wanted)
                    yield from found.to_batches()
            except Uncovered:
                self._misfit = True
                raise
            except Exception as error:
                self.failure = error
                raise

        return pa.RecordBatchReader.from_batches(shown, batches())

    def _strict(self, wanted: Sequence[str], filtered: set[str] | None, watched: Sequence[str] | None) -> Columns:
        """Return the builder of the columns that are selected or filtered by. None means that the latter are unknown,
        so all columns are built. Detecting unknown fields also requires all columns."""
        fields = Fields()
        shapes = self._fields.shapes
        if watched is None:
            fields.shapes = shapes
            return Columns(self._schema, fields=fields)
        needed = {*wanted, *(shapes if filtered is None else filtered)}
        fields.columns = (*(name for name in shapes if name in needed), *watched)
        fields.shapes = {name: shapes[name] if name in shapes else Shape() for name in fields.columns}
        made = [self._schema.field(name) if name in shapes else pa.field(name, pa.null()) for name in fields.columns]
        return Columns(pa.schema(made), fields=fields)


class _Dataset(pyarrow.dataset.Dataset):  # type: ignore[misc]
    """The dataset that DuckDB scans. It requests a scanner with columns and a filter, and a reader from that."""

    def __init__(self, stream: DocumentStream, schema: pa.Schema, watched: Sequence[str] | None) -> None:
        self._of = stream, schema, watched

    @property
    def schema(self) -> pa.Schema:
        return self._of[1]

    def scanner(self, columns: Sequence[str] | None = None, filter: Any = None, **_: Any) -> _Scanner:
        """Return a scanner of these columns, or of all, for the rows that satisfy the filter."""
        return _Scanner(self._of, columns, filter)


class _Scanner:
    def __init__(self, of: tuple[DocumentStream, pa.Schema, Sequence[str] | None], columns: Any, filter: Any) -> None:
        self._asked = (*of, columns, filter)

    def to_reader(self) -> pa.RecordBatchReader:
        stream, schema, watched, columns, filter = self._asked
        return stream._read(schema, watched, columns, filter)


def _begun(batches: Iterator[Sequence[bytes]]) -> Iterator[Sequence[bytes]]:
    """Yield the batches, with the first one split in two, so that a query for a few rows needs only a small batch."""
    for batch in batches:
        yield batch[:SAMPLE]
        if batch[SAMPLE:]:
            yield batch[SAMPLE:]
        break
    yield from batches
