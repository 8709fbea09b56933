"""The indexes of statements: four orders of the same four ids, and which of them answers a pattern.

    quads/NAME/spoc   subject predicate object graph -> how it was added
    quads/NAME/posc   predicate object subject graph
    quads/NAME/ospc   object subject predicate graph
    quads/NAME/cspo   graph subject predicate object

Every statement is in each of them with the same value, and they are always written together. So each of them can answer
any pattern: by one range of keys and, if the bound positions are not a prefix, a filter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final, NamedTuple

from lowtide.engine import KEYSPACE_PREFIX, PrefixOf, Range, after_prefix
from lowtide.errors import UsageError
from lowtide.quads.hashing import ID_BYTES

QUADS: Final = "quads/"
CATALOG: Final = "lowtide/quads"
"""Of each quad store the number of collections of terms so far, see ``dictionary``."""
MAX_NAME: Final = 100
EXPLICIT: Final = b"e"
INFERRED: Final = b"i"
PASSED: Final = b"\x01"
"""Behind an id, the key of its mark in the dictionary; and the value of the mark."""
ORDERS: Final = ("spoc", "posc", "ospc", "cspo")
PLACES: Final = {order: tuple("spoc".index(each) for each in order) for order in ORDERS}
"""For each index, the order of subject, predicate, object and graph in its keys."""

QuadIds = tuple[bytes, bytes, bytes, bytes]
"""The ids of a statement: subject, predicate, object, graph."""
IdPattern = tuple[bytes | None, bytes | None, bytes | None, bytes | None]
"""The wanted ids; None for any."""


class QuadPrefixes(NamedTuple):
    """The prefixes of the keyspaces of one quad store."""

    spoc: bytes
    posc: bytes
    ospc: bytes
    cspo: bytes
    terms: bytes
    epoch: bytes
    """The full key of its row in the catalog."""

    @property
    def indexes(self) -> tuple[tuple[str, bytes], ...]:
        """The indexes, and their prefixes."""
        return tuple(zip(ORDERS, self[:4], strict=True))

    @property
    def written(self) -> frozenset[bytes]:
        """The keyspaces in which equal puts merge: all but the catalog."""
        return frozenset(self[:5])


def check_quads_name(name: object) -> str:
    """Return ``name`` if it is a valid name of a quad store."""
    if not isinstance(name, str) or not name:
        raise UsageError(f"a quad store's name is a non-empty string, not {name!r}")
    try:
        length = len(name.encode())
    except UnicodeEncodeError as error:
        raise UsageError(f"a quad store's name must be encodable as UTF-8: {error}") from error
    if length > MAX_NAME:
        raise UsageError(f"a quad store's name has at most {MAX_NAME} bytes: {name[:40]!r}...")
    if "/" in name or "\x00" in name:
        raise UsageError(f"a quad store's name has no / or NUL: {name!r}")
    return name


def quads_names(keyspaces: Iterable[str]) -> list[str]:
    """Return the names of the quad stores that keyspaces belong to, in order."""
    ending = "/spoc"
    return sorted(
        each[len(QUADS) : -len(ending)] for each in keyspaces if each.startswith(QUADS) and each.endswith(ending)
    )


def prefixes_of(prefix_of: PrefixOf, name: str) -> QuadPrefixes:
    """Return the prefixes of a quad store's keyspaces."""
    spoc, posc, ospc, cspo, terms = (prefix_of(f"{QUADS}{name}/{each}") for each in (*ORDERS, "terms"))
    epoch = prefix_of(CATALOG) + name.encode()
    return QuadPrefixes(spoc=spoc, posc=posc, ospc=ospc, cspo=cspo, terms=terms, epoch=epoch)


class Access(NamedTuple):
    """How an index answers a pattern: by the first ``bound`` ids of its keys. ``places`` are where the ids of the
    pattern are in its order; those after ``bound`` that the pattern has, too, are left to a filter."""

    order: str
    bound: int
    places: tuple[int, ...]

    def key(self, pattern: Sequence[bytes | None]) -> bytes:
        """The ids that the index is searched for."""
        return b"".join([pattern[place] or b"" for place in self.places[: self.bound]])

    def range(self, prefix: bytes, pattern: Sequence[bytes | None]) -> Range:
        """The full keys that may match; ``prefix`` is that of the index's keyspace."""
        low = prefix + self.key(pattern)
        return Range(low, after_prefix(low))

    def filter(self, pattern: Sequence[bytes | None]) -> list[tuple[int, int, bytes]]:
        """What a key must have besides: from where to where, and which id."""
        rest = ((at * ID_BYTES, pattern[self.places[at]]) for at in range(self.bound, 4))
        return [(start, start + ID_BYTES, wanted) for start, wanted in rest if wanted is not None]


@cache
def accesses(bound: tuple[bool, bool, bool, bool]) -> tuple[Access, ...]:
    """The indexes that answer a pattern with the longest prefix, by which of subject, predicate, object and graph are
    bound. Several, if the data decides which one has the least to read."""
    found = []
    for order, places in PLACES.items():
        length = next((at for at, place in enumerate(places) if not bound[place]), 4)
        found.append(Access(order, length, places))
    longest = max(each.bound for each in found)
    best = [each for each in found if each.bound == longest]
    if longest in (0, 4) or sum(bound) == longest:
        return (best[0],)
    return tuple(best)


def quad_of(order: str, key: bytes) -> QuadIds:
    """The ids of a statement by its key in an index, without the keyspace's prefix."""
    a, b, c, d = key[:8], key[8:16], key[16:24], key[24:]
    if order == "spoc":
        return a, b, c, d
    if order == "posc":
        return c, a, b, d
    if order == "ospc":
        return b, c, a, d
    return b, c, d, a


def places_of(order: str) -> tuple[int, ...]:
    """Where subject, predicate, object and graph are among the ids of an index's keys."""
    return tuple(order.index(each) for each in "spoc")


FULL_KEY: Final = KEYSPACE_PREFIX + 4 * ID_BYTES
