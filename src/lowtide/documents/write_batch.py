"""``WriteBatch``: the writes of one statement to a collection's documents and indexes.

A batch buffers its writes and passes them to the transaction at the end. A statement that fails before that has changed
nothing. So a document and its index entries are always written together, and a refused document leaves no entries.
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
        """``beside`` replaces the collection's row: the batch writes to keyspaces of a bulk load that no reader sees
        yet."""
        self._writing = writing
        self.reader = CollectionReader(writing, prefix_of, name)
        if beside is not None:
            self.reader.row, self.reader.prefix = beside, prefix_of(beside.keyspace)
        self.row: CatalogRow = self.reader.row
        """The row as the batch will leave it: a document may be the first with an array in an index."""
        self.writes: Writes = {}
        self._before: Writes | None = None if self.row.building else {}
        """The previous values of the keys written; None unless all of them are known."""
        self._replaced: set[bytes] = set()
        self._left_alone: list[bytes] = []
        """Index entries of other documents with a value that a document of this batch gave up; see ``_remove``."""
        self._indexes = [(each, prefix_of(each.index.keyspace)) for each in self.row.entries]

    def insert(self, key: bytes, encoded: bytes, *, is_new: bool) -> None:
        """Insert a document. ``is_new`` says that no other document can have its ``_id``."""
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
                values = entries.only(document) if entries.only is not None else None
                if values is None:
                    self._put(key, None, None, decode_document(encoded), encoded)
                    return
                changes[prefix + values + key] = length
        self.writes.update(changes)
        if self._before is not None:
            self._before.update(dict.fromkeys(changes))

    def known_ids(self, keys: list[bytes]) -> frozenset[bytes]:
        """Return the keys that belong to an existing document."""
        return frozenset(key for key, value in zip(keys, self.stored_of(keys), strict=True) if value is not None)

    def stored_of(self, keys: list[bytes]) -> list[bytes | None]:
        """Return the encoded documents with these keys, as they were before the batch."""
        prefix = self.reader.prefix
        return self._writing.read_many([prefix + key for key in keys])

    @property
    def is_plain(self) -> bool:
        """Whether the collection has neither index nor schema, so that a document is one key and nothing else."""
        return not self._indexes and self.row.schema is None

    def insert_plain(self, keys: list[bytes], documents: list[bytes]) -> None:
        """Insert many documents, none of which exists, into a plain collection."""
        prefix = self.reader.prefix
        full_keys = [prefix + key for key in keys]
        self.writes.update(zip(full_keys, documents, strict=True))
        if self._before is not None:
            self._before.update(dict.fromkeys(full_keys))

    def replace_plain(self, key: bytes, stored: bytes, encoded: bytes) -> None:
        """Replace a stored document in a plain collection."""
        full_key = self.reader.prefix + key
        self._replaced.add(full_key)
        self._add({full_key: encoded}, {full_key: stored})

    def replace(self, found: Found, new: Document, encoded: bytes, fields: frozenset[str] | None = None) -> None:
        """Replace the document ``found`` by ``new``. They differ only in ``fields``; None for any field."""
        key, stored, old = found
        if fields is None:
            self._replaced.add(self.reader.prefix + key)
        self._put(key, stored, old, new, encoded, fields=fields)

    def delete(self, found: Found) -> None:
        """Delete a document that was found."""
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
        """Add the writes of one document. ``before`` omits keys that the statement itself has written earlier."""
        if self._before is not None:
            if self.writes:
                before = {full_key: value for full_key, value in before.items() if full_key not in self.writes}
            self._before.update(before)
        self.writes.update(changes)

    def _remove(self, changes: Writes, before: Writes, index: Index, entry: bytes, key: bytes) -> None:
        """Delete an index entry of the document with this key.

        In an index that is being built, an entry that does not exist yet is deleted as well, so that a build step which
        is about to write it finds it changed. An entry of another document is left alone, and the commit relies on it:
        once that document gives it up, a build step may write it for this one."""
        if index.building and index.unique and (holder := self._read(entry)) is not None and holder != key:
            self._left_alone.append(entry)
            return
        changes[entry] = None
        before[entry] = entry_value(index, key)

    def _read(self, full_key: bytes) -> bytes | None:
        """Return the value of a full key, including what this statement has written so far."""
        writes = self.writes
        return writes[full_key] if full_key in writes else self._writing.read(full_key)

    def _note(self, name: str, special: int) -> None:
        """Note in the collection's row that an index has several entries for a document, or a truncated one."""
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
        """Pass the writes to the transaction, except for the row, which is returned as it should be written."""
        if self.writes:
            self._writing.apply(self.writes, (self.reader.row_key,), self._before)
        return self.row

    def apply(self) -> None:
        """Pass the writes to the transaction."""
        if self.row is not self.reader.row:
            self.writes[self.reader.row_key] = encode_row(self.row)
        if self.writes:
            if self._replaced:
                self._writing.note_replaced(self._replaced)
            self._writing.apply(self.writes, (self.reader.row_key, *self._left_alone), self._before)


def _old_entries(entries: IndexEntries, old: Document) -> Sequence[bytes]:
    """Return the entries of a stored document. A document that the index cannot hold has none. That happens only while
    the index is being built, and the build will fail."""
    try:
        return entries.of(old)[0]
    except WriteError:
        return ()


def key_value(index: Index, document: Document) -> dict[str, Any]:
    """Return the values of a document at the paths of an index, for an error message."""
    found = {}
    for path in index.paths:
        value: Any = document
        for part in path.split("."):
            value = value.get(part) if isinstance(value, dict) else value
        found[path] = value
    return found
