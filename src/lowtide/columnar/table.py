"""Converts whole collections to Arrow: to a table, or to a reader that streams record batches.

With a schema, the mode decides what happens to values that do not fit (``columns``). Without one, a schema that covers
everything is inferred. It is guessed from the first documents. When a later document does not fit, the schema is
widened and the earlier documents are converted again. Documents of the same shape are therefore read once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa

from lowtide.columnar.columns import Columns, Mode, Uncovered
from lowtide.columnar.inference import Fields
from lowtide.errors import UsageError
from lowtide.values.codec import decode_document

Source = Callable[[], Iterable[Sequence[bytes]]]
"""Returns stored documents in batches. Each call returns the same documents in the same order, as a snapshot does."""

SAMPLE: Final = 1000
"""Number of documents from which the types are guessed."""
MOST_BYTES: Final = 1 << 29
"""Maximum bytes of stored documents per record batch: well below what a column of Arrow strings can hold."""


def to_table(
    source: Source,
    columns: Sequence[str] | None = None,
    schema: pa.Schema | None = None,
    *,
    collection: str = "",
    mode: str = Mode.FAILFAST,
    corrupt: str | None = None,
) -> pa.Table:
    """Return all documents as one table, with all fields or with ``columns``, in that order.

    >>> from lowtide.values.codec import encode_document
    >>> stored = [encode_document({"_id": 1, "name": "Ada"}), encode_document({"_id": 2})]
    >>> to_table(lambda: [stored]).to_pylist()
    [{'_id': 1, 'name': 'Ada'}, {'_id': 2, 'name': None}]
    """
    if schema is None:
        found, batches = _covering(source, columns, keep=True)
        return pa.Table.from_batches(batches, schema=found.schema)
    declared = Columns(chosen(schema, columns), collection=collection, mode=mode, corrupt=corrupt)
    return pa.Table.from_batches(declared.batches(portions(source())), schema=declared.schema)


def reader(
    source: Source,
    columns: Sequence[str] | None = None,
    schema: pa.Schema | None = None,
    *,
    collection: str = "",
    mode: str = Mode.FAILFAST,
    corrupt: str | None = None,
) -> pa.RecordBatchReader:
    """Stream the same as record batches. Without a schema, all documents are read once before the first batch."""
    if schema is None:
        found, _ = _covering(source, columns, keep=False)
    else:
        found = Columns(chosen(schema, columns), collection=collection, mode=mode, corrupt=corrupt)
    return pa.RecordBatchReader.from_batches(found.schema, found.batches(portions(source())))


def covering_schema(source: Source, columns: Sequence[str] | None = None) -> pa.Schema:
    """Return the schema that covers every value of every document."""
    found, _ = _covering(source, columns, keep=False)
    return found.schema


def chosen(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    """Return the schema with only these columns, in this order."""
    if columns is None:
        return schema
    if missing := [name for name in columns if name not in schema.names]:
        raise UsageError(f"the schema has no column {missing[0]!r}; it has {', '.join(schema.names) or 'none'}")
    return pa.schema([schema.field(name) for name in columns])


def _covering(source: Source, columns: Sequence[str] | None, *, keep: bool) -> tuple[Columns, list[pa.RecordBatch]]:
    """Return strict columns that cover every document, and all record batches if they are to be kept."""
    fields = Fields(columns)
    current = _sampled(source, fields)
    while True:
        built: list[pa.RecordBatch] = []
        read = late = 0  # documents read in total, and before the last change of the schema
        for batch in portions(source()):
            try:
                record = current.batch(batch)
            except Uncovered:
                current = _widened(current, fields, batch)
                record, built, late = current.batch(batch), [], read
            read += len(batch)
            if keep and record.num_rows:
                built.append(record)
        early: list[pa.RecordBatch] = []
        for batch in _first(portions(source()), late):
            try:
                record = current.batch(batch)
            except Uncovered:
                current = _widened(current, fields, batch)
                break
            if keep:
                early.append(record)
        else:
            if fields.schema().equals(current.schema, check_metadata=True):
                return current, early + built
            current = _strict(fields)  # a column of JSON text turned out to need none


def _sampled(source: Source, fields: Fields) -> Columns:
    for batch in _first(source(), SAMPLE):
        fields.add(map(decode_document, batch))
    return _strict(fields)


def _strict(fields: Fields) -> Columns:
    return Columns(fields.schema(), fields=fields)


def _widened(current: Columns, fields: Fields, batch: Sequence[bytes]) -> Columns:
    """Return columns widened to cover this batch too."""
    fields.add(map(decode_document, batch))
    wider = _strict(fields)
    assert not wider.schema.equals(current.schema, check_metadata=True), "a misfit did not widen the schema"
    return wider


def _first(batches: Iterable[Sequence[bytes]], count: int) -> Iterator[Sequence[bytes]]:
    """Return the first ``count`` documents, or fewer if there are not as many."""
    left = count
    if not left:
        return
    for batch in batches:
        yield batch[:left]
        left -= len(batch)
        if left <= 0:
            return


def portions(batches: Iterable[Sequence[bytes]]) -> Iterator[Sequence[bytes]]:
    """Yield the batches. One with too many bytes for a record batch is halved; empty ones are skipped."""
    for batch in batches:
        if len(batch) > 1 and sum(map(len, batch)) > MOST_BYTES:
            yield from portions((batch[: len(batch) // 2], batch[len(batch) // 2 :]))
        elif batch:
            yield batch
