"""Finds the values of uniform documents in their joined bytes, in all documents at once.

Documents with the same fields in the same order differ only in their values. One of them, the *pattern*, therefore
gives the bytes between the values for all: the field names, and the headers of objects. The walk advances from value to
value. A value's first byte gives its kind and, with the few bytes after it, its length. The elements of arrays are
walked in turns: the first element of every array, then the second of those that have one, and so on.

A document that does not follow the pattern is set aside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from msgspec import Raw

from lowtide.columnar.vectors import Flags, Integers, Octets, numbers_at

PADDING: Final = bytes(16)
"""Padding after the last document, so that eight bytes can be read after the first byte of any value."""
NULL, TRUE, FLOAT, FIXED_16 = 0xC0, 0xC3, 0xCB, 0xD8
"""First bytes of values."""
_FEW_TURNS: Final = 16
_LEAST_IN_TURN: Final = 16
"""Arrays of up to ``_FEW_TURNS`` elements are always walked; longer ones, if an average turn has this many elements."""

Path = tuple[str, ...]
"""The names that lead to a value. An element of an array that is no object has no names: ``()``."""

_fields_of: Final = msgspec.msgpack.Decoder(dict[str, Raw]).decode
_elements_of: Final = msgspec.msgpack.Decoder(list[Raw]).decode
_encode: Final = msgspec.msgpack.encode


class NotUniform(Exception):
    """Raised if the documents cannot be walked."""


def head_table(*parts: tuple[int, int, int]) -> Any:
    """Return a table indexed by first byte, filled from inclusive ranges; 0 elsewhere."""
    found = np.zeros(256, np.int64)
    for low, high, value in parts:
        found[low : high + 1] = value
    return found


def growing(first: int, count: int, before: int) -> list[tuple[int, int, int]]:
    """Return sizes of one, two, four bytes and so on, each with ``before`` added."""
    return [(first + each, first + each, before + (1 << each)) for each in range(count)]


def widths(first: int, count: int) -> list[tuple[int, int, int]]:
    """Return the shifts that reduce eight bytes to the first one, two, four and so on."""
    return [(first + each, first + each, 64 - (8 << each)) for each in range(count)]


_ONE: Final = [(0x00, 0x7F, 1), (NULL, NULL, 1), (0xC2, TRUE, 1), (0xE0, 0xFF, 1)]
_SHORT: Final = [(0xA0 + each, 0xA0 + each, 1 + each) for each in range(32)]
_SIZES: Final = [
    *_ONE,
    *_SHORT,
    *growing(0xC4, 3, 1),
    *growing(0xC7, 3, 2),
    (0xCA, 0xCA, 5),
    (FLOAT, FLOAT, 9),
    *growing(0xCC, 4, 1),
    *growing(0xD0, 4, 1),
    *growing(0xD4, 5, 2),
    *growing(0xD9, 3, 1),
]
_SIZE: Final = head_table(*_SIZES)
"""Size of a value in bytes, without the part that its length field counts; 0 for objects and arrays."""
_LENGTH: Final = head_table(*widths(0xC4, 3), *widths(0xC7, 3), *widths(0xD9, 3))
"""For values with a length field after the first byte: the shift that leaves the length; 0 for others."""
_HAS_LENGTH: Final = _LENGTH.astype(np.bool_)
_ARRAY: Final = head_table((0x90, 0x9F, 1), (0xDC, 0xDC, 3), (0xDD, 0xDD, 5))
"""Size of an array's header; 0 for others."""
_COUNT: Final = head_table((0xDC, 0xDC, 48), (0xDD, 0xDD, 32))
"""For arrays whose header has a number of elements: the shift that leaves it."""


class Values(NamedTuple):
    """Values of one field, in the order of the documents: their offsets, first bytes and sizes."""

    octets: Octets
    starts: Integers
    heads: Octets
    sizes: Integers

    def chosen(self, kept: Flags) -> Values:
        return Values(self.octets, self.starts[kept], self.heads[kept], self.sizes[kept])

    def nulls(self) -> Flags | None:
        """Return the mask of nulls, or None if there are none."""
        found: Flags = self.heads == NULL
        return found if found.any() else None


class Arrays(NamedTuple):
    """Arrays of one field, in the order of the documents: their lengths, and the values in all their elements."""

    counts: Integers
    elements: dict[Path, Values]

    def chosen(self, kept: Flags) -> Arrays:
        inside = np.repeat(kept, self.counts)
        return Arrays(self.counts[kept], {path: each.chosen(inside) for path, each in self.elements.items()})


Found = Mapping[Path, Values | Arrays]


class WalkStep(NamedTuple):
    """One step of a walk: the value at ``path``, and the bytes before it."""

    path: Path
    before: bytes
    elements: tuple[WalkStep, ...] | None
    """None for a value that is no array; the steps of an element that is an object; () for other elements."""


def names_of(document: bytes) -> list[str]:
    """Return the names of a document's fields. Raises NotUniform if it has none, or is not what the codec writes."""
    return list(_fields(document))


def pattern_of(document: bytes, fields: int) -> list[WalkStep]:
    """Return the steps through the first fields of a document. Raises NotUniform if they cannot be walked."""
    return list(_steps(document, (), b"", fields))


def _fields(stored: bytes) -> dict[str, Raw]:
    fields = _fields_of(stored)
    if not fields or len(fields) >= 1 << 16 or _encode(fields) != stored:
        raise NotUniform
    return fields


def _steps(stored: bytes, path: Path, before: bytes, most: int | None = None) -> Iterator[WalkStep]:
    fields = _fields(stored)
    before += stored[: 1 if len(fields) < 16 else 3]
    for name, raw in islice(fields.items(), most):
        before, value, place = before + _encode(name), bytes(raw), (*path, name)
        if _ARRAY[value[0]]:
            yield WalkStep(place, before, _element_steps(value))
        elif not _SIZE[value[0]]:
            yield from _steps(value, place, before)
        else:
            yield WalkStep(place, before, None)
        before = b""


def _element_steps(array: bytes) -> tuple[WalkStep, ...]:
    first = bytes(next(iter(_elements_of(array)), b"\xc0"))
    if _SIZE[first[0]]:
        return ()
    steps = tuple(_steps(first, (), b""))
    if any(each.elements is not None for each in steps):
        raise NotUniform
    return steps


class Walk:
    """A walk through documents, which begin at ``starts``."""

    def __init__(self, octets: Octets, starts: Integers) -> None:
        self._octets = octets
        self.kept: Flags | None = None
        """Which documents follow the pattern; None for all."""
        self.found: Found = {}
        """The values of those that do."""
        self.places = starts
        """Where the walk is in those that do."""

    def follow(self, steps: Sequence[WalkStep]) -> None:
        """Walk to the end of the pattern. Raises NotUniform if that is not possible in all of these documents."""
        found: dict[Path, Values | Arrays] = {}
        self.found = found
        for step in steps:
            self._keep(_lies_at(self._octets, self.places, step.before))
            self.places = self.places + len(step.before)
            heads = self._octets[self.places]
            if step.elements is not None:
                found[step.path] = self._arrays(heads, step.elements)
                continue
            sizes = _SIZE[heads]
            if not sizes.all():
                fits: Flags = sizes != 0
                self._keep(fits)
                heads, sizes = heads[fits], sizes[fits]
            found[step.path] = Values(self._octets, self.places, heads, _grown(self._octets, self.places, heads, sizes))
            self.places = self.places + sizes

    def _keep(self, fits: Flags | None) -> None:
        """Set aside the documents that do not fit."""
        if fits is None:
            return
        if self.kept is None:
            self.kept = fits.copy()
        else:
            self.kept[self.kept] = fits
        self.places = self.places[fits]
        assert isinstance(self.found, dict)
        for path, values in self.found.items():
            self.found[path] = values.chosen(fits)

    def _arrays(self, heads: Octets, steps: tuple[WalkStep, ...]) -> Arrays:
        if not (sizes := _ARRAY[heads]).all():
            fits: Flags = sizes != 0
            self._keep(fits)
            heads, sizes = heads[fits], sizes[fits]
        counts: Integers = (heads & 0x0F).astype(np.int64)
        if (shifts := _COUNT[heads]).any():
            numbers = numbers_at(self._octets, self.places + 1, ">u8") >> shifts.view(np.uint64)
            counts = np.where(shifts != 0, numbers.view(np.int64), counts)
        self.places = self.places + sizes
        if not steps:  # the pattern's array may be empty, and others have objects
            is_nested = (counts != 0) & (_SIZE[self._octets[self.places]] == 0)
            if is_nested.any():
                self._keep(~is_nested)
                counts = counts[~is_nested]
        elements, self.places = _elements(self._octets, self.places, counts, steps)
        return Arrays(counts, elements)


def _elements(
    octets: Octets, starts: Integers, counts: Integers, steps: tuple[WalkStep, ...]
) -> tuple[dict[Path, Values], Integers]:
    """Return the values in the elements of arrays, one array after the other, and where each array ends."""
    most, total = int(counts.max(initial=0)), int(counts.sum())
    if total > len(octets) or (most > _FEW_TURNS and most * _LEAST_IN_TURN > total):
        raise NotUniform
    firsts = np.cumsum(counts) - counts
    places, order, turns = starts.copy(), [], []
    for turn in range(most):
        rows = np.flatnonzero(counts > turn)
        walk = Walk(octets, places[rows])
        walk.follow(steps or (_ELEMENT,))
        if walk.kept is not None:
            raise NotUniform
        places[rows] = walk.places
        order.append(firsts[rows] + turn)
        turns.append(walk.found)
    if not turns:
        return {each.path: Values(octets, starts[:0], octets[:0], starts[:0]) for each in steps or (_ELEMENT,)}, places
    to = np.concatenate(order)
    return {path: _in_order(octets, [each[path] for each in turns], to) for path in turns[0]}, places


_ELEMENT: Final = WalkStep((), b"", None)


def _in_order(octets: Octets, turns: Sequence[Any], to: Integers) -> Values:
    """Return the values of all turns, each at its index in ``to``."""
    ordered = []
    for parts in zip(*(each[1:] for each in turns), strict=True):
        whole = np.concatenate(parts)
        found = np.empty_like(whole)
        found[to] = whole
        ordered.append(found)
    return Values(octets, *ordered)


def _grown(octets: Octets, starts: Integers, heads: Octets, sizes: Integers) -> Integers:
    """Add to the sizes of values the lengths in their length fields."""
    if _HAS_LENGTH[heads].any():
        shifts = _LENGTH[heads]
        lengths = numbers_at(octets, starts + 1, ">u8") >> shifts.view(np.uint64)
        sizes += np.where(shifts != 0, lengths.view(np.int64), 0)
    return sizes


def _lies_at(octets: Octets, places: Integers, before: bytes) -> Flags | None:
    """Return at which of the offsets these bytes occur; None for all.

    Bytes after the first eight are compared only where those match, since the document is long enough there.
    """
    words = np.ndarray((max(0, len(octets) - 7),), "<u8", octets, strides=(1,))
    fits: Flags | None = None
    for offset in range(0, len(before), 8):
        part = before[offset : offset + 8]
        found: Any = words[(places if fits is None else places[fits]) + offset]
        if len(part) < 8:
            found &= np.uint64((1 << 8 * len(part)) - 1)
        same: Flags = found == np.uint64(int.from_bytes(part, "little"))
        if fits is not None:
            fits[fits] = same
        elif not same.all():
            fits = same
    return fits
