"""Opens files by name: detects the format, decompresses, and writes atomically."""

from __future__ import annotations

import gzip
import io
import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, cast

from lowtide.errors import UsageError

STANDARD: Final = "-"
"""The name of standard input or output."""
FORMATS: Final = ("jsonl", "json", "csv", "parquet")
_SUFFIXES: Final = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".csv": "csv", ".parquet": "parquet"}


def format_of(name: str, given: str | None) -> str:
    """Return the format as given, or by the suffix before any ``.gz``; JSON Lines for standard input and output."""
    if given is not None:
        if given not in FORMATS:
            raise UsageError(f"unknown format {given!r}; use one of {', '.join(FORMATS)}")
        return given
    if name == STANDARD:
        return "jsonl"
    path = Path(name)
    suffix = (Path(path.stem).suffix if path.suffix == ".gz" else path.suffix).lower()
    if suffix == ".parquet" and path.suffix == ".gz":
        raise UsageError("Parquet is already compressed; leave out .gz")
    if suffix not in _SUFFIXES:
        raise UsageError(f"cannot tell the format from the name {name!r}; set --format to one of {', '.join(FORMATS)}")
    return _SUFFIXES[suffix]


@dataclass(frozen=True, slots=True)
class FileSource:
    """A file open for reading, with the number of bytes read so far. ``size`` is None if unknown."""

    name: str
    stream: BinaryIO
    size: int | None
    done: Callable[[], int]


@contextmanager
def reading_from(name: str) -> Iterator[FileSource]:
    """Open a file, or standard input. A file whose name ends in ``.gz`` is decompressed."""
    if name == STANDARD:
        yield FileSource("standard input", sys.stdin.buffer, None, lambda: 0)
        return
    with open(name, "rb") as raw:
        status = os.fstat(raw.fileno())
        size = status.st_size if stat.S_ISREG(status.st_mode) else None
        if name.endswith(".gz"):
            with gzip.GzipFile(fileobj=raw, mode="rb") as unpacked:
                yield FileSource(name, cast(BinaryIO, io.BufferedReader(unpacked)), size, raw.tell)
        else:
            yield FileSource(name, raw, size, raw.tell if size is not None else lambda: 0)


@contextmanager
def writing_to(name: str) -> Iterator[BinaryIO]:
    """Open a file for writing. It is replaced atomically at the end, and left unchanged on an error.

    Standard output, and files that are not regular, are written directly. A file whose name ends in ``.gz`` is
    compressed.
    """
    if name == STANDARD:
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(os.path.realpath(name))
    if path.exists() and not path.is_file():
        if path.is_dir():
            raise UsageError(f"{name} is a directory; give a file name")
        with open(path, "wb") as stream:
            yield stream
        return
    with _replacing(path) as stream:
        if name.endswith(".gz"):
            with gzip.GzipFile(filename="", fileobj=stream, mode="wb", mtime=0) as packed:
                yield cast(BinaryIO, packed)
        else:
            yield stream


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    beside = path.with_name(f".{path.name[:200]}.{secrets.token_hex(6)}.tmp")
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666 if mode is None else mode)
    try:
        with open(descriptor, "wb", buffering=1 << 20) as stream:
            if mode is not None:
                os.fchmod(descriptor, mode)
            yield stream
            stream.flush()
            os.fsync(descriptor)
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
