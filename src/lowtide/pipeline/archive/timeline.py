"""Detects that a store was restored from a backup and has diverged from its archive.

The archive then has commits that the store has undone, under numbers that the store has given, or will give, to others.
They are moved out of the tables, to ``lost/N/``, and the archive continues from the last commit that both share.
Nothing is deleted, and no number has two meanings.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from lowtide.pipeline.archive.source import ArchiveSource
from lowtide.pipeline.tables.columns import VALID_TO, VERSION
from lowtide.pipeline.tables.files import OPEN, TAIL, FileWriter, VersionFile
from lowtide.pipeline.tables.jobs import Written, run_parts
from lowtide.pipeline.tables.ledger import RUN, TIMELINE, ArchiveLedger, LedgerEntry
from lowtide.pipeline.tables.location import Location
from lowtide.pipeline.tables.lookup import tables_in
from lowtide.pipeline.tables.names import TableName
from lowtide.pipeline.tables.table import VersionTable
from lowtide.pipeline.travel.retention import retained

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_timeline(spark: SparkSession, source: ArchiveSource, ledger: ArchiveLedger, consumer: str) -> int | None:
    """Move what the store has undone out of the tables. Returns the last commit that archive and store share, or None
    if the store has undone nothing."""
    run = ledger.last_run
    if run is None or _is_shared(source, run, consumer):
        return None
    position = source.consumer(consumer)
    acknowledged = position.position if position is not None else 0
    runs = [each for each in ledger.of(RUN) if (each.until or 0) <= source.last_commit()]
    shared = max((each.until or 0 for each in runs if _is_shared(source, each, consumer)), default=0)
    shared = max(shared, min(acknowledged, source.last_commit()))
    # Before that, a vacuum may have removed what would be current again.
    shared = retained(ledger.entries).newest_up_to(shared)
    number = 1 + len(ledger.of(TIMELINE))
    for name, table in tables_in(ledger.archive).items():
        if any(each.last_version > shared for each in table.files):
            split(spark, table, ledger.archive / "lost" / str(number) / name.folder, name, shared)
    ledger.add(
        TIMELINE,
        application=("lowtide-timeline", number),
        since=shared,
        until=run.until,
        detail={"lost": f"lost/{number}"},
    )
    return shared


def _is_shared(source: ArchiveSource, run: LedgerEntry, consumer: str) -> bool:
    """Whether the commit that a run ended with is one of the store. If the log no longer tells, the store has
    acknowledged it, or lost the consumer: then there is nothing that speaks against it."""
    until = run.until or 0
    if until > source.last_commit():
        return False
    time = source.time_of(until)
    if time is None or run.time is None:
        return True
    return datetime.fromtimestamp(time, UTC) == run.time


@dataclass(frozen=True)
class _Part:
    table: Location
    lost: Location
    name: str
    kind: str
    schema: bytes


def split(spark: SparkSession, table: VersionTable, folder: Location, name: TableName, shared: int) -> None:
    """Move the versions after commit ``shared`` to another table. Versions that they had ended are current again. Files
    without such versions are unchanged."""
    lost = VersionTable(folder.child(name.name), table.name, is_keyspace=table.is_keyspace)
    schema = table.schema.serialize().to_pybytes()
    chosen = [each for each in table.files if max(each.last_version, each.last_end or 0) > shared]
    parts = [_Part(table.location, lost.location, each.name, each.kind, schema) for each in chosen]

    def work(part: _Part) -> Iterable[Written]:
        return _split_file(part, shared)

    found = run_parts(spark, parts, work)
    kept, moved = ([file for each in found if each.table == number for file in each.files] for number in (0, 1))
    if not lost.exists:
        lost.create(table.fields)
    lost.append(moved, max(each.last_version for each in moved))
    table.replace(chosen, kept, new=True, compacted=min(table.compacted, shared), archived=shared)


def _split_file(part: _Part, shared: int) -> list[Written]:
    schema = pa.ipc.read_schema(pa.py_buffer(part.schema))
    with part.table.files.open_input_file(f"{part.table.root}/{part.name}") as source:
        rows = pa.parquet.read_table(source)
    missing = [each for each in schema if each.name not in rows.schema.names]
    for each in missing:
        rows = rows.append_column(each, pa.nulls(len(rows), each.type))
    rows = rows.select(schema.names)
    later = pc.greater(rows.column(VERSION), shared)
    kept, moved = rows.filter(pc.invert(later)), _without_ends(rows.filter(later))
    # A version that ended later than that was the newest one of its key.
    again = pc.fill_null(pc.greater(kept.column(VALID_TO), shared), part.kind == OPEN)
    current, ended = _without_ends(kept.filter(again)), kept.filter(pc.invert(again))
    files = _write(part.table, OPEN, schema, current) + _write(part.table, part.kind, schema, ended)
    return [Written(0, files, None), Written(1, _write(part.lost, TAIL, schema, moved), None)]


def _without_ends(rows: pa.Table) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index(VALID_TO), VALID_TO, pa.nulls(len(rows), pa.int64()))


def _write(table: Location, kind: str, schema: pa.Schema, rows: pa.Table) -> list[VersionFile]:
    if not rows.num_rows:
        return []
    writer = FileWriter(table, kind, schema)
    writer.write(rows)
    return [writer.finish()]
