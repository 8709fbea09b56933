"""The keys of statements in all indexes, for what writes them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

import numpy as np

from lowtide.engine import KEYSPACE_PREFIX
from lowtide.quads.hashing import ID_BYTES
from lowtide.quads.indexes import FULL_KEY, PLACES, QuadIds, QuadPrefixes

_MANY: Final = 100
"""The keys of so many statements are put together as arrays, at half the cost."""


def keys_of(prefixes: QuadPrefixes, quads: Sequence[QuadIds]) -> tuple[list[bytes], ...]:
    """The full keys of statements in spoc, posc, ospc and cspo."""
    spoc, posc, ospc, cspo = prefixes[:4]
    if len(quads) < _MANY:
        return (
            [b"".join((spoc, s, p, o, c)) for s, p, o, c in quads],
            [b"".join((posc, p, o, s, c)) for s, p, o, c in quads],
            [b"".join((ospc, o, s, p, c)) for s, p, o, c in quads],
            [b"".join((cspo, c, s, p, o)) for s, p, o, c in quads],
        )
    ids = np.frombuffer(b"".join(chain.from_iterable(quads)), np.uint8).reshape(len(quads), 4, ID_BYTES)
    return tuple(_keys_in(prefix, ids, PLACES[order]) for order, prefix in prefixes.indexes)


def _keys_in(prefix: bytes, ids: np.ndarray[Any, np.dtype[np.uint8]], places: tuple[int, ...]) -> list[bytes]:
    """The full keys of many statements in one index."""
    keys = np.empty((len(ids), FULL_KEY), np.uint8)
    keys[:, :KEYSPACE_PREFIX] = np.frombuffer(prefix, np.uint8)
    for number, place in enumerate(places):
        start = KEYSPACE_PREFIX + number * ID_BYTES
        keys[:, start : start + ID_BYTES] = ids[:, place]
    found: list[bytes] = keys.view(f"V{FULL_KEY}").ravel().tolist()
    return found
