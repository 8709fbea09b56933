"""Checks what must hold for every collection at every instant.

An index has exactly the entries of the existing documents. The flags of an index are true. A document is stored under
the key of its ``_id``. Keyspaces that belong to no collection are empty.
"""

from __future__ import annotations

from typing import Any, Protocol

import lowtide
from lowtide.documents.catalog import CATALOG, DOCUMENTS, INDEXES, CatalogRow, row_key, row_of
from lowtide.documents.indexes.entries import LONG, MULTIKEY, IndexEntries, entry_key, entry_value
from lowtide.documents.indexes.spec import Index
from lowtide.values.codec import decode_document
from lowtide.values.ids import id_key
from lowtide.values.values import Document


class Source(Protocol):
    """A snapshot, or a transaction, which is checked with its own writes."""

    def keyspace(self, name: str) -> Any: ...


def check_collection(source: lowtide.Store | Source, name: str) -> dict[Any, Document]:
    """Assert everything that must hold for a collection. Returns its documents by ``_id``."""
    if isinstance(source, lowtide.Store):
        with source.snapshot() as snapshot:
            return check_collection(snapshot, name)
    row = row_in(source, name)
    stored = dict(source.keyspace(row.keyspace).scan())
    documents = {key: decode_document(value) for key, value in stored.items()}
    for key, document in documents.items():
        assert id_key(document["_id"]) == key, f"the document with _id {document['_id']!r} lies under {key!r}"
    for index in row.indexes:
        check_index(source, index, documents)
    return {document["_id"]: document for document in documents.values()}


def row_in(source: Source, name: str) -> CatalogRow:
    return row_of(name, source.keyspace(CATALOG).get(row_key(name)))


def check_index(source: Source, index: Index, documents: dict[bytes, Document]) -> None:
    """Assert that an index has the entries of these documents; one that is being built, none but theirs."""
    entries = IndexEntries(index)
    expected: dict[bytes, set[bytes]] = {}
    needed = 0
    for key, document in documents.items():
        try:
            found, special = entries.of(document)
        except lowtide.WriteError:
            assert index.building, f"{index.name} is ready without {document}"
            continue
        needed |= special
        for values in found:
            expected.setdefault(entry_key(index, values, key), set()).add(entry_value(index, key))
    there = dict(source.keyspace(index.keyspace).scan())
    strange = {key: value for key, value in there.items() if value not in expected.get(key, ())}
    assert not strange, f"{index.name} has entries of no document: {strange}"
    if not index.building:
        missing = expected.keys() - there.keys()
        assert not missing, f"{index.name} lacks the entries {missing}"
        assert all(len(holders) == 1 for holders in expected.values()), f"{index.name} is not unique: {expected}"
        assert index.multikey or not needed & MULTIKEY, f"{index.name} does not know of its arrays"
        assert index.long or not needed & LONG, f"{index.name} does not know of its long values"


def check_store(store: lowtide.Store, *, killed: bool = False) -> dict[str, dict[Any, Document]]:
    """Assert everything of every collection, and that nothing is left of any other; the documents by collection. A
    process that was ``killed`` may leave a dropped index that is not yet emptied, if the collection's row says so."""
    with store.snapshot() as snapshot:
        names = snapshot.list_collection_names()
        found = {name: check_collection(snapshot, name) for name in names}
        rows = [row_in(snapshot, name) for name in names]
        used = [keyspace for row in rows for keyspace in (row.keyspace, *(each.keyspace for each in row.indexes))]
        assert len(set(used)) == len(used), f"a keyspace belongs to two: {sorted(used)}"
        doomed = {keyspace for row in rows for keyspace in row.doomed} if killed else set()
        for keyspace in {*store.keyspaces()} - doomed:
            if keyspace.startswith((DOCUMENTS, INDEXES)) and keyspace not in used:
                left = dict(snapshot.keyspace(keyspace).scan())
                assert not left, f"{keyspace} belongs to no collection, and holds {left}"
    return found
