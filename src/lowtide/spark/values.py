"""Converts an Arrow array to a list of values that MessagePack can encode. See ``encoding``."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lowtide.columnar.inference import is_json
from lowtide.errors import InvalidDocument, UsageError, shown
from lowtide.spark.moments import EPOCH, encoded_moments
from lowtide.system.messages import UNDECODABLE
from lowtide.values.codec import encodable
from lowtide.values.extended import NotExtended, loads

Convert = Callable[[Any], list[Any]]
"""Converts an Arrow array to a list of values that MessagePack can encode. None is null."""


class ColumnMisfit(Exception):
    """Raised for a value that cannot be stored, with its row and path."""

    def __init__(self, row: int, path: str, reason: str) -> None:
        super().__init__(reason)
        self.row = row
        self.path = path
        self.reason = reason


def is_list(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def is_binary(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind))


def check_name(name: str, path: str) -> None:
    if name.startswith("$"):
        raise UsageError(f"column {path!r}: the name of a field may not begin with $, which marks operators")


def convert_of(field: pa.Field, ignore_nulls: bool, path: str = "") -> Convert:
    """Return the converter for a column."""
    kind, types = field.type, pa.types
    path = f"{path}.{field.name}" if path else field.name
    if is_json(field):
        return _json
    if types.is_floating(kind):
        return _floats
    if types.is_timestamp(kind):
        return _moments if kind.tz is not None else _naive
    if types.is_date(kind):
        return _dates
    if types.is_decimal(kind):
        return lambda array: _each(array, encodable)
    if types.is_struct(kind):
        return _struct(kind, ignore_nulls, path)
    if types.is_map(kind):
        if not (types.is_string(kind.key_type) or types.is_large_string(kind.key_type)):
            raise UsageError(f"column {path!r}: a map becomes an object, so its keys are strings, not {kind.key_type}")
        return _map(convert_of(kind.item_field, ignore_nulls, path))
    if is_list(kind):
        return _list(convert_of(kind.value_field, ignore_nulls, path))
    if (
        types.is_integer(kind)
        or types.is_boolean(kind)
        or types.is_null(kind)
        or types.is_string(kind)
        or types.is_large_string(kind)
        or is_binary(kind)
    ):
        return plain_values
    raise UsageError(f"column {path!r}: a document has no values of the type {kind}; cast it, for example to string")


def plain_values(array: pa.Array) -> list[Any]:
    found: list[Any] = array.to_pylist()
    return found


def _each(array: pa.Array, convert: Callable[[Any], Any]) -> list[Any]:
    return [None if value is None else convert(value) for value in array.to_pylist()]


def _floats(array: pa.Array) -> list[Any]:
    found: list[Any] = array.to_pylist()
    if pc.any(pc.is_nan(array)).as_py():
        return [value if value == value else None for value in found]
    return found


def _micros(array: pa.Array) -> list[int | None]:
    found: list[int | None] = array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64()).to_pylist()
    return found


def _moments(array: pa.Array) -> list[Any]:
    micros = array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64()).fill_null(0)
    try:
        found = encoded_moments(micros.to_numpy())
    except OverflowError:
        raise _out_of_range(_micros(array)) from None
    return found if not array.null_count else _masked(found, array)


def _naive(array: pa.Array) -> list[Any]:
    epoch, values = EPOCH.replace(tzinfo=None), _micros(array)
    try:
        return [None if value is None else encodable(epoch + timedelta(0, 0, value)) for value in values]
    except OverflowError:
        raise _out_of_range(values) from None


def _out_of_range(values: list[int | None]) -> ColumnMisfit:
    for row, value in enumerate(values):
        try:
            EPOCH + timedelta(microseconds=value or 0)
        except OverflowError:
            return ColumnMisfit(row, "", f"a time is in the years 1 to 9999, not {value} microseconds from 1970")
    raise AssertionError("all values are in range")


def _dates(array: pa.Array) -> list[Any]:
    days: list[int | None] = array.cast(pa.date32()).cast(pa.int32()).to_pylist()
    epoch, found = EPOCH.replace(tzinfo=None), []
    for row, value in enumerate(days):
        try:
            found.append(None if value is None else encodable(epoch + timedelta(value)))
        except OverflowError:
            raise ColumnMisfit(row, "", f"a date is in the years 1 to 9999, not {value} days from 1970") from None
    return found


def json_values(array: pa.Array) -> list[Any]:
    """Parse JSON texts."""
    found = []
    for row, text in enumerate(array.to_pylist()):
        try:
            value = None if text is None else loads(text)
        except (NotExtended, *UNDECODABLE) as error:
            raise ColumnMisfit(row, "", f"it must be JSON, but is {shown(text)}: {error}") from error
        found.append(value)
    return found


def _json(array: pa.Array) -> list[Any]:
    found = json_values(array)
    for row, value in enumerate(found):
        if value is not None:
            try:
                found[row] = encodable(value)
            except InvalidDocument as error:
                raise ColumnMisfit(row, error.path, str(error).partition(": ")[2]) from error
    return found


def _struct(kind: pa.StructType, ignore_nulls: bool, path: str) -> Convert:
    names = [field.name for field in kind]
    if len(set(names)) != len(names):
        name = next(each for each in names if names.count(each) > 1)
        raise UsageError(f"column {path!r}: two fields have the name {name!r}; rename one")
    for name in names:
        check_name(name, f"{path}.{name}")
    converts = [convert_of(field, ignore_nulls, path) for field in kind]
    make = _inner_maker(names, ignore_nulls)

    def convert(array: pa.Array) -> list[Any]:
        columns = []
        for part, name, inner in zip(array.flatten(), names, converts, strict=True):  # null where the struct is
            try:
                columns.append(inner(part))
            except ColumnMisfit as misfit:
                raise ColumnMisfit(
                    misfit.row, f"{name}.{misfit.path}" if misfit.path else name, misfit.reason
                ) from misfit
        rows = make(columns, len(array))
        return rows if not array.null_count else _masked(rows, array)

    return convert


def _inner_maker(names: list[str], ignore_nulls: bool) -> Callable[[list[list[Any]], int], list[Any]]:
    def make(columns: list[list[Any]], count: int) -> list[Any]:
        rows = zip(*columns, strict=True) if columns else (() for _ in range(count))
        if ignore_nulls:
            return [{name: each for name, each in zip(names, row, strict=True) if each is not None} for row in rows]
        return [dict(zip(names, row, strict=True)) for row in rows]

    return make


def _masked(rows: list[Any], array: pa.Array) -> list[Any]:
    return [row if valid else None for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)]


def _runs(array: pa.Array, flat: Callable[[int, int], Any]) -> list[Any]:
    """Apply ``flat`` to each row's slice of the values. None is null."""
    offsets = array.offsets.to_pylist()
    start = offsets[0] if offsets else 0
    found = [flat(low - start, high - start) for low, high in pairwise(offsets)]
    return found if not array.null_count else _masked(found, array)


def _stretch(array: pa.Array, values: pa.Array) -> pa.Array:
    """Return the values that the rows of an array refer to."""
    offsets = array.offsets
    start, end = (offsets[0].as_py(), offsets[-1].as_py()) if len(offsets) else (0, 0)
    return values.slice(start, end - start)


def _list(inner: Convert) -> Convert:
    def convert(array: pa.Array) -> list[Any]:
        if pa.types.is_fixed_size_list(array.type):
            array = array.cast(pa.list_(array.type.value_field))
        try:
            flat = inner(_stretch(array, array.values))
        except ColumnMisfit as misfit:
            raise _moved(array, misfit) from misfit
        return _runs(array, lambda low, high: flat[low:high])

    return convert


def _map(inner: Convert) -> Convert:
    def convert(array: pa.Array) -> list[Any]:
        names = plain_values(_stretch(array, array.keys))
        try:
            values = inner(_stretch(array, array.items))
        except ColumnMisfit as misfit:
            raise _moved(array, misfit, names) from misfit
        return _runs(array, lambda low, high: dict(zip(names[low:high], values[low:high], strict=True)))

    return convert


def _moved(array: pa.Array, misfit: ColumnMisfit, names: list[str] | None = None) -> ColumnMisfit:
    """Convert the misfit of an element to one of its row."""
    offsets = array.offsets.to_pylist()
    at = misfit.row + offsets[0]
    row = next(row for row, high in enumerate(offsets[1:]) if at < high)
    place = str(at - offsets[row]) if names is None else names[misfit.row]
    return ColumnMisfit(row, f"{place}.{misfit.path}" if misfit.path else place, misfit.reason)
