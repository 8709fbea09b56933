"""The layout of versions in LMDB. ``types`` describes the layout of keys.

A *row* of the base is the version's timestamp, eight bytes big endian, before the value. Timestamps stay below 2**63,
so a row with the highest bit set is a tombstone: a deletion whose timestamp a live writer may still conflict with.
``row < horizon(ts)`` is then the whole visibility test: bytes compare as the timestamps do, and a tombstone is newer
than everything.
"""

from __future__ import annotations

from lowtide.engine.types import KEYSPACE_PREFIX

_TOMBSTONE = 1 << 63
MAX_TS = (1 << 62) - 1
"""The largest valid timestamp. One commit per nanosecond for a century would not reach it."""

LATEST = b"\x80"
"""The horizon of a reader that wants the newest version, whatever its timestamp."""


def encode_ts(ts: int) -> bytes:
    return ts.to_bytes(8, "big")


def decode_ts(data: bytes) -> int:
    return int.from_bytes(data[:8], "big")


def horizon(ts: int) -> bytes:
    """Bytes that are greater than every row visible at ``ts``, and not greater than any other row."""
    return (ts + 1).to_bytes(8, "big")


def encode_row(ts: int, value: bytes) -> bytes:
    return ts.to_bytes(8, "big") + value


def encode_tombstone(ts: int) -> bytes:
    return (ts | _TOMBSTONE).to_bytes(8, "big")


def is_tombstone(row: bytes) -> bool:
    return row >= LATEST


def row_ts(row: bytes) -> int:
    """When the row's version, or its deletion, was committed."""
    return int.from_bytes(row[:8], "big") & ~_TOMBSTONE


def row_value(row: bytes) -> bytes:
    return row[8:]


def encode_keyspace(number: int) -> bytes:
    """The prefix of all full keys of a keyspace."""
    return number.to_bytes(KEYSPACE_PREFIX, "big")


def decode_keyspace(prefix: bytes) -> int:
    return int.from_bytes(prefix, "big")
