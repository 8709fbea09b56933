"""The kinds of ids, and the hashes that ids are made of: everything about an id that does not need rdflib."""

from __future__ import annotations

import enum
from collections.abc import Callable
from hashlib import blake2b
from typing import Final

ID_BYTES: Final = 8
DEFAULT_GRAPH: Final = bytes(ID_BYTES)
"""The id of the default graph, which is no term."""


class IdKind(enum.IntEnum):
    """What the first four bits of an id say. The literals are from LITERAL to SHORT_TEXT."""

    SPECIAL = 0
    BNODE = 1
    IRI = 2
    LITERAL = 3
    """A literal of a datatype that is not inlined, or whose lexical form is not canonical."""
    TEXT = 4
    """A plain literal that is too long to be inlined."""
    LANGUAGE_TEXT = 5
    INTEGER = 6
    BOOLEAN = 7
    DATE = 8
    DATETIME = 9
    """Without a time zone."""
    DATETIME_UTC = 10
    SHORT_TEXT = 11
    VARIABLE = 12
    FORMULA = 13


HASHED: Final = frozenset(
    {IdKind.BNODE, IdKind.IRI, IdKind.LITERAL, IdKind.TEXT, IdKind.LANGUAGE_TEXT, IdKind.VARIABLE, IdKind.FORMULA}
)


def _blake2b(data: bytes) -> bytes:
    return blake2b(data, digest_size=ID_BYTES).digest()


digest: Callable[[bytes], bytes] = _blake2b
"""The hash of bytes, 8 bytes. Tests replace it with a short one to make terms collide."""
_HEADS: Final = [bytes([head]) for head in range(256)]
_UNSALTED: Final = [b"%c0:" % kind for kind in range(16)]


def candidate(kind: int, row: bytes, salt: int) -> bytes:
    """The id number ``salt`` that a term with this row may have."""
    hashed = digest(b"%c%d:%b" % (kind, salt, row) if salt else _UNSALTED[kind] + row)
    return _HEADS[kind << 4 | hashed[0] & 15] + hashed[1:]
