"""Conflicts in the words of documents: which document of which collection, or which value another one took."""

from __future__ import annotations

from lowtide.base.codec import after_prefix
from lowtide.documents.catalog import CATALOG, DOCUMENTS, INDEXES, row_of
from lowtide.documents.codec import decode_document
from lowtide.documents.indexes.spec import Index
from lowtide.documents.unit import key_value
from lowtide.errors import ConflictError, DuplicateKeyConflict
from lowtide.transaction.engine import Engine
from lowtide.transaction.transaction import Transaction
from lowtide.versions.visibility import Range


def explained(error: ConflictError, tx: Transaction) -> ConflictError:
    """The conflict of a transaction that has failed, with what its key stands for."""
    engine = tx._engine
    if error.keyspace.startswith(DOCUMENTS):
        full_key = engine.catalog.prefix_of(error.keyspace) + error.key
        stored = tx._writes.get(full_key) or engine.reader.get_latest(full_key)
        if stored is not None:
            _id = decode_document(stored)["_id"]
            what = f"the document with _id {_id!r} of collection {error.keyspace.removeprefix(DOCUMENTS)!r}"
            return error.naming(what)
    if error.keyspace.startswith(INDEXES):
        return _taken(error, tx, engine) or error
    if error.keyspace == CATALOG:
        return error.naming(f"the indexes and schema of collection {error.key.decode()!r}")
    return error


def _taken(error: ConflictError, tx: Transaction, engine: Engine) -> ConflictError | None:
    """For an entry of a unique index that another document has now: that both wanted the same value."""
    named = _index_in(engine, error.keyspace)
    if named is None or not named[2].unique:
        return None
    collection, keyspace, index = named
    full_key = engine.catalog.prefix_of(error.keyspace) + error.key
    holder, ours = engine.reader.get_latest(full_key), tx._writes.get(full_key)
    if holder is None or ours is None or holder == ours:
        return None
    stored = engine.reader.get_latest(engine.catalog.prefix_of(keyspace) + holder)
    if stored is None:
        return None
    document = decode_document(stored)
    return DuplicateKeyConflict(error, collection, index.name, key_value(index, document), document["_id"])


def _index_in(engine: Engine, keyspace: str) -> tuple[str, str, Index] | None:
    """The collection, its documents' keyspace and the index whose entries lie in ``keyspace``."""
    rows = engine.catalog.prefix_of(CATALOG)
    last = engine.registry.published
    for chunk in engine.reader.scan(Range(rows, after_prefix(rows)), lambda: last, None):
        for key, encoded in chunk:
            row = row_of(key.decode(), encoded)
            for index in row.indexes:
                if index.keyspace == keyspace:
                    return key.decode(), row.keyspace, index
    return None
