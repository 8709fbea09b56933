"""Statements on the document with one ``_id``, the most common ones: flat code from the key to the buffer.

They run where all statements of a transaction read one instant, so on the transaction itself. Everything else, and
every collection for which more is to be done than to write one row, goes through ``WriteBatch``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from itertools import compress
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from lowtide.documents.catalog import CATALOG, CatalogRow, row_of
from lowtide.documents.indexes.entries import LENGTHS
from lowtide.documents.operations import Selection, update
from lowtide.documents.plans.plan import KeyStretch, Plan
from lowtide.documents.plans.planner import SortKeys
from lowtide.documents.prepared.lookups import Lookup
from lowtide.documents.prepared.shapes import PreparedFilter
from lowtide.documents.prepared.updates import PreparedUpdate
from lowtide.documents.results import DeleteResult, UpdateResult
from lowtide.documents.updates import AnyUpdate
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
from lowtide.system.clock import moment
from lowtide.values.codec import decode_document, decoder_of, encode_changed, encode_document
from lowtide.values.ids import ID_TYPES, MAX_ID
from lowtide.values.ordering import ENCODERS
from lowtide.values.values import Document

_Result = TypeVar("_Result")
_MOST = 256
"""Entries that are read at once."""
_MOST_MEMBERS = 1024
"""Documents that are read at once by their ids."""
_NO_MATCH = UpdateResult(0, 0)
_NO_CHANGE = UpdateResult(1, 0)
_CHANGED = UpdateResult(1, 1)
_EPOCH = moment(0.0)


class Few(NamedTuple):
    """The full keys of some documents, and the documents, encoded."""

    full_keys: list[bytes]
    stored: list[bytes]
    rest: Plan | None = None
    """Finds the documents that follow; None if these are all."""


_NOTHING = Few([], [])
Updated = tuple[UpdateResult, Document | None, Document | None]


class InstantView(ReadView, Protocol):
    """A transaction or snapshot that reads one instant."""

    @property
    def engine(self) -> Engine: ...

    def first(self, wanted: Range) -> tuple[bytes, bytes] | None: ...

    def few(self, wanted: Range, most: int) -> tuple[list[tuple[bytes, bytes]], bool] | None: ...


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


class Located(NamedTuple):
    """A collection as a transaction or snapshot sees it: its catalog row, the full key of that row, and the prefix of
    its documents' full keys."""

    row: CatalogRow
    row_key: bytes
    prefix: bytes


def located(view: InstantView, name: str) -> Located:
    """Return where a collection is. A transaction remembers it: its snapshot does not change, and what it writes to the
    catalog itself is in its buffer. Keys are made anew in each transaction: where the owner of the store assigns
    prefixes, another process may get another one."""
    if type(view) is EngineTransaction:
        known: Located | None = view.memo.get(name)
        if known is not None and known.row_key not in view.writes:
            return known
    engine = view.engine
    prefix_of, sparse = engine.catalog.prefix_of, engine.reader.sparse
    prefix = prefix_of(CATALOG)
    if prefix not in sparse and prefix != NOWHERE:
        sparse.add(prefix)  # most collections have no row
    row_key = prefix + name.encode()
    row = row_of(name, view.read(row_key))
    found = Located(row, row_key, prefix_of(row.keyspace))
    if type(view) is EngineTransaction and row_key not in view.writes:
        view.memo[name] = found
    return found


def find_at(view: InstantView, name: str, key: bytes) -> Document | None:
    """Return the document with this key."""
    stored = view.read(located(view, name).prefix + key)
    return decode_document(stored) if stored is not None else None


def first_of(view: InstantView, name: str, filter: PreparedFilter, sort: SortKeys) -> tuple[Document | None, bool]:
    """Return the first document that matches in the order of ``sort``, and whether the answer is certain; see
    ``few_of``."""
    found = few_of(view, name, filter, sort, limit=1)
    if found is None:
        return None, False
    return (decode_document(found.stored[0]) if found.stored else None), True


def few_of(
    view: InstantView, name: str, filter: PreparedFilter, sort: SortKeys, limit: int = 0, *, begun: bool = False
) -> Few | None:
    """Return the documents that match in the order of ``sort``, at most ``limit`` (0: no limit). None if a plan has to
    be run: it reads more than it returns, or has another order, or returns many documents; in the last case the first
    ones if they shall be ``begun``."""
    row, _, documents = located(view, name)
    lookup, values = filter.shape.lookup(row, filter.values, sort, limit > 0), filter.values
    if lookup is None or not lookup.by.ordered:
        return None
    if lookup.members is not None:
        return _members_of(view, documents, lookup, filter, limit)
    if lookup.bounds is None or not lookup.by.exact:
        return None
    low, high = lookup.bounds(values)
    if len(low) > lookup.most:
        return None
    index = lookup.by.index
    prefix = documents if index is None else view.engine.catalog.prefix_of(index.keyspace)
    if lookup.by_key:
        key: bytes | None = low if index is None else view.read(prefix + low)
        return _one(view, documents + key) if key is not None else _NOTHING
    if len(high) > lookup.most or low >= high:
        return None
    wanted = Range(prefix + low, prefix + high, lookup.by.reverse)
    rest: Plan | None = None
    if limit == 1:
        entry = view.first(wanted)
        entries = [entry] if entry is not None else []
    else:
        few = view.few(wanted, min(limit + 1, _MOST) if limit else _MOST)
        if few is None:
            return None
        entries, whole = few
        if limit and (whole or len(entries) >= limit):
            entries = entries[:limit]
        elif not whole:
            if limit or not begun or not entries:
                return None
            last = entries[-1][0]
            stretch = KeyStretch(low, last) if lookup.by.reverse else KeyStretch(last + b"\x00", high)
            rest = replace(lookup.by, stretches=(stretch,))
    if index is None:
        return Few([documents + key for key, _ in entries], [value for _, value in entries], rest)
    if index.unique:
        full_keys = [documents + value for _, value in entries]
    else:
        full_keys = [documents + key[-value[0] :] for key, value in entries]
    if len(full_keys) == 1:
        return _one(view, full_keys[0])
    return _present(full_keys, view.read_many(full_keys), rest) if full_keys else _NOTHING


def _one(view: InstantView, full_key: bytes) -> Few:
    stored = view.read(full_key)
    return Few([full_key], [stored]) if stored is not None else _NOTHING


def _present(full_keys: list[bytes], stored: list[bytes | None], rest: Plan | None = None) -> Few:
    """Leave out the keys that have no document."""
    if None not in stored:
        return Few(full_keys, cast("list[bytes]", stored), rest)
    found = [(key, value) for key, value in zip(full_keys, stored, strict=True) if value is not None]
    return Few([key for key, _ in found], [value for _, value in found], rest)


def _members_of(view: InstantView, documents: bytes, lookup: Lookup, filter: PreparedFilter, limit: int) -> Few | None:
    """Return the documents that ``$in`` asks for and that match the other conditions."""
    keys = lookup.member_keys(filter.values)
    if keys is None or len(keys) > _MOST_MEMBERS:
        return None
    if lookup.by.reverse:
        keys.reverse()
    full_keys = [documents + key for key in keys]
    few = _present(full_keys, view.read_many(full_keys))
    shape = filter.shape
    if shape.others:
        matches, decode = shape.compiled_others(filter.values).matches, decoder_of(tuple(sorted(shape.others)))
        wanted = [matches(decode(each)) for each in few.stored]
        if False in wanted:
            few = Few(list(compress(few.full_keys, wanted)), list(compress(few.stored, wanted)))
    return Few(few.full_keys[:limit], few.stored[:limit]) if limit else few


def count_of(view: InstantView, name: str, filter: PreparedFilter) -> int | None:
    """Return how many documents match, if they are found by several ids; None if a plan has to be run."""
    lookup = filter.shape.lookup(located(view, name).row, filter.values, (), False)
    if lookup is None or lookup.members is None:
        return None
    found = few_of(view, name, filter, ())
    return len(found.stored) if found is not None else None


def update_at(view: WritableView, name: str, key: bytes, change: AnyUpdate) -> Updated:
    """Update the document with this key. Also returns it as it was before and is afterwards."""
    row, row_key, prefix = located(view, name)
    full_key = prefix + key
    stored = view.read(full_key)
    if stored is None:
        return _NO_MATCH, None, None
    document = decode_document(stored)
    encoded: bytes | None
    if type(change) is PreparedUpdate and (made := change.change(document, change.values)) is not None:
        new, encoded = made, encode_changed(made)  # as ``_changed``, without a call
    else:
        new, encoded = _changed(document, change, moment(view.time()) if change.timed else _EPOCH)
    if encoded is None or encoded == stored:
        return _NO_CHANGE, document, new
    fields, prefix_of = change.fields, view.engine.catalog.prefix_of
    writes: Writes = {full_key: encoded}
    before: Writes = {full_key: stored}
    if fields is not None and row.is_plain_for(fields):
        view.apply_one(full_key, encoded, row_key, stored)
    elif fields is not None and _reindex(writes, before, row, key, (document, new), fields, prefix_of):
        view.apply(writes, (row_key,), before)
    else:
        batch = WriteBatch(view, prefix_of, name)
        batch.replace((key, stored, document), new, encoded, fields)
        batch.apply()
    return _CHANGED, document, new


def _reindex(
    writes: Writes,
    before: Writes,
    row: CatalogRow,
    key: bytes,
    change: tuple[Document, Document],
    fields: frozenset[str],
    prefix_of: PrefixOf,
) -> bool:
    """Add the index entries that a document loses and gets by a change of these fields to the writes, and to their
    values before. Returns False if it may have several in one index, or if more has to be checked: then both are of no
    use."""
    if row.schema is not None or not row.flat:
        return False
    old, new = change
    length = LENGTHS[len(key)]
    for each in row.entries:
        if each.only is None:
            return False
        if each.fields.isdisjoint(fields):
            continue
        gone, come = each.only(old), each.only(new)
        if gone is None or come is None:
            return False
        if gone != come:
            prefix = prefix_of(each.index.keyspace)
            lost, got = prefix + gone + key, prefix + come + key
            writes[lost], before[lost] = None, length
            writes[got], before[got] = length, None
    return True


def _changed(document: Document, change: AnyUpdate, now: datetime) -> tuple[Document, bytes | None]:
    """Return a stored document after a change, and its encoded form; None in its place if nothing has changed."""
    if type(change) is PreparedUpdate:
        made = change.change(document, change.values)
        if made is not None:
            return made, encode_changed(made)
    new = change.apply(document, now=now)
    return new, (encode_document(new) if new is not document else None)


def update_few(view: WritableView, name: str, found: Few, change: AnyUpdate, *, general: bool = False) -> Updated:
    """Update documents that ``few_of`` has found. Also returns the last one as it was before and is afterwards. In
    ``general``, or if one of them needs it, they are written by a ``WriteBatch``."""
    row, row_key, prefix = located(view, name)
    fields, now = change.fields, moment(view.time()) if change.timed else _EPOCH
    prefix_of = view.engine.catalog.prefix_of
    is_plain = fields is not None and row.is_plain_for(fields)
    batch = WriteBatch(view, prefix_of, name) if general or fields is None else None
    document: Document | None = None
    new: Document | None = None
    modified = 0
    writes: Writes = {}
    before: Writes = {}
    for full_key, stored in zip(found.full_keys, found.stored, strict=True):
        document = decode_document(stored)
        new, encoded = _changed(document, change, now)
        if encoded is None or encoded == stored:
            continue
        modified += 1
        if batch is not None:
            batch.replace((full_key[len(prefix) :], stored, document), new, encoded, fields)
            continue
        assert fields is not None
        writes[full_key] = encoded
        before[full_key] = stored
        if not is_plain and not _reindex(
            writes, before, row, full_key[len(prefix) :], (document, new), fields, prefix_of
        ):
            return update_few(view, name, found, change, general=True)
    if batch is not None:
        batch.apply()
    elif writes:
        view.apply(writes, (row_key,), before)
    return UpdateResult(len(found.stored), modified), document, new


def update_selected(view: EngineTransaction, name: str, selection: Selection, change: AnyUpdate) -> Updated:
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
    row, row_key, prefix = located(view, name)
    full_key = prefix + key
    stored = view.read(full_key)
    if stored is None:
        return DeleteResult(0)
    prefix_of = view.engine.catalog.prefix_of
    if not row.indexes:
        view.apply_one(full_key, None, row_key, stored)
    elif row.flat and (before := entries_of(row, row.decode_indexed(stored), key, prefix_of)) is not None:
        before[full_key] = stored
        view.apply(dict.fromkeys(before), (row_key,), before)
    else:
        batch = WriteBatch(view, prefix_of, name)
        batch.delete((key, stored, decode_document(stored)))
        batch.apply()
    return DeleteResult(1)


def entries_of(
    row: CatalogRow, document: Document, key: bytes, prefix_of: PrefixOf, *, given: bool = False
) -> Writes | None:
    """Return the index entries of a document in a collection whose indexes are flat; None if it has several in one.
    ``given`` says that the document is one that the caller gave, not one that was stored."""
    length = LENGTHS[len(key)]
    entries: Writes = {}
    for each in row.entries:
        only = each.given if given else each.only
        values = only(document) if only is not None else None
        if values is None:
            return None
        entries[prefix_of(each.index.keyspace) + values + key] = length
    return entries
