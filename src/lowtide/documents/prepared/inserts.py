"""Inserts of one document or many: straight-line code from the documents to the buffer, for flat indexes.

Many documents are processed by column: what is done for each value is a loop in C over all documents. The documents
must consist of plain values, and of objects and arrays of these, as most do. Other documents are prepared one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from operator import ne
from typing import Any, Final, NamedTuple

import msgspec

from lowtide.documents.catalog import CatalogRow
from lowtide.documents.indexes.entries import LENGTHS, MAX_VALUES
from lowtide.documents.operations import PlainDocuments, Prepared, prepare
from lowtide.documents.prepared.statements import WritableView, entries_of, located
from lowtide.documents.write_batch import WriteBatch
from lowtide.engine import PrefixOf, Writes
from lowtide.errors import DuplicateKeyError, InvalidDocument
from lowtide.values.codec import MAX_DOCUMENT, encode_nested, encode_plain
from lowtide.values.ids import ID_TYPES, MAX_ID, id_keys
from lowtide.values.ordering import ENCODERS, INVERSE, encode_column
from lowtide.values.ordering import encode as encode_key
from lowtide.values.values import Document

_DICTS: Final = frozenset((dict,))
_NAMES: Final = frozenset((str,))
_WHOLE: Final = frozenset((str, int, bool, bytes, type(None)))
_FLAT: Final = _WHOLE | {float}
"""Types whose values MessagePack encodes as the store does, unless a float is NaN or an int has more than 64 bits."""
_MOST_NAMES: Final = 64
_MOST_SHAPES: Final = 1024
_encode: Final = msgspec.msgpack.Encoder().encode
_REPEATED: Final = frozenset((str, int, bool, type(None)))
"""Types whose equal values are stored identically. This is not true of floats: 0.0 equals -0.0."""


class PreparedBatch(NamedTuple):
    """Documents of plain values that are ready to be inserted, each with an ``_id`` given by the caller."""

    documents: Sequence[Document]
    ids: list[Any]
    keys: list[bytes]
    encoded: list[bytes]


def prepare_batch(documents: Sequence[Any]) -> PreparedBatch | None:
    """Check and encode documents to insert, all at once. None if they must be prepared one by one: because of values
    that are not plain, because an ``_id`` is missing or not the first field, or to find out which document is
    invalid."""
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


_known_names: Final[set[tuple[Any, ...]]] = set()
"""The field names of inserted documents, in order, ``_id`` first: these names can be stored. A name of a subclass of
str that equals one of them is stored as its text. Any thread may add to the set or clear it. A missing entry only costs
time."""


def prepare_one(document: Any) -> Prepared:
    """The same as ``prepare``, but faster for a document whose field names were seen before."""
    names = tuple(document) if type(document) is dict else ()
    if names in _known_names:
        values, value = document.values(), document["_id"]
        encode: Callable[[Any], bytes] = encode_nested
        if _WHOLE.issuperset(map(type, values)) or (
            _FLAT.issuperset(map(type, values)) and not any(map(ne, values, values))
        ):
            encode = _encode
        if type(value) in ID_TYPES:
            try:
                key, encoded = ENCODERS[type(value)](value), encode(document)
            except (UnicodeEncodeError, OverflowError, TypeError, InvalidDocument):
                return prepare(document)
            if len(key) <= MAX_ID and len(encoded) <= MAX_DOCUMENT:
                return Prepared(value, key, encoded, False, document)
        return prepare(document)
    prepared = prepare(document)
    if 0 < len(names) <= _MOST_NAMES and names[0] == "_id" and _NAMES.issuperset(map(type, names)):
        if len(_known_names) >= _MOST_SHAPES:
            _known_names.clear()
        if not any(name.startswith("$") for name in names):
            _known_names.add(names)
    return prepared


def insert_at(view: WritableView, name: str, document: Prepared) -> bool:
    """Insert one document. Always returns True."""
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
        source, make = document.source, row.entries_of_given
        entries = make(source, key, LENGTHS[len(key)], prefix_of) if source is not None and make is not None else None
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
    """Insert documents if all of them are new and each has one entry in each index. Otherwise inserts nothing and
    returns False."""
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
    """The same as ``insert_fresh``, by column."""
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
    """Add the index entries of a batch to its writes. Returns False if a document has several entries in an index, or
    one that is too long."""
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
    """Return the encoded values of one field of all documents; None if a value is an array."""
    values = [each.get(path) for each in documents]
    kinds = set(map(type, values))
    if list in kinds:
        return None
    if len(kinds) > 1:
        encoded = list(map(encode_key, values))
    elif (kind := kinds.pop()) in _REPEATED and len(set(values)) == 1:
        encoded = [encode_key(values[0])] * len(values)
    else:
        encoded = encode_column(kind, values)
    return encoded if direction > 0 else [each.translate(INVERSE) for each in encoded]
