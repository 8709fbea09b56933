"""The order of terms that ORDER BY, MIN and MAX use."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from rdflib.plugins.sparql.evalutils import _val

from lowtide.quads import ids
from lowtide.quads.sparql.tables import Column
from lowtide.quads.sparql.terms import TermSpace


def ranks(column: Column, terms: TermSpace) -> NDArray[np.int64]:
    """A number for each row, in the order of the terms: 0 is not bound, then blank nodes, IRIs and literals. Terms of
    equal value have equal ranks."""
    distinct, inverse = np.unique(column, return_inverse=True)
    bound = distinct[distinct != 0]
    shift = len(distinct) - len(bound)
    if ids.is_integer(bound).all():
        order = np.arange(len(distinct)) + (1 - shift)
        return order[inverse].astype(np.int64)
    found: list[Any] = terms.terms_of(bound)
    decoded = [(_val(term), place) for place, term in enumerate(found)]
    decoded.sort(key=lambda pair: pair[0])
    numbers = np.zeros(len(distinct), np.int64)
    rank = 0
    previous = None
    for key, place in decoded:
        if previous is None or previous < key:
            rank += 1
        previous = key
        numbers[place + shift] = rank
    return numbers[inverse]
