"""Generates the function that computes the index entry of a document, for indexes on any number of top-level fields.

For an index on ``a`` ascending and ``b`` descending, the function is:

    def entry(document):
        a0 = document.get('a')
        a1 = document.get('b')
        if type(a0) is list or type(a1) is list: return None
        key = encoders[type(a0)](a0) + encoders[type(a1)](a1).translate(inverse)
        return key if len(key) <= most else None
"""

from __future__ import annotations

from collections import Counter
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
Entries = Callable[[Document, bytes, bytes, Callable[[str], bytes]], dict[bytes, bytes | None] | None]
"""Computes the entries of a document in all indexes, see ``entries_function``."""


@lru_cache(maxsize=512)
def entry_function(keys: tuple[tuple[str, int], ...], most: int) -> Entry:
    """Return the function for an index with these keys, whose paths have no dots. ``most`` is the maximum length of an
    entry."""
    places = range(len(keys))
    lines = [f"a{place} = document.get({literal(path)})" for place, (path, _) in enumerate(keys)]
    lines.append(f"if {' or '.join(f'type(a{place}) is list' for place in places)}: return None")
    lines.append(f"key = {encoded_parts([(f'a{place}', keys[place][1]) for place in places])}")
    lines.append("return key if len(key) <= most else None")
    made: Entry = function("entry(document)", lines, encoders=ENCODERS, inverse=INVERSE, most=most)
    return made


def entries_function(indexes: tuple[tuple[str, tuple[tuple[str, int], ...]], ...], most: int) -> Entries:
    """Return the function that computes the entries, in several indexes, of a document given by a caller. Each index is
    given as its keyspace and its keys; see ``entry_function``. The function takes the document, its key, the value of
    an entry, and a function that returns the prefix of a keyspace. It returns None if an entry is too long, or if a
    value is not plain: such a value may be stored as another one, as a tuple is, or have several entries."""
    fields = {path: f"a{place}" for place, path in enumerate({path: None for _, keys in indexes for path, _ in keys})}
    lines = [f"{local} = document.get({literal(path)})" for path, local in fields.items()]
    lines.append(f"if {' or '.join(f'type({local}) not in plain' for local in fields.values())}: return None")
    used = Counter(each for _, keys in indexes for each in keys)
    shared = {each: f"e{place}" for place, each in enumerate(used) if used[each] > 1}
    lines += [f"{part} = {encoded_parts([(fields[path], turn)])}" for (path, turn), part in shared.items()]
    for place, (_, keys) in enumerate(indexes):
        parts = [shared.get((path, turn)) or encoded_parts([(fields[path], turn)]) for path, turn in keys]
        lines.append(f"k{place} = {' + '.join(parts)}")
    places = range(len(indexes))
    lines.append(f"if {' or '.join(f'len(k{place}) > most' for place in places)}: return None")
    made = ", ".join(f"prefix_of({literal(indexes[place][0])}) + k{place} + key: value" for place in places)
    lines.append(f"return {{{made}}}")
    names = {"encoders": ENCODERS, "inverse": INVERSE, "most": most, "plain": _PLAIN}
    entries: Entries = function("entries(document, key, value, prefix_of)", lines, **names)
    return entries


def encoded_parts(parts: Sequence[tuple[str, int]]) -> str:
    """Return the source text that encodes values, each given as its source text and the direction of its field."""
    turn = {1: "", -1: ".translate(inverse)"}
    return " + ".join(f"encoders[type({value})]({value}){turn[direction]}" for value, direction in parts)
