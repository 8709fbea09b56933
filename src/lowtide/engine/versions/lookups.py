"""Reads many short ranges at once: the keys that begin with each of many prefixes.

A scan costs as much as reading dozens of entries. A join asks for a few keys under each of hundreds of prefixes, so
these are read in one LMDB transaction. A prefix that has many keys, or keys in a layer, is scanned instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from lowtide.engine.types import KEYSPACE_PREFIX, Range, after_prefix
from lowtide.engine.versions.visibility import Reader

_MOST: Final = 128
"""A prefix with this many keys is scanned."""

Chunks = Callable[[Range], Iterator[list[tuple[bytes, bytes]]]]
"""A scan, in lists of entries with the user's keys."""


def keys_under(
    reader: Reader, prefixes: list[bytes], ts: int, chunks: Chunks, most: int | None
) -> list[list[bytes] | None]:
    """For each prefix of full keys, the user's keys that begin with it and are visible at ``ts``, a registered
    snapshot. Each prefix must be longer than that of its keyspace. The result is None for a prefix with more than
    ``most`` keys. ``chunks`` scans a prefix if needed."""
    versions, base = reader.sources
    touched: set[bytes] = set()
    for layer in versions.layers:  # before the base, see ``visibility``
        touched.update(layer.keys.touched(prefixes))
    found = base.keys_under(prefixes, ts, most=_MOST, strip=KEYSPACE_PREFIX)
    if not touched and None not in found and most is None:
        return found
    return [
        scanned_under(prefix, chunks, most)
        if keys is None or prefix in touched
        else None
        if most is not None and len(keys) > most
        else keys
        for prefix, keys in zip(prefixes, found, strict=True)
    ]


def scanned_under(prefix: bytes, chunks: Chunks, most: int | None) -> list[bytes] | None:
    """The user's keys that begin with a prefix, by a scan; None if there are more than ``most``."""
    found: list[bytes] = []
    for chunk in chunks(Range(prefix, after_prefix(prefix))):
        found += [key for key, _ in chunk]
        if most is not None and len(found) > most:
            return None
    return found
