"""Writes sorted versions to files whose row groups have a sensible size, however small the batches are."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from lowtide.pipeline.tables.files import FileWriter, VersionFile
from lowtide.pipeline.tables.location import Location

_GROUP_ROWS: Final = 1 << 16
_GROUP_BYTES: Final = 32 << 20
"""Rows and bytes that are written to a file at once."""


class SortedFiles:
    """Writes rows, in the order that they come in, to one file, or to files of about ``most_rows`` rows. ``beginning``
    is how their names begin."""

    def __init__(self, location: Location, schema: pa.Schema, beginning: str, most_rows: int | None = None) -> None:
        self._location = location
        self._schema = schema
        self._beginning = beginning
        self._most = most_rows
        self._held: list[pa.RecordBatch] = []
        self._file: FileWriter | None = None
        self._files: list[VersionFile] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        if not batch.num_rows:
            return
        self._held.append(batch)
        rows, size = sum(each.num_rows for each in self._held), sum(each.nbytes for each in self._held)
        if rows >= min(_GROUP_ROWS, self._most or _GROUP_ROWS) or size >= _GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if not self._held:
            return
        if self._file is None:
            self._file = FileWriter(self._location, self._beginning, self._schema)
        self._file.write(pa.Table.from_batches(self._held))
        self._held = []
        if self._most is not None and self._file.rows >= self._most:
            self._close()

    def _close(self) -> None:
        if self._file is not None:
            self._files.append(self._file.finish())
            self._file = None

    def finish(self) -> list[VersionFile]:
        """Close the last file, and return all of them."""
        self._flush()
        self._close()
        return self._files
