"""The tables of an archive, found by name."""

from __future__ import annotations

from collections.abc import Iterable

from lowtide.pipeline.errors import ArchiveError
from lowtide.pipeline.tables.location import Location
from lowtide.pipeline.tables.names import COLLECTIONS, KEYSPACES, QUAD_STORES, TableName
from lowtide.pipeline.tables.table import VersionTable


def table_at(archive: Location, name: TableName) -> VersionTable:
    """Return a table of an archive, which may not exist yet."""
    return VersionTable((archive / name.folder).child(name.name), str(name), is_keyspace=name.is_keyspace)


def tables_in(archive: Location) -> dict[TableName, VersionTable]:
    """Return the tables that an archive has."""
    folders = (COLLECTIONS, KEYSPACES, QUAD_STORES)
    names = [TableName(folder, name) for folder in folders for name in (archive / folder).names()]
    found = {name: table_at(archive, name) for name in names}
    return {name: table for name, table in found.items() if table.exists}


def chosen_tables(archive: Location, collections: Iterable[str] | None) -> dict[TableName, VersionTable]:
    """Return the tables of these collections, or of everything. Raises ArchiveError for one that does not exist."""
    known = tables_in(archive)
    if collections is None:
        return known
    wanted = [TableName(COLLECTIONS, each) for each in collections]
    for each in wanted:
        if each not in known:
            has = ", ".join(name.name for name in known if name.folder == COLLECTIONS) or "none"
            raise ArchiveError(
                f"the archive {archive.uri} has no collection {each.name!r}; it has: {has}. Check the name, or archive "
                "the collection first"
            )
    return {each: known[each] for each in wanted}
