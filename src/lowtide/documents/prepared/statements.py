"""Statements on the document with one ``_id``, the most common ones: flat code from the key to the buffer.

They run where all statements of a transaction read one instant, so on the transaction itself. Everything else, and
every collection for which more is to be done than to write one row, goes through ``WriteBatch``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from lowtide.documents.catalog import CATALOG, CatalogRow, row_of
from lowtide.documents.operations import Prepared, Selection, update
from lowtide.documents.plans.planner import SortKeys
from lowtide.documents.prepared.shapes import PreparedFilter
from lowtide.documents.results import DeleteResult, UpdateResult
from lowtide.documents.updates import Update
from lowtide.documents.write_batch import WriteBatch
from lowtide.engine import (
    NOWHERE,
    AutocommitStatements,
    Engine,
    EngineTransaction,
    PrefixOf,
    Range,
    ReadView,
    Statements,
    Writes,
    WriteView,
)
from lowtide.errors import DuplicateKeyError
from lowtide.system.clock import moment
from lowtide.values.codec import decode_document, encode_document
from lowtide.values.ids import ID_TYPES, MAX_ID
from lowtide.values.ordering import ENCODERS
from lowtide.values.values import Document

_Result = TypeVar("_Result")
_MOST = 128
"""Entries that are read at once. A plan reads as many to begin with."""
_NO_MATCH = UpdateResult(0, 0)
_NO_CHANGE = UpdateResult(1, 0)
_CHANGED = UpdateResult(1, 1)
_EPOCH = moment(0.0)


Stored = tuple[bytes, bytes]
"""A document's key and its encoded form."""
Updated = tuple[UpdateResult, Document | None, Document | None]


class InstantView(ReadView, Protocol):
    """A transaction or snapshot that reads one instant."""

    @property
    def engine(self) -> Engine: ...

    def first(self, wanted: Range) -> tuple[bytes, bytes] | None: ...

    def few(self, wanted: Range, most: int, limit: int) -> list[tuple[bytes, bytes]] | None: ...


class WritableView(InstantView, WriteView, Protocol):
    """A transaction that reads one instant."""

    def apply_one(self, full_key: bytes, value: bytes | None, relied_on: bytes, before: bytes | None) -> None: ...


def at_once(statements: Statements, work: Callable[[EngineTransaction], _Result]) -> _Result | None:
    """Do ``work`` in a transaction that reads one instant: the caller's, or one of its own. None if the caller's does
    not: then each of its statements reads an instant of its own."""
    tx = statements.writable()
    if tx is not None:
        return work(tx)
    if isinstance(statements, AutocommitStatements):
        return statements.transact(lambda tx, _: work(tx))
    return None


def key_of(filter: Any) -> bytes | None:
    """Return the key of the document that a filter such as ``{"_id": 7}`` asks for; None for other filters. A filter
    that is not a dict is an ``_id``."""
    value = filter
    if type(filter) is dict:
        if len(filter) != 1:
            return None
        value = filter.get("_id")
    if type(value) not in ID_TYPES:
        return None
    try:
        key = ENCODERS[type(value)](value)
    except UnicodeEncodeError:
        return None
    return key if len(key) <= MAX_ID else None


def row_key_of(engine: Engine, name: str) -> bytes:
    """Return the full key of a collection's row. It is made anew each time: where the owner of the store assigns
    prefixes, another process may get another one."""
    prefix, sparse = engine.catalog.prefix_of(CATALOG), engine.reader.sparse
    if prefix not in sparse and prefix != NOWHERE:
        sparse.add(prefix)  # most collections have no row
    return prefix + name.encode()


def row_at(view: InstantView, name: str, row_key: bytes) -> CatalogRow:
    """Return the row of a collection. A transaction remembers it: its snapshot does not change, and what it writes to
    the catalog itself is in its buffer."""
    if type(view) is not EngineTransaction:
        return row_of(name, view.read(row_key))
    if row_key in view.writes:
        return row_of(name, view.read(row_key))
    row: CatalogRow | None = view.memo.get(row_key)
    if row is None or view.state:
        row = view.memo[row_key] = row_of(name, view.read(row_key))
    return row


def find_at(view: InstantView, name: str, key: bytes) -> Document | None:
    """Return the document with this key."""
    engine = view.engine
    row = row_at(view, name, row_key_of(engine, name))
    stored = view.read(engine.catalog.prefix_of(row.keyspace) + key)
    return decode_document(stored) if stored is not None else None


def first_of(view: InstantView, name: str, filter: PreparedFilter, sort: SortKeys) -> tuple[Document | None, bool]:
    """Return the first document that matches in the order of ``sort``, and whether the answer is certain; see
    ``few_of``."""
    found = few_of(view, name, filter, sort, limit=1)
    if found is None:
        return None, False
    return (decode_document(found[0][1]) if found else None), True


def few_of(view: InstantView, name: str, filter: PreparedFilter, sort: SortKeys, limit: int = 0) -> list[Stored] | None:
    """Return the documents that match, encoded, in the order of ``sort``, at most ``limit`` (0: no limit). None if a
    plan has to be run: it reads more than it returns, or has another order, or returns many documents."""
    engine = view.engine
    row = row_at(view, name, row_key_of(engine, name))
    lookup, values = filter.shape.lookup(row, filter.values, sort, limit > 0), filter.values
    if lookup is None or lookup.bounds is None or not lookup.by.exact or not lookup.by.ordered:
        return None
    low, high = lookup.bounds(values)
    if len(low) > lookup.most:
        return None
    prefix_of, index = engine.catalog.prefix_of, lookup.by.index
    documents = prefix_of(row.keyspace)
    prefix = documents if index is None else prefix_of(index.keyspace)
    if lookup.by_key:
        key: bytes | None = low if index is None else view.read(prefix + low)
        stored = view.read(documents + key) if key is not None else None
        return [(key, stored)] if key is not None and stored is not None else []
    if len(high) > lookup.most or low >= high:
        return None
    wanted = Range(prefix + low, prefix + high, lookup.by.reverse)
    if limit == 1:
        entry = view.first(wanted)
        entries = [entry] if entry is not None else []
    else:
        few = view.few(wanted, min(limit, _MOST) + 1 if limit else _MOST, limit)
        if few is None:
            return None
        entries = few
    if index is None:
        return entries
    keys = [value for _, value in entries] if index.unique else [key[-value[0] :] for key, value in entries]
    if len(keys) == 1:
        stored = view.read(documents + keys[0])
        return [(keys[0], stored)] if stored is not None else []
    found = view.read_many([documents + key for key in keys])
    return [(key, value) for key, value in zip(keys, found, strict=True) if value is not None]


def update_at(view: WritableView, name: str, key: bytes, change: Update) -> Updated:
    """Update the document with this key. Also returns it as it was before and is afterwards."""
    engine = view.engine
    row_key = row_key_of(engine, name)
    row = row_at(view, name, row_key)
    full_key = engine.catalog.prefix_of(row.keyspace) + key
    stored = view.read(full_key)
    if stored is None:
        return _NO_MATCH, None, None
    document = decode_document(stored)
    new = change.apply(document, now=moment(view.time()) if change.timed else _EPOCH)
    if new is document:
        return _NO_CHANGE, document, document
    encoded = encode_document(new)
    if encoded == stored:
        return _NO_CHANGE, document, new
    fields = change.fields
    if fields is not None and row.is_plain_for(fields):
        view.apply_one(full_key, encoded, row_key, stored)
    else:
        batch = WriteBatch(view, engine.catalog.prefix_of, name)
        batch.replace((key, stored, document), new, encoded, fields)
        batch.apply()
    return _CHANGED, document, new


def update_few(view: WritableView, name: str, found: list[Stored], change: Update) -> Updated:
    """Update documents that ``few_of`` has found. Also returns the last one as it was before and is afterwards."""
    engine = view.engine
    row_key = row_key_of(engine, name)
    row = row_at(view, name, row_key)
    prefix, now = engine.catalog.prefix_of(row.keyspace), moment(view.time()) if change.timed else _EPOCH
    apply, fields = change.apply, change.fields
    batch = (
        None if fields is not None and row.is_plain_for(fields) else WriteBatch(view, engine.catalog.prefix_of, name)
    )
    document: Document | None = None
    new: Document | None = None
    modified = 0
    writes: Writes = {}
    before: Writes = {}
    for key, stored in found:
        document = decode_document(stored)
        new = apply(document, now=now)
        if new is document or (encoded := encode_document(new)) == stored:
            continue
        modified += 1
        if batch is not None:
            batch.replace((key, stored, document), new, encoded, fields)
        else:
            full_key = prefix + key
            writes[full_key] = encoded
            before[full_key] = stored
    if batch is not None:
        batch.apply()
    elif writes:
        view.apply(writes, (row_key,), before)
    return UpdateResult(len(found), modified), document, new


def update_selected(view: EngineTransaction, name: str, selection: Selection, change: Update) -> Updated:
    """Update the documents of a selection: by its lookup if it has a simple one, else by its plan."""
    filter, sort = selection.filter, selection.sort
    if type(filter) is PreparedFilter:
        found = few_of(view, name, filter, sort.keys if sort is not None else (), 0 if selection.many else 1)
        if found is not None:
            return update_few(view, name, found, change)
    batch = WriteBatch(view, view.engine.catalog.prefix_of, name)
    done = update(batch, selection, change, None)
    batch.apply()
    return done


def delete_at(view: WritableView, name: str, key: bytes) -> DeleteResult:
    """Delete the document with this key."""
    engine = view.engine
    row_key = row_key_of(engine, name)
    row = row_at(view, name, row_key)
    full_key = engine.catalog.prefix_of(row.keyspace) + key
    stored = view.read(full_key)
    if stored is None:
        return DeleteResult(0)
    if not row.indexes:
        view.apply_one(full_key, None, row_key, stored)
    elif row.flat and (before := _entries(row, key, stored, engine.catalog.prefix_of)) is not None:
        before[full_key] = stored
        view.apply(dict.fromkeys(before), (row_key,), before)
    else:
        batch = WriteBatch(view, engine.catalog.prefix_of, name)
        batch.delete((key, stored, decode_document(stored)))
        batch.apply()
    return DeleteResult(1)


def insert_at(view: WritableView, name: str, document: Prepared) -> bool:
    """Insert one document. Returns that it is done."""
    engine = view.engine
    row_key = row_key_of(engine, name)
    row = row_at(view, name, row_key)
    prefix_of = engine.catalog.prefix_of
    full_key = prefix_of(row.keyspace) + document.key
    if not document.is_new and view.read(full_key) is not None:
        raise DuplicateKeyError(name, "_id_", {"_id": document.id}, document.id)
    if row.schema is None and not row.indexes:
        view.apply_one(full_key, document.encoded, row_key, None)
    elif row.schema is None and row.flat and (entries := _entries(row, document.key, document.encoded, prefix_of)):
        entries[full_key] = document.encoded
        view.apply(entries, (row_key,), dict.fromkeys(entries))
    else:
        batch = WriteBatch(view, prefix_of, name)
        batch.insert(document.key, document.encoded, is_new=True)
        batch.apply()
    return True


def insert_fresh(view: WritableView, name: str, documents: Sequence[Prepared]) -> bool:
    """Insert documents if all of them are new and each has one entry in each index. Returns False if not: then nothing
    was inserted."""
    engine = view.engine
    row_key = row_key_of(engine, name)
    row = row_at(view, name, row_key)
    if row.schema is not None or not row.flat:
        return False
    prefix_of = engine.catalog.prefix_of
    prefix = prefix_of(row.keyspace)
    writes: Writes = {prefix + each.key: each.encoded for each in documents}
    given = [prefix + each.key for each in documents if not each.is_new]
    if len(writes) < len(documents) or any(value is not None for value in view.read_many(given)):
        return False
    for each in documents if row.indexes else ():
        entries = _entries(row, each.key, each.encoded, prefix_of)
        if entries is None:
            return False
        writes.update(entries)
    view.apply(writes, (row_key,), dict.fromkeys(writes))
    return True


def _entries(row: CatalogRow, key: bytes, encoded: bytes, prefix_of: PrefixOf) -> Writes | None:
    """Return the index entries of a document in a collection whose indexes are flat; None if it has several in one."""
    decoded = row.decode_indexed(encoded)
    length = bytes((len(key),))
    entries: Writes = {}
    for each in row.entries:
        values = each.only(decoded) if each.only is not None else None
        if values is None:
            return None
        entries[prefix_of(each.index.keyspace) + values + key] = length
    return entries
