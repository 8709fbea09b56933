"""Infers the column types of a collection from its documents.

A *shape* records what has been seen at one path. Merging shapes is associative and, apart from the order of fields,
commutative. The type is derived from the final shape:

==============================  ==============================================================================
seen at the path                type of the column
==============================  ==============================================================================
only null                       null
booleans                        bool
integers                        int64; beyond it decimal128(38, 0)
floats, with other numbers      double; integers beyond 2**53 and Decimals are rounded
Decimals, with integers         decimal128(38, s), where s is the largest number of decimal places
numbers of more than 38 digits  JSON text
or that share no decimal type
strings, UUIDs                  string; a UUID is its 36 characters
bytes                           binary
datetimes                       timestamp[us, tz=UTC]; naive datetimes are taken as UTC
objects                         struct of the fields seen; JSON text if there are none or more than 1,000
arrays                          list of the common type of all elements
values of several kinds         JSON text
==============================  ==============================================================================

Null and missing values are compatible with every type. A column of JSON text has type string and the field metadata
``lowtide: json``. Fields are in the order in which they were first seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import pyarrow as pa

from lowtide.values.values import Document

JSON: Final = {b"lowtide": b"json"}
"""The metadata of a field whose strings are JSON text."""
MAX_FIELDS: Final = 1000
"""An object with more distinct fields than this, over all documents, uses names as data and becomes JSON text."""
MAX_DIGITS: Final = 38
BEYOND: Final = 10**MAX_DIGITS
TIMESTAMP: Final = pa.timestamp("us", "UTC")

_BOOLEAN, _INTEGER, _WIDE, _FLOAT, _DECIMAL, _BEYOND = 1, 2, 4, 8, 16, 32
_STRING, _BINARY, _DATE, _OBJECT, _ARRAY, _CROWDED = 64, 128, 256, 512, 1024, 2048
_NUMBER = _INTEGER | _WIDE | _FLOAT | _DECIMAL | _BEYOND
_FAMILIES: Final = (_BOOLEAN, _NUMBER, _STRING, _BINARY, _DATE, _OBJECT | _CROWDED, _ARRAY)


class Shape:
    """What has been seen at one path of the documents.

    ``fields`` are the shapes of an object's fields, ``elements`` is the shape of all array elements. ``largest`` is the
    largest magnitude of an integer. ``digits`` and ``scale`` are the most digits of a Decimal before and after the
    point.
    """

    __slots__ = ("digits", "elements", "fields", "largest", "scale", "seen")

    def __init__(self) -> None:
        self.seen = 0
        self.largest = self.digits = self.scale = 0
        self.fields: dict[str, Shape] = {}
        self.elements: Shape | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shape) and self._parts() == other._parts()

    __hash__ = None  # type: ignore[assignment]  # it grows

    def _parts(self) -> tuple[Any, ...]:
        return self.seen, self.largest, self.digits, self.scale, self.fields, self.elements

    def add(self, value: Any) -> None:
        """Add one value."""
        kind = type(value)
        if kind is str or kind is UUID:
            self.seen |= _STRING
        elif kind is int:
            self._add_integer(value)
        elif kind is float:
            self.seen |= _FLOAT
        elif kind is dict:
            self.seen |= _OBJECT
            self._add_fields(value)
        elif kind is list:
            self.seen |= _ARRAY
            if self.elements is None:
                self.elements = Shape()
            for each in value:
                self.elements.add(each)
        elif kind is Decimal:
            self._add_decimal(value)
        elif value is not None:
            self.seen |= _OTHER[kind]

    def _add_integer(self, value: int) -> None:
        self.seen |= _INTEGER
        if not -0x8000000000000000 <= value < 0x8000000000000000:
            self.seen |= _WIDE
        self._enlarge(abs(value))

    def _enlarge(self, size: int) -> None:
        if size >= BEYOND:
            self.seen |= _BEYOND
        elif size > self.largest:
            self.largest = size

    def _add_decimal(self, value: Decimal) -> None:
        self.seen |= _DECIMAL
        if not value.is_finite():
            self.seen |= _BEYOND
        elif value:
            exponent = value.as_tuple().exponent
            assert isinstance(exponent, int)
            if value.adjusted() >= MAX_DIGITS:
                self.seen |= _BEYOND
            self.digits = max(self.digits, value.adjusted() + 1)
            self.scale = max(self.scale, -exponent)

    def _add_fields(self, document: Document) -> None:
        if self.seen & _CROWDED:
            return
        fields = self.fields
        for name, value in document.items():
            shape = fields.get(name)
            if shape is None:
                shape = fields[name] = Shape()
            shape.add(value)
        self._limit()

    def _limit(self) -> None:
        if len(self.fields) > MAX_FIELDS:
            self.seen |= _CROWDED
            self.fields = {}

    def absorb(self, other: Shape) -> None:
        """Add everything that ``other`` has seen."""
        self.seen |= other.seen
        self.largest = max(self.largest, other.largest)
        self.digits = max(self.digits, other.digits)
        self.scale = max(self.scale, other.scale)
        if self.seen & _CROWDED:
            self.fields = {}
        else:
            for name, shape in other.fields.items():
                self.fields.setdefault(name, Shape()).absorb(shape)
            self._limit()
        if other.elements is not None:
            if self.elements is None:
                self.elements = Shape()
            self.elements.absorb(other.elements)


_OTHER: Final = {bool: _BOOLEAN, bytes: _BINARY, datetime: _DATE}


def merge(first: Shape, second: Shape) -> Shape:
    """Return the union of both shapes; neither changes. Associative and, up to the order of fields, commutative."""
    merged = Shape()
    merged.absorb(first)
    merged.absorb(second)
    return merged


class Fields:
    """The shapes of the documents' top-level fields: all of them, or only ``columns``."""

    def __init__(self, columns: Sequence[str] | None = None) -> None:
        self.columns = None if columns is None else tuple(dict.fromkeys(columns))
        self.shapes: dict[str, Shape] = {name: Shape() for name in self.columns or ()}

    def add(self, documents: Iterable[Document]) -> None:
        """Add documents."""
        shapes = self.shapes
        for document in documents:
            for name, value in document.items():
                shape = shapes.get(name)
                if shape is None:
                    if self.columns is not None:
                        continue
                    shape = shapes[name] = Shape()
                shape.add(value)

    def shape(self) -> Shape:
        """Return one object shape that shares these shapes as its fields."""
        whole = Shape()
        whole.fields = self.shapes
        return whole

    def schema(self, *, unknown: pa.DataType | None = None) -> pa.Schema:
        """Return the schema that covers everything seen. Columns with only nulls get the type ``unknown``."""
        return pa.schema([field_of(name, shape, unknown or pa.null()) for name, shape in self.shapes.items()])


def infer_schema(documents: Iterable[Document], columns: Sequence[str] | None = None) -> pa.Schema:
    """Return the schema inferred from these documents.

    >>> infer_schema([{"_id": 1, "size": 2}, {"_id": 2, "size": 2.5}]).field("size").type
    DataType(double)
    """
    fields = Fields(columns)
    fields.add(documents)
    return fields.schema()


def field_of(name: str, shape: Shape, unknown: pa.DataType) -> pa.Field:
    """Return the Arrow field for a shape."""
    found = type_of(shape, unknown)
    return pa.field(name, pa.string(), metadata=JSON) if found is None else pa.field(name, found)


def type_of(shape: Shape, unknown: pa.DataType) -> pa.DataType | None:
    """Return the type for a shape, or None if only JSON text can hold it."""
    families = [family for family in _FAMILIES if shape.seen & family]
    if not families:
        return unknown
    if len(families) > 1 or shape.seen & (_CROWDED | _BEYOND):
        return None
    if shape.seen & _NUMBER:
        return _number(shape)
    if shape.elements is not None:
        return pa.list_(field_of("item", shape.elements, unknown))
    if shape.seen & _OBJECT:
        fields = [field_of(name, each, unknown) for name, each in shape.fields.items()]
        return pa.struct(fields) if fields else None
    return _SIMPLE[shape.seen]


_SIMPLE: Final = {_BOOLEAN: pa.bool_(), _STRING: pa.string(), _BINARY: pa.binary(), _DATE: TIMESTAMP}


def _number(shape: Shape) -> pa.DataType | None:
    if shape.seen & _FLOAT:
        return pa.float64()
    if not shape.seen & (_DECIMAL | _WIDE):
        return pa.int64()
    before = max(shape.digits, len(str(shape.largest)) if shape.largest else 0)
    return pa.decimal128(MAX_DIGITS, shape.scale) if before + shape.scale <= MAX_DIGITS else None


def is_json(field: pa.Field) -> bool:
    """Return whether the field's strings are JSON text."""
    return pa.types.is_string(field.type) and (field.metadata or {}).get(b"lowtide") == b"json"
