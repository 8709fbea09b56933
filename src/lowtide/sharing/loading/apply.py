"""Applies a job as one transaction: every staged document, with its index entries, or none.

Each document is handled as in ``insert_many``, ``replace_one`` and ``delete_one``, with the same ``WriteBatch``. The
task has already encoded the stored form; it is not encoded again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from lowtide.documents.catalog import CatalogRow
from lowtide.documents.column_types import merge_types
from lowtide.documents.management import put_row
from lowtide.documents.reader import CollectionReader
from lowtide.documents.write_batch import WriteBatch
from lowtide.engine.statements.runners import PrefixOf
from lowtide.engine.statements.statement import WriteView
from lowtide.engine.types import Range, after_prefix
from lowtide.errors import DocumentRefused, DuplicateKeyError, OperationFailure, shown
from lowtide.sharing.loading.job import Counts, How, Job
from lowtide.sharing.loading.staged_changes import StagedChange, decode_change, take_latest
from lowtide.values.codec import decode_document
from lowtide.values.ids import id_of

Batches = Iterable[tuple[list[bytes], list[bytes]]]
_BATCH: Final = 10_000


class TooLarge(Exception):
    """Raised if a job replaces more than one transaction should hold."""


def apply_batches(unit: WriteBatch, how: How, batches: Batches, most: int) -> Counts:
    """Apply the batches of a job to a unit of writes. Raises TooLarge if they replace more than ``most`` bytes."""
    counts = Counts()
    match how:
        case "append":
            append(unit, batches, counts)
        case "upsert":
            upsert(unit, batches, counts)
        case "delete":
            delete(unit, batches, counts)
        case "overwrite":
            overwrite(unit, batches, counts, most)
        case "changes":
            changes(unit, batches, counts)
    return counts


def keep_types(writing: WriteView, prefix_of: PrefixOf, job: Job) -> None:
    """Store the types of a job with its collection, unless the collection already has them."""
    look = CollectionReader(writing, prefix_of, job.collection)
    row = types_kept(look.row, job)
    if row is not look.row:
        put_row(look, writing, row)


def types_kept(row: CatalogRow, job: Job) -> CatalogRow:
    """The row with the types of a job added."""
    if job.types is None:
        return row
    types = merge_types(row.types, job.types, replace=job.how == "overwrite")
    return row if types == row.types else row.having(types=types)


def append(unit: WriteBatch, batches: Batches, counts: Counts) -> None:
    """Insert documents, none of which may exist."""
    prefix, is_empty = unit.reader.prefix, _is_empty(unit)
    for keys, documents in batches:
        if not is_empty and (known := unit.known_ids(keys)):
            raise _duplicate(unit, next(key for key in keys if key in known))
        before = len(unit.writes)
        full_keys = [prefix + key for key in keys]
        if len(set(full_keys)) != len(keys) or (before and not unit.writes.keys().isdisjoint(full_keys)):
            raise _twice(unit, keys)
        insert_new(unit, keys, documents)
        counts.inserted += len(keys)


def insert_new(unit: WriteBatch, keys: list[bytes], documents: list[bytes]) -> None:
    """Insert documents that are known not to exist."""
    if unit.is_plain:
        unit.insert_plain(keys, documents)
        return
    for key, encoded in zip(keys, documents, strict=True):
        _naming(key, lambda key=key, encoded=encoded: unit.insert(key, encoded, is_new=True))  # type: ignore[misc]


def upsert(unit: WriteBatch, batches: Batches, counts: Counts) -> None:
    """Insert documents, or replace those with the same ``_id``."""
    seen: set[bytes] = set()
    for keys, documents in batches:
        _note(unit, seen, keys)
        stored = unit.stored_of(keys)
        fresh = [place for place, each in enumerate(stored) if each is None]
        if fresh:
            insert_new(unit, [keys[place] for place in fresh], [documents[place] for place in fresh])
            counts.inserted += len(fresh)
        for key, old, new in zip(keys, stored, documents, strict=True):
            if old is not None and old != new:
                _replace(unit, key, old, new)
                counts.replaced += 1


def _replace(unit: WriteBatch, key: bytes, old: bytes, new: bytes) -> None:
    if unit.is_plain:
        unit.replace_plain(key, old, new)
    else:
        found = (key, old, decode_document(old))
        _naming(key, lambda: unit.replace(found, decode_document(new), new))


def delete(unit: WriteBatch, batches: Batches, counts: Counts) -> None:
    """Remove the documents with these keys, if they exist. A key may occur twice."""
    gone: set[bytes] = set()
    for keys, _ in batches:
        for key, old in zip(keys, unit.stored_of(keys), strict=True):
            if old is not None and key not in gone:
                gone.add(key)
                _delete(unit, key, old)
                counts.deleted += 1


def _delete(unit: WriteBatch, key: bytes, old: bytes) -> None:
    unit.delete((key, old, {} if unit.is_plain else decode_document(old)))


def overwrite(unit: WriteBatch, batches: Batches, counts: Counts, most: int) -> None:
    """Replace all documents of the collection by these. Documents that do not change are not touched.

    Documents that are inserted concurrently count as later, and stay.
    """
    old: dict[bytes, bytes] = {}
    size = 0
    for key, stored in _documents(unit):
        old[key] = stored
        size += len(key) + len(stored)
        if size > most:
            raise TooLarge
    seen: set[bytes] = set()
    taken: list[tuple[list[bytes], list[bytes]]] = []
    for keys, documents in batches:
        _note(unit, seen, keys)
        taken.append((keys, documents))
    for key, stored in old.items():  # first, so that their values in a unique index become free
        if key not in seen:
            _delete(unit, key, stored)
            counts.deleted += 1
    for keys, documents in taken:
        fresh = [place for place, key in enumerate(keys) if key not in old]
        if fresh:
            insert_new(unit, [keys[place] for place in fresh], [documents[place] for place in fresh])
            counts.inserted += len(fresh)
        for key, new in zip(keys, documents, strict=True):
            was = old.get(key)
            if was is not None and was != new:
                _replace(unit, key, was, new)
                counts.replaced += 1


def changes(unit: WriteBatch, batches: Batches, counts: Counts) -> None:
    """Apply the last change of each document. In a collection with a unique index, all changed documents are removed
    before any is inserted, so that documents can exchange values."""
    latest: dict[bytes, StagedChange] = {}
    for keys, staged in batches:
        take_latest(latest, unit.reader.name, zip(keys, map(decode_change, staged), strict=True))
    keys = list(latest)
    is_unique = any(each.unique for each in unit.row.indexes)
    fresh: list[tuple[bytes, bytes]] = []
    for start in range(0, len(keys), _BATCH):
        part = keys[start : start + _BATCH]
        for key, old in zip(part, unit.stored_of(part), strict=True):
            new = latest[key].document
            if old == new:
                continue
            if old is None and new is not None:
                fresh.append((key, new))
                counts.inserted += 1
            elif old is not None and new is not None:
                counts.replaced += 1
                if is_unique:
                    _delete(unit, key, old)
                    fresh.append((key, new))
                else:
                    _replace(unit, key, old, new)
            elif old is not None:
                _delete(unit, key, old)
                counts.deleted += 1
    insert_new(unit, [key for key, _ in fresh], [new for _, new in fresh])


def _documents(unit: WriteBatch) -> Iterator[tuple[bytes, bytes]]:
    prefix = unit.reader.prefix
    return unit.reader.reading.scan(Range(prefix, after_prefix(prefix)))


def _is_empty(unit: WriteBatch) -> bool:
    return next(_documents(unit), None) is None


def _note(unit: WriteBatch, seen: set[bytes], keys: list[bytes]) -> None:
    """Raise an error if an ``_id`` occurs twice: rows have no order, so none of them is the last."""
    before = len(seen)
    if not seen.isdisjoint(keys):
        raise twice(unit.reader.name, next(key for key in keys if key in seen))
    seen.update(keys)
    if len(seen) != before + len(keys):
        raise _twice(unit, keys)


def _twice(unit: WriteBatch, keys: list[bytes]) -> OperationFailure:
    """The error for keys of which one occurs twice, or was written before."""
    met: set[bytes] = set()
    for key in keys:
        if key in met or unit.reader.prefix + key in unit.writes:
            return twice(unit.reader.name, key)
        met.add(key)
    raise AssertionError("each key is met once")


def twice(collection: str, key: bytes) -> OperationFailure:
    """The error for an ``_id`` that several rows have."""
    return OperationFailure(
        f"several rows of the write to collection {collection!r} have the _id {shown(id_of(key))}; rows have no order, "
        "so none of them is the last: keep one, for example with dropDuplicates"
    )


def _duplicate(unit: WriteBatch, key: bytes) -> DuplicateKeyError:
    return duplicate(unit.reader.name, key)


def duplicate(collection: str, key: bytes) -> DuplicateKeyError:
    """The error for an ``_id`` that a document already has."""
    _id = id_of(key)
    return DuplicateKeyError(collection, "_id_", {"_id": _id}, _id)


def _naming(key: bytes, write: Callable[[], None]) -> None:
    """Call ``write``, and add the document's ``_id`` to its error."""
    try:
        write()
    except DocumentRefused as error:
        error.args = (f"document with _id {shown(id_of(key))}: {error}",)
        raise
