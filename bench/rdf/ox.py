"""oxrdflib: rdflib's store on Oxigraph, which evaluates queries and updates itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import rdflib
from rdflib.graph import DATASET_DEFAULT_GRAPH_ID

from bench.rdf.protocol import Adapter
from bench.rdf.rdflib_graph import RdflibGraph
from bench.registry import Durability


class OxGraph(RdflibGraph):
    """Of the default graph: it updates no other."""

    def __init__(self, directory: Path, durability: Durability) -> None:
        graph = rdflib.Graph("Oxigraph", identifier=DATASET_DEFAULT_GRAPH_ID)
        graph.open(str(directory))
        self._inner: Any = graph.store._inner  # type: ignore[attr-defined]
        self._synced = durability == "synced"
        super().__init__(graph)

    def load(self, file: Path) -> None:
        self._graph.parse(file, format="ox-nt")

    def add(self, triple: Any) -> None:
        self._graph.add(triple)
        if self._synced:
            self._inner.flush()

    def prepared(self, query: str) -> Any:
        return query

    def settle(self) -> None:
        self._inner.flush()
        self._inner.optimize()

    def close(self) -> None:
        del self._inner
        super().close()


ADAPTER = Adapter(
    OxGraph,
    {"synced": "a flush after each add", "unsynced": "as it is"},
    remark="It evaluates queries in Rust; a write reaches the disk some time later unless it is flushed.",
)
