"""``ReadQuads``: a quad store that can only be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from lowtide.engine import PrefixOf, ReadView, Statements
from lowtide.errors import UsageError
from lowtide.quads.created_graphs import CreatedGraphs
from lowtide.quads.hashing import DEFAULT_GRAPH
from lowtide.quads.ids import DEFAULT, DefaultGraph, Term
from lowtide.quads.indexes import QUADS, IdPattern, check_quads_name, quad_of
from lowtide.quads.prefixes import Prefixes
from lowtide.quads.reading import IdReader, open_reader

_Result = TypeVar("_Result")
Quad = tuple[Term, Term, Term, Term | None]
"""A statement: subject, predicate, object, and its graph, None for the default graph."""
Pattern = tuple[Any, ...]
"""Of a statement, or of its first three parts, each a term, or None for any; the graph may be DEFAULT."""
_ANY = (None, None, None, None)


def pattern_of(pattern: Any) -> tuple[Any, Any, Any, Any]:
    """Return a pattern of four, or raise."""
    if pattern is None:
        return _ANY
    if not isinstance(pattern, tuple | list) or len(pattern) not in (3, 4):
        raise UsageError(
            f"a pattern is a tuple of subject, predicate, object and perhaps graph, None for any, not {pattern!r}"
        )
    return (*pattern, None) if len(pattern) == 3 else tuple(pattern)


class ReadQuads:
    """The statements of a quad store, read-only: what ``snapshot.quads(name)`` returns.

    A statement is (subject, predicate, object, graph): terms of rdflib, with None for the default graph. In a pattern,
    None stands for anything, and ``lowtide.quads.DEFAULT`` for the default graph; the graph may be left out.

    Reads see explicit and inferred statements. ``inferred=True`` asks for the inferred ones, ``inferred=False`` for the
    explicit ones.

    >>> from rdflib import URIRef, Literal
    >>> ann, knows, bob = (URIRef(f"urn:{each}") for each in ("ann", "knows", "bob"))
    >>> store.quads("people").add((ann, knows, bob))
    >>> with store.snapshot() as snapshot:
    ...     list(snapshot.quads("people").match((ann, None, None)))
    [(rdflib.term.URIRef('urn:ann'), rdflib.term.URIRef('urn:knows'), rdflib.term.URIRef('urn:bob'), None)]
    """

    __slots__ = ("_statements", "name")

    def __init__(self, statements: Statements, name: str) -> None:
        self._statements = statements
        self.name = check_quads_name(name)

    def reader(self) -> IdReader:
        """Return a reader of ids at one instant, for a ``with`` statement.

        >>> with store.quads("people").reader() as reader:
        ...     reader.estimate()
        0
        """
        return open_reader(self._statements, self.name)

    @property
    def prefixes(self) -> Prefixes:
        """The prefixes of IRIs that are kept with the statements."""
        return Prefixes(self._statements, f"{QUADS}{self.name}/prefixes")

    @property
    def created(self) -> CreatedGraphs:
        """The graphs that were created, and so exist also while they have no statements."""
        return CreatedGraphs(self._statements, f"{QUADS}{self.name}/graphs")

    def _read(self, work: Callable[[IdReader], _Result]) -> _Result:
        name, caches = self.name, self._statements.caches

        def run(reading: ReadView, prefix_of: PrefixOf) -> _Result:
            return work(IdReader(reading, prefix_of, name, caches))

        return self._statements.read(run)

    def match(
        self,
        s: Any = None,
        p: Any = None,
        o: Any = None,
        g: Any = None,
        *,
        inferred: bool | None = None,
    ) -> Iterator[Quad]:
        """Return the statements that match a pattern, given as a tuple or as its parts, as of the instant of the call.
        Writes that happen during the iteration, also those of the same transaction, do not affect it.

        >>> list(store.quads("people").match(None, None, None))
        []
        """
        pattern = pattern_of(s) if isinstance(s, tuple | list) else (s, p, o, g)
        reader = self.reader()
        try:
            found = ids_of_pattern(reader, pattern)
            chunks = reader.scan_ids(*found, inferred=inferred) if found is not None else ("spoc", iter(()))
        except BaseException:
            reader.close()
            raise
        return _decoded(reader, *chunks)

    def contains(self, pattern: Pattern, *, inferred: bool | None = None) -> bool:
        """Return whether a statement matches a pattern.

        >>> from rdflib import RDF
        >>> store.quads("people").contains((None, RDF.type, None))
        False
        """

        def work(reader: IdReader) -> bool:
            found = ids_of_pattern(reader, pattern_of(pattern))
            return found is not None and reader.has(found, inferred)

        return self._read(work)

    def __contains__(self, pattern: Pattern) -> bool:
        return self.contains(pattern)

    def count(self, pattern: Pattern | None = None, *, inferred: bool | None = None) -> int:
        """Return how many statements match a pattern, by default how many there are.

        >>> store.quads("people").count()
        0
        """

        def work(reader: IdReader) -> int:
            found = ids_of_pattern(reader, pattern_of(pattern))
            return reader.count(found, inferred) if found is not None else 0

        return self._read(work)

    def __len__(self) -> int:
        return self.count()

    def __bool__(self) -> bool:
        return True

    def graphs(self) -> Iterator[Term]:
        """Return the named graphs that have statements. It is a read of all statements.

        >>> list(store.quads("people").graphs())
        []
        """

        def work(reader: IdReader) -> list[Term]:
            return reader.terms_of([id for id in reader.graphs() if id != DEFAULT_GRAPH])

        return iter(self._read(work))

    def __repr__(self) -> str:
        return f"<quads {self.name!r}>"


def ids_of_pattern(reader: IdReader, pattern: tuple[Any, Any, Any, Any]) -> IdPattern | None:
    """The ids of a pattern; None if one of its terms is unknown, so nothing matches."""
    for each in pattern[:3]:
        if isinstance(each, DefaultGraph):
            raise UsageError("DEFAULT is a graph: it stands in the fourth place of a pattern only")
    bound = [each for each in pattern if each is not None and each is not DEFAULT]
    ids = dict(zip(map(id, bound), reader.ids_of(bound), strict=True)) if bound else {}
    if None in ids.values():
        return None
    s, p, o, g = (None if each is None else DEFAULT_GRAPH if each is DEFAULT else ids[id(each)] for each in pattern)
    return s, p, o, g


def _decoded(reader: IdReader, order: str, chunks: Iterator[list[bytes]]) -> Iterator[Quad]:
    """Statements by their keys in an index."""
    with reader:
        for chunk in chunks:
            quads = [quad_of(order, key) for key in chunk]
            distinct = {each for quad in quads for each in quad}
            distinct.discard(DEFAULT_GRAPH)
            ids = list(distinct)
            terms: dict[bytes, Any] = dict(zip(ids, reader.terms_of(ids), strict=True))
            terms[DEFAULT_GRAPH] = None
            for s, p, o, g in quads:
                yield terms[s], terms[p], terms[o], terms[g]
