"""Plans a run: turns the commits in the log into steps, each of which one job can do. Pure.

A collection's documents are in a keyspace that its catalog row names (``documents/catalog.py``). As long as the row
does not change that, the versions of a collection are the writes to its keyspace, and one pass over the log finds those
of all collections (``LogSpan``). A commit that gives collections other keyspaces is a separate step (``Relocation``):

* a bulk load replaces the keyspace, and has recorded the difference;
* a rename gives one collection the keyspace of another, which ends: its state is the other's;
* a drop with concurrent writers leaves a collection with an empty keyspace.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from lowtide.documents.catalog import CATALOG, DOCUMENTS, CatalogRow
from lowtide.feed.differences import Swap
from lowtide.pipeline.tables.names import COLLECTIONS, KEYSPACES, QUAD_STORES, TableName
from lowtide.quads.indexes import QUADS

QUADS_DETAILS: Final = ("prefixes", "graphs")
"""What else of a quad store is archived as keyspaces. The other indexes and the terms follow from the statements."""
_INTERNAL: Final = ("lowtide/", "index/", DOCUMENTS)
"""Prefixes of the names of keyspaces that are not archived as such."""


@dataclass(frozen=True)
class Routes:
    """Which keyspace has the documents of which collection: those in ``moved``, and ``documents/NAME`` for all others.

    >>> Routes({"new": "documents/old", "old": "documents/old~1"}).table_of("documents/old")
    TableName(folder='collections', name='new')
    """

    moved: Mapping[str, str] = field(default_factory=dict)

    def keyspace_of(self, collection: str) -> str:
        return self.moved.get(collection, DOCUMENTS + collection)

    def table_of(self, keyspace: str) -> TableName | None:
        """Return the table that has the versions of a keyspace; None if none has."""
        for name, moved in self.moved.items():
            if moved == keyspace:
                return TableName(COLLECTIONS, name)
        if keyspace.startswith(QUADS):
            name, _, what = keyspace.removeprefix(QUADS).rpartition("/")
            if what == "spoc":
                return TableName(QUAD_STORES, name)
            return TableName(KEYSPACES, keyspace) if what in QUADS_DETAILS else None
        if keyspace == CATALOG or not keyspace.startswith(_INTERNAL):
            return TableName(KEYSPACES, keyspace)
        name = keyspace.removeprefix(DOCUMENTS)
        if name == keyspace or "~" in name or name in self.moved:
            return None
        return TableName(COLLECTIONS, name)

    def is_replayed(self, keyspace: str) -> bool:
        """Whether a keyspace's changes in the log are needed to recover a store: those of archived keyspaces, and
        terms."""
        return self.table_of(keyspace) is not None or (keyspace.startswith(QUADS) and keyspace.endswith("/terms"))

    def after(self, rows: Mapping[str, CatalogRow]) -> Routes:
        """Return the routes once these rows of the catalog are written."""
        moved = {**self.moved, **{name: row.keyspace for name, row in rows.items()}}
        return Routes({name: keyspace for name, keyspace in moved.items() if keyspace != DOCUMENTS + name})


@dataclass(frozen=True)
class CatalogChange:
    """The rows of the catalog that a commit wrote, by collection."""

    ts: int
    time: float
    rows: Mapping[str, CatalogRow]


@dataclass(frozen=True)
class LogSpan:
    """The commits after ``since`` up to ``until``, in which no collection changed its keyspace."""

    since: int
    until: int
    routes: Routes


@dataclass(frozen=True)
class Relocation:
    """A commit that gives collections other keyspaces. ``loads`` are the bulk loads; ``states`` tells, by collection,
    which one's state it takes over, None for none. All other writes of the commit go by ``routes``."""

    ts: int
    time: float
    routes: Routes
    loads: tuple[Swap, ...] = ()
    states: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def until(self) -> int:
        return self.ts


Step = LogSpan | Relocation


def steps_of(since: int, until: int, routes: Routes, changes: Iterable[CatalogChange]) -> tuple[list[Step], Routes]:
    """Return the steps for the commits after ``since`` up to ``until``, and the routes after them. ``changes`` are
    those of the catalog in these commits, in their order."""
    steps: list[Step] = []
    begun = since
    for change in changes:
        move = relocation_of(change, routes)
        if move is None:
            continue
        if begun < change.ts - 1:
            steps.append(LogSpan(begun, change.ts - 1, routes))
        steps.append(move)
        begun, routes = change.ts, move.routes
    if begun < until:
        steps.append(LogSpan(begun, until, routes))
    return steps, routes


def relocation_of(change: CatalogChange, routes: Routes) -> Relocation | None:
    """Return what a commit does to the keyspaces of collections; None if they stay as they are."""
    owners = {routes.keyspace_of(name): name for name in [*routes.moved, *change.rows]}
    loads: list[Swap] = []
    states: dict[str, str | None] = {}
    for name, row in change.rows.items():
        old = routes.keyspace_of(name)
        if row.keyspace == old:
            continue
        former = row.swap_at(change.ts)
        if former is not None and former.keyspace == old:
            swap = Swap(ts=change.ts, time=change.time, name=name, old=old, new=row.keyspace, changes=former.changes)
            loads.append(swap)
        else:
            states[name] = owners.get(row.keyspace)
    if not loads and not states:
        return None
    return Relocation(change.ts, change.time, routes.after(change.rows), tuple(loads), states)
