"""Triple patterns of a query, with constants as ids and simple property paths taken apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import ref

from rdflib.paths import InvPath, Path, SequencePath
from rdflib.plugins.sparql.parserutils import CompValue
from rdflib.term import BNode, Identifier

from lowtide.quads.sparql.scopes import is_variable
from lowtide.quads.sparql.terms import TermSpace

if TYPE_CHECKING:
    from lowtide.quads.sparql.rows import PatternLookup

End = int | Identifier
"""A place of a pattern: the id of a constant, or a variable."""
_NO_PREDICATE: Final = BNode()


class TriplePattern:
    """Subject, predicate and object. If ``path`` is not None, it is in the place of the predicate: a path that is not a
    chain of steps. Nothing but ``lookups`` changes."""

    __slots__ = ("constants", "is_local", "lookups", "o", "p", "path", "s", "variables")

    def __init__(self, s: End, p: End | Path, o: End) -> None:
        self.s = s
        self.p: End = _NO_PREDICATE if isinstance(p, Path) else p
        self.path = p if isinstance(p, Path) else None
        self.o = o
        self.lookups: dict[tuple[tuple[Identifier, ...], int], PatternLookup] = {}
        """How it is looked up, by the variables that are known and the graph. Any thread adds to it without a lock: two
        at most find out the same twice."""
        self.variables: list[Identifier] = []
        """Its variables, each once."""
        self.constants = 0
        """How many of its places are given."""
        self.is_local = False
        """Whether the store lacks one of its terms. Those in a path have no ids here."""
        for place in (s, o) if self.path is not None else (s, self.p, o):
            if isinstance(place, int):
                self.constants += 1
                self.is_local |= TermSpace.is_local(place)
            elif place not in self.variables:
                self.variables.append(place)

    def show(self, terms: TermSpace) -> str:
        """The pattern as text, for ``explain``."""
        return " ".join(_shown(place, terms) for place in (self.s, self.path or self.p, self.o))


class ResolvedPart(NamedTuple):
    """The triple patterns of a part of a query, with ids, and since when the store has all their terms."""

    part: CompValue
    """Which is kept, so that no other part gets its identity."""
    known: ref[object]
    """What the dictionary remembered then, see ``IdReader.known``. The store may be closed meanwhile."""
    ts: int
    patterns: list[TriplePattern]


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
