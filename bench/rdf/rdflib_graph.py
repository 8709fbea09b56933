"""What all rdflib stores share: an rdflib graph, with its terms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import rdflib
from rdflib.plugins.sparql import prepareQuery
from rdflib.term import Literal, Node, URIRef

from bench.rdf.people import Text, Triple
from bench.rdf.protocol import Answer

NAME = "http://example.org/graph"


def term_of(each: str | Text) -> Node:
    if isinstance(each, str):
        return URIRef(each)
    return Literal(each.text, datatype=rdflib.XSD.integer if each.integer else None)


def text_of(term: Any) -> str | None:
    return None if term is None else str(term)


class RdflibGraph:
    """A graph on any store of rdflib."""

    def __init__(self, graph: rdflib.Graph) -> None:
        self._graph = graph

    def terms(self, triples: Iterable[Triple]) -> Sequence[Any]:
        known: dict[str | Text, Node] = {}

        def term(each: str | Text) -> Node:
            found = known.get(each)
            if found is None:
                found = known[each] = term_of(each)
            return found

        return [(term(s), term(p), term(o)) for s, p, o in triples]

    def add_many(self, triples: Sequence[Any]) -> None:
        graph = self._graph
        graph.addN([(s, p, o, graph) for s, p, o in triples])

    def load(self, file: Path) -> None:
        self._graph.parse(file, format="nt")

    def add(self, triple: Any) -> None:
        self._graph.add(triple)

    def pattern(self, s: str | None, p: str | None, o: str | None) -> Any:
        return tuple(None if each is None else URIRef(each) for each in (s, p, o))

    def match(self, pattern: Any) -> int:
        return sum(1 for _ in self._graph.triples(pattern))

    def prepared(self, query: str) -> Any:
        return prepareQuery(query)

    def rows(self, query: Any) -> list[Any]:
        return list(self._graph.query(query))

    def answer(self, rows: list[Any]) -> Answer:
        return sorted((tuple(text_of(each) for each in row) for row in rows), key=repr)

    def update(self, request: str) -> None:
        self._graph.update(request)

    def settle(self) -> None:
        """Do nothing: no work was deferred."""

    def close(self) -> None:
        self._graph.close()
