"""The fast path for uniform documents: converts their joined bytes to columns without creating an object per value.

``walk`` finds the values of documents that have the same fields in the same order. Documents that do not follow the
pattern of the first one are walked with a pattern of their own. Each field's values are then converted at once.

The fast path does not decide what fits. It gives up on anything it does not handle: a map, an array in an array, a
value of another kind than its column's, null in a non-nullable column. ``nodes`` and ``leaves`` then process the
documents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from lowtide.columnar.inference import is_json
from lowtide.columnar.leaves import Misfit, is_nil, timestamps
from lowtide.columnar.nodes import Array, Node, Object
from lowtide.columnar.vectors import Flags, Integers, Octets, Stored, column_of, numbers_at, uuid_texts
from lowtide.columnar.walk import (
    FIXED_16,
    FLOAT,
    NULL,
    PADDING,
    TRUE,
    Arrays,
    Found,
    NotUniform,
    Path,
    Values,
    Walk,
    growing,
    head_table,
    names_of,
    pattern_of,
    widths,
)

LEAST: Final = 128
"""With fewer documents, a walk costs more than it saves."""
_MOST_PATTERNS: Final = 8
_LONGEST_PAUSE: Final = 64
_MOST_BYTES: Final = 1 << 30
"""Well below the largest offset of a column of strings."""
_UNSIGNED_64: Final = 0xCF

_WIDTH: Final = head_table((0x00, 0x7F, 56), *widths(0xCC, 4), *widths(0xD0, 4), (0xE0, 0xFF, 56))
"""For integers: the shift that leaves the number. Small integers are in the first byte itself."""
_BEHIND: Final = head_table((0xCC, 0xD3, 1))
_BITS: Final = np.full(256, -1, np.int64)
_BITS[0xCC:0xCF] = (1 << 8) - 1, (1 << 16) - 1, (1 << 32) - 1
"""For unsigned integers: the mask of the number's bits."""
_INTEGER: Final = head_table((0x00, 0x7F, 1), (0xCC, 0xD3, 1), (0xE0, 0xFF, 1)).astype(np.bool_)
_TEXT: Final = head_table((0xA0, 0xBF, 1), *growing(0xD9, 3, 1))
"""Number of bytes before a string's content; 0 for others."""
_BINARY: Final = head_table(*growing(0xC4, 3, 1))

Maker = Callable[[Values, pa.DataType], pa.Array | None]
"""Builds the column of the values. Returns None if there is one that it does not handle."""


class _Column(NamedTuple):
    """How a field's column is built: by ``make``, from its values; or from the columns of the fields of its objects,
    or of the elements of its arrays."""

    field: pa.Field
    make: Maker | None
    inner: tuple[_Column, ...] = ()
    strict: bool = False
    """Whether every field of its objects must have a column."""


Tree = Mapping[str, Any]
"""The values of each field: Values, Arrays, or another tree for objects."""


class Uniform:
    """Builds the columns of stored documents while they are uniform. With ``every``, each field must have a column.

    Used by the thread that builds record batches. After giving up, it skips some batches before the next attempt, and
    more each time.
    """

    def __init__(self, declared: Sequence[pa.Field], nodes: Sequence[Node], *, every: bool) -> None:
        found = [_column(field, node) for field, node in zip(declared, nodes, strict=True)]
        self._columns = tuple(each for each in found if each is not None)
        self._names = [each.name for each in declared]
        self._every = every
        self._possible = bool(declared) and None not in found
        self._pause = self._left = 0

    def columns(self, documents: list[bytes]) -> list[pa.Array] | None:
        """Return the columns of the documents, or None if they are not uniform or a value does not fit."""
        if not self._possible or len(documents) < LEAST:
            return None
        if self._left:
            self._left -= 1
            return None
        try:
            found = self._converted(documents)
        except (NotUniform, pa.ArrowInvalid, msgspec.MsgspecError, IndexError):  # out of range, not UTF-8, or damaged
            found = None
        self._pause = 0 if found is not None else min(2 * self._pause + 1, _LONGEST_PAUSE)
        self._left = self._pause
        return found

    def _converted(self, documents: list[bytes]) -> list[pa.Array] | None:
        octets: Octets = np.frombuffer(b"".join((*documents, PADDING)), np.uint8)
        if len(octets) > _MOST_BYTES:
            return None
        lengths = np.fromiter(map(len, documents), np.int64, len(documents))
        ends = np.cumsum(lengths)
        starts = ends - lengths
        rest: Integers = np.arange(len(documents))
        rows: list[Integers] = []
        parts: list[list[pa.Array]] = []
        while len(rest):
            if len(parts) == _MOST_PATTERNS:
                return None
            pattern = documents[rest[0]]
            walk = Walk(octets, starts[rest])
            walk.follow(pattern_of(pattern, self._wanted(names_of(pattern))))
            kept = walk.kept
            followed = rest if kept is None else rest[kept]
            if not len(followed) or followed[0] != rest[0] or not (walk.places <= ends[followed]).all():
                return None
            arrays = _arrays(self._columns, _tree(walk.found), len(followed))
            if arrays is None:
                return None
            parts.append(arrays)
            rows.append(followed)
            rest = rest[:0] if kept is None else rest[~kept]
        if len(parts) == 1:
            return parts[0]
        order = column_of(np.argsort(np.concatenate(rows)))
        return [pa.concat_arrays(each).take(order) for each in zip(*parts, strict=True)]

    def _wanted(self, there: list[str]) -> int:
        """Return the number of a document's fields to walk. Raises NotUniform if a field lacks its column.

        A field that the pattern lacks is known to be absent from all documents only if all their names were seen.
        """
        if self._every and not set(there) <= set(self._names):
            raise NotUniform
        if self._every or not set(there) >= set(self._names):
            return len(there)
        return 1 + max(map(there.index, self._names))


def _tree(found: Found) -> Tree:
    """Arrange values by the names of their fields."""
    tree: dict[str, Any] = {}
    for path, values in found.items():
        inside = tree
        for name in path[:-1]:
            inside = inside.setdefault(name, {})
        inside[path[-1]] = values
    return tree


def _arrays(columns: Sequence[_Column], tree: Tree, count: int) -> list[pa.Array] | None:
    arrays: list[pa.Array] = []
    for each in columns:
        array = _array(each, tree.get(each.field.name), count)
        if array is None:
            return None
        arrays.append(array)
    return arrays


def _array(column: _Column, there: Any, count: int) -> pa.Array | None:
    """Return the column of a field, or None if a value does not fit. ``there`` is what the walk found."""
    field = column.field
    if there is None or not count:
        array = pa.nulls(count, field.type)
    elif isinstance(there, Values):
        array = (column.make or _nulls)(there, field.type)
    elif column.make is not None:
        return None
    else:
        array = (_lists if isinstance(there, Arrays) else _objects)(column, there, count)
    return array if array is not None and (field.nullable or not array.null_count) else None


def _objects(column: _Column, there: Tree, count: int) -> pa.Array | None:
    if not pa.types.is_struct(column.field.type) or (
        column.strict and not there.keys() <= {each.field.name for each in column.inner}
    ):
        return None
    arrays = _arrays(column.inner, there, count)
    fields = [each.field for each in column.inner]
    return pa.StructArray.from_arrays(arrays, fields=fields) if arrays is not None else None


def _lists(column: _Column, there: Arrays, count: int) -> pa.Array | None:
    found = column.field.type
    if pa.types.is_struct(found):
        return None
    elements: Mapping[Path, Values] = there.elements
    inside = elements[()] if () in elements else _tree(elements)
    array = _array(column.inner[0], inside, int(there.counts.sum()))
    if array is None:
        return None
    large = pa.types.is_large_list(found)
    offsets = np.zeros(count + 1, np.int64 if large else np.int32)
    np.cumsum(there.counts, out=offsets[1:])
    return (pa.LargeListArray if large else pa.ListArray).from_arrays(column_of(offsets), array, type=found)


def _column(field: pa.Field, node: Node) -> _Column | None:
    """Return how to build the column of a field, or None if there is no fast path for its type."""
    if isinstance(node, Object):
        inner = [_column(each, one) for each, one in zip(node.declared, node.nodes, strict=True)]
        known = tuple(each for each in inner if each is not None)
        return _Column(field, None, known, node.strict) if inner and len(known) == len(inner) else None
    if isinstance(node, Array):
        element = _column(field.type.value_field, node.element)
        return _Column(field, None, (element,)) if element is not None else None
    make = _maker(field, node)
    return _Column(field, make) if make is not None else None


def _maker(field: pa.Field, node: Node) -> Maker | None:
    """Return the builder of a field's column, or None if there is no fast path for its type."""
    types, found = pa.types, field.type
    if is_json(field) or types.is_decimal(found) or types.is_date32(found):
        return partial(_fitted, node)
    if types.is_null(found):
        return _nulls
    if types.is_signed_integer(found) or types.is_unsigned_integer(found):
        return _integers
    if types.is_float64(found) or types.is_float32(found):
        return _floats
    if types.is_boolean(found):
        return _booleans
    if types.is_string(found) or types.is_large_string(found):
        return _texts
    if types.is_binary(found) or types.is_large_binary(found):
        return _binaries
    if types.is_timestamp(found):
        return _timestamps
    return None


def _numbers(values: Values) -> tuple[Integers, Flags] | None:
    """Return the integers and the mask of values that are integers. None if one exceeds a signed 64-bit integer."""
    heads = values.heads
    places = values.starts + _BEHIND[heads]
    found: Integers = numbers_at(values.octets, places, ">i8") >> _WIDTH[heads]
    found &= _BITS[heads]
    if bool(((heads == _UNSIGNED_64) & (found < 0)).any()):
        return None
    return found, _INTEGER[heads]


def _integers(values: Values, found: pa.DataType) -> pa.Array | None:
    if values.heads.max() < 0x80:  # the numbers themselves
        return column_of(values.heads.astype(np.int64)).cast(found)
    read, nulls = _numbers(values), values.nulls()
    if read is None or not (read[1] if nulls is None else read[1] | nulls).all():
        return None
    numbers = read[0] if nulls is None else np.where(nulls, 0, read[0])
    return column_of(numbers, nulls).cast(found)


def _floats(values: Values, found: pa.DataType) -> pa.Array | None:
    floats = values.heads == FLOAT
    numbers = numbers_at(values.octets, values.starts + 1, ">f8")
    if floats.all():
        return column_of(numbers).cast(found)
    read, nulls = _numbers(values), values.nulls()
    if read is None or not (floats | read[1] if nulls is None else floats | read[1] | nulls).all():
        return None
    return column_of(np.where(floats, numbers, read[0].astype(np.float64)), nulls).cast(found)


def _booleans(values: Values, found: pa.DataType) -> pa.Array | None:
    heads = values.heads
    if not ((heads == NULL) | (heads == TRUE - 1) | (heads == TRUE)).all():
        return None
    return column_of(heads == TRUE, values.nulls())


def _texts(values: Values, found: pa.DataType) -> pa.Array | None:
    if values.heads[0] == FIXED_16 and pa.types.is_string(found):
        return uuid_texts(Stored(values.octets, values.starts, values.sizes))
    taken = _taken(values, _TEXT)
    if taken is None:
        return None
    data = taken.buffers()[2]
    if data is None or not data.size or np.frombuffer(data, np.uint8).max() < 0x80:  # ASCII needs no further check
        taken = pa.Array.from_buffers(pa.string(), len(taken), taken.buffers(), taken.null_count, taken.offset)
    return taken.cast(found)


def _binaries(values: Values, found: pa.DataType) -> pa.Array | None:
    taken = _taken(values, _BINARY)
    return taken.cast(found) if taken is not None else None


def _taken(values: Values, before: Any) -> pa.Array | None:
    """Return the content of strings or bytes, given the size of what precedes it. None if there is another value."""
    skipped, nulls, count = before[values.heads], values.nulls(), len(values.heads)
    if not (skipped if nulls is None else skipped + nulls).all():
        return None
    offsets = np.empty(2 * count, np.int32)
    offsets[0::2] = values.starts + skipped
    offsets[1::2] = values.starts + values.sizes
    # These alternate between a value and the bytes between two values.
    all_of_it = [None, pa.py_buffer(offsets), pa.py_buffer(values.octets)]
    whole = pa.Array.from_buffers(pa.binary(), 2 * count - 1, all_of_it)
    return whole.take(column_of(np.arange(0, 2 * count, 2, dtype=np.int32), nulls))


def _timestamps(values: Values, found: pa.DataType) -> pa.Array | None:
    array, odd = timestamps(Stored(values.octets, values.starts, values.sizes), found)
    return array if not odd else None


def _nulls(values: Values, found: pa.DataType) -> pa.Array | None:
    return pa.nulls(len(values.heads), found) if (values.heads == NULL).all() else None


def _fitted(node: Node, values: Values, found: pa.DataType) -> pa.Array | None:
    """Return the values to fit one at a time."""
    octets, ends = values.octets.tobytes(), values.starts + values.sizes
    stored = [octets[low:high] for low, high in zip(values.starts.tolist(), ends.tolist(), strict=True)]
    misfits: list[Misfit] = []
    array = node.stored([None if is_nil(each) else each for each in stored], misfits)
    return array if not misfits else None
