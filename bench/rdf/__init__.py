"""The RDF stores that are compared, each behind the same few calls: one adapter per file."""

from __future__ import annotations

from bench.rdf.protocol import Adapter
from bench.registry import Place, Registry

__all__ = ["EVALUATOR", "STORES"]

EVALUATOR = "oxrdflib under rdflib's evaluator"
"""oxrdflib with queries that rdflib evaluates, over the same data."""

STORES = Registry(
    __name__,
    Adapter,
    {
        "lowtide": Place("own", "lowtide", "lowtide", "C0"),
        "rdflib Memory": Place("memory", "rdflib", "rdflib", "C1"),
        "rdflib BerkeleyDB": Place("berkeley", "berkeleydb", "berkeleydb", "C2"),
        "oxrdflib": Place("ox", "oxrdflib", "oxrdflib", "C3"),
        EVALUATOR: Place("evaluator", "oxrdflib", "oxrdflib", "C4"),
        "pyoxigraph": Place("raw", "pyoxigraph", "pyoxigraph", "C5"),
    },
)
