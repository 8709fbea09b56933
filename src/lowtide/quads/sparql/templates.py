"""Templates of CONSTRUCT and of updates, filled with solutions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from rdflib.term import BNode, Identifier, URIRef, Variable

from lowtide.quads.sparql.extents import StatementColumns
from lowtide.quads.sparql.tables import Column, Solutions, distinct
from lowtide.quads.sparql.terms import TermSpace, local

Triple = tuple[Identifier, Identifier, Identifier]
Quad = tuple[Identifier, Identifier, Identifier, Identifier | None]


def is_triple(s: Identifier | None, p: Identifier | None, o: Identifier | None) -> bool:
    """Whether terms make a statement of RDF; a template that gives anything else gives nothing."""
    return isinstance(s, URIRef | BNode) and isinstance(p, URIRef) and o is not None


def constructed(terms: TermSpace, template: Sequence[Triple], table: Solutions) -> Iterator[Triple]:
    """The triples of a template for each solution. Blank nodes of the template are new for each of them."""
    for s, p, o, _ in constructed_quads(terms, table, template, {}, None):
        yield s, p, o


def constructed_quads(
    terms: TermSpace,
    table: Solutions,
    triples: Sequence[Triple],
    quads: Mapping[Identifier, Sequence[Triple]],
    target: Identifier | None,
) -> Iterator[Quad]:
    """The statements of a template for each solution; triples without a graph are in ``target``."""
    template: list[tuple[Identifier | None, ...]] = [(*triple, target) for triple in triples]
    template += [(*triple, graph) for graph, inside in quads.items() for triple in inside]
    names = dict.fromkeys(term for quad in template for term in quad if isinstance(term, Variable))
    if not any(isinstance(term, BNode) for quad in template for term in quad[:3]):
        table = distinct(table.only(names))
    columns = {name: terms.terms_of(table.column(name)) for name in names}
    for row in range(table.size):
        filled = _filler(columns, row)
        for quad in template:
            s, p, o = (filled(term) for term in quad[:3])
            g = filled(quad[3]) if isinstance(quad[3], Variable) else quad[3]  # a graph may be named by a blank node
            if is_triple(s, p, o) and (quad[3] is None or isinstance(g, URIRef | BNode)):
                yield s, p, o, g  # type: ignore[misc]


def _filler(
    columns: Mapping[Variable, list[Identifier | None]], row: int
) -> Callable[[Identifier | None], Identifier | None]:
    """What a term of a template stands for in one solution."""
    fresh: dict[Identifier, BNode] = {}

    def filled(term: Identifier | None) -> Identifier | None:
        if isinstance(term, Variable):
            return columns[term][row]
        if isinstance(term, BNode):
            return fresh.setdefault(term, BNode())
        return term

    return filled


def id_quads(terms: TermSpace, table: Solutions, triple: Triple, graph: int | Variable) -> StatementColumns:
    """The statements that a pattern of a template gives, as ids; not those with a term that the store does not have."""

    def column(place: Identifier | int) -> Column:
        if isinstance(place, Variable):
            return table.column(place)
        return np.full(table.size, place if isinstance(place, int) else terms.id_of(place), np.uint64)

    columns = [column(place) for place in (*triple, graph)]
    known = np.ones(table.size, np.bool_)
    for number, each in enumerate(columns):
        known &= ~local(each)
        if number < 3 or isinstance(graph, Variable):
            known &= each != 0
    return StatementColumns(*(each[known] for each in columns))
