"""The fast path for uniform documents: converts their joined bytes to columns without creating an object per value.

Documents with the same fields in the same order differ only in their values. One of them, the *pattern*, therefore
gives the bytes between the values, the field names, for all. The walk advances from value to value in all documents at
once. A value's first byte gives its kind and, with the few bytes after it, its length. Documents that do not follow the
pattern are set aside and walked with a pattern of their own.

The fast path does not decide what fits. It gives up on anything it does not handle: an object or an array, a value of
another kind than its column's, null in a non-nullable column. ``nodes`` and ``leaves`` then process the documents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Raw

from lowtide.columnar.inference import is_json
from lowtide.columnar.leaves import Misfit, is_nil, timestamps
from lowtide.columnar.nodes import Node
from lowtide.columnar.vectors import Flags, Integers, Octets, Stored, numbers_at, uuid_texts

LEAST: Final = 128
"""With fewer documents, a walk costs more than it saves."""
_MOST_PATTERNS: Final = 8
_LONGEST_PAUSE: Final = 64
_MOST_BYTES: Final = 1 << 30
"""Well below the largest offset of a column of strings."""
_PADDING: Final = bytes(16)
"""Padding after the last document, so that eight bytes can be read after the first byte of any value."""
_NIL, _TRUE, _FLOAT, _UNSIGNED_64, _FIXED_16 = 0xC0, 0xC3, 0xCB, 0xCF, 0xD8

_fields_of: Final = msgspec.msgpack.Decoder(dict[str, Raw]).decode
_encode: Final = msgspec.msgpack.encode


def _table(*parts: tuple[int, int, int]) -> Any:
    """Return a table indexed by first byte, filled from inclusive ranges; 0 elsewhere."""
    found = np.zeros(256, np.int64)
    for low, high, value in parts:
        found[low : high + 1] = value
    return found


def _growing(first: int, count: int, before: int) -> list[tuple[int, int, int]]:
    """Return sizes of one, two, four bytes and so on, each with ``before`` added."""
    return [(first + each, first + each, before + (1 << each)) for each in range(count)]


def _widths(first: int, count: int) -> list[tuple[int, int, int]]:
    """Return the shifts that reduce eight bytes to the first one, two, four and so on."""
    return [(first + each, first + each, 64 - (8 << each)) for each in range(count)]


_ONE: Final = [(0x00, 0x7F, 1), (_NIL, _NIL, 1), (0xC2, _TRUE, 1), (0xE0, 0xFF, 1)]
_SHORT: Final = [(0xA0 + each, 0xA0 + each, 1 + each) for each in range(32)]
_SIZES: Final = [
    *_ONE,
    *_SHORT,
    *_growing(0xC4, 3, 1),
    *_growing(0xC7, 3, 2),
    (0xCA, 0xCA, 5),
    (_FLOAT, _FLOAT, 9),
    *_growing(0xCC, 4, 1),
    *_growing(0xD0, 4, 1),
    *_growing(0xD4, 5, 2),
    *_growing(0xD9, 3, 1),
]
_SIZE: Final = _table(*_SIZES)
"""Size of a value in bytes, without the part that its length field counts; 0 for objects and arrays."""
_LENGTH: Final = _table(*_widths(0xC4, 3), *_widths(0xC7, 3), *_widths(0xD9, 3))
"""For values with a length field after the first byte: the shift that leaves the length; 0 for others."""
_WIDTH: Final = _table((0x00, 0x7F, 56), *_widths(0xCC, 4), *_widths(0xD0, 4), (0xE0, 0xFF, 56))
"""For integers: the shift that leaves the number. Small integers are in the first byte itself."""
_BEHIND: Final = _table((0xCC, 0xD3, 1))
_BITS: Final = np.full(256, -1, np.int64)
_BITS[0xCC:0xCF] = (1 << 8) - 1, (1 << 16) - 1, (1 << 32) - 1
"""For unsigned integers: the mask of the number's bits."""
_INTEGER: Final = _table((0x00, 0x7F, 1), (0xCC, 0xD3, 1), (0xE0, 0xFF, 1)).astype(np.bool_)
_TEXT: Final = _table((0xA0, 0xBF, 1), *_growing(0xD9, 3, 1))
"""Number of bytes before a string's content; 0 for others."""
_BINARY: Final = _table(*_growing(0xC4, 3, 1))


class Values(NamedTuple):
    """The values of one field in uniform documents, in order: their offsets, first bytes and sizes."""

    octets: Octets
    starts: Integers
    heads: Octets
    sizes: Integers

    def chosen(self, kept: Flags) -> Values:
        return Values(self.octets, self.starts[kept], self.heads[kept], self.sizes[kept])

    def nulls(self) -> Flags | None:
        """Return the mask of nulls, or None if there are none."""
        found: Flags = self.heads == _NIL
        return found if found.any() else None


Maker = Callable[[Values, pa.DataType], pa.Array | None]
"""Builds the column of the values. Returns None if there is one that it does not handle."""


class Uniform:
    """Builds the columns of stored documents while they are uniform. With ``every``, each field must have a column.

    Used by the thread that builds record batches. After giving up, it skips some batches before the next attempt, and
    more each time.
    """

    def __init__(self, declared: Sequence[pa.Field], nodes: Sequence[Node], *, every: bool) -> None:
        self._declared = list(declared)
        self._makers = [_maker(field, node) for field, node in zip(declared, nodes, strict=True)]
        self._every = every
        self._possible = bool(declared) and None not in self._makers
        self._pause = self._left = 0

    def columns(self, documents: list[bytes]) -> list[pa.Array] | None:
        """Return the columns of the documents, or None if they are not uniform or a value does not fit."""
        if not self._possible or len(documents) < LEAST:
            return None
        if self._left:
            self._left -= 1
            return None
        try:
            found = self._columns(documents)
        except (pa.ArrowInvalid, msgspec.MsgspecError, IndexError):  # out of range, not UTF-8, or damaged
            found = None
        self._pause = 0 if found is not None else min(2 * self._pause + 1, _LONGEST_PAUSE)
        self._left = self._pause
        return found

    def _columns(self, documents: list[bytes]) -> list[pa.Array] | None:
        octets: Octets = np.frombuffer(b"".join((*documents, _PADDING)), np.uint8)
        if len(octets) > _MOST_BYTES:
            return None
        lengths = np.fromiter(map(len, documents), np.int64, len(documents))
        ends = np.cumsum(lengths)
        starts = ends - lengths
        rest: Integers = np.arange(len(documents))
        rows: list[Integers] = []
        parts: list[list[pa.Array]] = []
        while len(rest):
            if len(parts) == _MOST_PATTERNS or (pattern := _pattern(documents[rest[0]])) is None:
                return None
            wanted = self._wanted(pattern)
            if wanted is None or (walked := _walk(octets, starts[rest], ends[rest], pattern[:wanted])) is None:
                return None
            kept, values = walked
            arrays = self._made(values, len(rest) if kept is None else int(np.count_nonzero(kept)))
            if arrays is None:
                return None
            parts.append(arrays)
            rows.append(rest if kept is None else rest[kept])
            rest = rest[:0] if kept is None else rest[~kept]
        if len(parts) == 1:
            return parts[0]
        order = pa.array(np.argsort(np.concatenate(rows)))
        return [pa.concat_arrays(each).take(order) for each in zip(*parts, strict=True)]

    def _wanted(self, pattern: list[tuple[str, bytes]]) -> int | None:
        """Return the number of fields to walk. None if a field lacks its column.

        A field that the pattern lacks is known to be absent from all documents only if all their names were seen.
        """
        there = {name: place for place, (name, _) in enumerate(pattern, 1)}
        names = [each.name for each in self._declared]
        if self._every and not there.keys() <= set(names):
            return None
        if self._every or not there.keys() >= set(names):
            return len(pattern)
        return max(there[name] for name in names)

    def _made(self, values: dict[str, Values], count: int) -> list[pa.Array] | None:
        arrays: list[pa.Array] = []
        for field, maker in zip(self._declared, self._makers, strict=True):
            assert maker is not None
            there = values.get(field.name)
            array = pa.nulls(count, field.type) if there is None else maker(there, field.type)
            if array is None or (not field.nullable and array.null_count):
                return None
            arrays.append(array)
        return arrays


def _pattern(document: bytes) -> list[tuple[str, bytes]] | None:
    """Return a document's fields with the bytes before each value. None if the codec would not have written it so."""
    fields = _fields_of(document)
    if not fields or _encode(fields) != document:
        return None
    (first, encoded), *others = [(name, _encode(name)) for name in fields]
    header = document[: 1 if len(fields) < 16 else 3]
    return [(first, header + encoded), *others] if len(fields) < 1 << 16 else None


def _walk(
    octets: Octets, starts: Integers, ends: Integers, pattern: list[tuple[str, bytes]]
) -> tuple[Flags | None, dict[str, Values]] | None:
    """Return which documents follow the pattern (None: all) and the values of its fields in them.

    Returns None if an object or an array is among the values, or if a document ends before its values do.
    """
    kept: Flags | None = None
    found: dict[str, Values] = {}
    for name, before in pattern:
        fits = _lies_at(octets, starts, before)
        if fits is not None:
            if kept is None:
                kept = fits.copy()
            else:
                kept[kept] = fits
            starts = starts[fits]
            found = {each: values.chosen(fits) for each, values in found.items()}
        starts = starts + len(before)
        heads = octets[starts]
        sizes = _SIZE[heads]
        if not sizes.all():
            return None
        shifts = _LENGTH[heads]
        if shifts.any():
            lengths = numbers_at(octets, starts + 1, ">u8") >> shifts.view(np.uint64)
            sizes += np.where(shifts != 0, lengths.view(np.int64), 0)
        found[name] = Values(octets, starts, heads, sizes)
        starts = starts + sizes
    return (kept, found) if (starts <= (ends if kept is None else ends[kept])).all() else None


def _lies_at(octets: Octets, places: Integers, before: bytes) -> Flags | None:
    """Return at which of the offsets these bytes occur; None for all.

    Bytes after the first eight are compared only where those match, since the document is long enough there.
    """
    fits: Flags | None = None
    for offset in range(0, len(before), 8):
        part = before[offset : offset + 8]
        words = numbers_at(octets, (places if fits is None else places[fits]) + offset, ">u8")
        same: Flags = (words >> np.uint64(64 - 8 * len(part))) == int.from_bytes(part, "big")
        if fits is not None:
            fits[fits] = same
        elif not same.all():
            fits = same
    return fits


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
    read, nulls = _numbers(values), values.nulls()
    if read is None or not (read[1] if nulls is None else read[1] | nulls).all():
        return None
    numbers = read[0] if nulls is None else np.where(nulls, 0, read[0])
    return pa.array(numbers, mask=nulls).cast(found)


def _floats(values: Values, found: pa.DataType) -> pa.Array | None:
    floats = values.heads == _FLOAT
    numbers = numbers_at(values.octets, values.starts + 1, ">f8")
    if floats.all():
        return pa.array(numbers).cast(found)
    read, nulls = _numbers(values), values.nulls()
    if read is None or not (floats | read[1] if nulls is None else floats | read[1] | nulls).all():
        return None
    return pa.array(np.where(floats, numbers, read[0].astype(np.float64)), mask=nulls).cast(found)


def _booleans(values: Values, found: pa.DataType) -> pa.Array | None:
    heads = values.heads
    if not ((heads == _NIL) | (heads == _TRUE - 1) | (heads == _TRUE)).all():
        return None
    return pa.array(heads == _TRUE, mask=values.nulls())


def _texts(values: Values, found: pa.DataType) -> pa.Array | None:
    if values.heads[0] == _FIXED_16 and pa.types.is_string(found):
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
    return whole.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32), mask=nulls))


def _timestamps(values: Values, found: pa.DataType) -> pa.Array | None:
    array, odd = timestamps(Stored(values.octets, values.starts, values.sizes), found)
    return array if not odd else None


def _nulls(values: Values, found: pa.DataType) -> pa.Array | None:
    return pa.nulls(len(values.heads), found) if (values.heads == _NIL).all() else None


def _fitted(node: Node, values: Values, found: pa.DataType) -> pa.Array | None:
    """Return the values to fit one at a time."""
    octets, ends = values.octets.tobytes(), values.starts + values.sizes
    stored = [octets[low:high] for low, high in zip(values.starts.tolist(), ends.tolist(), strict=True)]
    misfits: list[Misfit] = []
    array = node.stored([None if is_nil(each) else each for each in stored], misfits)
    return array if not misfits else None
