"""Rebuilds a store, or some of its collections, as it was at any archived commit.

Tasks turn the archived versions into documents, and stage them in the new store's directory, like every Spark write
(``spark/writing.py``). Each collection is then one load. Its schema and its indexes come from the archived catalog. At
the end the new store is compared with the archive, key by key, before the call returns.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import reduce
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import functions as F

from lowtide.documents.catalog import CATALOG, CatalogRow, row_of
from lowtide.errors import UsageError
from lowtide.pipeline.archive.snapshots import state_of
from lowtide.pipeline.archive.source import ArchiveSource
from lowtide.pipeline.archive.statements import statement_of
from lowtide.pipeline.errors import ArchiveError
from lowtide.pipeline.restore.recover_quads import put_rows
from lowtide.pipeline.tables.columns import KEY, RAW
from lowtide.pipeline.tables.location import Location
from lowtide.pipeline.tables.lookup import chosen_tables, table_at
from lowtide.pipeline.tables.names import COLLECTIONS, KEYSPACES, QUAD_STORES, TableName, check_collections
from lowtide.pipeline.tables.table import VersionTable
from lowtide.pipeline.tables.visible import visible
from lowtide.pipeline.travel.instants import At
from lowtide.pipeline.travel.travel import reader_of
from lowtide.quads.indexes import QUADS
from lowtide.sharing.loading.job import Job, StagedFile, new_job_name
from lowtide.sharing.loading.staged import announce, driver_process, make_staging, remove_staging, stage, staging_of
from lowtide.spark.location import StoreLocation
from lowtide.spark.session import explained
from lowtide.store.handover import ensure_store, load
from lowtide.store.opening import open_store
from lowtide.store.store import Store
from lowtide.system.clock import SYSTEM_CLOCK
from lowtide.values.codec import decode_value, encode_document
from lowtide.values.extended import loads

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH: Final = 5_000
"""Entries of a keyspace that one transaction writes."""
STATEMENTS: Final = 50_000
"""Statements that one transaction adds."""
_COMPARED: Final = 16
"""Tables that one query compares with the archive."""


@dataclass(frozen=True)
class RestoreReport:
    """The result of a restore: the store in ``path`` has the archived state at ``commit``. ``rows`` by table."""

    path: str
    commit: int
    rows: int
    tables: dict[str, int]
    indexes: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def restore(
    spark: SparkSession,
    archive_path: str | os.PathLike[str],
    dest: str | os.PathLike[str],
    at: At | None = None,
    collections: Iterable[str] | None = None,
    *,
    progress: Callable[[str], None] | None = None,
) -> RestoreReport:
    """Rebuild a store in the new directory ``dest`` as it was at ``at``: a commit, a time, or None for the last one
    that is archived. With ``collections``, only those; without, keyspaces and quad stores too.

    The new store has its own commit numbers. It is compared with the archive before this returns. ArchiveError says
    what differs; the directory is then left for inspection.
    """
    return rebuild(spark, archive_path, dest, at, collections, progress=progress)[0]


def rebuild(
    spark: SparkSession,
    archive_path: str | os.PathLike[str],
    dest: str | os.PathLike[str],
    at: At | None = None,
    collections: Iterable[str] | None = None,
    *,
    defined: bool = True,
    progress: Callable[[str], None] | None = None,
) -> tuple[RestoreReport, dict[str, CatalogRow]]:
    """Restore a store; returns the report, and the catalog of the collections. Unless ``defined``, these have no
    schemas and no indexes yet."""
    wanted, told = check_collections(collections), progress or (lambda _: None)
    archive = Location.of(archive_path)
    reader = reader_of(spark, archive_path)
    tables = _chosen(archive, wanted)
    commit = reader.instants.commit if at is None else reader.instant(at, str(TableName(KEYSPACES, CATALOG)))
    for each in tables.values():
        reader.instant(commit, each)
    path = new_directory(dest)
    begun = SYSTEM_CLOCK.monotonic()
    catalog = _catalog_at(spark, archive, commit)
    rows: dict[str, int] = {}
    with explained(spark):
        ensure_store(path)
        for number, (name, table) in enumerate(sorted(tables.items(), key=lambda each: str(each[0])), 1):
            told(f"restoring {name} at commit {commit} ({number} of {len(tables)})")
            state = visible(spark, table, commit).select(KEY, RAW)
            count = _WRITERS[name.folder](path, name.name, state)
            if count and not name.is_internal:
                rows[str(name)] = count
        chosen = {name: row for name, row in catalog.items() if _is_chosen(name, wanted)}
        indexes = 0
        if defined:
            told("building indexes")
            with open_store(path) as store:
                indexes = define(store, chosen)
        told("comparing with the archive")
        _verify(spark, path, tables, commit)
    seconds = round(SYSTEM_CLOCK.monotonic() - begun, 3)
    report = RestoreReport(str(path), commit, rows=sum(rows.values()), tables=rows, indexes=indexes, seconds=seconds)
    return report, chosen


def new_directory(dest: str | os.PathLike[str]) -> Path:
    """Make a directory, readable by its owner alone; raises UsageError if there is anything in it."""
    path = Path(dest).absolute()
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UsageError(f"{path} is not empty; restore into a new directory")
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def _is_chosen(collection: str, wanted: list[str] | None) -> bool:
    return wanted is None or collection in wanted


def _chosen(archive: Location, wanted: list[str] | None) -> dict[TableName, VersionTable]:
    """Return the tables to restore. The catalog is not among them: collections are defined by what it says."""
    found = chosen_tables(archive, wanted)
    return {name: table for name, table in found.items() if name != TableName(KEYSPACES, CATALOG)}


def _catalog_at(spark: SparkSession, archive: Location, commit: int) -> dict[str, CatalogRow]:
    table = table_at(archive, TableName(KEYSPACES, CATALOG))
    if not table.exists:
        return {}
    rows = visible(spark, table, commit).select(KEY, RAW).collect()
    names = {bytes.fromhex(key).decode(): bytes(raw) for key, raw in rows}
    return {name: row for name, raw in names.items() if (row := row_of(name, raw)).exists}


# Writing


def _load(path: Path, collection: str, state: DataFrame) -> int:
    """Load the documents of a collection, all in one commit."""
    name, location = new_job_name(), StoreLocation.here(path)
    make_staging(path, name, driver_process(), None)

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        staged = stage(staging_of(location.check(), name), _documents(batches))
        yield pa.record_batch([pa.array([msgspec.json.encode(staged)], pa.binary())], names=["file"])

    try:
        told = [bytes(row[0]) for row in state.mapInArrow(task, "file binary").collect()]
        files = tuple(each for each in (msgspec.json.decode(text, type=StagedFile) for text in told) if each.rows)
        if files:
            announce(staging_of(path, name), Job(collection=collection, how="append", files=files))
            load(path, name)
        return sum(each.rows for each in files)
    finally:
        remove_staging(path, name)


def _documents(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[list[bytes], list[bytes] | None]]:
    for batch in batches:
        keys = [bytes.fromhex(each) for each in batch.column(0).to_pylist()]
        yield keys, [encode_document(loads(each)) for each in batch.column(1).to_pylist()]


def _put(path: Path, keyspace: str, state: DataFrame) -> int:
    """Put the entries of a keyspace, some thousand in a transaction. They pass through the driver, a partition at a
    time."""
    if keyspace.startswith(QUADS):
        return _put_details(path, keyspace, state)
    count = 0
    with open_store(path) as store:
        entries = store.keyspace(keyspace)
        batch: dict[bytes, bytes] = {}
        for key, raw in state.toLocalIterator():
            batch[bytes.fromhex(key)] = bytes(raw)
            if len(batch) >= BATCH:
                entries.put_many(batch)
                count += len(batch)
                batch = {}
        if batch:
            entries.put_many(batch)
            count += len(batch)
    return count


def _add(path: Path, quads: str, state: DataFrame) -> int:
    """Add the statements of a quad store, some thousand in a transaction. They pass through the driver, as in
    ``_put``."""
    count = 0
    with open_store(path) as store:
        target = store.quads(quads)
        documents = (loads(raw) for _, raw in state.toLocalIterator())
        while batch := list(islice(documents, STATEMENTS)):
            for inferred in (False, True):
                target.add_many(
                    [statement_of(each) for each in batch if each["inferred"] == inferred], inferred=inferred
                )
            count += len(batch)
    return count


def _put_details(path: Path, keyspace: str, state: DataFrame) -> int:
    """Bring back the prefixes of a quad store, or the graphs that were created in it. There are few of both."""
    rows = {bytes.fromhex(key): bytes(raw) for key, raw in state.collect()}
    with open_store(path) as store, store.transaction() as tx:
        put_rows(tx, keyspace, rows)
    return len(rows)


_WRITERS: Final = {COLLECTIONS: _load, KEYSPACES: _put, QUAD_STORES: _add}


def define(store: Store, catalog: Mapping[str, CatalogRow]) -> int:
    """Give the collections their schemas and indexes; returns how many indexes there are."""
    indexes = 0
    for name, row in sorted(catalog.items()):
        collection = store.collection(name)
        if row.schema is not None:
            collection.set_schema(decode_value(row.schema))
        for each in row.indexes:
            options: dict[str, Any] = {"unique": each.unique, "sparse": each.sparse}
            if each.partial is not None:
                options["partialFilterExpression"] = decode_value(each.partial)
            collection.create_index(list(each.keys), name=each.name, **options)
            indexes += 1
    return indexes


# Comparing


def _verify(spark: SparkSession, path: Path, tables: dict[TableName, VersionTable], commit: int) -> None:
    """Compare the new store with the archive. Raises ArchiveError for the first table that differs."""
    source = ArchiveSource(path)
    try:
        with source.pinned() as state:
            remaining = iter(tables.items())
            while chosen := list(islice(remaining, _COMPARED)):
                frames = []
                for name, table in chosen:
                    keyspace = state.keyspaces.get(name)
                    parts = [] if keyspace is None else source.snapshot_parts(state, keyspace)
                    frames.append(_hashes(state_of(spark, parts, is_keyspace=name.is_keyspace), f"{name} restored"))
                    frames.append(_hashes(visible(spark, table, commit), f"{name} archived"))
                digests = _digests(frames)
                for name, _ in chosen:
                    found, wanted = (digests.get(f"{name} {each}", (0, None)) for each in ("restored", "archived"))
                    if found != wanted:
                        raise ArchiveError(
                            f"{name} in {path} differs from the archive at commit {commit}: {found[0]} rows, and the "
                            f"archive has {wanted[0]}. Restore again into another directory, and report this"
                        )
    finally:
        source.close()


def _hashes(rows: DataFrame, label: str) -> DataFrame:
    return rows.select(F.lit(label).alias("label"), F.xxhash64(KEY, RAW).cast("decimal(38,0)").alias("hash"))


def _digests(frames: list[DataFrame]) -> dict[str, tuple[int, Any]]:
    """Return, by label, a number of rows, and a checksum that does not depend on their order; in one query."""
    rows = reduce(lambda one, other: one.unionAll(other), frames)
    found = rows.groupBy("label").agg(F.count(F.lit(1)), F.sum("hash")).collect()
    return {label: (count, total) for label, count, total in found}
