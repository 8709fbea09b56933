"""Converts stored datetimes and UUIDs to Arrow in bulk, without creating an object per value.

The bytes are those that ``values.codec`` writes. The first bytes of a value give its form:

============  ============================================================
C0            null
D6 FF, D7 FF  a datetime in UTC: seconds, or nanoseconds and seconds
C7 0C FF      a datetime in UTC, further from 1970
D7 04         a datetime without a time zone, in microseconds
D8 05         a datetime with an offset, both in microseconds
D8 03         a UUID
============  ============================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

NIL: Final = b"\xc0"

Flags = np.ndarray[Any, np.dtype[np.bool_]]
Integers = np.ndarray[Any, np.dtype[np.int64]]
Octets = np.ndarray[Any, np.dtype[np.uint8]]

_HEX: Final = np.frombuffer(b"".join(b"%02x" % each for each in range(256)), np.uint8).reshape(256, 2)
_DASHES: Final = (8, 13, 18, 23)
_LETTERS: Final = [each for each in range(36) if each not in _DASHES]


class Stored:
    """Stored values joined into one buffer, with the offset and length of each."""

    def __init__(self, octets: Octets, starts: Integers, lengths: Integers) -> None:
        self.octets = octets
        self.starts = starts
        self.lengths = lengths
        self.heads: Octets = octets[starts]

    @classmethod
    def of(cls, values: Sequence[Any]) -> Stored:
        """Join these values. None is null."""
        parts = [NIL if each is None else each for each in values] if None in values else values
        lengths = np.fromiter(map(len, parts), np.int64, len(parts))
        return cls(np.frombuffer(b"".join(parts), np.uint8), np.cumsum(lengths) - lengths, lengths)

    def nulls(self) -> Flags:
        """Return the mask of nulls."""
        found: Flags = self.heads == 0xC0
        return found

    def having(self, head: bytes, size: int) -> Integers:
        """Return the indices of the values that consist of ``head`` and ``size`` more bytes."""
        found = self.lengths == len(head) + size
        found &= self.heads == head[0]
        indices = np.flatnonzero(found)
        for offset, octet in enumerate(head[1:], 1):
            indices = indices[self.octets[self.starts[indices] + offset] == octet]
        return indices

    def bodies(self, indices: Integers, skipped: int, size: int) -> Octets:
        """Return, one row per value, the ``size`` bytes after the first ``skipped``."""
        found: Octets = self.octets[self.starts[indices][:, None] + np.arange(skipped, skipped + size)]
        return found

    def numbers(self, indices: Integers, skipped: int, form: str) -> Any:
        """Return each value's number, stored as ``form`` after the first ``skipped`` bytes."""
        return numbers_at(self.octets, self.starts[indices] + skipped, form)


def numbers_at(octets: Octets, places: Integers, form: str) -> Any:
    """Return the numbers stored as ``form`` at these offsets, in native byte order."""
    kind = np.dtype(form)
    everywhere: Any = np.ndarray((max(0, len(octets) - kind.itemsize + 1),), kind, octets, strides=(1,))
    return everywhere[places].astype(kind.newbyteorder("="))


def column_of(values: Any, nulls: Flags | None = None) -> pa.Array:
    """Return a column of numbers or booleans, with a mask of nulls. ``pa.array`` would do the same, but imports pandas,
    which takes 0.3 s."""
    data = np.packbits(values, bitorder="little") if values.dtype == np.bool_ else np.ascontiguousarray(values)
    validity = None if nulls is None else pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [validity, pa.py_buffer(data)])


def microseconds(stored: Stored) -> tuple[Integers, Flags]:
    """Return the datetimes as microseconds since 1970, and the mask of values that are datetimes."""
    left = len(stored.starts)
    found, known = np.zeros(left, np.int64), np.zeros(left, np.bool_)
    for head, size in ((b"\xd7\xff", 8), (b"\xd7\x04", 8), (b"\xd6\xff", 4), (b"\xc7\x0c\xff", 12), (b"\xd8\x05", 16)):
        indices = stored.having(head, size)
        if len(indices):
            known[indices] = True
            found[indices] = _moments(stored, indices, head)
            left -= len(indices)
            if not left:
                break
    return found, known


def _moments(stored: Stored, indices: Integers, head: bytes) -> Any:
    if head == b"\xd6\xff":
        return stored.numbers(indices, 2, ">u4").astype(np.int64) * 1_000_000
    if head == b"\xd7\xff":
        both = stored.numbers(indices, 2, ">u8")
        return (both & ((1 << 34) - 1)).astype(np.int64) * 1_000_000 + (both >> 34).astype(np.int64) // 1000
    if head == b"\xc7\x0c\xff":
        nanoseconds = stored.numbers(indices, 3, ">u4").astype(np.int64)
        return stored.numbers(indices, 7, ">i8") * 1_000_000 + nanoseconds // 1000
    if head == b"\xd7\x04":
        return stored.numbers(indices, 2, ">i8")
    return stored.numbers(indices, 2, ">i8") - stored.numbers(indices, 10, ">i8")


def uuid_texts(stored: Stored) -> pa.Array | None:
    """Return the UUIDs as strings of 36 characters. None if there is any other value but null, or no UUID."""
    indices = stored.having(b"\xd8\x03", 16)
    count = len(stored.starts)
    if not len(indices) or len(indices) + np.count_nonzero(stored.nulls()) != count:
        return None
    text = np.full((len(indices), 36), ord("-"), np.uint8)
    text[:, _LETTERS] = _HEX[stored.bodies(indices, 2, 16)].reshape(len(indices), 32)
    there = np.zeros(count, np.bool_)
    there[indices] = True
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(there * 36, out=offsets[1:])
    validity = None if len(indices) == count else pa.py_buffer(np.packbits(there, bitorder="little"))
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text), validity)
