"""The write operations of a collection: insert, update and delete in a write batch. They do no I/O of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from lowtide.documents.filters import Filter
from lowtide.documents.plans.planner import SortKeys
from lowtide.documents.plans.point import Point, point_of
from lowtide.documents.prepared.shapes import prepare_filter
from lowtide.documents.reader import Found
from lowtide.documents.results import DeleteResult, UpdateResult
from lowtide.documents.sorting import Sort
from lowtide.documents.updates import AnyUpdate, seed_of
from lowtide.documents.write_batch import WriteBatch
from lowtide.errors import InvalidDocument, OperationFailure
from lowtide.system.clock import moment
from lowtide.values.codec import clean, decode_document, encode_document
from lowtide.values.ids import ID_TYPES, id_key, new_id
from lowtide.values.values import Document


class Selection:
    """Which documents a statement changes: the first match, or all. ``spec`` is the filter as the caller gave it.
    ``point`` is the point, if the filter asks for one value of one field and there is no sort or hint."""

    __slots__ = ("_filter", "hint", "many", "point", "sort", "spec")

    def __init__(
        self, spec: Any, many: bool, sort: Sort | None, hint: str | SortKeys | None, point: Point | None
    ) -> None:
        self.spec = spec
        self.many = many
        self.sort = sort
        self.hint = hint
        self.point = point
        self._filter: Filter | None = None

    @property
    def filter(self) -> Filter:
        if self._filter is None:
            self._filter = prepare_filter(self.spec)
        return self._filter

    def of(self, batch: WriteBatch) -> list[Found]:
        """Return the documents. All are found before the first is changed, so a statement never sees its own writes."""
        point = self.point
        if point is not None and batch.reader.knows(point):
            stored = batch.reader.at_point(point)
            return [(*stored, decode_document(stored[1]))] if stored is not None else []
        by = batch.reader.plan(self.filter, self.sort, self.hint, limited=not self.many)
        return list(batch.reader.matching(self.filter, by, self.sort, 0 if self.many else 1))


class PlainDocuments(list[Document]):
    """Documents whose values need no check, because they were decoded from JSON: they consist of strings, numbers,
    booleans, None, objects and arrays, no name begins with ``$``, and they are not nested too deeply."""


class Prepared(NamedTuple):
    """A document that is ready to be inserted: its ``_id``, its key and its encoded form."""

    id: Any
    key: bytes
    encoded: bytes
    is_new: bool
    """Whether the ``_id`` was generated here, so that no other document has it."""
    source: Document | None = None
    """The document as the caller gave it, if that is a dict."""


def prepare(document: Any) -> Prepared:
    """Check and encode a document to insert. If it has no ``_id``, one is added to it, as in PyMongo."""
    if type(document) is dict and next(iter(document), None) == "_id":  # the usual case, without function calls
        value = document["_id"]
        return Prepared(value, _key_of(value), encode_document(document), False, document)
    is_new = False
    if (type(document) is dict or isinstance(document, Mapping)) and "_id" not in document:
        if not hasattr(document, "__setitem__"):
            raise InvalidDocument("_id", "it is missing, and cannot be added to a document that is read-only")
        document["_id"] = new_id()
        is_new = True
    if type(document) is dict and next(iter(document)) == "_id":
        encoded = encode_document(document)
    else:
        encoded = encode_document({"_id": document["_id"], **document} if isinstance(document, Mapping) else document)
    source = document if type(document) is dict else None
    return Prepared(document["_id"], _key_of(document["_id"]), encoded, is_new, source)


def _key_of(value: Any) -> bytes:
    """Return the key of an ``_id``. An instance of a subclass of str, int or bytes is stored as its base type."""
    return id_key(value if type(value) in ID_TYPES else clean(value, "_id"))


def insert(batch: WriteBatch, prepared: Prepared) -> None:
    batch.insert(prepared.key, prepared.encoded, is_new=prepared.is_new)


def update(
    batch: WriteBatch,
    selection: Selection,
    change: AnyUpdate,
    upsert: Mapping[str, Any] | None,
    *,
    replacing: bool = False,
) -> tuple[UpdateResult, Document | None, Document | None]:
    """Update the selected documents. If there are none and ``upsert`` is the filter, insert the document that filter
    and update describe. Also returns the last document, before and after."""
    found = selection.of(batch)
    if not found and upsert is not None:
        after = _seeded(batch, change, upsert, replacing)
        return UpdateResult(0, 0, after["_id"], did_upsert=True), None, after
    modified = 0
    before: Document | None = None
    after_last: Document | None = None
    now = moment(batch.reader.reading.time() if change.timed else 0.0)
    for each in found:
        stored, document = each[1:]
        position = selection.filter.position(document) if change.positional else None
        new = change.apply(document, now=now, position=position)
        before, after_last = document, new
        if new is not document:
            encoded = encode_document(new)
            if encoded != stored:
                batch.replace(each, new, encoded, change.fields)
                modified += 1
    return UpdateResult(len(found), modified), before, after_last


def _seeded(batch: WriteBatch, change: AnyUpdate, filter: Mapping[str, Any], replacing: bool) -> Document:
    """Insert the document of an upsert, and return it."""
    seed = seed_of(filter, only_id=replacing)
    new = change.apply(seed, now=moment(batch.reader.reading.time()), inserting=True)
    prepared = prepare(dict(new))
    batch.insert(prepared.key, prepared.encoded, is_new=prepared.is_new)
    return {"_id": prepared.id, **new}


def delete(batch: WriteBatch, selection: Selection) -> tuple[DeleteResult, Document | None]:
    """Delete the selected documents. Also returns the last one."""
    found = selection.of(batch)
    for each in found:
        batch.delete(each)
    return DeleteResult(len(found)), found[-1][2] if found else None


def select(filter: Any, *, many: bool, sort: Sort | None = None, hint: str | SortKeys | None = None) -> Selection:
    """Compile a filter to a selection, or raise. As in PyMongo, None is not accepted here: a caller that forgot a value
    does not mean to change every document."""
    if filter is None:
        raise OperationFailure("a filter of what to change is a dict, not None; give {} for every document")
    point = point_of(filter) if type(filter) is dict and not many and hint is None and sort is None else None
    selection = Selection(filter, many, sort, hint, point)
    if point is None:
        _ = selection.filter
    return selection
