"""Compaction: merges the small files that runs have appended, and sorts versions by key.

It reads the tail files and the open files of a table, and writes the newest version of each key to new open files, and
all others, with the commit that ended them, to new closed files (``visible.py`` says what readers gain by that).
Existing closed files stay unchanged: the cost of a compaction is proportional to the number of current and new
versions, however long the history is.

The closed files of one compaction are a run: sorted, and without overlap. Each run has a number in the names of its
files. Runs of about the same size are merged once there are ``FAN`` of them, so a key is in a few runs only, and a
version is written again a logarithmic number of times.

Files that were replaced longer ago than the grace period are deleted at the end, so an archive that is never vacuumed
does not keep them forever.

The archiver may run at the same time: it only adds tail files. Two concurrent compactions, or a compaction and a
vacuum, conflict, and the second one publishes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Window
from pyspark.sql import functions as F

from lowtide.errors import UsageError
from lowtide.pipeline.errors import ConflictingRun
from lowtide.pipeline.tables.clearing import clear_files, kept_for
from lowtide.pipeline.tables.columns import DELETE, KEY, KIND, VALID_TO, VERSION
from lowtide.pipeline.tables.files import CLOSED, OPEN, TAIL, VersionFile, total_rows
from lowtide.pipeline.tables.jobs import Written, run_rows
from lowtide.pipeline.tables.ledger import ArchiveLedger
from lowtide.pipeline.tables.location import Location
from lowtide.pipeline.tables.lookup import chosen_tables, tables_in
from lowtide.pipeline.tables.names import check_collections
from lowtide.pipeline.tables.sorted_files import SortedFiles
from lowtide.pipeline.tables.table import VersionTable
from lowtide.spark.session import explained
from lowtide.system.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FAN: Final = 8
"""Closed runs of about the same size that are merged."""
LARGEST: Final = 128 << 20
"""Bytes of a file."""
FEWEST_ROWS: Final = 2048
FILES: Final = 24
"""Files of each kind that a table is cut into, as long as each gets ``FEWEST_ROWS`` rows. One key needs an open file
and one closed file of each run, so its history reads about a 24th of the files. An instant opens all open files, so
more of them would cost more than they save."""
SMALL: Final = 32 << 20
"""Bytes below which a tail file counts as small."""
MANY: Final = 24
"""Small tail files after which a run compacts a table, if they have enough rows to be worth it."""
TOO_MANY: Final = 200
"""Small tail files after which it does so in any case."""
_SHARE: Final = 8
"""A tail is worth a compaction if it has at least one row for so many open ones, which are all written again."""

Progress = Callable[[str], None]


@dataclass(frozen=True)
class CompactedTable:
    """What a compaction did to one table: its files before and after, and the rows that were written."""

    files_before: int
    files_after: int
    rows: int
    bytes: int


@dataclass(frozen=True)
class CompactionReport:
    """What a compaction did, by table. Tables with nothing to gain are not in it."""

    tables: dict[str, CompactedTable]
    seconds: float = 0.0

    @property
    def rows(self) -> int:
        """The rows that were written."""
        return sum(each.rows for each in self.tables.values())

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "rows": self.rows}


def compact(
    spark: SparkSession,
    archive_path: str | os.PathLike[str],
    collections: Iterable[str] | None = None,
    *,
    force: bool = False,
    rows_per_file: int | None = None,
    progress: Progress | None = None,
) -> CompactionReport:
    """Merge the small files of an archive and sort them by key, for faster reads.

    Without ``collections`` it compacts every table that a run has appended to. ``force`` rewrites all their files,
    history included, as one sorted run. Files get about 128 MiB, or ``rows_per_file`` rows.
    """
    if rows_per_file is not None and rows_per_file < 1:
        raise UsageError(f"rows_per_file is a number of rows, at least 1, not {rows_per_file}")
    begun = SYSTEM_CLOCK.monotonic()
    archive = Location.of(archive_path)
    ArchiveLedger(archive).check()
    found: dict[str, CompactedTable] = {}
    with explained(spark):
        for name, table in chosen_tables(archive, check_collections(collections)).items():
            if progress is not None:
                progress(f"compacting {name}")
            done = compact_table(spark, table, force=force, rows_per_file=rows_per_file)
            if done is not None:
                found[str(name)] = done
    return CompactionReport(found, round(SYSTEM_CLOCK.monotonic() - begun, 3))


def compact_where_due(spark: SparkSession, archive: Location, progress: Progress | None = None) -> list[str]:
    """Compact the tables that have many small files. Returns their names. One that is being compacted by another
    process is left to that."""
    found = []
    for name, table in tables_in(archive).items():
        if not is_worth_it(table.files):
            continue
        if progress is not None:
            progress(f"compacting {name}")
        with suppress(ConflictingRun):
            compact_table(spark, table)
            found.append(str(name))
    return found


def compact_table(
    spark: SparkSession, table: VersionTable, *, force: bool = False, rows_per_file: int | None = None
) -> CompactedTable | None:
    """Compact one table, as it is now; None if there is nothing to gain."""
    table.reload()
    files, schema, location = table.files, table.schema, table.location
    chosen = files if force else files_to_compact(files)
    if not chosen:
        return None
    rows = total_rows(chosen)
    size = rows_per_file or rows_of_a_file(files)
    parts = max(-(-rows // size), -(-sum(each.size for each in chosen) // LARGEST))
    run = uuid4().hex[:12]

    def work(batches: Iterator[pa.RecordBatch]) -> Iterable[Written]:
        return [Written(0, write_sorted(location, schema, batches, run=run, rows_per_file=size), None)]

    # Rows of one key are in one partition, so the window needs no other shuffle, and its sort is that of the files.
    spread = table.read(spark, chosen).repartitionByRange(max(1, parts), KEY)
    sorted_rows = with_ends(spread).sortWithinPartitions(KEY, VERSION)
    written = [file for each in run_rows(sorted_rows, work) for file in each.files]
    has_tail = any(each.kind == TAIL for each in chosen)
    # A run has published all versions up to ``archived`` with the files that were read here, and none after it.
    table.replace(chosen, written, new=False, compacted=table.archived if has_tail else None)
    clear_files(table.delta, kept_for(table.delta))
    table.reload()
    return CompactedTable(len(files), len(files) - len(chosen) + len(written), rows, sum(each.size for each in written))


def with_ends(rows: DataFrame) -> DataFrame:
    """Return rows with ``valid_to``: of closed ones as it is, of a delete its own commit, so that nothing sees it, and
    of others the commit of the next version of the key, if there is one."""
    following = F.lead(VERSION).over(Window.partitionBy(KEY).orderBy(VERSION))
    end = F.when(F.col(KIND) == DELETE, F.col(VERSION)).otherwise(F.coalesce(F.col(VALID_TO), following))
    return rows.withColumn(VALID_TO, end)


def write_sorted(
    location: Location, schema: pa.Schema, batches: Iterable[pa.RecordBatch], *, run: str, rows_per_file: int
) -> list[VersionFile]:
    """Write sorted rows with their ends to open and closed files."""
    # A file may have twice the rows that are asked for, so that none is left with a few.
    current = SortedFiles(location, schema, OPEN, 2 * rows_per_file)
    ended = SortedFiles(location, schema, f"{CLOSED}-{run}", 2 * rows_per_file)
    for batch in batches:
        has_ended = batch.column(VALID_TO).is_valid()
        ended.add(batch.filter(has_ended))
        current.add(batch.filter(pc.invert(has_ended)))
    return current.finish() + ended.finish()


# Which files


def files_to_compact(files: Sequence[VersionFile]) -> list[VersionFile]:
    """Return the files that a compaction reads and replaces: if there are tail files, those and the open ones, and
    closed runs of which there are too many."""
    has_tail = any(each.kind == TAIL for each in files)
    current = [each for each in files if has_tail and each.kind in (TAIL, OPEN)]
    return current + runs_to_merge([each for each in files if each.kind == CLOSED])


def runs_to_merge(closed: Iterable[VersionFile]) -> list[VersionFile]:
    """Return the files of closed runs that are to be merged: where ``FAN`` runs have about the same size, all runs of
    at most that size."""
    runs: dict[str, list[VersionFile]] = {}
    for each in closed:
        runs.setdefault(each.run, []).append(each)
    tiers: dict[int, list[VersionFile]] = {}
    counts: dict[int, int] = {}
    for files in runs.values():
        tier = _tier(total_rows(files))
        tiers.setdefault(tier, []).extend(files)
        counts[tier] = counts.get(tier, 0) + 1
    full = max((tier for tier, count in counts.items() if count >= FAN), default=-1)
    return [file for tier, files in sorted(tiers.items()) if tier <= full for file in files]


def _tier(rows: int) -> int:
    """Return the power of ``FAN`` that a number of rows has reached, beyond ``FEWEST_ROWS``."""
    tier = 0
    while rows > FEWEST_ROWS:
        rows //= FAN
        tier += 1
    return tier


def rows_of_a_file(files: Sequence[VersionFile]) -> int:
    """Return how many rows the files of a table should have."""
    return max(FEWEST_ROWS, total_rows(files) // FILES)


def is_worth_it(files: Iterable[VersionFile]) -> bool:
    """Whether a run should compact a table of these files: it has many small tail files, and enough in them."""
    tails, opened = [], 0
    for each in files:
        if each.kind == TAIL:
            tails.append(each)
        elif each.kind == OPEN:
            opened += each.rows
    small = sum(each.size < SMALL for each in tails)
    return small >= TOO_MANY or (small >= MANY and total_rows(tails) * _SHARE >= opened)
