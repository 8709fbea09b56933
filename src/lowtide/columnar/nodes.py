"""Columns of objects and arrays: trees of columns, decoded in one pass while every value has its declared type.

A node is tight or loose, as a leaf is. A tight node is decoded together with its parent. A loose node receives the
stored bytes of its values, sets aside those that are not objects or arrays, and decodes the rest itself. One value of
an unexpected type therefore does not slow down the others.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Protocol

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Raw, ValidationError

from lowtide.columnar.inference import Shape
from lowtide.columnar.leaves import Leaf, Misfit, decode, decoder_of, is_nil, joined, list_of
from lowtide.errors import UsageError


class Node(Protocol):
    """A column, or a part of one."""

    type: pa.DataType
    annotation: Any
    loose: bool

    def decoded(self, values: list[Any], misfits: list[Misfit]) -> pa.Array:
        """Build the column from values that were decoded to ``annotation``. Tight nodes only."""

    def stored(self, values: list[Any], misfits: list[Misfit]) -> pa.Array:
        """Build the column from stored values. None is null."""


def node(field: pa.Field, path: str, shape: Shape | None) -> Node:
    """Return the node for a field. With the shape that its type was inferred from, the node is strict: it refuses
    object fields that have no column."""
    found = field.type
    if pa.types.is_struct(found):
        return Object(found, path, shape)
    if pa.types.is_list(found) or pa.types.is_large_list(found):
        return Array(found, path, shape)
    if pa.types.is_map(found):
        return Map(found, path)
    return Leaf(field, path, shape)


def _set_aside(node: Node, values: list[Any], heads: range, wide: bytes, misfits: list[Misfit]) -> list[Any]:
    """Return the stored values with those of another kind removed and recorded as misfits."""
    kept: list[Any] = []
    for row, value in enumerate(values):
        if is_nil(value):
            kept.append(None)
        elif (first := memoryview(value)[0]) in heads or first in wide:
            kept.append(value)
        else:
            misfits.append(Misfit(row, (), decode(value), node.type))
            kept.append(None)
    return kept


class Object:
    """A column of objects: a struct with a node for each of the ``declared`` fields.

    A strict one refuses other fields. It is strict with a shape, unless ``every`` is false.
    """

    def __init__(self, found: Any, path: str, shape: Shape | None, *, every: bool = True) -> None:
        self.type = found
        self.loose = False
        self.declared: list[pa.Field] = list(found)
        self.nodes: list[Node] = [
            node(
                each,
                f"{path}.{each.name}" if path else each.name,
                shape and shape.fields[each.name],
            )
            for each in self.declared
        ]
        self._names = {f"f{index}": each.name for index, each in enumerate(self.declared)}
        self.strict = shape is not None and every
        self._tighten()

    def _tighten(self) -> None:
        """Rebuild the decoder for the nodes that are tight."""
        columns = [
            (name, Raw if each.loose else each.annotation, None)
            for name, each in zip(self._names, self.nodes, strict=True)
        ]
        self._row = self._struct(columns, self.strict)
        self._empty = self._row()
        self.annotation = self._row | None
        self._decode_rows = decoder_of(self.annotation)

    def _struct(self, columns: list[tuple[str, Any, None]], strict: bool) -> Any:
        names = {name: self._names[name] for name, _, _ in columns}
        return msgspec.defstruct("Row", columns, rename=names, gc=False, forbid_unknown_fields=strict)

    def decoded(self, values: list[Any], misfits: list[Misfit]) -> pa.Array:
        if not self.nodes:  # without columns, Arrow could not infer the number of rows
            return pa.array([None if each is None else {} for each in values], self.type)
        nulls = [each is None for each in values]
        arrays = self.columns(values, misfits, whole=True not in nulls)
        mask = pa.array(nulls, pa.bool_()) if True in nulls else None
        return pa.StructArray.from_arrays(arrays, fields=self.declared, mask=mask)

    def stored(self, values: list[Any], misfits: list[Misfit]) -> pa.Array:
        return self.decoded(self.rows(values, misfits), misfits)

    def rows(self, values: list[Any], misfits: list[Misfit]) -> list[Any]:
        """Decode stored objects. Raises ValidationError if the node is strict and an object has an unknown field."""
        try:
            rows: list[Any] = self._decode_rows(joined(values))
        except ValidationError:
            whole = joined(_set_aside(self, values, range(0x80, 0x90), b"\xde\xdf", misfits))
            self._loosen(whole)
            rows = self._decode_rows(whole)
        return rows

    def _loosen(self, whole: bytes) -> None:
        """Loosen the nodes that got a value they cannot decode."""
        for name, each in zip(self._names, self.nodes, strict=True):
            if not each.loose:
                alone = self._struct([(name, each.annotation, None)], False)
                try:
                    decoder_of(alone | None)(whole)
                except ValidationError:
                    each.loose = True
        self._tighten()

    def columns(self, rows: list[Any], misfits: list[Misfit], *, whole: bool = False) -> list[pa.Array]:
        """Build the columns from decoded objects. None becomes null in each column; ``whole``: there is no None."""
        there = rows if whole else [self._empty if each is None else each for each in rows]
        arrays = []
        for name, each, field in zip(self._names, self.nodes, self.declared, strict=True):
            inner: list[Misfit] = []
            values = list(map(attrgetter(name), there))
            array = each.stored(values, inner) if each.loose else each.decoded(values, inner)
            if not field.nullable and array.null_count:
                _forbid_nulls(array, field.type, inner, {row for row, one in enumerate(rows) if one is None})
            misfits += [misfit.inside(field.name, misfit.row) for misfit in inner]
            arrays.append(array)
        return arrays


def _forbid_nulls(array: pa.Array, found: pa.DataType, misfits: list[Misfit], allowed: set[int]) -> None:
    """Add a misfit for each null in a non-nullable column that is neither a known misfit nor allowed."""
    known = allowed.union(misfit.row for misfit in misfits)
    nulls = np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)).tolist()
    misfits += [Misfit(row, (), None, found) for row in nulls if row not in known]


def _flat(
    field: pa.Field,
    each: Node,
    values: list[Any],
    offsets: list[int],
    misfits: list[Misfit],
    *,
    names: list[str] | None = None,
) -> pa.Array:
    """Build the column of the values of all rows. A misfit among them is reported by row and position in the row."""
    inner: list[Misfit] = []
    array = each.stored(values, inner)
    if not field.nullable and array.null_count:
        _forbid_nulls(array, field.type, inner, set())
    if inner:
        rows = np.searchsorted(np.array(offsets), [misfit.row for misfit in inner], side="right") - 1
        for misfit, row in zip(inner, rows.tolist(), strict=True):
            place = names[misfit.row] if names is not None else misfit.row - offsets[row]
            misfits.append(misfit.inside(place, row))
    return array


def _offsets(values: list[Any]) -> list[int]:
    """Return the start offset of each row's values, followed by the end offset."""
    found, total = [0], 0
    for each in values:
        total += len(each) if each is not None else 0
        found.append(total)
    return found


def _holes(offsets: list[int], values: list[Any], type: pa.DataType) -> pa.Array:
    """Return the offsets in Arrow's form: null where the row is null."""
    starts = [None if each is None else at for at, each in zip(offsets, values, strict=False)]
    return pa.array(starts + offsets[-1:], type)


class Array:
    """A column of arrays: a list."""

    def __init__(self, found: Any, path: str, shape: Shape | None) -> None:
        self.type = found
        self.element = node(found.value_field, path, shape and shape.elements)
        self.loose = self.element.loose or not isinstance(self.element, Leaf) or not found.value_field.nullable
        self.annotation = None if self.loose else list_of(self.element.annotation) | None
        self._split = decoder_of(list[Raw] | None)

    def decoded(self, values: list[Any], misfits: list[Misfit]) -> pa.Array:
        try:
            return pa.array(values, type=self.type)
        except (pa.ArrowInvalid, OverflowError):
            encode = msgspec.msgpack.encode
            return self._array([None if each is None else list(map(encode, each)) for each in values], misfits)

    def stored(self, values: list[Any], misfits: list[Misfit]) -> pa.Array:
        try:
            rows = self._split(joined(values))
        except ValidationError:
            rows = self._split(joined(_set_aside(self, values, range(0x90, 0xA0), b"\xdc\xdd", misfits)))
        return self._array(rows, misfits)

    def _array(self, rows: list[list[Any] | None], misfits: list[Misfit]) -> pa.Array:
        offsets = _offsets(rows)
        values = [None if is_nil(one) else one for each in rows if each is not None for one in each]
        array = _flat(self.type.value_field, self.element, values, offsets, misfits)
        large = pa.types.is_large_list(self.type)
        starts = _holes(offsets, rows, pa.int64() if large else pa.int32())
        return (pa.LargeListArray if large else pa.ListArray).from_arrays(starts, array, type=self.type)


class Map:
    """A column of objects whose field names are data: a map from string to one type."""

    def __init__(self, found: Any, path: str) -> None:
        self.type = found
        self.loose = True
        self.annotation = None
        if not pa.types.is_string(found.key_type):
            raise UsageError(f"column {path!r} cannot be of type {found}: map keys must be of type string")
        self.item = node(found.item_field, path, None)
        self._split = decoder_of(dict[str, Raw] | None)

    def decoded(self, values: list[Any], misfits: list[Misfit]) -> pa.Array:
        raise AssertionError("a map is never tight")

    def stored(self, values: list[Any], misfits: list[Misfit]) -> pa.Array:
        try:
            rows = self._split(joined(values))
        except ValidationError:
            rows = self._split(joined(_set_aside(self, values, range(0x80, 0x90), b"\xde\xdf", misfits)))
        offsets = _offsets(rows)
        names = [name for each in rows if each is not None for name in each]
        values = [None if is_nil(one) else one for each in rows if each is not None for one in each.values()]
        items = _flat(self.type.item_field, self.item, values, offsets, misfits, names=names)
        starts = _holes(offsets, rows, pa.int32())
        return pa.MapArray.from_arrays(starts, pa.array(names, pa.string()), items, type=self.type)
