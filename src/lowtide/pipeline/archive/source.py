"""The store that a run archives, read from any process while another one owns it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

from lowtide.documents.catalog import CATALOG, CatalogRow, row_key, row_of
from lowtide.engine import EngineSnapshot, bytes_between, cut_between
from lowtide.errors import ChangesLost, UsageError
from lowtide.feed.consumers import ConsumerState
from lowtide.feed.ranges import CommitRange, commits_in
from lowtide.pipeline.archive.log_tasks import LogPart
from lowtide.pipeline.archive.plan import CatalogChange, Routes
from lowtide.pipeline.archive.snapshots import TTL, PinnedPart
from lowtide.pipeline.tables.location import Location
from lowtide.pipeline.tables.names import TableName
from lowtide.sharing.pins.pin import Pin
from lowtide.sharing.pins.snapshot import open_pinned
from lowtide.spark.location import StoreLocation
from lowtide.spark.options import SparkOptions
from lowtide.spark.partitions import EVERYTHING, parts_of
from lowtide.store.opening import follower_of, open_store

PART: Final = 32 << 20
"""Bytes of log that one task reads."""
_FEW: Final = 5000
"""Commits that are decoded sooner than their segments are searched."""


@dataclass(frozen=True)
class PinnedState:
    """The store at a pin: where collections have their documents, and which tables there are."""

    pin: Pin
    time: float
    routes: Routes
    keyspaces: dict[TableName, str]


class ArchiveSource:
    """An open store; close it after use."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.location = StoreLocation.here(SparkOptions({"path": os.fspath(path)}).path)
        self.path = Path(self.location.path)
        self.store = open_store(self.path, read_only=True)
        self._follower = follower_of(self.store)
        self.feed = self._follower.feed

    @property
    def store_id(self) -> str:
        return self.location.store_id.hex()

    def close(self) -> None:
        self.store.close()

    def check_apart(self, archive: Location) -> None:
        """Raise UsageError if an archive would be inside the store."""
        if archive.is_local and Path(archive.root).resolve().is_relative_to(self.path.resolve()):
            raise UsageError(
                f"the archive {archive.uri} is inside the store {self.path}, which keeps its own files there; give "
                "another directory"
            )

    def last_commit(self) -> int:
        return self.feed.published()

    def has_log_after(self, commit: int) -> bool:
        """Whether the log still has everything after a commit."""
        return commit >= self.feed.published() or self.feed.first_kept() <= commit + 1

    def time_of(self, commit: int) -> float | None:
        """Return when a commit was made; None if the log no longer tells."""
        if commit < 1 or commit > self.feed.published():
            return None
        try:
            return next(commits_in(self._range(commit - 1, commit))).time
        except (ChangesLost, StopIteration):
            return None

    def consumer(self, name: str) -> ConsumerState | None:
        """Return a consumer as it is; None if it does not exist."""
        return next((each for each in self.store.consumers() if each.name == name), None)

    def _range(self, since: int, until: int) -> CommitRange:
        return CommitRange(self.path / "log", self.location.store_id, since, until)

    # The log

    def keyspaces(self, until: int) -> dict[str, bytes]:
        """Return the prefixes of all keyspaces that commits up to ``until`` have written to."""
        self.feed.prefix_of(CATALOG, until)  # learns the names up to there
        return dict(self.feed.names.prefixes)

    def log_parts(self, since: int, until: int) -> list[LogPart]:
        """Return a range of commits in parts of about the same size."""
        log = self.path / "log", self.location.store_id, since, until
        cuts = cut_between(*log, max(1, bytes_between(*log) // PART))
        return [LogPart(self.location, low, high) for low, high in zip([since, *cuts], [*cuts, until], strict=True)]

    def catalog_changes(self, since: int, until: int, routes: Routes) -> list[CatalogChange]:
        """Return what the commits after ``since`` up to ``until`` wrote to the catalog of collections."""
        catalog = self.feed.prefix_of(CATALOG, until)
        if catalog is None or since >= until:
            return []
        found: dict[int, CatalogChange] = {}
        if until - since <= _FEW:
            for commit in commits_in(self._range(since, until)):
                rows = {key: value for key, value in commit.writes.items() if key.startswith(catalog)}
                if rows:
                    decoded = {key[len(catalog) :].decode(): value for key, value in rows.items()}
                    found[commit.ts] = CatalogChange(commit.ts, commit.time, _rows(decoded))
        else:
            for name in {*routes.moved, *self._collections_with_rows()}:
                full_key = catalog + row_key(name)
                for commit in self.feed.writes_of(full_key, since, until):
                    known = found.get(commit.ts)
                    rows_so_far = {} if known is None else dict(known.rows)
                    rows_so_far |= _rows({name: commit.writes[full_key]})
                    found[commit.ts] = CatalogChange(commit.ts, commit.time, rows_so_far)
        return [found[ts] for ts in sorted(found)]

    def _collections_with_rows(self) -> list[str]:
        """Return the names that have a row now. A row that says where a collection went is never removed."""
        with self.store.snapshot() as snapshot:
            return [key.decode() for key, _ in snapshot.keyspace(CATALOG).scan()]

    # A snapshot

    @contextmanager
    def pinned(self) -> Iterator[PinnedState]:
        """Keep the last commit for as long as this is open."""
        pin = self.store.pin(f"archive-{uuid4().hex[:12]}", ttl=TTL)
        try:
            with open_pinned(self.path, pin=pin.name) as snapshot:
                rows = {key.decode(): value for key, value in snapshot.keyspace(CATALOG).scan()}
            routes = Routes().after(_rows(rows))
            tables = ((routes.table_of(name), name) for name in self.keyspaces(pin.ts))
            known = {table: name for table, name in tables if table is not None}
            time = self.time_of(pin.ts)
            yield PinnedState(pin, pin.taken if time is None else time, routes, known)
        finally:
            self.store.unpin(pin.name)

    def snapshot_parts(self, state: PinnedState, keyspace: str) -> list[PinnedPart]:
        """Return the entries of a keyspace at a pin, in ranges of keys."""
        with open_pinned(self.path, pin=state.pin.name) as snapshot:
            cuts = self._cuts(snapshot, keyspace)
        bounds = zip([b"", *cuts], [*cuts, None], strict=True)
        return [PinnedPart(self.location, state.pin.name, keyspace, low, high) for low, high in bounds]

    def load_cuts(self, keyspace: str) -> list[bytes]:
        """Return keys that cut a keyspace, as it is now, into parts for tasks."""
        with EngineSnapshot(self._follower.engine, None) as snapshot:
            return self._cuts(snapshot, keyspace)

    @staticmethod
    def _cuts(snapshot: EngineSnapshot, keyspace: str) -> list[bytes]:
        return snapshot.cuts(keyspace, parts_of(None, snapshot, keyspace, EVERYTHING))


def _rows(values: Mapping[str, bytes | None]) -> dict[str, CatalogRow]:
    return {name: row_of(name, value) for name, value in values.items()}
