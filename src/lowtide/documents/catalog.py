"""The collections by name: which keyspace holds the documents of each, its indexes and its schema.

A keyspace of its own, ``CATALOG``, has a row for each collection that has indexes or a schema, or was renamed or
dropped. A collection without a row has the keyspace ``documents/NAME`` and nothing else: so that the first documents of
a new collection may be inserted by several transactions at once. Rows change in transactions, like everything else;
whoever writes a document relies on the collection's row, see ``engine/transaction/guards.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from itertools import chain, count
from typing import Any, Final

import msgspec

from lowtide.documents.indexes.entries import IndexEntries
from lowtide.documents.indexes.spec import Index
from lowtide.documents.schema import SchemaValidator, compile_schema
from lowtide.errors import UsageError
from lowtide.values.codec import decode_value, decoder_of
from lowtide.values.values import Document

CATALOG: Final = "lowtide/collections"
DOCUMENTS: Final = "documents/"
INDEXES: Final = "index/"
MAX_NAME: Final = 100


class Former(msgspec.Struct, frozen=True):
    """A keyspace that a bulk load replaced, with commit ``ts``; ``changes`` is the keyspace that has the difference, as
    long as the log has that commit. See ``feed/differences.py``."""

    ts: int
    keyspace: str
    changes: str


class CatalogRow(msgspec.Struct, frozen=True, dict=True, kw_only=True):
    """What is known of one collection. ``exists`` is false for a name that is free, but whose first keyspace belongs
    to a collection that has another name now."""

    keyspace: str
    indexes: tuple[Index, ...] = ()
    schema: bytes | None = None
    """A JSON Schema, encoded."""
    exists: bool = True
    doomed: tuple[str, ...] = ()
    """Keyspaces of what was dropped, which are still to be emptied. Nobody writes there any more."""
    generation: int = 0
    """How many keyspaces the name has had before."""
    loading: tuple[str, ...] = ()
    """Keyspaces that a bulk load is filling, in place of those that the collection has. Nobody reads there."""
    former: tuple[Former, ...] = ()
    """The last bulk loads of this name, oldest first."""
    loaded: int = 0
    """The commit with which a bulk load gave the collection its keyspace; -1 if a rename did, 0 if it began with it."""

    types: bytes | None = None
    """Types of columns that the documents do not tell, see ``documents/column_types.py``."""

    @cached_property
    def entries(self) -> tuple[IndexEntries, ...]:
        """The compiled indexes."""
        return tuple(map(IndexEntries, self.indexes))

    @cached_property
    def validator(self) -> SchemaValidator | None:
        return compile_schema(decode_value(self.schema)) if self.schema is not None else None

    @cached_property
    def flat(self) -> bool:
        """Whether most documents have one entry in each index, at the value of a field; see ``IndexEntries.only``."""
        return all(each.is_flat and not each.index.unique and not each.index.building for each in self.entries)

    @cached_property
    def decode_indexed(self) -> Callable[[bytes], Document]:
        """Decodes the fields of a document that its index entries are made of."""
        return decoder_of(tuple(sorted({name for each in self.entries for name in each.fields})))

    @cached_property
    def points(self) -> dict[str, Index]:
        """By path, the index that knows where each of its values is; a unique one rather than another."""
        found: dict[str, Index] = {}
        for each in self.indexes:
            if len(each.keys) == 1 and not each.building and each.partial is None:
                path, direction = each.keys[0]
                if direction > 0 and (each.unique or path not in found):
                    found[path] = each
        return found

    def index(self, name: str) -> Index | None:
        return next((each for each in self.indexes if each.name == name), None)

    def with_index(self, index: Index) -> CatalogRow:
        """The row with this index, in place of one of its name."""
        others = tuple(each for each in self.indexes if each.name != index.name)
        return msgspec.structs.replace(self, indexes=(*others, index))

    def without_index(self, name: str) -> CatalogRow:
        return msgspec.structs.replace(self, indexes=tuple(each for each in self.indexes if each.name != name))

    def having(self, **changes: Any) -> CatalogRow:
        return msgspec.structs.replace(self, **changes)

    def freed(self, name: str) -> CatalogRow:
        """The row that is left to a name whose collection has gone elsewhere: it begins with a keyspace of its own."""
        generation = self.generation + 1
        keyspace = f"{DOCUMENTS}{name}~{generation}"
        return CatalogRow(keyspace=keyspace, exists=False, generation=generation, former=self.former)

    def beside(self, name: str) -> CatalogRow:
        """The row of a collection with keyspaces of its own, to be filled with documents that shall replace these."""
        generation = self.generation + 1
        fresh = CatalogRow(keyspace=f"{DOCUMENTS}{name}~{generation}", schema=self.schema, generation=generation)
        for each in self.indexes:
            keyspace = fresh.index_keyspace(each.name)
            fresh = fresh.with_index(each.having(keyspace=keyspace, multikey=False, long=False, building=False))
        return fresh

    def swap_at(self, ts: int) -> Former | None:
        """What the bulk load replaced that committed this row as commit ``ts``; None if another commit wrote it."""
        return self.former[-1] if self.former and self.former[-1].ts == ts else None

    def index_keyspace(self, name: str) -> str:
        """A keyspace for a new index of this name: one that no other has, and none that is still to be emptied."""
        taken = {*self.doomed, *(each.keyspace for each in self.indexes)}
        first = f"{INDEXES}{self.keyspace.removeprefix(DOCUMENTS)}/{name}"
        return next(each for each in chain([first], (f"{first}~{n}" for n in count(1))) if each not in taken)

    @property
    def keyspaces(self) -> list[str]:
        """Everything that a reader of the collection needs."""
        return [CATALOG, self.keyspace, *(each.keyspace for each in self.indexes)]


encode_row: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(CatalogRow).decode


@lru_cache(maxsize=4096)
def row_of(name: str, encoded: bytes | None) -> CatalogRow:
    """The row of a collection, from its stored form. Compiled indexes stay with it."""
    return _decode(encoded) if encoded is not None else CatalogRow(keyspace=DOCUMENTS + name)


def row_key(name: str) -> bytes:
    """The key of a collection's row."""
    return name.encode()


def check_collection_name(name: object) -> str:
    """``name``, if it can be one.

    >>> check_collection_name("users")
    'users'
    """
    if not isinstance(name, str) or not name:
        raise UsageError(f"a collection is named by a string that is not empty, not by {name!r}")
    try:
        length = len(name.encode())
    except UnicodeEncodeError as error:
        raise UsageError(f"a collection's name must be encodable as UTF-8: {error}") from error
    if length > MAX_NAME:
        raise UsageError(f"a collection's name may be {MAX_NAME} bytes long at most: {name[:40]!r}...")
    if any(each in name for each in "$\x00/~") or name.startswith(".") or name.endswith("."):
        raise UsageError(f"a collection's name has no $, /, ~ or NUL, and no dot at its ends: {name!r}")
    return name
