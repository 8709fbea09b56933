"""A file of batches: keys and documents, which one process writes once, and another one reads from any batch on.

The batches are MessagePack arrays of keys and of documents, one after the other. A *directory* of them is at the end:
where each is, and its first and last key. So the runs of a file are known without reading its batches. The file ends
with the length of the directory and a mark. A file that was cut short lacks it.
"""

from __future__ import annotations

import struct
from typing import Any, BinaryIO, Final

import msgspec

from lowtide.errors import Error
from lowtide.system.messages import UNDECODABLE

_END: Final = struct.Struct(">Q8s")
_MARK: Final = b"lowtide1"


class DamagedFile(Error):
    """Raised if a file is not what was written."""


class BatchEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where a batch is, how many rows it has, and its first and last key. No batch is without rows."""

    start: int
    length: int
    rows: int
    first: bytes
    last: bytes


class _Rows(msgspec.Struct, frozen=True, array_like=True, gc=False):
    keys: list[bytes]
    documents: list[bytes] | None


_encode: Final = msgspec.msgpack.Encoder().encode
_decode_rows: Final = msgspec.msgpack.Decoder(_Rows).decode
_decode_directory: Final = msgspec.msgpack.Decoder(list[BatchEntry]).decode


class BatchFileWriter:
    """Writes batches to a new file. It is complete after ``finish``."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._directory: list[BatchEntry] = []
        self.size = 0
        """The bytes of all batches."""

    def write(self, keys: list[bytes], documents: list[bytes] | None) -> None:
        """Write a batch of ascending keys, of which there is at least one. Without documents, they are to delete."""
        data = _encode(_Rows(keys, documents))
        self._file.write(data)
        self._directory.append(BatchEntry(self.size, len(data), len(keys), keys[0], keys[-1]))
        self.size += len(data)

    def finish(self) -> None:
        directory = _encode(self._directory)
        self._file.write(directory + _END.pack(len(directory), _MARK))


class BatchFileReader:
    """Reads batches. Raises DamagedFile."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._size = file.seek(0, 2)
        end = self._size - _END.size
        length, mark = _END.unpack(self._read(end, _END.size))
        if mark != _MARK:
            raise DamagedFile("it does not end as it should")
        try:
            self.directory = _decode_directory(self._read(end - length, length))
        except UNDECODABLE as error:
            raise DamagedFile(f"its directory cannot be decoded: {error}") from error

    def read(self, batch: BatchEntry) -> tuple[list[bytes], list[Any]]:
        """The keys and the documents of a batch; None for each key to delete."""
        try:
            rows = _decode_rows(self._read(batch.start, batch.length))
        except UNDECODABLE as error:
            raise DamagedFile(f"the batch at {batch.start} cannot be decoded: {error}") from error
        return rows.keys, rows.documents if rows.documents is not None else [None] * len(rows.keys)

    def _read(self, start: int, length: int) -> bytes:
        if start < 0 or length < 0 or start + length > self._size:
            raise DamagedFile("a part of it is missing")
        self._file.seek(start)
        return self._file.read(length)
