"""The names of the tables of an archive: one for each collection, keyspace and quad store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lowtide.errors import UsageError
from lowtide.quads.indexes import QUADS

COLLECTIONS: Final = "collections"
KEYSPACES: Final = "keyspaces"
QUAD_STORES: Final = "quads"


@dataclass(frozen=True)
class TableName:
    """A table of the archive: the folder that it is in, and the name of the collection, keyspace or quad store."""

    folder: str
    name: str

    def __str__(self) -> str:
        return f"{self.folder}/{self.name}"

    @property
    def is_keyspace(self) -> bool:
        return self.folder == KEYSPACES

    @property
    def is_internal(self) -> bool:
        """Whether it has what Lowtide itself writes down: the catalog, and the details of quad stores. Reports count
        what users wrote."""
        return self.is_keyspace and self.name.startswith(("lowtide/", QUADS))


def table_named(text: str) -> TableName:
    """Return the table whose name, as text, this is.

    >>> table_named("keyspaces/a/b")
    TableName(folder='keyspaces', name='a/b')
    """
    folder, _, name = text.partition("/")
    return TableName(folder, name)


def check_collections(collections: Iterable[str] | None) -> list[str] | None:
    """Return the names of collections as a list; raises UsageError for anything else."""
    if collections is None:
        return None
    found = [collections] if isinstance(collections, str) else list(collections)
    if not found or not all(isinstance(each, str) and each for each in found):
        raise UsageError(f"collections is a list of names, or None for everything, not {collections!r}")
    return found
