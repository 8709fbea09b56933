"""oxrdflib's data with rdflib's own evaluator: the cost of a query if only the store differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rdflib.plugins.sparql import prepareQuery

from bench.rdf.ox import OxGraph
from bench.rdf.protocol import Adapter
from bench.registry import Durability


class EvaluatedGraph(OxGraph):
    """Opens no store itself: Oxigraph's store can be open only once."""

    def __init__(self, directory: Path, durability: Durability) -> None:
        raise NotImplementedError("it queries the graph of another store; see over()")

    @classmethod
    def over(cls, other: OxGraph) -> EvaluatedGraph:
        found = cls.__new__(cls)
        found._graph, found._inner, found._synced = other._graph, other._inner, False
        return found

    def prepared(self, query: str) -> Any:
        return prepareQuery(query)

    def rows(self, query: Any) -> list[Any]:
        return list(self._graph.query(query, use_store_provided=False))

    def close(self) -> None:
        """Do nothing: the code that opened the other store closes it."""


ADAPTER = Adapter(
    EvaluatedGraph,
    {"unsynced": "as oxrdflib"},
    cannot=dict.fromkeys(("add-many", "load", "add", "add-unsynced", "match", "update"), "as oxrdflib"),
    slow=True,
    remark="Queries are prepared.",
    shares="oxrdflib",
    over=EvaluatedGraph.over,
    most=100_000,
)
