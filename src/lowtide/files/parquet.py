"""Parquet: one document to a row, by pyarrow.

A null is a field that is missing, in the row and in objects in it: columns know no difference. Dates without a time are
read as midnight, and maps as objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, datetime
from typing import Any, BinaryIO, Final
from uuid import UUID

from lowtide.documents.values import Document
from lowtide.errors import UsageError
from lowtide.files.batches import Batch
from lowtide.files.problems import BadFile

try:
    import pyarrow
    import pyarrow.parquet
except ImportError:  # an extra
    pyarrow = None

_BATCH: Final = 2000

Restore = Callable[[Any], Any]


def need_pyarrow() -> None:
    """Raise if there is no pyarrow."""
    if pyarrow is None:
        raise UsageError("Parquet needs one more package; install it with: pip install 'lowtide[arrow]'")


def read_parquet(stream: BinaryIO, name: str) -> Iterator[Batch]:
    """The documents of a file, which must be one that can be searched, not a pipe. Raises BadFile, with the field."""
    need_pyarrow()
    try:
        file = pyarrow.parquet.ParquetFile(stream)
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise BadFile(name, "", "", f"it is no Parquet that can be read: {_first_line(error)}") from error
    restores = [(field.name, _restore_of(field.type, field.name, name)) for field in file.schema_arrow]
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
    """The values of a column in Python's words; nanoseconds, which Python has no word for, only if they are zero."""
    if pyarrow.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = column.cast(pyarrow.timestamp("us", column.type.tz))
    found: list[Any] = column.to_pylist()
    return found


def _restore_of(kind: Any, field: str, name: str) -> Restore | None:
    """How the values of a type become values of a document; None if they are so already."""
    types = pyarrow.types
    if types.is_dictionary(kind):
        return _restore_of(kind.value_type, field, name)
    if getattr(kind, "extension_name", "") == "arrow.uuid":
        return lambda value: value if value is None or isinstance(value, UUID) else UUID(bytes=bytes(value))
    if types.is_date(kind):
        return _midnight
    if types.is_struct(kind):
        inner = [(each.name, _restore_of(each.type, f"{field}.{each.name}", name)) for each in kind]
        return lambda value: None if value is None else _object(value, inner)
    if types.is_map(kind):
        restore = _restore_of(kind.item_type, f"{field}.*", name) or _same
        return lambda value: None if value is None else {str(key): restore(each) for key, each in value}
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        restore = _restore_of(kind.value_type, f"{field}.*", name) or _same
        return lambda value: None if value is None else [restore(each) for each in value]
    if types.is_time(kind) or types.is_duration(kind) or types.is_interval(kind):
        raise BadFile(name, "", field, f"a document has no values of the type {kind}; convert the column to text first")
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
