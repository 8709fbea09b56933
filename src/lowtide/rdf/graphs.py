"""rdflib's graphs with ``graph.transaction()`` and ``graph.run()``, for type checkers and editors to know.

``rdflib.Graph("lowtide")`` can do the same: see ``methods``.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

import rdflib
import rdflib.store
from rdflib.graph import DATASET_DEFAULT_GRAPH_ID
from rdflib.term import IdentifiedNode, Identifier

import lowtide
from lowtide.quads.sparql import Explanation
from lowtide.rdf.methods import store_of
from lowtide.rdf.sessions import TransactionBlock

_Result = TypeVar("_Result")


class _Transactional(rdflib.Graph):
    """What both classes add. The store must be given: where rdflib makes a graph of the same class for a result, as for
    ``a + b``, it falls back to a graph in memory."""

    def transaction(
        self, isolation: lowtide.Isolation | str | None = None, read_only: bool = False
    ) -> TransactionBlock:
        """A transaction for a ``with`` statement: it commits at the end, and rolls back on an error. See
        ``LowtideStore.transaction``."""
        return store_of(self).transaction(isolation, read_only)

    def run(
        self,
        fn: Callable[[lowtide.Transaction], _Result],
        isolation: lowtide.Isolation | str = "snapshot",
        attempts: int | None = None,
        *,
        timeout: float | None = None,
    ) -> _Result:
        """Run ``fn(tx)`` in a transaction and commit it; retry both on conflict. See ``LowtideStore.run``."""
        return store_of(self).run(fn, isolation, attempts, timeout=timeout)

    def explain(self, query: str, **bindings: Identifier) -> Explanation:
        """Evaluate a SPARQL query, and return its plan with estimated and seen counts. ``bindings`` are values of
        variables."""
        union = "__UNION__" if self.default_union else None
        own = self.default_graph if isinstance(self, rdflib.Dataset) else self
        return store_of(self).explain(query, dict(self.namespaces()), bindings, union or own.identifier)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Graph(_Transactional):
    """A graph of rdflib on a Lowtide store; without an identifier, the default graph."""

    def __init__(
        self, store: rdflib.store.Store | str, identifier: IdentifiedNode | str = DATASET_DEFAULT_GRAPH_ID
    ) -> None:
        super().__init__(store, identifier)


class Dataset(_Transactional, rdflib.Dataset):
    """A dataset of rdflib on a Lowtide store."""

    def __init__(self, store: rdflib.store.Store | str, default_union: bool = False) -> None:
        rdflib.Dataset.__init__(self, store, default_union)
