"""Recovers a store after a lost disk, from a backup or the archive, and then from the log beyond it.

A backup and the log of the same store fit together: recovery continues where the base ends. The archive has no base, so
its last commit is restored, and the following commits in the log are applied one by one. The archiver is a consumer of
the log, so a log that survives has everything that the archive lacks.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from lowtide.documents.catalog import CATALOG, CatalogRow, row_of
from lowtide.engine import BACKUP, KEYSPACE_PREFIX, MANIFEST, Commit, LogCursor, Released, read_manifest
from lowtide.errors import ChangesLost, CorruptionError, UsageError
from lowtide.pipeline.archive.plan import CatalogChange, Relocation, Routes, relocation_of
from lowtide.pipeline.errors import ArchiveError
from lowtide.pipeline.replicate.replica import Latest, write_stored
from lowtide.pipeline.restore.recover_quads import QuadReplay, TermGone
from lowtide.pipeline.restore.restore import define, new_directory, rebuild
from lowtide.pipeline.tables.ledger import ArchiveLedger
from lowtide.pipeline.tables.location import Location
from lowtide.quads.indexes import QUADS
from lowtide.sharing.loading.staged_changes import StagedChange
from lowtide.store.opening import open_store
from lowtide.store.store import Store
from lowtide.store.transactions import Transaction, statements_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EVER = 2**62


@dataclass(frozen=True)
class RecoverReport:
    """The result of a recovery: the store in ``path`` has everything up to ``commit`` of the lost one. ``replayed``
    commits came from the log. ``stopped`` is the reason if it stopped before the end of the log."""

    path: str
    commit: int
    replayed: int
    stopped: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def recover(
    spark: SparkSession | None,
    dest: str | os.PathLike[str],
    *,
    log: str | os.PathLike[str],
    archive: str | os.PathLike[str] | None = None,
    backup: str | os.PathLike[str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> RecoverReport:
    """Rebuild a lost store in the new directory ``dest``: from its ``backup``, which needs no Spark, or from its
    ``archive``; and then from ``log``, the directory of that name that is left of it."""
    told = progress or (lambda _: None)
    if (archive is None) == (backup is None):
        raise UsageError("recover from a backup or from an archive: give one of the two")
    segments = Path(log)
    if not any(segments.glob("*.log")):
        raise UsageError(f"{segments} has no log of a store: give the directory 'log' of the lost one")
    if backup is not None:
        return _from_backup(Path(backup), segments, dest, told)
    if spark is None:
        raise UsageError("to recover from an archive, give a Spark session")
    assert archive is not None
    return _from_archive(spark, archive, segments, dest, told)


def _from_backup(backup: Path, log: Path, dest: str | os.PathLike[str], told: Callable[[str], None]) -> RecoverReport:
    before = _reached(backup)
    _check_log(log, read_manifest(backup / MANIFEST)[0], before, f"the backup {backup}")
    path = new_directory(dest)
    told(f"copying {backup}")
    shutil.copytree(backup, path, dirs_exist_ok=True)
    for each in sorted(log.glob("*.log")):
        shutil.copy2(each, path / "log" / each.name)
    told("opening it")
    with open_store(path) as store:
        report = store.verify()
        if not report.ok:
            raise CorruptionError(path, f"backup and log do not fit together: {report.problems[0]}")
        last = store.stats().last_commit
    return RecoverReport(str(path), last, last - before)


def _reached(backup: Path) -> int:
    """Return the last commit of a backup."""
    record = backup / BACKUP
    if not record.exists():
        raise UsageError(f"{backup} is no backup that store.backup has made, or it was opened as a store since")
    return msgspec.json.decode(record.read_bytes(), type=_Record).reaches


class _Record(msgspec.Struct):
    """What is needed of the content of ``backup.json``."""

    reaches: int


def _from_archive(
    spark: SparkSession,
    archive: str | os.PathLike[str],
    log: Path,
    dest: str | os.PathLike[str],
    told: Callable[[str], None],
) -> RecoverReport:
    ledger = ArchiveLedger(Location.of(archive))
    ledger.check()
    run = ledger.last_run
    if run is None or ledger.store is None:
        raise ArchiveError(f"the archive {os.fspath(archive)} has no run yet; there is nothing to recover from")
    commits = _check_log(log, bytes.fromhex(ledger.store), run.until or 0, f"the archive {os.fspath(archive)}")
    # Schemas and indexes come at the end. What the log has may not fit those that the archive ends with.
    report, catalog = rebuild(spark, archive, dest, defined=False, progress=told)
    with open_store(report.path) as store:
        told("applying what is left of the log")
        replay = Replay(store, Routes(run.detail["routes"]), run.detail["prefixes"], catalog, run.until or 0)
        for commit in commits:
            if not replay.apply(commit):
                break
        told("building indexes")
        replay.finish()
    return RecoverReport(report.path, replay.commit, replay.commit - (run.until or 0), replay.stopped)


def _check_log(log: Path, store_id: bytes, since: int, what: str) -> Iterator[Commit]:
    """Return the commits after ``since``. Raises ArchiveError if the log has lost some of them."""
    try:
        return remaining_commits(log, store_id, since)
    except ChangesLost as lost:
        raise ArchiveError(
            f"{what} ends with commit {since}, and the log in {log} begins with commit {lost.kept}: neither has "
            "the commits in between. Recover from a newer backup or archive"
        ) from lost


def remaining_commits(log: Path, store_id: bytes, since: int) -> Iterator[Commit]:
    """Return the commits after ``since`` in a log that no process writes any more, up to its end. Raises ChangesLost at
    once if the first of them is gone."""
    found = _read(LogCursor(log, store_id, since), since)
    first = next(found, None)
    return iter(()) if first is None else chain([first], found)


def _read(cursor: LogCursor, since: int) -> Iterator[Commit]:
    try:
        yield from cursor.read(_EVER)
    except CorruptionError:  # nothing valid follows: the log ends here
        return
    except Released as error:
        raise ChangesLost(since, error.kept) from error
    finally:
        cursor.close()


class Replay:
    """Applies the commits of a lost store to another one, each as one transaction."""

    def __init__(
        self,
        store: Store,
        routes: Routes,
        prefixes: Mapping[str, str],
        catalog: Mapping[str, CatalogRow],
        commit: int,
    ) -> None:
        self._store = store
        self._routes = routes
        self._names = {bytes.fromhex(prefix): name for name, prefix in prefixes.items()}
        self._catalog = dict(catalog)
        self._quads = QuadReplay()
        self.commit = commit
        self.stopped: str | None = None

    def apply(self, commit: Commit) -> bool:
        """Apply a commit. Returns false if it cannot be applied; ``stopped`` says why."""
        for name, prefix in (commit.names or {}).items():
            self._names[prefix] = name
        rows = self._rows(commit)
        move = relocation_of(CatalogChange(commit.ts, commit.time, rows), self._routes)
        if move is not None and move.loads:
            self.stopped = (
                f"commit {commit.ts} is a bulk load of collection {move.loads[0].name!r}, whose documents are not in "
                "the log; what follows it was not applied"
            )
            return False
        try:
            with self._store.transaction() as tx:
                if move is not None:
                    self._relocate(tx, move)
                self._write(tx, commit, self._routes if move is None else move.routes)
        except TermGone as error:
            self.stopped = f"commit {commit.ts} {error}; it and what follows it were not applied"
            return False
        if move is not None:
            self._routes = move.routes
        self._catalog.update(rows)
        self.commit = commit.ts
        return True

    def _rows(self, commit: Commit) -> dict[str, CatalogRow]:
        found = {}
        for full_key, value in commit.writes.items():
            if self._names.get(full_key[:KEYSPACE_PREFIX]) == CATALOG:
                name = full_key[KEYSPACE_PREFIX:].decode()
                found[name] = row_of(name, value)
        return found

    def _relocate(self, tx: Transaction, move: Relocation) -> None:
        """Give collections the documents of others. Collections may exchange theirs, so all go aside first."""
        there = set(tx.list_collection_names())
        aside = {name: f"lowtide-recover-{number}" for number, name in enumerate(sorted(move.states))}
        for name, former in move.states.items():
            if former in there:
                tx.collection(former).rename(aside[name])
        for name, former in move.states.items():
            if former in there:
                tx.collection(aside[name]).rename(name, dropTarget=True)
            elif name in there and name not in move.states.values():
                tx.collection(name).drop()

    def _write(self, tx: Transaction, commit: Commit, routes: Routes) -> None:
        """Write what the commit wrote, as it is stored: its documents were checked when they were committed."""
        collections: dict[str, Latest] = {}
        quads: dict[str, dict[bytes, bytes | None]] = {}
        for full_key, value in commit.writes.items():
            keyspace = self._names.get(full_key[:KEYSPACE_PREFIX])
            if keyspace is not None and keyspace.startswith(QUADS):
                quads.setdefault(keyspace, {})[full_key[KEYSPACE_PREFIX:]] = value
                continue
            table = None if keyspace is None else routes.table_of(keyspace)
            if table is None or keyspace == CATALOG:
                continue
            key = full_key[KEYSPACE_PREFIX:]
            if not table.is_keyspace:
                collections.setdefault(table.name, {})[key] = StagedChange(commit.ts, value)
            elif value is None:
                tx.keyspace(table.name).delete(key)
            else:
                tx.keyspace(table.name).put(key, value)
        self._quads.write(tx, quads)
        statements = statements_of(tx)
        for name, latest in collections.items():
            statements.write(lambda writing, prefix_of, n=name, c=latest: write_stored(writing, prefix_of, n, c))  # type: ignore[misc]

    def finish(self) -> None:
        """Bring schemas and indexes to what the log says of them."""
        define(self._store, {name: row for name, row in self._catalog.items() if row.exists})
