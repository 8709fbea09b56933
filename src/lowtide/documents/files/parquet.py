"""Parquet files, by pyarrow, with one document per row.

A null is read as a missing field, even in nested objects, because columns do not distinguish the two. Dates without a
time are read as midnight, and maps as objects. Each column has one type, as inferred by ``columnar/inference.py``.
Values without a common type are written as JSON text and decoded when read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime
from typing import Any, BinaryIO, Final
from uuid import UUID

from lowtide.documents.files.batches import Batch
from lowtide.documents.files.problems import BadFile
from lowtide.system.extras import require
from lowtide.values.codec import encode_document
from lowtide.values.extended import loads
from lowtide.values.values import Document

_BATCH: Final = 2000
_GROUP: Final = 50_000
_GROUP_BYTES: Final = 64 << 20
"""Maximum number of documents in a row group, and of their bytes."""

Restore = Callable[[Any], Any]


def _pyarrow() -> Any:
    require("pyarrow.parquet", "arrow", "Parquet")
    return require("pyarrow", "arrow", "Parquet")


def write_parquet(stream: BinaryIO, documents: Callable[[], Iterable[Document]]) -> int:
    """Write one document per row, with columns that fit every value. Returns the number of documents.

    The documents are read at least twice: the first pass infers the types.
    """
    pyarrow = _pyarrow()
    from lowtide.columnar.table import reader  # imported late: needs pyarrow

    rows = reader(lambda: _stored(documents()))
    count = 0
    with pyarrow.parquet.ParquetWriter(stream, rows.schema, compression="zstd") as writer:
        for batch in rows:
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def _stored(documents: Iterable[Document]) -> Iterator[list[bytes]]:
    """Yield the encoded documents in batches."""
    batch: list[bytes] = []
    size = 0
    for document in documents:
        batch.append(encode_document(document))
        size += len(batch[-1])
        if len(batch) == _GROUP or size > _GROUP_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def read_parquet(stream: BinaryIO, name: str) -> Iterator[Batch]:
    """Yield the documents of a file, which must be seekable. Raises BadFile, with the field."""
    pyarrow = _pyarrow()
    try:
        file = pyarrow.parquet.ParquetFile(stream)
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise BadFile(name, "", "", f"not a readable Parquet file: {_first_line(error)}") from error
    restores = [(field.name, _restore_of(field, field.name, name)) for field in file.schema_arrow]
    number = 1
    try:
        for part in file.iter_batches(batch_size=_BATCH):
            columns = [
                (title, [restore(each) for each in _plain(column)] if restore else _plain(column))
                for (title, restore), column in zip(restores, part.columns, strict=True)
            ]
            documents: list[Document] = [{} for _ in range(part.num_rows)]
            for title, values in columns:
                for document, value in zip(documents, values, strict=True):
                    if value is not None:
                        document[title] = value
            yield Batch(documents, range(number, number + len(documents)), "row")
            number += len(documents)
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise BadFile(name, f"after row {number - 1}", "", _first_line(error)) from error


def _plain(column: Any) -> list[Any]:
    """Return the values of a column as Python objects. Nanoseconds must be zero, because Python has none."""
    pyarrow = _pyarrow()
    if pyarrow.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = column.cast(pyarrow.timestamp("us", column.type.tz))
    found: list[Any] = column.to_pylist()
    return found


def _restore_of(column: Any, field: str, name: str) -> Restore | None:
    """Return the conversion of a column's values to document values; None if none is needed."""
    types = _pyarrow().types
    kind = column.type
    if (column.metadata or {}).get(b"lowtide") == b"json":  # set by write_parquet for values of several types
        return lambda value: None if value is None else loads(value)
    if getattr(kind, "extension_name", "") == "arrow.uuid":
        return lambda value: value if value is None or isinstance(value, UUID) else UUID(bytes=bytes(value))
    if types.is_date(kind):
        return _midnight
    if types.is_struct(kind):
        inner = [(each.name, _restore_of(each, f"{field}.{each.name}", name)) for each in kind]
        return lambda value: None if value is None else _object(value, inner)
    if types.is_map(kind):
        restore = _restore_of(kind.item_field, f"{field}.*", name) or _same
        return lambda value: None if value is None else {str(key): restore(each) for key, each in value}
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        restore = _restore_of(kind.value_field, f"{field}.*", name) or _same
        return lambda value: None if value is None else [restore(each) for each in value]
    if types.is_time(kind) or types.is_duration(kind) or types.is_interval(kind):
        raise BadFile(
            name, "", field, f"the type {kind} is not supported in documents; convert the column to text first"
        )
    if types.is_floating(kind):
        return lambda value: None if value != value else value
    return None


def _same(value: Any) -> Any:
    return value


def _midnight(value: date | None) -> datetime | None:
    return None if value is None else datetime(value.year, value.month, value.day)


def _object(value: dict[str, Any], inner: list[tuple[str, Restore | None]]) -> dict[str, Any]:
    found = {}
    for title, restore in inner:
        each = value[title]
        if restore is not None:
            each = restore(each)
        if each is not None:
            found[title] = each
    return found


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
