"""JSON: one array of documents, or a sequence of documents, with any whitespace.

The file is read in pieces. A document is decoded as soon as it has been read completely, so memory is
bounded by the largest document, not by the file.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, Final, NoReturn

from lowtide.documents.files.batches import CHUNK, LONGEST, Batch
from lowtide.documents.files.malformed import not_a_document
from lowtide.documents.files.problems import BadFile
from lowtide.values.extended import NotExtended, dumps, from_extended
from lowtide.values.values import Document

_BATCH: Final = 2000
_EDGE: Final = 16
"""An error this many characters before the end of the window may only mean that more must be read."""
_SPACE: Final = re.compile(r"[ \t\r\n]*")


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not valid JSON")


_decode: Final = json.JSONDecoder(parse_constant=_no_constant).raw_decode


def write_json(stream: BinaryIO, documents: Iterable[Document]) -> int:
    """Write one array, with one document per line. Returns the number of documents."""
    count = 0
    for count, document in enumerate(documents, 1):
        stream.write((b"[" if count == 1 else b",\n") + dumps(document))
    stream.write(b"]\n" if count else b"[]\n")
    return count


def read_json(stream: BinaryIO, name: str) -> Iterator[Batch]:
    """Yield the documents of a file. Raises BadFile, with the line and column."""
    window = _Window(stream, name)
    documents: list[Document] = []
    places: list[int] = []
    for document, line in _documents(window):
        documents.append(document)
        places.append(line)
        if len(documents) == _BATCH:
            yield Batch(documents, places)
            documents, places = [], []
    if documents:
        yield Batch(documents, places)


def _documents(window: _Window) -> Iterator[tuple[Document, int]]:
    """Yield each document with the line on which it begins."""
    in_array = window.next_character() == "["
    if in_array:
        window.take()
        if window.next_character() == "]":
            window.take()
            window.expect_end()
            return
    elif not window.next_character():
        return
    while True:
        yield window.document()
        following = window.next_character()
        if not in_array:
            if not following:
                return
        elif following == ",":
            window.take()
        elif following == "]":
            window.take()
            window.expect_end()
            return
        else:
            window.fail(
                "expected a comma or ] after a document" if following else "the array does not end: ] is missing"
            )


class _Window:
    """The part of a file that is in memory, and the current position in it."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._name = name
        self._text = ""
        self._at = 0
        self._known = (0, 1, 1)  # an index in the text, with its line and column
        self._ended = False

    def next_character(self) -> str:
        """Return the next character that is not whitespace; empty at the end of the file."""
        while True:
            found = _SPACE.match(self._text, self._at)
            self._at = found.end() if found else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if self._ended:
                return ""
            self._more()

    def take(self) -> None:
        self._at += 1

    def expect_end(self) -> None:
        if self.next_character():
            self.fail("unexpected text after the end of the array")

    def document(self) -> tuple[Document, int]:
        self.next_character()
        while True:
            try:
                found, end = _decode(self._text, self._at)
                break
            except json.JSONDecodeError as error:
                whole = not error.msg.startswith("Unterminated") and error.pos < len(self._text) - _EDGE
                if self._ended or whole:
                    self.fail(error.msg[:1].lower() + error.msg[1:], error.pos)
                if len(self._text) - self._at > LONGEST:
                    self.fail(f"one document is longer than {LONGEST:,} characters")
                self._more(max(CHUNK, len(self._text) - self._at))
            except (ValueError, RecursionError) as error:
                self.fail("the document is nested too deeply" if isinstance(error, RecursionError) else str(error))
        line = self._place(self._at)[0]
        if type(found) is not dict:
            self.fail(not_a_document(found))
        document = self._restored(found, line)
        self._at = end
        return document, line

    def _restored(self, found: dict[str, Any], line: int) -> Document:
        try:
            restored = from_extended(found)
        except NotExtended as error:
            raise BadFile(self._name, f"line {line}", error.path, f"{error.reason}; fix it there") from error
        if type(restored) is not dict:
            self.fail(not_a_document(restored))
        return restored

    def _more(self, count: int = CHUNK) -> None:
        """Read more of the file, and drop the text that was consumed."""
        line, column = self._place(self._at)
        self._known = (0, line, column)
        data = self._stream.read(count)
        try:
            read = self._decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            raise BadFile(
                self._name, f"after line {line}", "", "the file is not valid UTF-8; convert it first"
            ) from error
        self._text = self._text[self._at :] + read
        self._at = 0
        self._ended = not data

    def _place(self, index: int) -> tuple[int, int]:
        """Return the line and column of an index. The index must not decrease between calls."""
        known, line, column = self._known
        lines = self._text.count("\n", known, index)
        place = (
            (line + lines, index - self._text.rfind("\n", known, index)) if lines else (line, column + index - known)
        )
        self._known = (index, *place)
        return place

    def fail(self, reason: str, at: int | None = None) -> NoReturn:
        line, column = self._place(self._at if at is None else at)
        raise BadFile(self._name, f"line {line}, column {column}", "", f"{reason}; fix it there")
