"""Many short ranges at once: the keys that begin with each of some prefixes.

A scan costs as much as reading dozens of entries. A join asks for the few keys behind hundreds of prefixes, so these
are read in one transaction of LMDB. A prefix that a layer has keys of, or that has many keys, is left to a scan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from lowtide.engine.types import KEYSPACE_PREFIX, Range, after_prefix
from lowtide.engine.versions.visibility import Reader

_MOST: Final = 128
"""A prefix with so many keys is scanned."""

Chunks = Callable[[Range], Iterator[list[tuple[bytes, bytes]]]]
"""A scan, in lists of entries with the user's keys."""


def keys_under(
    reader: Reader, prefixes: list[bytes], ts: int, chunks: Chunks, most: int | None
) -> list[list[bytes] | None]:
    """Of each prefix of full keys, which is longer than its keyspace's, the user's keys that begin with it and are
    visible at ``ts``, a registered snapshot; None if they are more than ``most``. ``chunks`` scans where that is
    needed."""
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
    """The user's keys that begin with a prefix, by a scan; None if they are more than ``most``."""
    found: list[bytes] = []
    for chunk in chunks(Range(prefix, after_prefix(prefix))):
        found += [key for key, _ in chunk]
        if most is not None and len(found) > most:
            return None
    return found
