"""A hash of terms that is short enough for terms to collide."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b

from lowtide.quads import hashing


@contextmanager
def short_hashes(values: int = 3) -> Iterator[None]:
    """While this lasts, the hashes of all terms have so many values, and those of all second candidates as many others,
    and so on."""
    kept = hashing.digest

    def digest(data: bytes) -> bytes:
        salt = int(data[1 : data.index(b":")])
        return bytes(6) + bytes([salt, blake2b(data, digest_size=1).digest()[0] % values])

    hashing.digest = digest
    try:
        yield
    finally:
        hashing.digest = kept
