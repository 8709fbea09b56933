"""Conflicts explained in terms of documents: which document, or which value of a unique index, they are about."""

from __future__ import annotations

from lowtide.documents.catalog import CATALOG, DOCUMENTS, INDEXES, CatalogRow, row_of
from lowtide.documents.indexes.spec import PRIMARY
from lowtide.documents.write_batch import key_value
from lowtide.engine import Engine, EngineTransaction, Range, after_prefix
from lowtide.errors import ConflictError, DuplicateKeyConflict, shown
from lowtide.values.codec import decode_document


def explained(error: ConflictError, tx: EngineTransaction) -> ConflictError:
    """Return the conflict of a failed transaction with a description of its key."""
    engine = tx.engine
    if error.keyspace.startswith(DOCUMENTS):
        full_key = engine.catalog.prefix_of(error.keyspace) + error.key
        ours, theirs = tx.writes.get(full_key), engine.reader.get_latest(full_key)
        stored = ours or theirs
        if stored is not None:
            named = _row_with(engine, error.keyspace)
            name = named[0] if named is not None else error.keyspace.removeprefix(DOCUMENTS)
            _id = decode_document(stored)["_id"]
            if ours is not None and theirs is not None and tx.before.get(full_key, b"") is None:  # both inserted it
                return DuplicateKeyConflict(error, name, PRIMARY, {"_id": _id}, _id)
            return error.naming(f"the document with _id {shown(_id)} of collection {name!r}")
    if error.keyspace.startswith(INDEXES):
        return _of_entry(error, tx, engine)
    if error.keyspace == CATALOG:
        return error.naming(f"the indexes and schema of collection {error.key.decode()!r}")
    return error


def _of_entry(error: ConflictError, tx: EngineTransaction, engine: Engine) -> ConflictError:
    """Explain a conflict on an index entry. In a unique index, both documents wanted the same value."""
    named = _row_with(engine, error.keyspace)
    if named is None:
        return error
    collection, row = named
    index = next(each for each in row.indexes if each.keyspace == error.keyspace)
    full_key = engine.catalog.prefix_of(error.keyspace) + error.key
    holder, ours = engine.reader.get_latest(full_key), tx.writes.get(full_key)
    if index.unique and holder is not None and ours is not None and holder != ours:
        stored = engine.reader.get_latest(engine.catalog.prefix_of(row.keyspace) + holder)
        if stored is not None:
            document = decode_document(stored)
            return DuplicateKeyConflict(error, collection, index.name, key_value(index, document), document["_id"])
    return error.naming(f"a part of index {index.name!r} of collection {collection!r}")


def _row_with(engine: Engine, keyspace: str) -> tuple[str, CatalogRow] | None:
    """Return the collection, and its row, whose documents or index entries are in ``keyspace``."""
    rows = engine.catalog.prefix_of(CATALOG)
    last = engine.registry.published
    for chunk in engine.reader.scan(Range(rows, after_prefix(rows)), lambda: last, None):
        for key, encoded in chunk:
            row = row_of(key.decode(), encoded)
            if keyspace in row.keyspaces[1:]:
                return key.decode(), row
    return None
