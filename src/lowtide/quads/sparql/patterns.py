"""Triple patterns of a query, with constants as ids and simple property paths taken apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rdflib.paths import InvPath, Path, SequencePath
from rdflib.term import BNode, Identifier

from lowtide.quads.sparql.scopes import is_variable
from lowtide.quads.sparql.terms import TermSpace

End = int | Identifier
"""A place of a pattern: the id of a constant, or a variable."""


class TriplePattern:
    """Subject, predicate and object. The predicate may be a path that is not a chain of steps. Nothing changes it."""

    __slots__ = ("constants", "o", "p", "s", "variables")

    def __init__(self, s: End, p: End | Path, o: End) -> None:
        self.s = s
        self.p = p
        self.o = o
        self.variables: list[Identifier] = []
        """Its variables, each once."""
        self.constants = 0
        """How many of its places are given."""
        for place in (s, p, o):
            if isinstance(place, int):
                self.constants += 1
            elif not isinstance(place, Path) and place not in self.variables:
                self.variables.append(place)

    def show(self, terms: TermSpace) -> str:
        """The pattern as text, for ``explain``."""
        return " ".join(_shown(place, terms) for place in (self.s, self.p, self.o))


def _shown(place: End | Path, terms: TermSpace) -> str:
    if isinstance(place, int):
        term = terms.term_of(place)
        return "" if term is None else term.n3()
    return place.n3()


def resolved(
    triples: Iterable[tuple[Identifier, Identifier | Path, Identifier]], terms: TermSpace
) -> list[TriplePattern]:
    """The patterns of a basic graph pattern. Chains of steps become several patterns with blank nodes between them, so
    that each step takes its place in the join order."""
    return [each for s, p, o in triples for each in _steps(_end(s, terms), p, _end(o, terms), terms)]


def _end(term: Identifier, terms: TermSpace) -> End:
    return term if is_variable(term) else terms.id_of(term)


def _steps(s: End, p: Identifier | Path, o: End, terms: TermSpace) -> Iterator[TriplePattern]:
    if isinstance(p, SequencePath):
        for number, step in enumerate(p.args):
            last = number == len(p.args) - 1
            between = o if last else BNode()
            yield from _steps(s, step, between, terms)
            s = between
    elif isinstance(p, InvPath):
        yield from _steps(o, p.arg, s, terms)
    elif isinstance(p, Path):
        yield TriplePattern(s, p, o)
    else:
        yield TriplePattern(s, _end(p, terms), o)
