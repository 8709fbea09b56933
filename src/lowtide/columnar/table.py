"""Whole collections as Arrow: a table, or a reader that streams record batches.

With a schema, values that do not fit it are treated as the mode says (``columns``). Without one, the schema is inferred
and covers everything: it is guessed from the first documents, and where a later one does not fit, it is widened by what
is there, and what came before is converted anew. So documents that are alike are read once.
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
"""Stored documents in batches. Each call gives the same documents in the same order, as a snapshot does."""

SAMPLE: Final = 1000
"""From how many documents the types are guessed."""
MOST_BYTES: Final = 1 << 29
"""Of stored documents in one record batch: well below what a column of Arrow strings can hold."""


def to_table(
    source: Source,
    columns: Sequence[str] | None = None,
    schema: pa.Schema | None = None,
    *,
    collection: str = "",
    mode: str = Mode.FAILFAST,
    corrupt: str | None = None,
) -> pa.Table:
    """All documents as one table, of all fields or of ``columns``, in that order.

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
    """The same, a record batch at a time. Without a schema, all documents are read once before the first batch."""
    if schema is None:
        found, _ = _covering(source, columns, keep=False)
    else:
        found = Columns(chosen(schema, columns), collection=collection, mode=mode, corrupt=corrupt)
    return pa.RecordBatchReader.from_batches(found.schema, found.batches(portions(source())))


def covering_schema(source: Source, columns: Sequence[str] | None = None) -> pa.Schema:
    """The schema that holds every value of every document."""
    found, _ = _covering(source, columns, keep=False)
    return found.schema


def chosen(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    """The schema with just these columns, in their order."""
    if columns is None:
        return schema
    if missing := [name for name in columns if name not in schema.names]:
        raise UsageError(f"the schema has no column {missing[0]!r}; it has {', '.join(schema.names) or 'none'}")
    return pa.schema([schema.field(name) for name in columns])


def _covering(source: Source, columns: Sequence[str] | None, *, keep: bool) -> tuple[Columns, list[pa.RecordBatch]]:
    """Strict columns that every document fits, and the record batches of all, if they are to be kept."""
    fields = Fields(columns)
    current = _sampled(source, fields)
    while True:
        built: list[pa.RecordBatch] = []
        read = late = 0  # how many documents were read, and how many of them before the schema was as it is now
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
    """Columns that this batch fits, too."""
    fields.add(map(decode_document, batch))
    wider = _strict(fields)
    assert not wider.schema.equals(current.schema, check_metadata=True), "what does not fit has widened nothing"
    return wider


def _first(batches: Iterable[Sequence[bytes]], count: int) -> Iterator[Sequence[bytes]]:
    """As many documents as there are to ``count``."""
    left = count
    if not left:
        return
    for batch in batches:
        yield batch[:left]
        left -= len(batch)
        if left <= 0:
            return


def portions(batches: Iterable[Sequence[bytes]]) -> Iterator[Sequence[bytes]]:
    """The batches, those with more bytes than a record batch may have in halves, and none that is empty."""
    for batch in batches:
        if len(batch) > 1 and sum(map(len, batch)) > MOST_BYTES:
            yield from portions((batch[: len(batch) // 2], batch[len(batch) // 2 :]))
        elif batch:
            yield batch
