"""The types that all parts of the engine share: write sets, ranges, full keys and their limits.

A *full key* is the number of the keyspace, four bytes big endian, followed by the user's key. One ordered map holds all
keyspaces.
"""

from __future__ import annotations

from typing import NamedTuple

from lowtide.errors import UsageError

KEYSPACE_PREFIX = 4

MAX_KEY = 491
"""LMDB takes keys of 511 bytes; the history puts 20 bytes (end, begin, keyspace) before the user's key."""

MAX_VALUE = 1 << 30

MAX_COMMIT = 2 << 30
"""All that one transaction writes must fit into one record of the log."""

Writes = dict[bytes, bytes | None]
"""What a commit changes: full key to value, or None for a deletion."""

Names = dict[str, bytes]
"""Keyspaces that a commit is the first to write to: name to prefix."""


class Range(NamedTuple):
    """The full keys with ``low <= key < high``; ``high`` of None is the end of all keys. ``first`` is how many entries
    a scan reads in its first chunk, or 0 to let it choose. Later chunks are larger."""

    low: bytes
    high: bytes | None
    reverse: bool = False
    first: int = 0

    def covers(self, key: bytes) -> bool:
        return self.low <= key and (self.high is None or key < self.high)

    def beyond(self, key: bytes) -> Range:
        """The part of the range after ``key``: what a scan that has read ``key`` still has to read."""
        return Range(self.low, key, True) if self.reverse else Range(key + b"\x00", self.high)

    def upto(self, key: bytes) -> Range:
        """The part of the range up to and including ``key``."""
        return Range(key, self.high, True) if self.reverse else Range(self.low, key + b"\x00")

    def before(self, key: bytes) -> Range:
        """The part of the range below ``key``."""
        return Range(key + b"\x00", self.high, True) if self.reverse else Range(self.low, key)


def after_prefix(prefix: bytes) -> bytes | None:
    """The smallest key greater than all keys that start with ``prefix``; None if there is no such key."""
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes([trimmed[-1] + 1]) if trimmed else None


def check_key(full_key: bytes) -> None:
    """Refuse a key that LMDB could not hold."""
    if len(full_key) > MAX_KEY + KEYSPACE_PREFIX:
        raise UsageError(
            f"a key may be at most {MAX_KEY} bytes long, this one has {len(full_key) - 4}: {full_key[4:36]!r}..."
        )


def bad_key(key: object) -> UsageError:
    return UsageError(f"keys are bytes, not {type(key).__name__}: {key!r}")


def commit_too_large(payload: bytes) -> UsageError:
    return UsageError(f"a transaction may write at most {MAX_COMMIT} bytes, this one has {len(payload)}: split it")


def check_value(value: object) -> bytes:
    """Return the value as an immutable copy; raise UsageError if it is not bytes or too long."""
    if not isinstance(value, bytes | bytearray | memoryview):
        raise UsageError(f"values are bytes, not {type(value).__name__}; use delete() to remove a key")
    if len(value) > MAX_VALUE:
        raise UsageError(f"a value may be at most {MAX_VALUE} bytes long, this one has {len(value)}")
    return bytes(value)
