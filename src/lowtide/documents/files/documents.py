"""The documents of a file in any of the formats, and a file of documents."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import BinaryIO

from lowtide.documents.files.batches import Batch
from lowtide.documents.files.csv_table import columns_of, read_csv, write_csv
from lowtide.documents.files.json_array import read_json, write_json
from lowtide.documents.files.json_lines import read_json_lines, write_json_lines
from lowtide.documents.files.parquet import read_parquet, write_parquet
from lowtide.documents.files.problems import BadFile
from lowtide.documents.files.streams import FileSource
from lowtide.documents.files.tinydb import tables_in
from lowtide.errors import UsageError
from lowtide.values.values import Document

Documents = Callable[[], Iterable[Document]]
"""Gives all documents, each time that it is called, and the same ones."""


def read_documents(
    source: FileSource,
    format: str,
    kinds: Mapping[str, str] | None = None,
    *,
    delimiter: str | None = None,
    tables: bool = False,
) -> Generator[Batch, None, None]:
    """The documents of an open file. With ``tables`` JSON that is a TinyDB is read as its tables. Raises BadFile for
    the first that cannot be read."""
    if kinds and format != "csv":
        raise UsageError("kinds of columns are for CSV; the other formats say themselves what a value is")
    if delimiter is not None and format != "csv":
        raise UsageError("a delimiter is for CSV; the other formats have none")
    try:
        match format:
            case "jsonl":
                yield from read_json_lines(source.stream, source.name)
            case "json":
                found = read_json(source.stream, source.name)
                yield from tables_in(found) if tables else found
            case "csv":
                yield from read_csv(source.stream, source.name, kinds, delimiter)
            case "parquet":
                if not source.stream.seekable():
                    raise UsageError("Parquet is read from its end, which a pipe has not; name a file")
                yield from read_parquet(source.stream, source.name)
            case _:
                raise UsageError(f"the format {format!r} is unknown")
    except (EOFError, zlib.error) as error:  # of gzip; what it raises besides is an OSError
        raise BadFile(source.name, "", "", f"it cannot be unpacked: {error}") from error


def write_documents(stream: BinaryIO, format: str, documents: Documents, fields: Sequence[str] | None = None) -> int:
    """Write a file; returns how many documents there were. ``fields`` are the columns of a CSV; else they are
    looked for first."""
    match format:
        case "jsonl":
            return write_json_lines(stream, documents())
        case "json":
            return write_json(stream, documents())
        case "csv":
            return write_csv(stream, documents(), columns_of(documents()) if fields is None else fields)
        case "parquet":
            if not stream.seekable():
                raise UsageError("Parquet cannot be written to a pipe; name a file")
            return write_parquet(stream, documents)
        case _:
            raise UsageError(f"the format {format!r} is unknown")
