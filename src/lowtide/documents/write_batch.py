"""A unit of writing: what one statement does to a collection's documents, and to its indexes with them.

It gathers the writes, and gives them to the transaction at its end; one that fails before has changed nothing. So a
document and its index entries are always written together, and a refused document leaves no entry behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lowtide.documents.catalog import CatalogRow, encode_row
from lowtide.documents.indexes.entries import LONG, MULTIKEY, IndexEntries, entry_key, entry_value
from lowtide.documents.indexes.spec import Index
from lowtide.documents.reader import CollectionReader, Found
from lowtide.engine import PrefixOf, Writes, WriteView
from lowtide.errors import DuplicateKeyError, WriteError
from lowtide.values.codec import decode_document
from lowtide.values.values import Document


class WriteBatch:
    """The writes of one statement to one collection."""

    __slots__ = ("_before", "_indexes", "_left_alone", "_replaced", "_writing", "reader", "row", "writes")

    def __init__(self, writing: WriteView, prefix_of: PrefixOf, name: str, beside: CatalogRow | None = None) -> None:
        """``beside`` is in place of the collection's row: the documents are others, which nobody reads yet."""
        self._writing = writing
        self.reader = CollectionReader(writing, prefix_of, name)
        if beside is not None:
            self.reader.row, self.reader.prefix = beside, prefix_of(beside.keyspace)
        self.row: CatalogRow = self.reader.row
        """As it will be: a document may be the first with an array in an index."""
        self.writes: Writes = {}
        self._before: Writes | None = {}
        """What is known to have been there before; None if that is not known of all."""
        self._replaced: set[bytes] = set()
        self._left_alone: list[bytes] = []
        """Entries that other documents have of a value that one of these gave up; see ``_remove``."""
        self._indexes = [(each, prefix_of(each.index.keyspace)) for each in self.row.entries]
        if any(each.index.building for each, _ in self._indexes):
            self._before = None

    def insert(self, key: bytes, encoded: bytes, *, is_new: bool) -> None:
        """Add a document. ``is_new`` says that nobody can have its ``_id``."""
        full_key = self.reader.prefix + key
        if not is_new and self._read(full_key) is not None:
            _id = decode_document(encoded)["_id"]
            raise DuplicateKeyError(self.reader.name, "_id_", {"_id": _id}, _id)
        row = self.row
        if row.schema is not None or not row.flat:
            self._put(key, None, None, decode_document(encoded), encoded)
            return
        changes: Writes = {full_key: encoded}
        if self._indexes:
            document, length = row.decode_indexed(encoded), bytes((len(key),))
            for entries, prefix in self._indexes:
                values = entries.only(document)
                if values is None:
                    self._put(key, None, None, decode_document(encoded), encoded)
                    return
                changes[prefix + values + key] = length
        self.writes.update(changes)
        if self._before is not None:
            self._before.update(dict.fromkeys(changes))

    def known_ids(self, keys: list[bytes]) -> frozenset[bytes]:
        """Those of the keys that documents have."""
        return frozenset(key for key, value in zip(keys, self.stored_of(keys), strict=True) if value is not None)

    def stored_of(self, keys: list[bytes]) -> list[bytes | None]:
        """The stored forms of the documents with these keys, as they were before the unit."""
        prefix = self.reader.prefix
        return self._writing.read_many([prefix + key for key in keys])

    @property
    def is_plain(self) -> bool:
        """Whether a document is its stored form and nothing else: there is no index and no schema."""
        return not self._indexes and self.row.schema is None

    def insert_plain(self, keys: list[bytes], documents: list[bytes]) -> None:
        """Add many documents, none of which is there, to a collection that is plain."""
        prefix = self.reader.prefix
        full_keys = [prefix + key for key in keys]
        self.writes.update(zip(full_keys, documents, strict=True))
        if self._before is not None:
            self._before.update(dict.fromkeys(full_keys))

    def replace_plain(self, key: bytes, stored: bytes, encoded: bytes) -> None:
        """Put another document in the place of one that is stored, in a collection that is plain."""
        full_key = self.reader.prefix + key
        self._replaced.add(full_key)
        self._add({full_key: encoded}, {full_key: stored})

    def replace(self, found: Found, new: Document, encoded: bytes, fields: frozenset[str] | None = None) -> None:
        """Put ``new`` in the place of a document that was found. They differ in ``fields`` only; None if it is another
        one altogether."""
        key, stored, old = found
        if fields is None:
            self._replaced.add(self.reader.prefix + key)
        self._put(key, stored, old, new, encoded, fields)

    def delete(self, found: Found) -> None:
        """Remove a document that was found."""
        key, stored, old = found
        full_key = self.reader.prefix + key
        changes: Writes = {full_key: None}
        before: Writes = {full_key: stored}
        for entries, prefix in self._indexes:
            for values in _old_entries(entries, old):
                self._remove(changes, before, entries.index, prefix + entry_key(entries.index, values, key), key)
        self._add(changes, before)

    def _put(
        self,
        key: bytes,
        stored: bytes | None,
        old: Document | None,
        new: Document,
        encoded: bytes,
        fields: frozenset[str] | None = None,
    ) -> None:
        if (validator := self.row.validator) is not None:
            validator.check(self.reader.name, new)
        full_key = self.reader.prefix + key
        changes: Writes = {full_key: encoded}
        before: Writes = {full_key: stored}
        for entries, prefix in self._indexes:
            if fields is not None and entries.fields.isdisjoint(fields):
                continue
            index = entries.index
            gone = _old_entries(entries, old) if old is not None else ()
            now, special = entries.of(new)
            if special:
                self._note(index.name, special)
            for values in gone:
                if values not in now:
                    self._remove(changes, before, index, prefix + entry_key(index, values, key), key)
            for values in now:
                if values not in gone:
                    entry = prefix + entry_key(index, values, key)
                    if index.unique and (holder := self._read(entry)) is not None and holder != key:
                        raise self._duplicate(entries, new, holder)
                    changes[entry] = entry_value(index, key)
                    before[entry] = None
        self._add(changes, before)

    def _add(self, changes: Writes, before: Writes) -> None:
        """Take over what one document comes to. Of what the statement has written before, ``before`` knows nothing."""
        if self._before is not None:
            if self.writes:
                before = {full_key: value for full_key, value in before.items() if full_key not in self.writes}
            self._before.update(before)
        self.writes.update(changes)

    def _remove(self, changes: Writes, before: Writes, index: Index, entry: bytes, key: bytes) -> None:
        """Remove an entry of the document with this key. One that is not there yet, of an index that is being built, is
        removed as well, so that a step which is about to enter it finds it changed. Another document's is left alone,
        and the commit relies on it: once that document gives it up, a step may enter it for this one."""
        if index.building and index.unique and (holder := self._read(entry)) is not None and holder != key:
            self._left_alone.append(entry)
            return
        changes[entry] = None
        before[entry] = entry_value(index, key)

    def _read(self, full_key: bytes) -> bytes | None:
        """The value of a full key, with what this statement has written so far."""
        writes = self.writes
        return writes[full_key] if full_key in writes else self._writing.read(full_key)

    def _note(self, name: str, special: int) -> None:
        """Let the collection's row say that an index has several entries for a document, or one that is cut."""
        index = self.row.index(name)
        assert index is not None
        noted = index.noting(multikey=bool(special & MULTIKEY), long=bool(special & LONG))
        if noted is not index:
            self.row = self.row.with_index(noted)

    def _duplicate(self, entries: IndexEntries, new: Document, holder: bytes) -> DuplicateKeyError:
        stored = self._read(self.reader.prefix + holder)
        found = decode_document(stored)["_id"] if stored is not None else None
        return DuplicateKeyError(self.reader.name, entries.index.name, key_value(entries.index, new), found)

    def apply_beside(self) -> CatalogRow:
        """Give the writes to the transaction, but for the row, which is returned as it should be."""
        if self.writes:
            self._writing.apply(self.writes, (self.reader.row_key,), self._before)
        return self.row

    def apply(self) -> None:
        """Give the writes to the transaction."""
        if self.row is not self.reader.row:
            self.writes[self.reader.row_key] = encode_row(self.row)
        if self.writes:
            if self._replaced:
                self._writing.note_replaced(self._replaced)
            self._writing.apply(self.writes, (self.reader.row_key, *self._left_alone), self._before)


def _old_entries(entries: IndexEntries, old: Document) -> Sequence[bytes]:
    """The entries of a document that is there. One that an index cannot hold has none in it: the index is being built,
    and will not be finished."""
    try:
        return entries.of(old)[0]
    except WriteError:
        return ()


def key_value(index: Index, document: Document) -> dict[str, Any]:
    """The values of a document at the paths of an index, for a message."""
    found = {}
    for path in index.paths:
        value: Any = document
        for part in path.split("."):
            value = value.get(part) if isinstance(value, dict) else value
        found[path] = value
    return found
