"""Updates of one or a few documents: flat code from the key to the buffer. See ``statements``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any

from lowtide.documents.indexes.entries import LENGTHS
from lowtide.documents.operations import Selection, update
from lowtide.documents.prepared.bound import PreparedFilter, PreparedUpdate, UpdateShape
from lowtide.documents.prepared.statements import Few, Located, WritableView, at_once, few_of, located
from lowtide.documents.prepared.updates import prepare_update
from lowtide.documents.results import UpdateResult
from lowtide.documents.updates import AnyUpdate
from lowtide.documents.write_batch import WriteBatch
from lowtide.engine import AutocommitStatements, PrefixOf, Statements, Writes
from lowtide.system.clock import moment
from lowtide.values.codec import decode_document, encode_changed, encode_document, encode_flat
from lowtide.values.values import Document

_NO_MATCH = UpdateResult(0, 0)
_NO_CHANGE = UpdateResult(1, 0)
_CHANGED = UpdateResult(1, 1)
_EPOCH = moment(0.0)

Updated = tuple[UpdateResult, Document | None, Document | None]
"""The result of an update and, if requested, its last document before and after the update."""
_NONE: Updated = (_NO_MATCH, None, None)


def update_known(
    view: WritableView, where: Located, name: str, key: bytes, update: Mapping[str, Any]
) -> UpdateResult | None:
    """Update the document with this key. If the update has the shape of the last one that rewrote a document of the
    collection, it is not prepared again. None if it needs a position in an array; nothing was written then."""
    shape: UpdateShape | None = where.row.recent.rewritten
    values = shape.bind(update) if shape is not None and type(update) is dict else None
    if values is not None and shape is not None and shape.rewrite is not None:
        full_key = where.prefix + key
        stored = view.read(full_key)
        if stored is None:
            return _NO_MATCH
        encoded = shape.rewrite(stored, values)
        if encoded == stored:
            return _NO_CHANGE
        if encoded is not None:
            view.apply_one(full_key, encoded, where.row_key, stored)
            return _CHANGED
    change = prepare_update(update)
    return update_at(view, name, key, change)[0] if not change.positional else None


def update_at(view: WritableView, name: str, key: bytes, change: AnyUpdate, returned: bool = False) -> Updated:
    """Update the document with this key. If ``returned``, also returns the document before and after the update;
    otherwise it need not be decoded."""
    where = located(view, name)
    full_key = where.prefix + key
    stored = view.read(full_key)
    if stored is None:
        return _NONE
    return _update_stored(view, where, name, full_key, stored=stored, change=change, returned=returned)


def _update_stored(
    view: WritableView, where: Located, name: str, full_key: bytes, *, stored: bytes, change: AnyUpdate, returned: bool
) -> Updated:
    """Update a document that was found; see ``update_at``."""
    row, row_key, prefix = where
    fields = change.fields
    is_plain = fields is not None and row.is_plain_for(fields)
    if is_plain and not returned and type(change) is PreparedUpdate and (rewrite := change.shape.rewrite) is not None:
        row.recent.rewritten = change.shape
        encoded = rewrite(stored, change.values)
        if encoded is not None:
            if encoded == stored:
                return _NO_CHANGE, None, None
            view.apply_one(full_key, encoded, row_key, stored)
            return _CHANGED, None, None
    document = decode_document(stored)
    new, encoded = _changed(document, stored, change, moment(view.time()) if change.timed else _EPOCH)
    if encoded is None or encoded == stored:
        return _NO_CHANGE, document, new
    if is_plain:
        view.apply_one(full_key, encoded, row_key, stored)
        return _CHANGED, document, new
    prefix_of, key = view.engine.catalog.prefix_of, full_key[len(prefix) :]
    writes: Writes = {full_key: encoded}
    before: Writes = {full_key: stored}
    if fields is not None and _reindex(
        writes, before, where, key, old=document, new=new, fields=fields, prefix_of=prefix_of
    ):
        view.apply(writes, (row_key,), before)
    else:
        batch = WriteBatch(view, prefix_of, name)
        batch.replace((key, stored, document), new, encoded, fields)
        batch.apply()
    return _CHANGED, document, new


def _reindex(
    writes: Writes,
    before: Writes,
    where: Located,
    key: bytes,
    *,
    old: Document,
    new: Document,
    fields: frozenset[str],
    prefix_of: PrefixOf,
) -> bool:
    """Add the index entries that a document loses and gains by a change of these fields to ``writes``, and their old
    values to ``before``. Returns False if it may have several entries in one index, or if more must be checked: both
    dicts must then be discarded."""
    row = where.row
    if row.schema is not None or not row.flat:
        return False
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


def _changed(document: Document, stored: bytes, change: AnyUpdate, now: datetime) -> tuple[Document, bytes | None]:
    """Return a stored document after a change, and its encoded form, which is None if nothing has changed."""
    if type(change) is PreparedUpdate:
        made = change.shape.change(document, change.values)
        if made is not None:
            return made, encode_flat(made) or _encode_nested(made, stored, change)
    new = change.apply(document, now=now)
    return new, (encode_document(new) if new is not document else None)


def _encode_nested(made: Document, stored: bytes, change: PreparedUpdate) -> bytes:
    """Encode a changed document that contains objects or arrays. Encoding these would check each of their values.
    Changing the other fields in the stored form is faster."""
    rewrite = change.shape.rewrite
    encoded = rewrite(stored, change.values) if rewrite is not None else None
    return encoded if encoded is not None else encode_changed(made)


def update_few(
    view: WritableView,
    where: Located,
    name: str,
    found: Few,
    change: AnyUpdate,
    *,
    returned: bool,
    general: bool = False,
) -> Updated:
    """Update documents that ``few_of`` has found. If ``returned``, also returns the last one before and after the
    update. If ``general``, or if one of them needs it, a ``WriteBatch`` writes them."""
    row, row_key, prefix = where
    fields, now = change.fields, moment(view.time()) if change.timed else _EPOCH
    is_plain = fields is not None and row.is_plain_for(fields)
    if is_plain and not general and type(change) is PreparedUpdate:
        done = _update_plain(view, row_key, found, change, returned)
        return done or update_few(view, where, name, found, change, returned=returned, general=True)
    prefix_of = view.engine.catalog.prefix_of
    batch = WriteBatch(view, prefix_of, name) if general or fields is None else None
    document: Document | None = None
    new: Document | None = None
    modified = 0
    writes: Writes = {}
    before: Writes = {}
    for full_key, stored in zip(found.full_keys, found.stored, strict=True):
        document = decode_document(stored)
        new, encoded = _changed(document, stored, change, now)
        if encoded is None or encoded == stored:
            continue
        modified += 1
        if batch is not None:
            batch.replace((full_key[len(prefix) :], stored, document), new, encoded, fields)
            continue
        assert fields is not None
        writes[full_key] = encoded
        before[full_key] = stored
        key = full_key[len(prefix) :]
        if not is_plain and not _reindex(
            writes, before, where, key, old=document, new=new, fields=fields, prefix_of=prefix_of
        ):
            return update_few(view, where, name, found, change, returned=returned, general=True)
    if batch is not None:
        batch.apply()
    elif writes:
        view.apply(writes, (row_key,), before)
    return UpdateResult(len(found.stored), modified), document, new


def _update_plain(
    view: WritableView, row_key: bytes, found: Few, change: PreparedUpdate, returned: bool
) -> Updated | None:
    """The same as ``update_few``, if only the documents change. None if the update must be compiled for one of them."""
    make, values = change.shape.change, change.values
    rewrite = change.shape.rewrite if not returned else None
    document: Document | None = None
    new: Document | None = None
    writes: Writes = {}
    before: Writes = {}
    for full_key, stored in zip(found.full_keys, found.stored, strict=True):
        encoded = rewrite(stored, values) if rewrite is not None else None
        if encoded is None:
            document = decode_document(stored)
            new = make(document, values)
            if new is None:
                return None
            encoded = encode_flat(new) or _encode_nested(new, stored, change)
        if encoded != stored:
            writes[full_key] = encoded
            before[full_key] = stored
    if writes:
        view.apply(writes, (row_key,), before)
    return UpdateResult(len(found.stored), len(writes)), document, new


def update_by_key(statements: Statements, name: str, key: bytes, change: AnyUpdate, returned: bool) -> Updated | None:
    """Run ``update_at`` as a statement; see ``at_once``."""
    work = partial(update_at, returned=True) if returned else update_at
    return at_once(statements, work, name, key, change, repeatable=type(change) is PreparedUpdate)


def update_by_filter(
    statements: Statements, name: str, selection: Selection, change: AnyUpdate, returned: bool
) -> Updated | None:
    """Run ``update_selected`` as a statement; see ``at_once``."""
    tx = statements.writable()
    if tx is not None:
        return update_selected(tx, name, selection, change, returned)
    if selection.many and isinstance(statements, AutocommitStatements):  # it scans, which needs a snapshot
        return statements.transact(lambda tx, _: update_selected(tx, name, selection, change, returned))
    work = partial(update_selected, returned=returned)
    return at_once(statements, work, name, selection, change, repeatable=type(change) is PreparedUpdate)


def update_selected(view: WritableView, name: str, selection: Selection, change: AnyUpdate, returned: bool) -> Updated:
    """Update the documents of a selection, with its lookup if it has a simple one, else with its plan."""
    filter, sort = selection.filter, selection.sort
    if type(filter) is PreparedFilter:
        where = located(view, name)
        found = few_of(view, where, filter, sort.keys if sort is not None else (), 0 if selection.many else 1)
        if found is not None and selection.many:
            return update_few(view, where, name, found, change, returned=returned)
        if found is not None:
            if not found.stored:
                return _NONE
            full_key, stored = found.full_keys[0], found.stored[0]
            return _update_stored(view, where, name, full_key, stored=stored, change=change, returned=returned)
    batch = WriteBatch(view, view.engine.catalog.prefix_of, name)
    done = update(batch, selection, change, None)
    batch.apply()
    return done
