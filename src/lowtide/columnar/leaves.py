"""Columns of scalar values: the supported Arrow types, which values fit them, and how they are built.

A leaf starts *tight*: while it has seen only MessagePack's native types, msgspec decodes values directly to what Arrow
accepts. After any other value, and for types that MessagePack lacks, the leaf is *loose*: it receives the stored bytes,
converts them in bulk where ``vectors`` can, and otherwise decodes and fits them one at a time.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import datetime
from decimal import Context, Decimal, Inexact, InvalidOperation
from types import GenericAlias
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import ValidationError

from lowtide.columnar.inference import BEYOND, Shape, is_json
from lowtide.columnar.text import json_text
from lowtide.columnar.vectors import NIL, Stored, column_of, microseconds, uuid_texts
from lowtide.errors import UsageError
from lowtide.values.codec import decode_document
from lowtide.values.values import microseconds as microseconds_of

MISFIT: Final = object()
"""Returned by a fitting function for a value that the column cannot hold."""

_DAY: Final = 86_400_000_000
_UNITS: Final = {"s": (1, 1_000_000), "ms": (1, 1000), "us": (1, 1), "ns": (1000, 1)}
_header: Final = struct.Struct(">BI").pack

decode: Final[Callable[[Any], Any]] = decode_document
"""Decodes any stored value to its Python type."""


class Misfit(NamedTuple):
    """A value that a column cannot hold: its row, its path inside the row, and the column's type."""

    row: int
    path: tuple[str | int, ...]
    value: Any
    type: pa.DataType

    def inside(self, place: str | int, row: int) -> Misfit:
        """The same misfit in the parent column, which has this column at ``place``."""
        return Misfit(row, (place, *self.path), self.value, self.type)


class Leaf:
    """A column of scalar values. ``annotation`` is the type that msgspec decodes to while the leaf is tight.

    With the shape that the type was inferred from, only values that would not change the type fit.
    """

    def __init__(self, field: pa.Field, path: str, shape: Shape | None = None) -> None:
        self.type = field.type
        self.annotation, self._fit = _rule(field, path, shape)
        self.loose = self.annotation is None
        self._decode_tight = decoder_of(self.annotation)
        self._texts = pa.types.is_string(field.type) and not is_json(field)
        self._moments = pa.types.is_timestamp(field.type)

    def decoded(self, values: list[Any], misfits: list[Misfit]) -> pa.Array:
        """Build the column from values that msgspec has decoded to ``annotation``."""
        try:
            return pa.array(values, type=self.type)
        except (pa.ArrowInvalid, OverflowError):
            return self._fitted(values, misfits)

    def stored(self, values: list[Any], misfits: list[Misfit]) -> pa.Array:
        """Build the column from stored values."""
        if not self.loose:
            try:
                return self.decoded(self._decode_tight(joined(values)), misfits)
            except ValidationError:
                self.loose = True
        if self._moments:
            return self._timestamps(values, misfits)
        if self._texts and (found := uuid_texts(Stored.of(values))) is not None:
            return found
        return self._fitted([None if each is None else decode(each) for each in values], misfits)

    def _fitted(self, values: list[Any], misfits: list[Misfit]) -> pa.Array:
        fit = self._fit
        fitted: list[Any] = []
        for row, value in enumerate(values):
            new = None if value is None else fit(value)
            if new is MISFIT:
                misfits.append(Misfit(row, (), value, self.type))
                new = None
            fitted.append(new)
        return pa.array(fitted, type=self.type)

    def _timestamps(self, values: list[Any], misfits: list[Misfit]) -> pa.Array:
        array, odd = timestamps(Stored.of(values), self.type)
        misfits.extend(Misfit(row, (), decode(values[row]), self.type) for row in odd)
        return array


def timestamps(stored: Stored, found: pa.DataType) -> tuple[pa.Array, list[int]]:
    """Build the column from stored datetimes. Also returns the rows of values that do not fit; they are null."""
    moments, known = microseconds(stored)
    factor, divisor = _UNITS[found.unit]
    if divisor != 1:
        known &= moments % divisor == 0
        moments //= divisor
    elif factor != 1:
        known &= np.abs(moments) < (1 << 63) // factor
        moments *= factor
    if known.all():
        return column_of(moments).cast(found), []
    odd = np.flatnonzero(~(known | stored.nulls())).tolist()
    return column_of(moments, ~known).cast(found), odd


def decoder_of(annotation: Any) -> Callable[[bytes], list[Any]]:
    """Return a decoder for MessagePack arrays of this type."""
    return msgspec.msgpack.Decoder(list_of(annotation)).decode


def list_of(annotation: Any) -> Any:
    """Return the annotation for a list of this type."""
    return GenericAlias(list, (annotation,))


def joined(values: list[Any]) -> bytes:
    """Join stored values into one MessagePack array. None becomes null."""
    header = _header(0xDD, len(values))
    try:
        return b"".join([header, *values])
    except TypeError:
        return b"".join([header, *[NIL if each is None else each for each in values]])


def is_nil(value: Any) -> bool:
    """Return whether the value is missing or a stored null."""
    return value is None or (len(value) == 1 and bytes(value) == NIL)


Rule = tuple[Any, Callable[[Any], Any]]


def _rule(field: pa.Field, path: str, shape: Shape | None) -> Rule:
    """Return a leaf's annotation (None if it is never tight) and its fitting function for values that are not null."""
    types, found = pa.types, field.type
    if is_json(field):
        return None, json_text if shape is None else _seen_text(shape)
    if types.is_string(found) or types.is_large_string(found):
        return str | None, _text
    if types.is_integer(found):
        return int | None, _integer_rule(found)
    if types.is_float64(found) or types.is_float32(found):
        return float | None, _float
    if types.is_boolean(found):
        return bool | None, lambda value: value if type(value) is bool else MISFIT
    if types.is_binary(found) or types.is_large_binary(found):
        return bytes | None, lambda value: value if type(value) is bytes else MISFIT
    if types.is_decimal128(found) or types.is_decimal256(found):
        return None, _decimal_rule(found.precision, found.scale, strict=shape is not None)
    if types.is_timestamp(found):
        return None, lambda value: MISFIT  # never called: timestamps are converted in bulk
    if types.is_date32(found):
        return None, _day
    if types.is_null(found):
        return type(None), lambda value: MISFIT
    raise UsageError(
        f"column {path!r} cannot be of type {found}; use bool, int8 to int64, float, double, decimal128, string, "
        "binary, timestamp, date32, or a struct, list or map of these"
    )


def _seen_text(shape: Shape) -> Callable[[Any], str]:
    """Accept every value as JSON text, and add it to the shape, which may lead to another type in the end."""

    def fit(value: Any) -> str:
        shape.add(value)
        return json_text(value)

    return fit


def _text(value: Any) -> Any:
    if type(value) is str:
        return value
    return str(value) if type(value) is UUID else MISFIT


def _integer_rule(found: pa.DataType) -> Callable[[Any], Any]:
    signed = pa.types.is_signed_integer(found)
    low = -(1 << found.bit_width - 1) if signed else 0
    high = (1 << found.bit_width - signed) - 1
    return lambda value: value if type(value) is int and low <= value <= high else MISFIT


def _float(value: Any) -> Any:
    kind = type(value)
    if kind is int or (kind is Decimal and value.is_finite()):
        return float(value) if -BEYOND < value < BEYOND else MISFIT
    return value if kind is float else MISFIT


def _decimal_rule(precision: int, scale: int, *, strict: bool) -> Callable[[Any], Any]:
    unit, zero = Decimal((0, (1,), -scale)), Decimal((0, (0,), -scale))
    exact = Context(prec=precision, traps=[Inexact, InvalidOperation], Emax=999_999, Emin=-999_999)

    def fit(value: Any) -> Any:
        kind = type(value)
        if kind is int and -BEYOND * BEYOND < value < BEYOND * BEYOND:
            value = Decimal(value)
        elif kind is not Decimal or not value.is_finite() or (strict and value and _behind(value) > scale):
            return MISFIT
        try:
            return value.quantize(unit, context=exact) if value else zero
        except (Inexact, InvalidOperation):
            return MISFIT

    return fit


def _behind(value: Decimal) -> int:
    """Return the number of decimal places, as written."""
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    return -exponent


def _day(value: Any) -> Any:
    if type(value) is not datetime:
        return MISFIT
    days, rest = divmod(microseconds_of(value), _DAY)
    return days if rest == 0 else MISFIT
