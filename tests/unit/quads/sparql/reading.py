"""Statements from text, and solutions as multisets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from rdflib import Dataset
from rdflib.graph import DATASET_DEFAULT_GRAPH_ID
from rdflib.plugins.sparql.sparql import Query

from lowtide.quads import IdReader, Quads
from lowtide.quads.sparql import query
from tests.unit.quads.sparql.generating import PREFIX, Statement

Multiset = Counter[frozenset[tuple[str, str]]]


def statements(text: str) -> list[Statement]:
    """The statements of TriG."""
    dataset = Dataset()
    dataset.parse(data=PREFIX + text, format="trig")
    found: Iterable[Any] = dataset.quads()
    return [(s, p, o, None if g in (None, DATASET_DEFAULT_GRAPH_ID) else g) for s, p, o, g in found]


def contents(quads: Quads) -> set[str]:
    """All statements as short texts."""
    return {
        " ".join("" if term is None else term.n3().replace("http://example.org/", "") for term in quad).strip()
        for quad in quads.match(None, None, None)
    }


def solutions(result: Any, *, plain: bool = False) -> Multiset:
    """The solutions of a result as a multiset; ``plain`` without the kinds of terms."""
    return Counter(
        frozenset((str(name), str(term) if plain else term.n3()) for name, term in row.items() if term is not None)
        for row in result.bindings
    )


def ask_rows(reader: IdReader, text: str | Query, **options: Any) -> Any:
    """The result of a query whose solutions are rows."""
    return query(reader, text, **options)
