"""How keys and versions are laid out, in memory, in the log and in LMDB alike.

A *full key* is the keyspace's number, four bytes big endian, before the user's key: one ordered map holds all
keyspaces.

A *row* of the base is the version's timestamp, eight bytes big endian, before the value. Timestamps stay below 2**63,
so a row with the highest bit set is a tombstone: a deletion whose timestamp a live writer may still conflict with.
``row < horizon(ts)`` is then the whole test for visibility: bytes compare as the timestamps do, and a tombstone is
newer than everything.
"""

from __future__ import annotations

from lowtide.errors import UsageError

KEYSPACE_PREFIX = 4

MAX_KEY = 491
"""LMDB takes keys of 511 bytes; the history puts 20 bytes (end, begin, keyspace) before the user's."""

MAX_VALUE = 1 << 30

MAX_COMMIT = 2 << 30
"""All that one transaction writes must fit into one record of the log."""

_TOMBSTONE = 1 << 63
MAX_TS = (1 << 62) - 1
"""No timestamp is greater, whatever the files say: a commit in each nanosecond of a century would not get there."""

LATEST = b"\x80"
"""The horizon of a reader that wants the newest version, whatever its timestamp."""


def encode_ts(ts: int) -> bytes:
    return ts.to_bytes(8, "big")


def decode_ts(data: bytes) -> int:
    return int.from_bytes(data[:8], "big")


def horizon(ts: int) -> bytes:
    """The bytes that are greater than every row visible at ``ts``, and no greater than any other."""
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


def after_prefix(prefix: bytes) -> bytes | None:
    """The smallest key greater than all keys that start with ``prefix``; None if there is no such key."""
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes([trimmed[-1] + 1]) if trimmed else None


def check_key(full_key: bytes) -> None:
    """Refuse a key that LMDB could not hold."""
    if len(full_key) > MAX_KEY + KEYSPACE_PREFIX:
        raise UsageError(
            f"a key may be {MAX_KEY} bytes long at most, this one is {len(full_key) - 4}: {full_key[4:36]!r}..."
        )


def bad_key(key: object) -> UsageError:
    return UsageError(f"keys are bytes, not {type(key).__name__}: {key!r}")


def commit_too_large(payload: bytes) -> UsageError:
    return UsageError(f"a transaction may write {MAX_COMMIT} bytes at most, this one has {len(payload)}: split it")


def check_value(value: object) -> bytes:
    """The value as bytes of its own, or a UsageError."""
    if not isinstance(value, bytes | bytearray | memoryview):
        raise UsageError(f"values are bytes, not {type(value).__name__}; use delete() to remove a key")
    if len(value) > MAX_VALUE:
        raise UsageError(f"a value may be {MAX_VALUE} bytes long at most, this one is {len(value)}")
    return bytes(value)
