"""Time travel without Spark: DuckDB reads the same files, for questions whose answer fits in memory.

The functions are those of ``travel``, without the session. They return Arrow tables, which pandas, Polars and DuckDB
take as they are, with the rows and columns that Spark would give.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lowtide.documents.query_engine import connect
from lowtide.pipeline.tables.columns import (
    DELETE,
    ID,
    INSERT,
    KEY,
    KIND,
    RAW,
    TIME,
    TIMESTAMP,
    UPDATE,
    VALID_TO,
    VERSION,
)
from lowtide.pipeline.tables.files import TAIL, VersionFile
from lowtide.pipeline.tables.table import VersionTable
from lowtide.pipeline.tables.visible import files_seen, files_with
from lowtide.pipeline.travel.instants import At
from lowtide.pipeline.travel.reading import ArchivePath, ArchiveReader, Moments
from lowtide.pipeline.travel.travel import history_columns, key_text, state_columns

if TYPE_CHECKING:
    import duckdb

_NEWEST = f"qualify row_number() over (partition by {KEY} order by {VERSION} desc) = 1"


def as_of(
    archive_path: ArchivePath,
    at: At | None,
    collection: str | None = None,
    *,
    keyspace: str | None = None,
    quads: str | None = None,
    raw: bool = False,
) -> pa.Table:
    """Return a collection as the store had it at a commit or a time, in the order of ``_id``; see ``travel.as_of``."""
    reader = reader_of(archive_path)
    table = reader.table(collection, keyspace, quads)
    commit = reader.instant(at, table)
    with _connected(table, files_seen(table.files, commit, table.compacted)) as connection:
        return _answer(connection, table, f"{_visible(table, commit)} order by {KEY}", state_columns(table, raw=raw))


def history(
    archive_path: ArchivePath,
    collection: str | None = None,
    id: Any = None,
    *,
    keyspace: str | None = None,
    quads: str | None = None,
) -> pa.Table:
    """Return all versions of a collection, or of the document ``id``; see ``travel.history``."""
    reader = reader_of(archive_path)
    table = reader.table(collection, keyspace, quads)
    reader.warn_of_gaps(table)
    key = None if id is None else key_text(id, is_keyspace=table.is_keyspace)
    where = f"{VERSION} <= {reader.instants.commit}" + (f" and {KEY} = '{key}'" if key is not None else "")
    following = f"lead({VERSION}) over (partition by {KEY} order by {VERSION})"
    noted = f"case when {KIND} <> '{DELETE}' then {VALID_TO} end"
    rows = (
        f"select * replace (coalesce({noted}, {following}) as {VALID_TO}) from "
        f"(select * from settled union all by name select * from tail) where {where} order by {KEY}, {VERSION}"
    )
    with _connected(table, files_with(table.files, None if key is None else [key])) as connection:
        return _answer(connection, table, rows, history_columns(table))


def diff(
    archive_path: ArchivePath,
    a: At | None,
    b: At | None,
    collection: str | None = None,
    *,
    keyspace: str | None = None,
    quads: str | None = None,
) -> pa.Table:
    """Return what differs from instant ``a`` to ``b``, in the order of ``_id``; see ``travel.diff``."""
    reader = reader_of(archive_path)
    table = reader.table(collection, keyspace, quads)
    first, second = reader.instant(a, table), reader.instant(b, table)
    files = {each.name: each for at in (first, second) for each in files_seen(table.files, at, table.compacted)}
    chosen = f"{KEY}, {ID}, {RAW}, {VERSION}"
    rows = (
        f"with old as (select {chosen} from ({_visible(table, first)})), "
        f"new as (select {chosen} from ({_visible(table, second)})) "
        f"select coalesce(new.{ID}, old.{ID}) as {ID}, case when old.{RAW} is null then '{INSERT}' "
        f"when new.{RAW} is null then '{DELETE}' else '{UPDATE}' end as {KIND}, "
        f"old.{RAW} as before, new.{RAW} as after from old full join new using ({KEY}) "
        f"where old.{RAW} is distinct from new.{RAW} order by {KEY}"
    )
    kind = table.schema.field(RAW).type
    fields = [table.schema.field(ID), pa.field(KIND, pa.string()), pa.field("before", kind), pa.field("after", kind)]
    with _connected(table, list(files.values())) as connection:
        return _typed(_query(connection, rows), pa.schema(fields))


def reader_of(archive_path: ArchivePath) -> ArchiveReader:
    """Return the archive, whose times are looked up in this process."""
    return ArchiveReader(archive_path, _first_later)


def _first_later(moments: Moments) -> int | None:
    schema = pa.schema([(VERSION, pa.int64()), (TIME, TIMESTAMP)])
    later = pc.field(TIME) > pa.scalar(moments.moment, TIMESTAMP)
    wanted = (pc.field(VERSION) > moments.low) & (pc.field(VERSION) < moments.high) & later
    found: int | None = None
    for location, names in moments.files:
        for batch in location.dataset(names, schema).to_batches(columns=[VERSION], filter=wanted):
            if batch.num_rows:
                least = pc.min(batch.column(0)).as_py()
                found = least if found is None else min(found, least)
    return found


@contextmanager
def _connected(table: VersionTable, files: list[VersionFile]) -> Iterator[duckdb.DuckDBPyConnection]:
    """Return a connection that has these files of a table as ``settled``, and those added since compaction as
    ``tail``."""
    schema = pa.schema([each.remove_metadata() for each in table.schema])
    parts = {
        "settled": [each.name for each in files if each.kind != TAIL],
        "tail": [each.name for each in files if each.kind == TAIL],
    }
    with connect() as connection:
        for name, chosen in parts.items():
            connection.register(name, table.location.dataset(chosen, schema) if chosen else schema.empty_table())
        yield connection


def _visible(table: VersionTable, at: int) -> str:
    """Return the query for what an instant sees. The rule is that of ``visible.visible``."""
    began = f"{VERSION} <= {at}"
    seen = f"{began} and ({VALID_TO} is null or {VALID_TO} > {at})"
    if at <= table.compacted:
        return f"select * from settled where {seen} and {KIND} <> '{DELETE}'"
    added = f"select * from tail where {began}"
    return (
        f"select * from (select * from settled where {seen} and {KEY} not in (select {KEY} from tail where {began}) "
        f"union all by name (select * from ({added} {_NEWEST}))) where {KIND} <> '{DELETE}'"
    )


def _answer(connection: duckdb.DuckDBPyConnection, table: VersionTable, query: str, columns: list[str]) -> pa.Table:
    chosen = ", ".join(f'"{each.replace(chr(34), chr(34) * 2)}"' for each in columns)
    return _typed(_query(connection, f"select {chosen} from ({query})"), pa.schema(map(table.schema.field, columns)))


def _query(connection: duckdb.DuckDBPyConnection, query: str) -> pa.Table:
    return connection.sql(query).to_arrow_table()


def _typed(found: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the answer with the types that the archive's tables have."""
    plain = pa.schema([pa.field(each.name, each.type, metadata=each.metadata) for each in schema])
    return found.cast(plain)
