"""The catalog of collections: the keyspace, indexes and schema of each collection, by name.

The keyspace ``CATALOG`` has a row for each collection that has indexes or a schema, or that was renamed or dropped. A
collection without a row has the keyspace ``documents/NAME`` and nothing else, so that several transactions can insert
the first documents of a new collection concurrently. Rows change in transactions, like all other data. Every write of a
document relies on the collection's row, see ``engine/transaction/guards.py``.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from itertools import chain, count
from typing import Any, Final

import msgspec

from lowtide.documents.indexes.entries import MAX_VALUES, IndexEntries
from lowtide.documents.indexes.spec import Index
from lowtide.documents.prepared.keys import Entries, entries_function
from lowtide.documents.schema import SchemaValidator, compile_schema
from lowtide.errors import UsageError
from lowtide.values.codec import decode_value
from lowtide.values.partial import Decode, decoder_for

CATALOG: Final = "lowtide/collections"
DOCUMENTS: Final = "documents/"
INDEXES: Final = "index/"
MAX_NAME: Final = 100


class Former(msgspec.Struct, frozen=True):
    """A keyspace that a bulk load replaced in commit ``ts``. The keyspace ``changes`` has the difference for as long as
    the log has that commit. See ``feed/differences.py``."""

    ts: int
    keyspace: str
    changes: str


class Recent:
    """What the last statements on a collection were like; see ``documents/prepared``. Any thread may change it: each
    value is complete by itself, and a statement that is not like the last one only takes longer."""

    __slots__ = ("rewritten",)

    def __init__(self) -> None:
        self.rewritten: Any = None
        """The shape of the last update that changed documents in their encoded form."""


class CatalogRow(msgspec.Struct, frozen=True, dict=True, kw_only=True):
    """The catalog row of one collection. ``exists`` is false for a name that is free, but whose first keyspace belongs
    to a collection that has another name now."""

    keyspace: str
    indexes: tuple[Index, ...] = ()
    schema: bytes | None = None
    """A JSON Schema, encoded."""
    exists: bool = True
    doomed: tuple[str, ...] = ()
    """Keyspaces of dropped collections and indexes that are still to be emptied. No writer adds to them."""
    generation: int = 0
    """How many keyspaces the name has had before."""
    loading: tuple[str, ...] = ()
    """Keyspaces that a bulk load is filling, to replace those of the collection. No reader sees them."""
    former: tuple[Former, ...] = ()
    """The last bulk loads of this name, oldest first."""
    loaded: int = 0
    """The commit in which a bulk load gave the collection its keyspace; -1 if a rename did, 0 if it is the first."""

    types: bytes | None = None
    """Column types that cannot be inferred from the documents, see ``documents/column_types.py``."""

    @cached_property
    def entries(self) -> tuple[IndexEntries, ...]:
        """The compiled indexes."""
        return tuple(map(IndexEntries, self.indexes))

    @cached_property
    def validator(self) -> SchemaValidator | None:
        return compile_schema(decode_value(self.schema)) if self.schema is not None else None

    @cached_property
    def flat(self) -> bool:
        """Whether most documents have exactly one entry in each index, from the value of a field; see
        ``IndexEntries.only``."""
        return all(each.only is not None and not each.index.unique and not each.index.building for each in self.entries)

    @cached_property
    def entries_of_given(self) -> Entries | None:
        """The function that computes the entries in all indexes of a document given by a caller. None if the indexes
        are not flat, or if there are none."""
        if not self.indexes or not self.flat:
            return None
        return entries_function(tuple((each.keyspace, each.keys) for each in self.indexes), MAX_VALUES)

    @cached_property
    def indexed(self) -> frozenset[str]:
        """The fields of a document that its index entries depend on."""
        return frozenset(name for each in self.entries for name in each.fields)

    def is_plain_for(self, fields: frozenset[str]) -> bool:
        """Whether a change of only these fields changes the document's row and nothing else, and needs no check."""
        return self.schema is None and not self.building and self.indexed.isdisjoint(fields)

    @cached_property
    def building(self) -> bool:
        """Whether an index is being built."""
        return any(each.building for each in self.indexes)

    @cached_property
    def decode_indexed(self) -> Decode:
        """The decoder of the fields that a document's index entries are computed from."""
        return decoder_for(frozenset(self.indexed))

    @cached_property
    def lookups(self) -> dict[Any, Any]:
        """The lookups of prepared filters, see ``documents/prepared``. Any thread may add to it. All threads compute
        the same lookup, so it does not matter which one is kept."""
        return {}

    @cached_property
    def recent(self) -> Recent:
        return Recent()

    @cached_property
    def points(self) -> dict[str, Index]:
        """The index that answers point lookups, by path; a unique one if there is one."""
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
        """Return the row with this index, which replaces any of the same name."""
        others = tuple(each for each in self.indexes if each.name != index.name)
        return msgspec.structs.replace(self, indexes=(*others, index))

    def without_index(self, name: str) -> CatalogRow:
        return msgspec.structs.replace(self, indexes=tuple(each for each in self.indexes if each.name != name))

    def having(self, **changes: Any) -> CatalogRow:
        return msgspec.structs.replace(self, **changes)

    def freed(self, name: str) -> CatalogRow:
        """Return the row of a name whose collection was renamed or dropped: it has a new, empty keyspace."""
        generation = self.generation + 1
        keyspace = f"{DOCUMENTS}{name}~{generation}"
        return CatalogRow(keyspace=keyspace, exists=False, generation=generation, former=self.former)

    def beside(self, name: str) -> CatalogRow:
        """Return a row with new keyspaces, for a bulk load that will replace the documents of this one."""
        generation = self.generation + 1
        fresh = CatalogRow(keyspace=f"{DOCUMENTS}{name}~{generation}", schema=self.schema, generation=generation)
        for each in self.indexes:
            keyspace = fresh.index_keyspace(each.name)
            fresh = fresh.with_index(each.having(keyspace=keyspace, multikey=False, long=False, building=False))
        return fresh

    def swap_at(self, ts: int) -> Former | None:
        """Return what a bulk load replaced when it wrote this row in commit ``ts``; None if it was another write."""
        return self.former[-1] if self.former and self.former[-1].ts == ts else None

    def index_keyspace(self, name: str) -> str:
        """Return an unused keyspace for a new index of this name. A keyspace that is still to be emptied counts as
        used."""
        taken = {*self.doomed, *(each.keyspace for each in self.indexes)}
        first = f"{INDEXES}{self.keyspace.removeprefix(DOCUMENTS)}/{name}"
        return next(each for each in chain([first], (f"{first}~{n}" for n in count(1))) if each not in taken)

    @property
    def keyspaces(self) -> list[str]:
        """The keyspaces that a reader of the collection needs."""
        return [CATALOG, self.keyspace, *(each.keyspace for each in self.indexes)]


encode_row: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(CatalogRow).decode


@lru_cache(maxsize=4096)
def row_of(name: str, encoded: bytes | None) -> CatalogRow:
    """Decode the row of a collection. Its compiled indexes are cached with it."""
    return _decode(encoded) if encoded is not None else CatalogRow(keyspace=DOCUMENTS + name)


def row_key(name: str) -> bytes:
    """Return the key of a collection's row."""
    return name.encode()


def check_collection_name(name: object) -> str:
    """Return ``name`` if it is a valid name of a collection. The names that were checked last are remembered: a program
    opens the same few collections in every transaction.

    >>> check_collection_name("users")
    'users'
    """
    if type(name) is str:
        if name not in _VALID:
            if len(_VALID) >= _MOST_VALID:
                _VALID.clear()
            _VALID[name] = _checked_name(name)
        return name
    return _checked_name(name)


_VALID: Final[dict[str, str]] = {}
_MOST_VALID: Final = 4096


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise UsageError(f"a collection's name is a non-empty string, not {name!r}")
    try:
        length = len(name.encode())
    except UnicodeEncodeError as error:
        raise UsageError(f"a collection's name must be encodable as UTF-8: {error}") from error
    if length > MAX_NAME:
        raise UsageError(f"a collection's name has at most {MAX_NAME} bytes: {name[:40]!r}...")
    if any(each in name for each in "$\x00/~") or name.startswith(".") or name.endswith("."):
        raise UsageError(f"a collection's name has no $, /, ~ or NUL, and no dot at its ends: {name!r}")
    return name
