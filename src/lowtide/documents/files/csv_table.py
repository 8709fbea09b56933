"""CSV: a header with field names, and one document per row.

An empty cell is a missing field. A name with dots, such as ``address.city``, is a field of a nested object.
If no delimiter is given, it is detected from the header: comma, semicolon, tab or bar.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, BinaryIO, Final

from lowtide.documents.files.batches import Batch
from lowtide.documents.files.cells import FAULTS, KINDS, cell_of
from lowtide.documents.files.problems import BadFile
from lowtide.values.codec import MAX_DOCUMENT
from lowtide.values.values import Document

_BATCH: Final = 2000
_QUOTE: Final = '"'
_DELIMITERS: Final = (",", ";", "\t", "|")
_QUOTED: Final = re.compile(r'"[^"]*"?')
_NEEDS_QUOTES: Final = re.compile(r'[",\r\n]|^\s|\s$').search


def columns_of(documents: Iterable[Document]) -> list[str]:
    """Return the names of all fields, in order of first appearance."""
    names: dict[str, None] = {}
    for document in documents:
        if document.keys() - names.keys():
            names.update(dict.fromkeys(document))
    return list(names)


def write_csv(stream: BinaryIO, documents: Iterable[Document], columns: Sequence[str]) -> int:
    """Write a header and one document per row. Returns the number of documents."""
    if columns:
        stream.write(_row(columns))
    count = 0
    for document in documents:
        stream.write(_row([cell_of(_at(document, column)) for column in columns]))
        count += 1
    return count


def _row(cells: Sequence[str]) -> bytes:
    """Format a row. A row of one empty cell is quoted, so that it is not an empty line."""
    line = ",".join(f'"{cell.replace(_QUOTE, _QUOTE * 2)}"' if _NEEDS_QUOTES(cell) else cell for cell in cells)
    return f"{line or _QUOTE * 2}\n".encode()


def _at(document: Document, column: str) -> Any:
    """Return the field at a dotted name; None if it is missing."""
    if column in document:
        return document[column]
    found: Any = document
    for part in column.split("."):
        if type(found) is not dict or part not in found:
            return None
        found = found[part]
    return found


def delimiter_of(header: str) -> str:
    """Detect the delimiter of a header: the most frequent of comma, semicolon, tab and bar; comma by default.

    >>> delimiter_of('name;"weight, kg";city')
    ';'
    """
    bare = _QUOTED.sub("", header)
    return max(_DELIMITERS, key=bare.count)


def read_csv(
    stream: BinaryIO, name: str, kinds: Mapping[str, str] | None = None, delimiter: str | None = None
) -> Iterator[Batch]:
    """Yield the documents of a file. Raises BadFile, with the line and the field.

    ``kinds`` are the column types, with ``*`` for all other columns.
    """
    csv.field_size_limit(max(csv.field_size_limit(), MAX_DOCUMENT))  # a setting of the whole process, so never lowered
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
    rows = csv.reader(())
    try:
        first = text.readline()
        between = delimiter or delimiter_of(first)
        rows = csv.reader(chain([first] if first else (), text), strict=True, delimiter=between)
        header = next(rows, None)
        if header is None:
            return
        columns = _Columns(header, kinds or {}, name, between)
        documents: list[Document] = []
        places: list[int] = []
        before = rows.line_num
        for row in rows:
            if row:
                documents.append(columns.document(row, before + 1))
                places.append(before + 1)
            before = rows.line_num
            if len(documents) == _BATCH:
                yield Batch(documents, places)
                documents, places = [], []
        if documents:
            yield Batch(documents, places)
    except csv.Error as error:
        raise BadFile(name, f"line {rows.line_num}", "", f"{error}; fix the row, or its quotes") from error
    except UnicodeDecodeError as error:
        raise BadFile(
            name, f"after line {rows.line_num}", "", "the file is not valid UTF-8; convert it first"
        ) from error
    finally:
        if not stream.closed:
            text.detach()


class _Columns:
    """The columns of the header: where each cell of a row goes."""

    def __init__(self, header: Sequence[str], kinds: Mapping[str, str], name: str, delimiter: str) -> None:
        self._name = name
        self._delimiter = delimiter
        self._header = header
        unknown = [column for column in kinds if column != "*" and column not in header]
        if unknown:
            raise BadFile(name, "line 1", unknown[0], f"no such column; the columns are {', '.join(header)}")
        for index, column in enumerate(header):
            if not column or column in header[:index]:
                reason = "twice" if column else f"empty in column {index + 1}"
                raise BadFile(name, "line 1", column, f"the name in the header is {reason}; name each column once")
        self._kinds = [kinds.get(column, kinds.get("*", "auto")) for column in header]
        self._readers = [KINDS[kind] for kind in self._kinds]
        self._paths = [column.split(".") for column in header]
        self._nested = any(len(path) > 1 for path in self._paths)

    def document(self, row: Sequence[str], line: int) -> Document:
        if len(row) > len(self._header):
            raise BadFile(
                self._name,
                f"line {line}",
                "",
                f"the row has {len(row)} cells and the header {len(self._header)}; quote cells that "
                f"contain {self._delimiter!r}, or set the delimiter with --delimiter",
            )
        document: Document = {}
        for index, cell in enumerate(row):
            if cell:
                try:
                    value = self._readers[index](cell)
                except FAULTS as error:
                    column = self._header[index]
                    shown = cell if len(cell) <= 60 else f"{cell[:57]}..."
                    raise BadFile(
                        self._name,
                        f"line {line}",
                        column,
                        f"{shown!r} is not of type {self._kinds[index]}; fix it, or read the column as text with "
                        f"--types {column}=str",
                    ) from error
                if self._nested:
                    self._put(document, index, value, line)
                else:
                    document[self._header[index]] = value
        return document

    def _put(self, document: Document, index: int, value: Any, line: int) -> None:
        *path, last = self._paths[index]
        inner: Any = document
        for part in path:
            inner = inner.setdefault(part, {})
            if type(inner) is not dict:
                break
        if type(inner) is not dict or last in inner:
            raise BadFile(
                self._name,
                f"line {line}",
                self._header[index],
                "another column sets the same field, or a field above or below it",
            )
        inner[last] = value
