"""Quads as a kind of data: how quad stores are opened on a transaction, a snapshot or the store."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, overload

from lowtide.engine import (
    AutocommitStatements,
    HasEngine,
    Kind,
    PrefixOf,
    Range,
    ReadOnly,
    ReadView,
    ReadWrite,
    Runner,
    after_prefix,
)
from lowtide.quads.indexes import CATALOG, QUADS, quads_names
from lowtide.system.extras import require

if TYPE_CHECKING:
    from lowtide.quads.quads import Quads
    from lowtide.quads.read_quads import ReadQuads

_RESERVED = dict.fromkeys((CATALOG, QUADS), "store.quads(name)")


class QuadStores(Kind[Runner], reserves=_RESERVED):
    """Opens quad stores."""

    __slots__ = ()

    @overload
    def quads(self: QuadStores[ReadOnly], name: str) -> ReadQuads: ...
    @overload
    def quads(self: QuadStores[ReadWrite], name: str) -> Quads: ...
    def quads(self, name: str) -> ReadQuads | Quads:
        """Return the quad store ``name``: RDF statements, with rdflib's terms (extra ``rdf``).

        It exists once it has a statement. On the store, each call is its own transaction. On a snapshot, it can only be
        read.

        >>> from rdflib import RDF, URIRef
        >>> with store.transaction() as tx:
        ...     tx.quads("people").add((URIRef("urn:ann"), RDF.type, URIRef("urn:Person")))
        >>> store.quads("people").count()
        1
        """
        read_quads, quads = _classes()
        statements = self._statements()
        if isinstance(statements, ReadOnly):
            return read_quads(statements, name)
        return quads(statements, name)

    def list_quads(self) -> list[str]:
        """Return the names of the quad stores that have statements.

        >>> store.list_quads()
        []
        """
        statements = self._statements()
        names = [each for each in quads_names(statements.keyspaces()) if statements.holds(f"{QUADS}{each}/spoc")]

        def has_statements(reading: ReadView, prefix_of: PrefixOf, name: str) -> bool:
            prefix = prefix_of(f"{QUADS}{name}/spoc")
            return next(iter(reading.scan(Range(prefix, after_prefix(prefix), False, 2))), None) is not None

        return statements.read(
            lambda reading, prefix_of: [each for each in names if has_statements(reading, prefix_of, each)]
        )


@cache
def _classes() -> tuple[type[ReadQuads], type[Quads]]:
    """The classes of quad stores, which need the extra."""
    require("rdflib", "rdf", "RDF")
    require("numpy", "rdf", "RDF")
    from lowtide.quads.quads import Quads
    from lowtide.quads.read_quads import ReadQuads

    return ReadQuads, Quads


def collect_unused_terms(store: HasEngine) -> int:
    """Remove the terms of all quad stores that no statement has; returns how many there were."""
    statements = AutocommitStatements(store)
    names = quads_names(statements.keyspaces())
    if not names:
        return 0
    from lowtide.quads.collecting import collect_terms

    return sum(collect_terms(statements, name) for name in names)
