"""The order of terms that ORDER BY, MIN and MAX use."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from rdflib.plugins.sparql.evalutils import _val

from lowtide.quads import ids
from lowtide.quads.sparql.deadline import Deadline
from lowtide.quads.sparql.tables import Column
from lowtide.quads.sparql.terms import TermSpace

BETWEEN_CHECKS: Final = 1_024
"""Comparisons between two checks of the clock."""


def ranks(column: Column, terms: TermSpace, deadline: Deadline) -> NDArray[np.int64]:
    """A number for each row, in the order of the terms: 0 is not bound, then blank nodes, IRIs and literals. Terms of
    equal value have equal ranks."""
    distinct, inverse = np.unique(column, return_inverse=True)
    bound = distinct[distinct != 0]
    shift = len(distinct) - len(bound)
    if ids.is_integer(bound).all():
        order = np.arange(len(distinct)) + (1 - shift)
        return order[inverse].astype(np.int64)
    deadline.check()
    found: list[Any] = terms.terms_of(bound)
    numbers = np.zeros(len(distinct), np.int64)
    if ids.is_iri(bound).all():  # their order is that of their texts
        texts = list(map(str, found))
        numbers[np.array(sorted(range(len(texts)), key=texts.__getitem__), np.intp) + shift] = np.arange(len(texts)) + 1
        return numbers[inverse]
    comparisons = _Comparisons(deadline)
    decoded = sorted(_Ranked(*_val(term), place, comparisons) for place, term in enumerate(found))
    rank = 0
    previous = None
    for each in decoded:
        if previous is None or previous < each:
            rank += 1
        previous = each
        numbers[each.place + shift] = rank
    return numbers[inverse]


class _Comparisons:
    """Counts the comparisons of one sort, which are slow, and looks at the clock now and then."""

    __slots__ = ("_count", "_deadline")

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self._count = 0

    def count(self) -> None:
        self._count += 1
        if self._count % BETWEEN_CHECKS == 0:
            self._deadline.check()


class _Ranked:
    """A term in a sort, as rdflib sorts terms: by their kind, then by themselves."""

    __slots__ = ("_comparisons", "_kind", "_term", "place")

    def __init__(self, kind: int, term: Any, place: int, comparisons: _Comparisons) -> None:
        self._kind = kind
        self._term = term
        self.place = place
        self._comparisons = comparisons

    def __lt__(self, other: _Ranked) -> bool:
        self._comparisons.count()
        if self._kind != other._kind:
            return self._kind < other._kind
        less: bool = self._term < other._term
        return less
