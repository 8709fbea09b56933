"""The operations of an RDF store, and what an adapter declares about its store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from bench.rdf.people import Triple
from bench.registry import Measured

__all__ = ["Adapter", "Answer", "Graph", "Work"]

Work = Literal["add-many", "load", "add", "add-unsynced", "match", "query", "update"]

Answer = list[tuple[str | None, ...]]
"""The rows of a query as text, sorted, so that the answers of two stores can be compared."""


class Graph(Protocol):
    """One open store with one graph. Each call is one transaction, if the store has them. Used by one thread."""

    def terms(self, triples: Iterable[Triple]) -> Sequence[Any]:
        """The triples with the terms of the library, made before the clock is started."""

    def add_many(self, triples: Sequence[Any]) -> None:
        """Add triples of ``terms`` in the way that is meant for many."""

    def load(self, file: Path) -> None:
        """Load a file of N-Triples in the fastest way that the library has."""

    def add(self, triple: Any) -> None:
        """Add one triple of ``terms``. Synced, it survives a power loss when this returns."""

    def pattern(self, s: str | None, p: str | None, o: str | None) -> Any:
        """A pattern of IRIs with the terms of the library; None for any."""

    def match(self, pattern: Any) -> int:
        """Read all triples that match a pattern, with their terms; return how many there are."""

    def prepared(self, query: str) -> Any:
        """The query, parsed beforehand where the library can; ``rows`` takes it."""

    def rows(self, query: Any) -> list[Any]:
        """All rows of a query, with the terms of the library."""

    def answer(self, rows: list[Any]) -> Answer:
        """The rows as text."""

    def update(self, request: str) -> None: ...

    def settle(self) -> None:
        """Do the work that the store has deferred, so that none of it falls into the next store's measurement."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Adapter(Measured[Graph, Work]):
    """An RDF store."""

    shares: str | None = None
    """The store whose data are queried, if it has none of its own."""
    over: Callable[[Any], Graph] | None = None
    """How it is opened over the graph of that store."""
    most: int | None = None
    """Triples of the largest graph that it is asked about, where more would make the run long."""
