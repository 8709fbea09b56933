"""Writes versions to the files of one table, in a task: rows come in, and files with typed columns go out.

The columns follow from the shapes of all documents seen so far. A batch that the columns do not cover widens them, and
begins another file. Files of one task, or of several, may therefore differ in their columns; the driver sees to it that
those it publishes agree (``table.VersionTable.agrees``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from lowtide.columnar.columns import Columns, Uncovered
from lowtide.columnar.inference import JSON, Fields
from lowtide.pipeline.tables.columns import (
    ID,
    KEY,
    KEYSPACE,
    KIND,
    OWN,
    RAW,
    TIME,
    TIMESTAMP,
    VALID_TO,
    VERSION,
    collection_schema,
    columnar,
    storable,
)
from lowtide.pipeline.tables.files import TAIL, FileWriter, VersionFile
from lowtide.pipeline.tables.location import Location
from lowtide.values.codec import decode_document, encode_document
from lowtide.values.extended import dumps
from lowtide.values.ids import id_of

BATCH: Final = 16_384
"""Rows that are converted at once."""
BYTES: Final = 32 << 20
"""Bytes of documents that are converted at once."""


@dataclass(slots=True)
class VersionRows:
    """Versions, column by column. ``values`` has None for a delete; ``ends`` is empty if no end is known."""

    kinds: list[str] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    ends: list[int | None] = field(default_factory=list)
    size: int = 0

    def __len__(self) -> int:
        return len(self.kinds)

    def add(self, kind: str, version: int, time: float, key: bytes, value: bytes | None) -> None:
        self.kinds.append(kind)
        self.versions.append(version)
        self.times.append(time)
        self.keys.append(key)
        self.values.append(value)
        self.size += len(key) + (len(value) if value is not None else 0)

    @property
    def is_full(self) -> bool:
        return len(self.kinds) >= BATCH or self.size >= BYTES


def typed_schema(fields: Fields) -> pa.Schema:
    """Return the schema of the table of documents with these shapes."""
    return collection_schema(fields.schema())


def _declared(fields: Fields) -> pa.Schema:
    """Return the schema that documents are converted to. Fields that get no column are in it as JSON text, so that
    they count as covered."""
    found = list(fields.schema())
    columns = {each.name: each for each in columnar(found)}
    texts = {each.name: pa.field(each.name, pa.string(), metadata=JSON) for each in found}
    known = {**texts, **columns, **{each.name: storable(each) for each in found if each.name == ID}}
    return pa.schema([known[each.name] for each in found])


class DocumentColumns:
    """Converts stored documents to typed columns, and widens the columns where it must."""

    def __init__(self, fields: Fields) -> None:
        self.fields = fields
        self._columns: Columns | None = None

    def batch(self, stored: Sequence[bytes]) -> pa.RecordBatch:
        """Return the columns of these documents; ``fields`` has what they add to the shapes."""
        while True:
            if self._columns is None:
                self._columns = Columns(_declared(self.fields), fields=self.fields)
            columns = self._columns
            try:
                found = columns.batch(stored)
                if _declared(self.fields).equals(columns.schema, check_metadata=True):
                    return found
            except Uncovered:
                self.fields.add(map(decode_document, stored))
            self._columns = None


class VersionWriter:
    """Writes the versions of one collection, or, without ``fields``, of one keyspace."""

    def __init__(self, table: Location, fields: Fields | None, kind: str = TAIL) -> None:
        self._table = table
        self._kind = kind
        self._documents = DocumentColumns(fields) if fields is not None else None
        self._file: FileWriter | None = None
        self._schema: pa.Schema | None = None
        self.files: list[VersionFile] = []

    @property
    def fields(self) -> Fields | None:
        return None if self._documents is None else self._documents.fields

    def write(self, rows: VersionRows) -> None:
        """Write rows."""
        if not len(rows):
            return
        batch = self.batch(rows)
        if self._file is None or not batch.schema.equals(self._schema, check_metadata=True):
            self._close()
            self._schema = batch.schema
            self._file = FileWriter(self._table, self._kind, batch.schema)
        self._file.write(batch)

    def batch(self, rows: VersionRows) -> pa.RecordBatch:
        """Return rows as a record batch with the columns of the table."""
        arrays: dict[str, Any] = {
            VERSION: pa.array(rows.versions, pa.int64()),
            TIME: moments(rows.times),
            KIND: pa.array(rows.kinds, pa.string()),
            VALID_TO: pa.array(rows.ends or [None] * len(rows), pa.int64()),
            KEY: pa.array([each.hex() for each in rows.keys], pa.string()),
        }
        if self._documents is None:
            schema = KEYSPACE
            arrays[ID] = pa.array(rows.keys, pa.binary())
            arrays[RAW] = pa.array(rows.values, pa.binary())
        else:
            stored = [
                value if value is not None else encode_document({ID: id_of(key)})
                for key, value in zip(rows.keys, rows.values, strict=True)
            ]
            found = self._documents.batch(stored)
            schema = typed_schema(self._documents.fields)
            arrays[RAW] = pa.array([None if each is None else raw_text(each) for each in rows.values], pa.string())
            arrays |= {
                name: column
                for name, column in zip(found.schema.names, found.columns, strict=True)
                if name == ID or name not in OWN
            }
        return pa.RecordBatch.from_arrays([arrays[each.name] for each in schema], schema=schema)

    def finish(self) -> list[VersionFile]:
        """Close the last file, and return all of them."""
        self._close()
        return self.files

    def _close(self) -> None:
        if self._file is not None:
            self.files.append(self._file.finish())
            self._file = None


def raw_text(stored: bytes) -> str:
    """Return a stored document as Extended JSON, which loses nothing of it."""
    return dumps(decode_document(stored)).decode()


def moments(times: Sequence[float]) -> pa.Array:
    """Return times of day as timestamps, rounded as ``datetime`` does."""
    parts, seconds = np.modf(np.array(times, dtype=np.float64))
    found = seconds.astype(np.int64) * 1_000_000 + np.round(parts * 1e6).astype(np.int64)
    return pa.array(found).cast(TIMESTAMP)
