"""The join of a few solutions with a triple pattern, by one lookup for each distinct one, row by row."""

from __future__ import annotations

from itertools import accumulate
from struct import unpack
from typing import Final

import numpy as np
from rdflib.paths import Path
from rdflib.term import Identifier

from lowtide.quads.hashing import ID_BYTES
from lowtide.quads.indexes import IdPattern
from lowtide.quads.reading import IdReader
from lowtide.quads.sparql.patterns import TriplePattern
from lowtide.quads.sparql.tables import Column, Solutions

_IDS: Final = 4
"""In a key of an index."""


class FewRows:
    """A table and a pattern of one graph that share the variables ``bound``. No id of the table is that of an unbound
    variable. An id of the evaluation alone is in no statement, so nothing is found for it."""

    def __init__(self, table: Solutions, pattern: TriplePattern, bound: list[Identifier], graph: int) -> None:
        assert not isinstance(pattern.p, Path)
        self._table = table
        self._ends = (pattern.s, pattern.p, pattern.o)
        self._bound = bound
        inside = graph.to_bytes(ID_BYTES, "big")
        lists = {name: table.columns[name].tolist() for name in bound}
        places = [
            [end.to_bytes(ID_BYTES, "big")] * table.size
            if isinstance(end, int)
            else [each.to_bytes(ID_BYTES, "big") for each in lists[end]]
            if end in lists
            else [None] * table.size
            for end in self._ends
        ]
        self._asked: dict[IdPattern, int] = {}
        """The distinct patterns of the rows, numbered."""
        number = self._asked.setdefault
        self._numbers = [number((s, p, o, inside), len(self._asked)) for s, p, o in zip(*places, strict=True)]

    @property
    def lookups(self) -> int:
        """How many there are to do."""
        return len(self._asked)

    def joined(self, reader: IdReader) -> Solutions:
        """The solutions of both."""
        order, sizes, raw = reader.look_up(list(self._asked))
        ids = unpack(f">{len(raw) // ID_BYTES}Q", raw)
        starts = [0, *accumulate(sizes)]
        new: dict[Identifier, int] = {}
        """The variables that the table lacks, and their places in a key."""
        again: list[tuple[int, int]] = []
        for letter, end in zip("spo", self._ends, strict=True):
            if not isinstance(end, int) and end not in self._bound:
                place = order.index(letter)
                if end in new:
                    again.append((new[end], place))
                else:
                    new[end] = place
        found = [
            (row, _IDS * key)
            for row, number in enumerate(self._numbers)
            for key in range(starts[number], starts[number + 1])
        ]
        for one, other in again:  # the same variable twice
            found = [(row, key) for row, key in found if ids[key + one] == ids[key + other]]
        rows = [row for row, _ in found]
        columns: dict[Identifier, Column] = dict(self._table.columns)
        if rows != list(range(self._table.size)):
            taken = np.array(rows, np.intp)
            columns = {name: column[taken] for name, column in columns.items()}
        for name, place in new.items():
            columns[name] = np.array([ids[key + place] for _, key in found], np.uint64)
        return Solutions(columns, len(found))
