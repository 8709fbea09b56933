"""Inserts of one document and of many: flat code from the documents to the buffer, where indexes are flat.

Many documents are handled by column: what is done for each value is a loop in C over all of them. That needs documents
of plain values, and of objects and arrays of these, as most are. Others are prepared one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any, Final, NamedTuple

from lowtide.documents.catalog import CatalogRow
from lowtide.documents.indexes.entries import LENGTHS, MAX_VALUES
from lowtide.documents.operations import PlainDocuments, Prepared
from lowtide.documents.prepared.statements import WritableView, entries_of, located
from lowtide.documents.write_batch import WriteBatch
from lowtide.engine import PrefixOf, Writes
from lowtide.errors import DuplicateKeyError
from lowtide.values.codec import encode_plain
from lowtide.values.ids import id_keys
from lowtide.values.ordering import INVERSE, encode, encode_column
from lowtide.values.values import Document

_DICTS: Final = frozenset((dict,))
_REPEATED: Final = frozenset((str, int, bool, type(None)))
"""Types of which equal values are the same value. Of floats, 0.0 and -0.0 are equal."""


class PreparedBatch(NamedTuple):
    """Documents of plain values that are ready to be inserted, each with its own given ``_id``."""

    documents: Sequence[Document]
    ids: list[Any]
    keys: list[bytes]
    encoded: list[bytes]


def prepare_batch(documents: Sequence[Any]) -> PreparedBatch | None:
    """Check and encode documents to insert, all at once. None if they have to be prepared one by one: because of other
    values than plain ones, because an ``_id`` is missing or not the first field, or to find out which one is wrong."""
    if not documents or not _DICTS.issuperset(map(type, documents)) or not all(documents):
        return None
    if list(map(next, map(iter, documents))).count("_id") < len(documents):
        return None
    ids = [each["_id"] for each in documents]
    keys = id_keys(ids)
    if keys is None or len(set(keys)) < len(keys):
        return None
    encoded = encode_plain(documents, checked=type(documents) is PlainDocuments)
    if encoded is None:
        return None
    return PreparedBatch(documents, ids, keys, encoded)


def insert_at(view: WritableView, name: str, document: Prepared) -> bool:
    """Insert one document. Returns that it is done."""
    row, row_key, prefix = located(view, name)
    key, encoded = document.key, document.encoded
    full_key = prefix + key
    if not document.is_new and view.read(full_key) is not None:
        raise DuplicateKeyError(name, "_id_", {"_id": document.id}, document.id)
    prefix_of = view.engine.catalog.prefix_of
    if row.schema is None and not row.indexes:
        view.apply_one(full_key, encoded, row_key, None)
        return True
    if row.schema is None and row.flat:
        source = document.source
        entries = entries_of(row, source, key, prefix_of, given=True) if source is not None else None
        if entries is None:
            entries = entries_of(row, row.decode_indexed(encoded), key, prefix_of)
        if entries is not None:
            entries[full_key] = encoded
            view.apply(entries, (row_key,), dict.fromkeys(entries))
            return True
    batch = WriteBatch(view, prefix_of, name)
    batch.insert(key, encoded, is_new=True)
    batch.apply()
    return True


def insert_fresh(view: WritableView, name: str, documents: Sequence[Prepared]) -> bool:
    """Insert documents if all of them are new and each has one entry in each index. Returns False if not: then nothing
    was inserted."""
    row, row_key, prefix = located(view, name)
    if row.schema is not None or not row.flat:
        return False
    prefix_of = view.engine.catalog.prefix_of
    writes: Writes = {prefix + each.key: each.encoded for each in documents}
    given = [prefix + each.key for each in documents if not each.is_new]
    if len(writes) < len(documents) or any(value is not None for value in view.read_many(given)):
        return False
    for each in documents if row.indexes else ():
        entries = entries_of(row, row.decode_indexed(each.encoded), each.key, prefix_of)
        if entries is None:
            return False
        writes.update(entries)
    view.apply(writes, (row_key,), dict.fromkeys(writes))
    return True


def insert_batch(view: WritableView, name: str, batch: PreparedBatch) -> bool:
    """As ``insert_fresh``, by column."""
    row, row_key, prefix = located(view, name)
    if row.schema is not None or not row.flat:
        return False
    keys = batch.keys
    full_keys = list(map(prefix.__add__, keys))
    if view.read_many(full_keys).count(None) < len(keys):
        return False
    writes: Writes = dict(zip(full_keys, batch.encoded, strict=True))
    if row.indexes and not _add_entries(writes, row, batch, view.engine.catalog.prefix_of):
        return False
    view.apply(writes, (row_key,), dict.fromkeys(writes))
    return True


def _add_entries(writes: Writes, row: CatalogRow, batch: PreparedBatch, prefix_of: PrefixOf) -> bool:
    """Add the index entries of a batch to its writes. Returns False if a document has several, or one that is too
    long."""
    documents, keys = batch.documents, batch.keys
    lengths = [LENGTHS[length] for length in map(len, keys)]
    for each in row.entries:
        columns = []
        for path, direction in each.index.keys:
            column = _column(documents, path, direction)
            if column is None:
                return False
            columns.append(column)
        values = list(map(b"".join, zip(*columns, strict=True))) if len(columns) > 1 else columns[0]
        if max(map(len, values)) > MAX_VALUES:
            return False
        full_keys = map(b"".join, zip(repeat(prefix_of(each.index.keyspace)), values, keys, strict=False))
        writes.update(zip(full_keys, lengths, strict=True))
    return True


def _column(documents: Sequence[Document], path: str, direction: int) -> list[bytes] | None:
    """Return the encoded values of one field of all documents; None if one is an array."""
    values = [each.get(path) for each in documents]
    kinds = set(map(type, values))
    if list in kinds:
        return None
    if len(kinds) > 1:
        encoded = list(map(encode, values))
    elif (kind := kinds.pop()) in _REPEATED and len(set(values)) == 1:
        encoded = [encode(values[0])] * len(values)
    else:
        encoded = encode_column(kind, values)
    return encoded if direction > 0 else [each.translate(INVERSE) for each in encoded]
