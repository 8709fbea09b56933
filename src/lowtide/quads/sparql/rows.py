"""A few solutions as rows of ids, and their joins with triple patterns by lookups.

Arrays would cost more than they save here. A row has an id of eight bytes for each variable: keys of indexes are put
together of them and taken apart again, without numbers in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from rdflib.term import Identifier

from lowtide.quads.hashing import ID_BYTES
from lowtide.quads.indexes import accesses
from lowtide.quads.sparql.patterns import TriplePattern
from lowtide.quads.sparql.tables import Column, Solutions

if TYPE_CHECKING:
    from lowtide.quads.sparql.matching import Matcher

_KEY: Final = 4 * ID_BYTES
_KEPT: Final = 16
"""Ways to look up one pattern that are kept with it."""
Row = tuple[bytes, ...]


class Rows:
    """Solutions, each with the ids of ``names`` in this order; no variable is unbound. Nothing changes one."""

    __slots__ = ("names", "rows")

    def __init__(self, names: tuple[Identifier, ...], rows: list[Row]) -> None:
        self.names = names
        self.rows = rows

    @property
    def size(self) -> int:
        return len(self.rows)

    @staticmethod
    def of(table: Solutions) -> Rows:
        """The solutions of a table."""
        if not table.columns:
            return Rows((), [()] * table.size)
        columns = [column.astype(">u8").tobytes() for column in table.columns.values()]
        starts = range(0, table.size * ID_BYTES, ID_BYTES)
        ids = [[raw[start : start + ID_BYTES] for start in starts] for raw in columns]
        return Rows(tuple(table.columns), list(zip(*ids, strict=True)))

    def table(self) -> Solutions:
        """The same solutions as a table."""
        rows = self.rows
        columns: dict[Identifier, Column] = {
            name: np.frombuffer(b"".join([row[place] for row in rows]), ">u8").astype(np.uint64)
            for place, name in enumerate(self.names)
        }
        return Solutions(columns, len(rows))


class PatternLookup:
    """How a triple pattern of one graph is looked up for rows with certain variables. An id of the evaluation alone is
    in no statement, so nothing is found for it."""

    __slots__ = ("_again", "_graph", "_graph_at", "_new", "_parts", "names")

    def __init__(self, pattern: TriplePattern, names: tuple[Identifier, ...], graph: int, matcher: Matcher) -> None:
        ends = (pattern.s, pattern.p, pattern.o)
        known: list[bytes | int | None] = [
            end.to_bytes(ID_BYTES, "big") if isinstance(end, int) else names.index(end) if end in names else None
            for end in ends
        ]
        s, p, o = (each is not None for each in known)
        access = accesses((s, p, o, True))[0]
        known.append(graph.to_bytes(ID_BYTES, "big"))
        self._parts: list[bytes | int] = [matcher.prefix_of(access.order)]
        """What a key begins with: bytes, and where in a row an id is."""
        for place in access.places[: access.bound]:
            part = known[place]
            assert part is not None
            self._parts.append(part)
        self._graph = graph.to_bytes(ID_BYTES, "big")
        self._graph_at = access.order.index("c") * ID_BYTES if access.order != "cspo" and access.bound < 4 else None
        """Where in a key the graph is, if it has to be compared."""
        new: dict[Identifier, int] = {}
        self._again: list[tuple[int, int]] = []
        """Where in a key the same variable is twice."""
        for letter, end, part in zip("spo", ends, known[:3], strict=True):
            if part is None and not isinstance(end, int):
                at = access.order.index(letter) * ID_BYTES
                if end in new:
                    self._again.append((new[end], at))
                else:
                    new[end] = at
        self._new = list(new.values())
        self.names = (*names, *new)
        """The variables of the rows that come out."""

    def prefixes(self, rows: Sequence[Row]) -> list[bytes]:
        """What the keys begin with that match each row."""
        parts = self._parts
        return [b"".join([row[part] if isinstance(part, int) else part for part in parts]) for row in rows]

    def matches(self, raw: bytes) -> list[Row]:
        """Of keys with the right beginning, one behind the other, the ids of the new variables in those that match."""
        keys: Sequence[int] = range(0, len(raw), _KEY)
        graph, at = self._graph, self._graph_at
        if at is not None:
            keys = [key for key in keys if raw[key + at : key + at + ID_BYTES] == graph]
        for one, other in self._again:
            keys = [
                key
                for key in keys
                if raw[key + one : key + one + ID_BYTES] == raw[key + other : key + other + ID_BYTES]
            ]
        new = self._new
        if len(new) == 1:
            start = new[0]
            return [(raw[key + start : key + start + ID_BYTES],) for key in keys]
        return [tuple([raw[key + start : key + start + ID_BYTES] for start in new]) for key in keys]

    def joined(self, rows: Sequence[Row], matcher: Matcher) -> Rows:
        """The rows with what is found for each."""
        found = matcher.under(self.prefixes(rows))
        matches = self.matches
        return Rows(
            self.names, [row + new for row, raw in zip(rows, found, strict=True) if raw for new in matches(raw)]
        )

    def counts(self, rows: Sequence[Row], matcher: Matcher) -> list[int | None]:
        """How much is found for each row; None if it is much."""
        found = matcher.few_under(self.prefixes(rows))
        return [None if raw is None else len(self.matches(raw)) for raw in found]


def lookup_of(pattern: TriplePattern, names: tuple[Identifier, ...], graph: int, matcher: Matcher) -> PatternLookup:
    """How to look up a pattern, kept with it."""
    key = (names, graph)
    found = pattern.lookups.get(key)
    if found is None:
        if len(pattern.lookups) >= _KEPT:
            pattern.lookups.clear()
        found = pattern.lookups[key] = PatternLookup(pattern, names, graph, matcher)
    return found
