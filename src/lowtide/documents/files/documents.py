"""Reads and writes files of documents in any supported format."""

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
"""Returns all documents. Every call returns the same documents."""


def read_documents(
    source: FileSource,
    format: str,
    kinds: Mapping[str, str] | None = None,
    *,
    delimiter: str | None = None,
    tables: bool = False,
) -> Generator[Batch, None, None]:
    """Yield the documents of an open file. Raises BadFile for the first that cannot be read.

    With ``tables``, a JSON file that is a TinyDB database is read as its tables.
    """
    if kinds and format != "csv":
        raise UsageError("column types are only for CSV; the other formats have their own types")
    if delimiter is not None and format != "csv":
        raise UsageError("a delimiter is only for CSV")
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
                    raise UsageError("Parquet cannot be read from a pipe; give a file name")
                yield from read_parquet(source.stream, source.name)
            case _:
                raise UsageError(f"unknown format {format!r}")
    except (EOFError, zlib.error) as error:  # from gzip, which otherwise raises OSError
        raise BadFile(source.name, "", "", f"the file cannot be decompressed: {error}") from error


def write_documents(stream: BinaryIO, format: str, documents: Documents, fields: Sequence[str] | None = None) -> int:
    """Write a file of documents. Returns their number.

    ``fields`` are the columns of a CSV. By default, a first pass over the documents collects them.
    """
    match format:
        case "jsonl":
            return write_json_lines(stream, documents())
        case "json":
            return write_json(stream, documents())
        case "csv":
            return write_csv(stream, documents(), columns_of(documents()) if fields is None else fields)
        case "parquet":
            if not stream.seekable():
                raise UsageError("Parquet cannot be written to a pipe; give a file name")
            return write_parquet(stream, documents)
        case _:
            raise UsageError(f"unknown format {format!r}")
