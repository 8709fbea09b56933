"""Vacuum: removes the versions that no retained instant sees.

It can be interrupted at any point, and repeated. Its steps:

1. The policy and the times of commits say which instants stay (``retention.py``).
2. The ledger gets an entry with them. From then on readers refuse all other instants, so none is answered wrongly.
3. Each table is compacted, if it must be, so that every version that ended has its end; then the closed files that
   have versions to remove are written again without them, and replaced in one Delta commit.
4. Replaced files whose grace period is over, and the leftovers of killed runs, are deleted. Until then a reader
   that began earlier finds all its files.

A delete is a row that no instant sees: it says why a version ended, which that version's ``valid_to`` says as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf

from lowtide.errors import UsageError, shown
from lowtide.pipeline.errors import ConflictingRun
from lowtide.pipeline.tables.clearing import GRACE, clear_files
from lowtide.pipeline.tables.columns import KEY, KIND, TIME, VALID_TO, VERSION
from lowtide.pipeline.tables.compact import compact_table, with_ends
from lowtide.pipeline.tables.files import CLOSED, TAIL, VersionFile, total_rows
from lowtide.pipeline.tables.ledger import VACUUM, ArchiveLedger
from lowtide.pipeline.tables.lookup import tables_in
from lowtide.pipeline.tables.rewrite import rewrite
from lowtide.pipeline.tables.table import VersionTable
from lowtide.pipeline.travel.retention import Instant, Keep, Retained, Survivors, choose, retained
from lowtide.pipeline.vacuum.tags import opened, retention_number, tagged
from lowtide.spark.session import explained
from lowtide.store.opening import open_store
from lowtide.system.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

_ATTEMPTS: Final = 5
_HOUR: Final = 3_600_000_000
_COUNTED: Final = (VERSION, VALID_TO, KEY, KIND)

Progress = Callable[[str], None]


@dataclass(frozen=True)
class VacuumedTable:
    """The versions of one table that stay and that go, and about how many bytes these have."""

    kept: int
    dropped: int
    bytes: int


@dataclass(frozen=True)
class VacuumReport:
    """What a vacuum did, or with ``dry_run`` would do. ``kept`` and ``dropped`` are versions of
    documents, keys and statements. Commits from ``floor`` on
    can be read, and before it ``instants``. ``bytes`` is about what the dropped versions take; the disk has it back
    once the grace period is over. ``files_removed`` were deleted now."""

    kept: int
    dropped: int
    bytes: int
    commit: int
    floor: int
    instants: tuple[int, ...]
    tables: dict[str, VacuumedTable]
    keep: str
    dry_run: bool
    files_removed: int = 0
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "instants": list(self.instants)}


def vacuum(
    spark: SparkSession,
    archive_path: str | os.PathLike[str],
    keep: object,
    dry_run: bool = False,
    *,
    store_path: str | os.PathLike[str] | None = None,
    grace: timedelta = GRACE,
    now: datetime | None = None,
    progress: Progress | None = None,
) -> VacuumReport:
    """Remove the versions of an archive that no retained instant sees.

    ``keep`` says how long: ``"7d, hourly 30d, daily 1y, monthly"`` keeps everything for a week, then the last commit of
    each hour, day and month; see ``Keep``. The current state, and everything that a tag holds, always stays; with
    ``store_path``, also what a pin of that store holds. ``dry_run`` only counts. A table's old files are deleted
    ``grace`` after they were replaced, so it must be longer than any reader takes.
    """
    policy = Keep.of(keep)
    if not isinstance(grace, timedelta) or grace < timedelta(0):
        raise UsageError(f"grace is a timedelta of at least 0, not {shown(grace)}")
    tell = progress or (lambda _: None)
    begun = SYSTEM_CLOCK.monotonic()
    ledger = opened(archive_path)
    moment = now if now is not None else datetime.fromtimestamp(SYSTEM_CLOCK.time(), UTC)
    held = {*tagged(ledger).values(), *_pinned(store_path)}
    with explained(spark):
        tables = tables_in(ledger.archive)
        tell("choosing the instants that stay")
        kept = _chosen(spark, tables.values(), ledger=ledger, policy=policy, held=held, now=moment)
        cleaning = _Cleaning(spark, Survivors(kept.commits, kept.floor), tell)
        if dry_run:
            found = {name: cleaning.count(table) for name, table in tables.items()}
            removed = 0
        else:
            _announce(ledger, kept, policy)
            found = {name: cleaning.clean(table) for name, table in tables.items()}
            removed = sum(clear(table, grace) for table in tables.values())
    reported = {str(name): each for name, each in found.items() if not name.is_internal}
    return VacuumReport(
        kept=sum(each.kept for each in reported.values()),
        dropped=sum(each.dropped for each in reported.values()),
        bytes=sum(each.bytes for each in reported.values()),
        commit=ledger.commit,
        floor=kept.floor,
        instants=kept.commits,
        tables=reported,
        keep=str(policy),
        dry_run=dry_run,
        files_removed=removed,
        seconds=round(SYSTEM_CLOCK.monotonic() - begun, 3),
    )


def _pinned(store_path: str | os.PathLike[str] | None) -> list[int]:
    if store_path is None:
        return []
    with open_store(store_path, read_only=True) as store:
        return [each.ts for each in store.pins()]


# Instants


def _chosen(
    spark: SparkSession,
    tables: Iterable[VersionTable],
    *,
    ledger: ArchiveLedger,
    policy: Keep,
    held: set[int],
    now: datetime,
) -> Retained:
    before = retained(ledger.entries)
    cutoff = now - min(policy.all, now - datetime.fromtimestamp(0, UTC))
    after = before.floor if before.floor in before.commits else before.floor - 1
    known = [*before.instants, *_commits(spark, tables, after=after, until=ledger.commit, cutoff=cutoff)]
    for place, (each, following) in enumerate(pairwise(list(known))):
        if each.until is None:
            known[place] = replace(each, until=following.time)
    held = {each for each in held if 0 < each <= ledger.commit}
    return choose(known, policy, now=now, held=held, before=before)


def _commits(
    spark: SparkSession, tables: Iterable[VersionTable], *, after: int, until: int, cutoff: datetime
) -> list[Instant]:
    """Return the first and the last commit of each hour, and those around ``cutoff``, in their order."""
    paths = [
        table.location.spark_path(each.name) for table in tables for each in table.files if each.last_version > after
    ]
    if not paths:
        return []
    rows = spark.read.schema(f"{VERSION} long, {TIME} timestamp").parquet(*paths)
    rows = rows.where((F.col(VERSION) > after) & (F.col(VERSION) <= until))
    micros = F.unix_micros(F.col(TIME))
    hours = rows.groupBy(F.floor(micros / _HOUR), F.col(TIME) > F.lit(cutoff))
    found = hours.agg(F.min(VERSION), F.min_by(micros, VERSION), F.max(VERSION), F.max_by(micros, VERSION)).collect()
    instants: dict[int, Instant] = {}
    for _, _, first, began, last, ended in found:
        # What follows the first commit of an hour at once is not known.
        instants.setdefault(first, Instant(first, _moment(began), _moment(began)))
        instants[last] = Instant(last, _moment(ended))
    return [instants[each] for each in sorted(instants)]


def _moment(micros: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=micros)


def _announce(ledger: ArchiveLedger, kept: Retained, policy: Keep) -> None:
    """Tell readers which instants stay, before any version goes."""
    known = retained(ledger.entries)
    if kept.floor and (kept.floor, kept.commits) != (known.floor, known.commits):
        detail = {**kept.to_detail(), "keep": str(policy)}
        ledger.add(VACUUM, application=retention_number(ledger), until=kept.floor, detail=detail)


# Versions


@dataclass(frozen=True)
class _Stays:
    """The rule, for tasks that write a file again."""

    survivors: Survivors

    def stays(self, batch: pa.RecordBatch) -> pa.Array:
        return self.survivors.mask(batch.column(VERSION), batch.column(VALID_TO))


def stays_column(survivors: Survivors) -> Column:
    """Return the rule as an expression over the rows of a table that have their ends."""

    def stays(begins: pa.Array, ends: pa.Array) -> pa.Array:
        return survivors.mask(begins, ends)

    # The stubs know only the form with the type of the function, which asks for type hints at run time.
    expression: Any = arrow_udf
    found: Column = expression(stays, "boolean")(F.col(VERSION), F.col(VALID_TO))
    return found


@dataclass(frozen=True)
class _Cleaning:
    spark: SparkSession
    survivors: Survivors
    tell: Progress

    def count(self, table: VersionTable) -> VacuumedTable:
        """Count what stays and goes, without a change."""
        self.tell(f"counting the versions of {table}")
        table.reload()
        dropped = sum((self._dropped(table, self._closed(table))).values())
        if self._must_compact(table):
            rest = with_ends(table.read(self.spark, [each for each in table.files if each.kind != CLOSED]))
            dropped += rest.select(*_COUNTED).where(~stays_column(self.survivors)).count()
        return _figures(table.files, dropped)

    def clean(self, table: VersionTable) -> VacuumedTable:
        """Remove what goes. Another rewrite of the table at the same time makes it begin again."""
        for attempt in range(_ATTEMPTS):
            self.tell(f"removing versions of {table}")
            try:
                return self._clean(table)
            except ConflictingRun:
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    def _clean(self, table: VersionTable) -> VacuumedTable:
        table.reload()
        if self._must_compact(table):
            compact_table(self.spark, table)
        files = table.files
        dropped = self._dropped(table, self._closed(table))
        chosen = [each for each in files if dropped.get(each.name)]
        if chosen:
            found = rewrite(self.spark, table.location, chosen, _Stays(self.survivors))
            added = [file for each in found.values() for file in each]
            counted = sum(dropped.values())
            assert total_rows(chosen) - total_rows(added) == counted, f"{table}: {counted} versions were to go"
            table.replace(chosen, added, new=True)
        return _figures(files, sum(dropped.values()))

    def _closed(self, table: VersionTable) -> list[VersionFile]:
        """Return the files that may have versions that go."""
        return [each for each in table.files if each.kind == CLOSED and each.first_version <= self.survivors.floor]

    def _must_compact(self, table: VersionTable) -> bool:
        """Whether there are versions that ended before the floor, and do not have their ends yet."""
        return any(each.kind == TAIL and each.first_version <= self.survivors.floor for each in table.files)

    def _dropped(self, table: VersionTable, files: list[VersionFile]) -> dict[str, int]:
        """Return how many versions go, by file."""
        if not files:
            return {}
        rows = table.read(self.spark, files).select(*_COUNTED, F.col("_metadata.file_name").alias("file"))
        gone = rows.where(~stays_column(self.survivors)).groupBy("file").count().collect()
        return {row["file"]: row["count"] for row in gone}


def _figures(files: list[VersionFile], dropped: int) -> VacuumedTable:
    rows, size = total_rows(files), sum(each.size for each in files)
    return VacuumedTable(rows - dropped, dropped, size * dropped // rows if rows else 0)


# Files


def clear(table: VersionTable, grace: timedelta) -> int:
    """Delete the files that were replaced before the grace period began; returns how many."""
    table.reload()
    removed = clear_files(table.delta, grace)
    table.reload()
    return removed
