"""A transaction that fails at its commit, and calls that rdflib's type hints do not allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import rdflib
from rdflib.events import Event

import lowtide
import lowtide.rdf


def rows(result: Any) -> list[tuple[object, ...]]:
    """The rows of a query's result."""
    return [tuple(row) for row in result]


def subscribe(graph: Any, kind: type[Event], handler: Callable[[Any], object]) -> None:
    """Have ``handler`` called for events of the graph's store."""
    graph.store.dispatcher.subscribe(kind, handler)


class Undone(Exception):
    pass


@contextmanager
def undone(graph: rdflib.Graph, isolation: str | None = None) -> Iterator[lowtide.Transaction]:
    """A transaction that is rolled back because of an error."""
    with suppress(Undone), lowtide.rdf.transaction(graph, isolation) as tx:
        yield tx
        raise Undone
