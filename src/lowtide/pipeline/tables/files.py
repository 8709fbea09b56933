"""Parquet files of versions, written by tasks: complete or ignored, each with the statistics that Delta keeps.

A file is written under a unique name, and counts only once its table names it. Files that a failed or repeated task has
left are never read, and the next vacuum removes them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Final
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from lowtide.pipeline.tables.columns import DELETE, KEY, KIND, VALID_TO, VERSION, plain
from lowtide.pipeline.tables.location import Location

TAIL, OPEN, CLOSED = "tail", "open", "closed"
"""What a file has, told by how its name begins: versions as they came; after compaction the newest version of each
key, or versions that ended."""
LONGEST: Final = 128
"""Characters of a key that statistics keep."""
_LIMITS: Final = (VERSION, VALID_TO, KEY)
"""Columns whose smallest and largest values are kept, to skip files by."""


class VersionFile(msgspec.Struct, frozen=True):
    """A file of a table: its name, its bytes, its rows, and the limits that files are skipped by. ``last_end`` is None
    if some version in it has not ended."""

    name: str
    size: int
    rows: int
    first_version: int
    last_version: int
    last_end: int | None
    first_key: str
    last_key: str
    deletes: int = 0
    schema: bytes = b""
    """The serialized Arrow schema that it was written with."""

    @property
    def kind(self) -> str:
        return self.name.partition("-")[0]

    @property
    def run(self) -> str:
        """The files that were written together, sorted by key and without overlap: how their names begin. A file whose
        name has no such number is by itself."""
        return self.name.rpartition("-")[0] if self.name.count("-") > 1 else self.name

    def may_have(self, key: str) -> bool:
        """Whether the versions of a key may be in the file."""
        return self.first_key <= key[:LONGEST] and key[:LONGEST] <= self.last_key

    def statistics(self) -> str:
        """Return Delta's statistics of the file, as JSON text."""
        low = {VERSION: self.first_version, KEY: self.first_key}
        high: dict[str, Any] = {VERSION: self.last_version, KEY: self.last_key + "\U0010ffff"}
        nulls = {VERSION: 0, KEY: 0}
        if self.last_end is not None:
            high[VALID_TO], nulls[VALID_TO] = self.last_end, 0
        found = {"numRecords": self.rows, "minValues": low, "maxValues": high, "nullCount": nulls}
        return msgspec.json.encode(found).decode()


class FileWriter:
    """Writes one file, batch by batch. Nothing is left of one that is not closed by ``finish``."""

    def __init__(self, table: Location, kind: str, schema: pa.Schema) -> None:
        self._table = table
        self._schema = schema
        self.name = f"{kind}-{uuid4().hex}.parquet"
        self._path = f"{table.root}/{self.name}"
        table.create()
        self._stream = _private(table, self._path)
        self._plain = pa.schema([each.remove_metadata() for each in plain(schema)])
        self._writer = pa.parquet.ParquetWriter(self._stream, self._plain, compression="zstd")
        self._limits: list[tuple[Any, ...]] = []
        self.rows = 0

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Add rows, of exactly the file's schema."""
        if not batch.num_rows:
            return
        columns = [batch.column(each.name).cast(each.type) for each in self._plain]
        table = pa.Table.from_arrays(columns, schema=self._plain)
        self._writer.write_table(table)
        self.rows += table.num_rows
        self._limits.append(_limits(table))

    def finish(self) -> VersionFile:
        """Close the file, and tell what it has."""
        self._writer.close()
        self._stream.close()
        size = self._table.files.get_file_info(self._path).size
        first, last, ends, low, high, deletes = zip(*self._limits, strict=True)
        return VersionFile(
            name=self.name,
            size=size,
            rows=self.rows,
            first_version=min(first),
            last_version=max(last),
            last_end=None if None in ends else max(ends),
            first_key=min(low)[:LONGEST],
            last_key=max(high)[:LONGEST],
            deletes=sum(deletes),
            schema=self._schema.serialize().to_pybytes(),
        )

    def discard(self) -> None:
        """Remove what was written."""
        self._writer.close()
        self._stream.close()
        self._table.files.delete_file(self._path)


def _private(table: Location, path: str) -> Any:
    """Open a new file, readable by its owner alone if it is local."""
    if table.is_local:
        return pa.OSFile(_created(path), "wb")
    return table.files.open_output_stream(path)


def _created(path: str) -> str:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    return path


def _limits(table: pa.Table) -> tuple[Any, ...]:
    versions = pc.min_max(table.column(VERSION)).as_py()
    keys = pc.min_max(table.column(KEY)).as_py()
    ends = table.column(VALID_TO)
    last_end = None if ends.null_count else pc.max(ends).as_py()
    deletes = pc.sum(pc.equal(table.column(KIND), DELETE)).as_py()
    return versions["min"], versions["max"], last_end, keys["min"], keys["max"], deletes


def total_rows(files: Iterable[VersionFile]) -> int:
    """Return the number of rows in the files."""
    return sum(each.rows for each in files)
