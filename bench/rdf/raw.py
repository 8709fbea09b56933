"""pyoxigraph without rdflib, with its own terms, queries and updates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyoxigraph as ox

from bench.rdf.people import INTEGER, Text, Triple
from bench.rdf.protocol import Adapter, Answer
from bench.registry import Durability


def term_of(each: str | Text) -> ox.NamedNode | ox.Literal:
    if isinstance(each, str):
        return ox.NamedNode(each)
    return ox.Literal(each.text, datatype=ox.NamedNode(INTEGER)) if each.integer else ox.Literal(each.text)


class OxigraphStore:
    def __init__(self, directory: Path, durability: Durability) -> None:
        self._store = ox.Store(str(directory))
        self._synced = durability == "synced"

    def terms(self, triples: Iterable[Triple]) -> Sequence[Any]:
        return [ox.Quad(ox.NamedNode(s), ox.NamedNode(p), term_of(o)) for s, p, o in triples]

    def add_many(self, triples: Sequence[Any]) -> None:
        self._store.extend(triples)

    def load(self, file: Path) -> None:
        self._store.bulk_load(path=str(file), format=ox.RdfFormat.N_TRIPLES)

    def add(self, triple: Any) -> None:
        self._store.add(triple)
        if self._synced:
            self._store.flush()

    def pattern(self, s: str | None, p: str | None, o: str | None) -> Any:
        return tuple(None if each is None else ox.NamedNode(each) for each in (s, p, o))

    def match(self, pattern: Any) -> int:
        found = 0
        for quad in self._store.quads_for_pattern(*pattern):
            _ = quad.subject, quad.predicate, quad.object
            found += 1
        return found

    def prepared(self, query: str) -> Any:
        return query

    def rows(self, query: Any) -> list[Any]:
        return list(self._store.query(query))  # type: ignore[arg-type]

    def answer(self, rows: list[Any]) -> Answer:
        return sorted((tuple(None if each is None else each.value for each in row) for row in rows), key=repr)

    def update(self, request: str) -> None:
        self._store.update(request)

    def settle(self) -> None:
        self._store.flush()
        self._store.optimize()

    def close(self) -> None:
        del self._store


ADAPTER = Adapter(
    OxigraphStore,
    {"synced": "a flush after each add", "unsynced": "as it is"},
    remark="Terms are its own, not rdflib's: what the libraries above it cost is not in its figures.",
)
