"""Exports a pinned snapshot as Parquet, for machines that cannot read the store's disk.

    DEST/part-00000.parquet ...       the documents, in key order
    DEST/_lowtide_manifest.json       store, collection, commit, schema; each file's rows, bytes and SHA-256

The manifest is written last: a directory without one is not an export. Spark's own readers skip files with its name.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet
from pyspark.sql.types import StructType

from lowtide.columnar.columns import Mode
from lowtide.errors import CorruptionError, UsageError
from lowtide.sharing.pins.pin import Pin
from lowtide.spark.inference import schema_at
from lowtide.spark.load_pin import taken
from lowtide.spark.location import StoreLocation
from lowtide.spark.options import SparkOptions
from lowtide.spark.reading import given_options
from lowtide.spark.schemas import arrow_schema
from lowtide.spark.snapshot import SnapshotReader
from lowtide.system.clock import SYSTEM_CLOCK, moment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MANIFEST: Final = "_lowtide_manifest.json"
FORMAT: Final = 1
ROWS: Final = 1_000_000
"""Rows of one file."""


class File(msgspec.Struct, frozen=True):
    """One file of an export."""

    name: str
    rows: int
    bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True):
    """The manifest of an export. ``schema`` is Spark's JSON; ``time`` is when the snapshot was pinned."""

    format: int
    store: str
    path: str
    host: str
    collection: str
    commit: int
    time: str
    schema: dict[str, Any]
    rows: int
    files: tuple[File, ...]


@dataclass(frozen=True)
class _Target:
    """A directory on any file system that pyarrow supports."""

    files: pa.fs.FileSystem
    root: str

    @classmethod
    def at(cls, dest: str | os.PathLike[str]) -> _Target:
        text = os.fspath(dest)
        if "://" not in text:
            return cls(pa.fs.LocalFileSystem(), os.path.abspath(text))
        try:
            return cls(*pa.fs.FileSystem.from_uri(text))
        except (pa.ArrowInvalid, OSError) as error:
            raise UsageError(f"cannot reach {text}: {error}; give a directory, or a URI that pyarrow knows") from error

    def path(self, name: str) -> str:
        return str(PurePosixPath(self.root, name))

    def write(self, name: str, data: bytes) -> None:
        """Write a small file atomically."""
        with self.files.open_output_stream(self.path(f"{name}.tmp")) as stream:
            stream.write(data)
        self.files.move(self.path(f"{name}.tmp"), self.path(name))

    def exists(self, name: str) -> bool:
        return bool(self.files.get_file_info(self.path(name)).type != pa.fs.FileType.NotFound)


def export(
    path: str | os.PathLike[str],
    collection: str,
    dest: str | os.PathLike[str],
    *,
    as_of: int | str | datetime | Pin | None = None,
    columns: Sequence[str] | None = None,
    filter: Mapping[str, Any] | str | None = None,
    schema: StructType | None = None,
    rows_per_file: int = ROWS,
    progress: Callable[[int], None] | None = None,
) -> Manifest:
    """Write a snapshot of a collection to ``dest`` as Parquet with a manifest. Read it back with ``read_export``.

    Runs in this process, on the store's machine, without Spark executors. The store's owner is not blocked.
    ``progress`` is called with the number of rows so far.
    """
    if rows_per_file < 1:
        raise UsageError(f"rows_per_file must be at least 1, not {rows_per_file!r}")
    if not isinstance(schema, StructType | None):
        raise UsageError(f"schema must be a StructType, not {schema!r}")
    target = _Target.at(dest)
    if target.files.get_file_info(pa.fs.FileSelector(target.root, allow_not_found=True)):
        raise UsageError(f"{dest} is not empty; export to a new or empty directory")
    options = SparkOptions(given_options(path, collection, as_of=as_of, columns=columns, filter=filter))
    location = StoreLocation.here(options.path)
    with taken(options) as pin:
        pinned = moment(SYSTEM_CLOCK.time())
        found = schema if schema is not None else schema_at(options, location, pin)
        reader = SnapshotReader(options, found, location, pin, Mode.FAILFAST)
        target.files.create_dir(target.root, recursive=True)
        batches = (batch for part in reader.partitions() for batch in reader.read(part))
        written = tuple(_files(target, batches, arrow_schema(found), rows_per_file, progress))
    manifest = Manifest(
        format=FORMAT,
        store=location.store_id.hex(),
        path=location.path,
        host=location.host,
        collection=collection,
        commit=pin.ts,
        time=pinned.isoformat(timespec="seconds"),
        schema=msgspec.json.decode(found.json()),
        rows=sum(each.rows for each in written),
        files=written,
    )
    target.write(MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))
    return manifest


def _files(
    target: _Target,
    batches: Iterator[pa.RecordBatch],
    schema: pa.Schema,
    most: int,
    progress: Callable[[int], None] | None,
) -> Iterator[File]:
    """Write the batches to files of about ``most`` rows each. Without rows, write one empty file."""
    total, number = 0, 0
    batch = next(batches, None)
    while batch is not None or not number:
        name = f"part-{number:05}.parquet"
        hashed = _Hashed(target.files.open_output_stream(target.path(name)))
        rows = 0
        with hashed, pa.parquet.ParquetWriter(hashed, schema, compression="zstd") as writer:
            while batch is not None and rows < most:
                writer.write_batch(batch.cast(schema))
                rows += batch.num_rows
                total += batch.num_rows
                if progress is not None:
                    progress(total)
                batch = next(batches, None)
        yield File(name, rows, hashed.size, hashed.sha256)
        number += 1


class _Hashed:
    """A stream that tracks the number of bytes written and their SHA-256."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._hash = hashlib.sha256()
        self.size = 0
        self.closed = False

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def write(self, data: Any) -> int:
        self._stream.write(data)
        self._hash.update(data)
        self.size += memoryview(data).nbytes
        return memoryview(data).nbytes

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._stream.close()

    def __enter__(self) -> _Hashed:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_manifest(source: str | os.PathLike[str]) -> Manifest:
    """Read the manifest of an export."""
    target = _Target.at(source)
    if not target.exists(MANIFEST):
        raise UsageError(f"{source} is not a complete export of lowtide.spark.export: {MANIFEST} is missing")
    try:
        with target.files.open_input_stream(target.path(MANIFEST)) as stream:
            manifest = msgspec.json.decode(stream.read(), type=Manifest)
    except msgspec.MsgspecError as error:
        raise CorruptionError(Path(target.path(MANIFEST)), f"cannot be understood: {error}") from error
    if manifest.format != FORMAT:
        raise UsageError(f"{source} is an export of format {manifest.format}; this release reads {FORMAT}")
    return manifest


def read_export(spark: SparkSession, source: str | os.PathLike[str]) -> DataFrame:
    """Read an export as a DataFrame, on any machine that can reach its files.

    Raises an error if a file is missing or has the wrong size.
    """
    manifest, target = read_manifest(source), _Target.at(source)
    paths = [target.path(each.name) for each in manifest.files]
    for each, info in zip(manifest.files, target.files.get_file_info(paths), strict=True):
        if info.type == pa.fs.FileType.NotFound or info.size != each.bytes:
            raise CorruptionError(Path(info.path), f"is not the file of {each.bytes} bytes that the manifest names")
    text = os.fspath(source)
    root = text if "://" in text else f"file://{os.path.abspath(text)}"
    exact = re.sub(r"([\\\[\]{}*?])", r"\\\1", root)  # Spark would treat these as glob patterns
    schema = StructType.fromJson(manifest.schema)
    return spark.read.schema(schema).parquet(*(f"{exact}/{each.name}" for each in manifest.files))
