"""Erasure: removes all versions of one document, or key, from the whole history and from disk, at once.

Files with a version of it are rewritten without it. The old files, and older ones that were waiting for the end of
their grace period, are deleted. Delta's log keeps the first and the last key of each file; if one of these is the key,
the log before the present version is deleted too. Then every remaining file is searched.

What remains: the fact that a document was erased, the number and commits of its versions, the names of its fields as
column names, what other documents say about it, and any copies elsewhere.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet
from pyspark.sql import functions as F

from lowtide.errors import UsageError, shown
from lowtide.pipeline.errors import ArchiveError, ConflictingRun
from lowtide.pipeline.tables.columns import KEY, VERSION
from lowtide.pipeline.tables.delta_log import files_naming, forget, log_files
from lowtide.pipeline.tables.files import LONGEST
from lowtide.pipeline.tables.ledger import ERASE
from lowtide.pipeline.tables.location import Location
from lowtide.pipeline.tables.lookup import table_at, tables_in
from lowtide.pipeline.tables.names import COLLECTIONS, KEYSPACES, TableName
from lowtide.pipeline.tables.rewrite import rewrite
from lowtide.pipeline.tables.table import VersionTable
from lowtide.pipeline.tables.visible import files_with, visible
from lowtide.pipeline.travel.travel import key_text
from lowtide.pipeline.vacuum.tags import opened
from lowtide.spark.session import explained
from lowtide.system.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOST: Final = "lost"
_YOUNG: Final = 24 * 3600.0
"""Seconds for which a file that no table names may belong to a run that is under way."""
_CHUNK: Final = 1 << 20
_ALWAYS: Final = 2**62

Progress = Callable[[str], None]


@dataclass(frozen=True)
class ErasedTable:
    """What was done to one table. Files are given with their SHA-256. ``log_files_removed`` are files of Delta's log.
    The search afterwards read ``files_searched`` files, and found the key in ``files_found`` of them, and of the log's
    files in ``log_files_found``."""

    versions: int
    commits: tuple[int, ...]
    rewritten: dict[str, str]
    added: dict[str, str]
    deleted: dict[str, str]
    log_files_removed: int
    files_searched: int
    log_files_searched: int
    files_found: int
    log_files_found: int


@dataclass(frozen=True)
class EraseReport:
    """The proof of an erasure. It does not have the ``_id``; ``digest`` is the SHA-256 of ``salt``, the name of the
    collection, or of the ``keyspace``, and the key, so the holder of the report can show which one it was. The ledger
    keeps it without the salt. ``elsewhere`` are other collections whose history has a document with this ``_id``: a
    rename leaves one under the former name. Erase it there, too."""

    collection: str | None
    digest: str
    salt: str
    at: str
    commit: int
    tables: dict[str, ErasedTable]
    keyspace: str | None = None
    elsewhere: tuple[str, ...] = ()

    @property
    def versions(self) -> int:
        """The versions that were removed from the tables."""
        return sum(each.versions for each in self.tables.values())

    @property
    def verified(self) -> bool:
        """Whether nothing was found by the search afterwards."""
        return not any(each.files_found or each.log_files_found for each in self.tables.values())

    def is_of(self, id: Any) -> bool:
        """Whether this is the proof for a document, or for a key of a keyspace."""
        key = bytes.fromhex(key_text(id, is_keyspace=self.keyspace is not None))
        return self.digest == _digest(self.salt, self.collection or self.keyspace or "", key)

    def to_dict(self) -> dict[str, Any]:
        tables = {name: {**asdict(each), "commits": list(each.commits)} for name, each in self.tables.items()}
        found = {"tables": tables, "versions": self.versions, "verified": self.verified}
        return {**asdict(self), "elsewhere": list(self.elsewhere), **found}


def erase(
    spark: SparkSession,
    archive_path: str | os.PathLike[str],
    collection: str | None,
    id: Any,
    *,
    keyspace: str | None = None,
    even_if_current: bool = False,
    remove_unpublished: bool = False,
    progress: Progress | None = None,
) -> EraseReport:
    """Remove all versions of the document ``id`` from a collection's history, and return the proof. With
    ``collection=None``, ``keyspace`` names a keyspace, and ``id`` is a key of it.

    Delete the document in the store first, and archive that: a document that still exists is refused, since the next
    run would bring its versions back; ``even_if_current`` erases it all the same. Readers that are under way may fail.
    Files of runs that were killed less than a day ago are refused, too, if they have the document, since a run may be
    under way; ``remove_unpublished`` says that none is.
    """
    if (collection is None) == (keyspace is None):
        raise UsageError("give the name of a collection, or keyspace=... for a keyspace, and not both")
    ledger = opened(archive_path)
    name = TableName(COLLECTIONS, collection or "") if keyspace is None else TableName(KEYSPACES, keyspace)
    key = key_text(id, is_keyspace=name.is_keyspace)
    tables = [table_at(ledger.archive, name), *lost_tables(ledger.archive, name)]
    found = [each for each in tables if each.exists]
    if not found:
        kind = "keyspace" if name.is_keyspace else "collection"
        raise ArchiveError(f"the archive {ledger.archive.uri} has no {kind} {name.name!r}; check the name")
    with explained(spark):
        erasing = _Erasing(spark, key, remove_unpublished, progress or (lambda _: None))
        if tables[0].exists and not even_if_current and erasing.is_current(tables[0]):
            what = "key" if name.is_keyspace else "document"
            raise ArchiveError(
                f"{name.name!r} still has the {what} {shown(id)} at commit {ledger.commit}, so the next run would "
                "archive it again. Delete it in the store, archive that, and erase it then; or say even_if_current"
            )
        for each in found:
            erasing.check(each)
        done = {each.name: erasing.erase(each) for each in found}
        elsewhere = () if name.is_keyspace else tuple(erasing.others(ledger.archive, name))
    salt = secrets.token_hex(16)
    report = EraseReport(
        collection=collection,
        digest=_digest(salt, name.name, bytes.fromhex(key)),
        salt=salt,
        at=datetime.fromtimestamp(SYSTEM_CLOCK.time(), UTC).isoformat(),
        commit=ledger.commit,
        tables=done,
        keyspace=keyspace,
        elsewhere=elsewhere,
    )
    # With the salt, the ids that are likely could be tried.
    kept = replace(report, salt="").to_dict()
    ledger.add(ERASE, until=ledger.commit, detail={"table": str(name), "proof": kept})
    return report


def lost_tables(archive: Location, name: TableName) -> list[VersionTable]:
    """Return the tables with what a restored store has undone of a collection."""
    return [
        VersionTable(
            (archive / _LOST / number / name.folder).child(name.name),
            f"{_LOST}/{number}/{name}",
            is_keyspace=name.is_keyspace,
        )
        for number in (archive / _LOST).names()
    ]


def _digest(salt: str, table: str, key: bytes) -> str:
    return hashlib.sha256(bytes.fromhex(salt) + table.encode() + b"\0" + key).hexdigest()


@dataclass(frozen=True)
class _WithoutKey:
    """Says that the rows of one key go."""

    key: str

    def stays(self, batch: pa.RecordBatch) -> pa.Array:
        return pc.not_equal(batch.column(KEY), self.key)


@dataclass(frozen=True)
class _Disk:
    """The Parquet files in the directory of a table. ``unpublished`` are those that no version of it has named, by
    whether they are young; ``broken`` cannot be read."""

    names: frozenset[str]
    unpublished: dict[str, bool]
    broken: frozenset[str]


@dataclass(frozen=True)
class _Erasing:
    spark: SparkSession
    key: str
    remove_unpublished: bool
    tell: Progress

    def is_current(self, table: VersionTable) -> bool:
        return bool(visible(self.spark, table, _ALWAYS, self.key).limit(1).count())

    def check(self, table: VersionTable) -> None:
        """Refuse files that may be those of a run under way."""
        disk = _disk(table)
        young = [name for name, is_young in disk.unpublished.items() if is_young]
        having = {*self._commits(table, [each for each in young if each not in disk.broken]), *disk.broken & {*young}}
        if having and not self.remove_unpublished:
            raise ConflictingRun(
                f"{len(having)} files in {table.location.uri} may have the document, and no table names them: a run is "
                "under way, or was killed less than a day ago. Let it end, and erase then; if none is under way, say "
                "remove_unpublished"
            )

    def erase(self, table: VersionTable) -> ErasedTable:
        """Remove the key from one table, and look whether it is gone."""
        self.tell(f"erasing from {table}")
        table.reload()
        disk = _disk(table)
        commits = self._commits(table, sorted(disk.names - disk.broken))
        chosen = [each for each in table.files if each.name in commits]
        rewritten = {each.name: _sha256(table.location, each.name) for each in chosen}
        added: dict[str, str] = {}
        if chosen:
            files = rewrite(self.spark, table.location, chosen, _WithoutKey(self.key))
            new = [file for each in files.values() for file in each]
            table.replace(chosen, new, new=True)
            added = {each.name: _sha256(table.location, each.name) for each in new}
        live = {each.name for each in table.files}
        gone = {name for name in {*commits, *disk.broken} if name not in live}
        deleted = {name: rewritten.get(name) or _sha256(table.location, name) for name in sorted(gone)}
        for name in deleted:
            table.location.files.delete_file(f"{table.location.root}/{name}")
        removed = forget(table) if files_naming(table.location, self.key) else []
        self.tell(f"searching {table}")
        left = _disk(table)
        of_table = {commit for each in chosen for commit in commits[each.name]}
        return ErasedTable(
            versions=sum(len(commits[each.name]) for each in chosen),
            commits=tuple(sorted(of_table)),
            rewritten=rewritten,
            added=added,
            deleted=deleted,
            log_files_removed=len(removed),
            files_searched=len(left.names),
            log_files_searched=len(log_files(table.location)),
            files_found=len(self._commits(table, sorted(left.names - left.broken))),
            # A long key is in the log in part only, and a document that is there may share that part.
            log_files_found=len(files_naming(table.location, self.key)) if len(self.key) <= LONGEST else 0,
        )

    def others(self, archive: Location, erased: TableName) -> Iterable[str]:
        """Yield the names of the other collections whose history has the key."""
        for name, table in tables_in(archive).items():
            if name.folder == COLLECTIONS and name != erased:
                files = files_with(table.files, [self.key])
                if self._commits(table, [each.name for each in files]):
                    yield name.name

    def _commits(self, table: VersionTable, names: Sequence[str]) -> dict[str, list[int]]:
        """Return the files that have the key, with the commits of its versions there."""
        if not names:
            return {}
        paths = [table.location.spark_path(each) for each in names]
        rows = self.spark.read.schema(f"{KEY} string, {VERSION} long").parquet(*paths)
        chosen = rows.where(F.col(KEY) == self.key).select(F.col("_metadata.file_name"), VERSION).collect()
        found: dict[str, list[int]] = {}
        for name, version in chosen:
            found.setdefault(name, []).append(version)
        return found


def _disk(table: VersionTable) -> _Disk:
    location = table.location
    listed = location.files.get_file_info(pa.fs.FileSelector(location.root))
    files = {each.base_name: each for each in listed if each.base_name.endswith(".parquet")}
    table.reload()
    live = {each.name for each in table.files}
    replaced = table.delta.vacuum(0, dry_run=True, enforce_retention_duration=False)
    oldest = SYSTEM_CLOCK.time() - _YOUNG
    unpublished = {
        name: each.mtime is None or each.mtime.timestamp() > oldest
        for name, each in files.items()
        if name not in live and name not in replaced
    }
    return _Disk(frozenset(files), unpublished, frozenset(_broken(location, unpublished)))


def _broken(location: Location, names: Iterable[str]) -> Iterable[str]:
    """Yield the files that were not written to their end."""
    for name in names:
        try:
            with location.files.open_input_file(f"{location.root}/{name}") as source:
                pa.parquet.ParquetFile(source)
        except (pa.ArrowInvalid, OSError):
            yield name


def _sha256(location: Location, name: str) -> str:
    found = hashlib.sha256()
    with location.files.open_input_stream(f"{location.root}/{name}") as source:
        while chunk := source.read(_CHUNK):
            found.update(chunk)
    return found.hexdigest()
