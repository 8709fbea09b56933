"""Writes the function that makes the index entry of a document: for indexes on top-level fields, of any number.

For an index on ``a`` ascending and ``b`` descending it is:

    def entry(document):
        a0 = document.get('a')
        a1 = document.get('b')
        if type(a0) is list or type(a1) is list: return None
        key = encoders[type(a0)](a0) + encoders[type(a1)](a1).translate(inverse)
        return key if len(key) <= most else None
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from lowtide.documents.prepared.source import function, literal
from lowtide.values.ordering import ENCODERS, INVERSE
from lowtide.values.values import Document

_PLAIN: Final = frozenset((str, int, float, bool, bytes, type(None)))
"""Types whose values are stored as they are."""

Entry = Callable[[Document], bytes | None]
"""Returns the encoded values of a document's only entry; None if it has several, or one that is too long."""


@lru_cache(maxsize=512)
def entry_function(keys: tuple[tuple[str, int], ...], most: int, *, given: bool = False) -> Entry:
    """Return the function for an index with these keys, whose paths have no dots. ``most`` is the length of the longest
    entry. A document that is ``given`` by a caller, not decoded, may have values that are stored as others, such as
    tuples: the function returns None for all but plain ones."""
    places = range(len(keys))
    lines = [f"a{place} = document.get({literal(path)})" for place, (path, _) in enumerate(keys)]
    refused = "not in plain" if given else "is list"
    lines.append(f"if {' or '.join(f'type(a{place}) {refused}' for place in places)}: return None")
    lines.append(f"key = {encoded_parts([(f'a{place}', keys[place][1]) for place in places])}")
    lines.append("return key if len(key) <= most else None")
    made: Entry = function("entry(document)", lines, encoders=ENCODERS, inverse=INVERSE, most=most, plain=_PLAIN)
    return made


def encoded_parts(parts: Sequence[tuple[str, int]]) -> str:
    """Return the source text that encodes values, each given as its source text and the direction of its field."""
    turn = {1: "", -1: ".translate(inverse)"}
    return " + ".join(f"encoders[type({value})]({value}){turn[direction]}" for value, direction in parts)
