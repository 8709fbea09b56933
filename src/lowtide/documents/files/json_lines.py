"""JSON Lines: one document per line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, Final

import msgspec

from lowtide.documents.files.batches import CHUNK, LONGEST, Batch
from lowtide.documents.files.malformed import not_a_document, reason_and_byte
from lowtide.documents.files.problems import BadFile
from lowtide.values.cleaning import MAX_DEPTH
from lowtide.values.extended import NotExtended, dumps, from_extended, is_marked
from lowtide.values.values import Document

_BOM: Final = b"\xef\xbb\xbf"
_DICTS: Final = frozenset((dict,))
_ALL_BUT_BRACKETS: Final = bytes(set(range(256)) - set(b"{}[]\n"))
_decoder: Final = msgspec.json.Decoder()


def read_json_lines(stream: BinaryIO, name: str, chunk: int = CHUNK) -> Iterator[Batch]:
    """Yield the documents of a file, those in about ``chunk`` bytes at a time. Empty lines are skipped. Raises BadFile,
    with the line and column."""
    for block, number, lines in _blocks(stream, name, chunk):
        batch = _decoded(block, name, number, lines)
        if batch.documents:
            yield batch


def write_json_lines(stream: BinaryIO, documents: Iterable[Document]) -> int:
    """Write one document per line. Returns the number of documents."""
    count = 0
    for document in documents:
        stream.write(dumps(document) + b"\n")
        count += 1
    return count


def _blocks(stream: BinaryIO, name: str, size: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield the content in blocks of whole lines, each with the number of its first line, and how many it has."""
    pieces: list[bytes] = []
    held, number = 0, 1
    first = True
    read = getattr(stream, "read1", stream.read)  # do not wait for a pipe to fill the buffer
    while chunk := read(size):
        if first:
            chunk, first = chunk.removeprefix(_BOM), False
        end = chunk.rfind(b"\n") + 1
        if end:
            block = b"".join((*pieces, chunk[:end]))
            lines = block.count(b"\n")
            yield block, number, lines
            number += lines
            pieces, held = [], 0
        pieces.append(chunk[end:])
        held += len(chunk) - end
        if held > LONGEST:
            raise BadFile(name, f"line {number}", "", f"the line is longer than {LONGEST:,} bytes; is this JSON Lines?")
    if held:
        yield b"".join(pieces), number, 1


def _decoded(block: bytes, name: str, number: int, lines: int) -> Batch:
    """Decode a block of whole ``lines``. ``number`` is the number of the first one."""
    if not is_marked(block):
        try:
            documents = _decoder.decode_lines(block)
        except (ValueError, RecursionError):
            return _line_by_line(block, name, number)
        if len(documents) == lines and _DICTS.issuperset(map(type, documents)):
            return Batch(documents, range(number, number + lines), plain=_is_shallow(block))
    return _line_by_line(block, name, number)


def _is_shallow(block: bytes) -> bool:
    """Whether no line nests deeper than a document may: none has that many brackets."""
    return max(map(len, block.translate(None, _ALL_BUT_BRACKETS).split(b"\n"))) <= 2 * MAX_DEPTH


def _line_by_line(block: bytes, name: str, number: int) -> Batch:
    documents, places = [], []
    for place, line in enumerate(block.split(b"\n"), number):
        if line and not line.isspace():
            documents.append(_document(line, name, place))
            places.append(place)
    return Batch(documents, places)


def _document(line: bytes, name: str, number: int) -> Document:
    try:
        found: Any = _decoder.decode(line)
        if is_marked(line):
            found = from_extended(found)
    except NotExtended as error:
        raise BadFile(name, f"line {number}", error.path, f"{error.reason}; fix the line") from error
    except (ValueError, RecursionError) as error:
        reason, byte = reason_and_byte(error)
        column = f", column {len(line[:byte].decode(errors='replace')) + 1}" if byte is not None else ""
        raise BadFile(
            name, f"line {number}{column}", "", f"{reason}; fix the line, or use --format json if the file is one array"
        ) from error
    if type(found) is not dict:
        raise BadFile(name, f"line {number}", "", not_a_document(found))
    return found
