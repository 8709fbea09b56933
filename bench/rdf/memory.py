"""rdflib's own store, in memory."""

from __future__ import annotations

from pathlib import Path

import rdflib

from bench.rdf.protocol import Adapter
from bench.rdf.rdflib_graph import NAME, RdflibGraph
from bench.registry import Durability


class MemoryGraph(RdflibGraph):
    def __init__(self, directory: Path, durability: Durability) -> None:
        super().__init__(rdflib.Graph(identifier=NAME))


ADAPTER = Adapter(
    MemoryGraph,
    {"unsynced": "in memory"},
    cannot={
        "add": "it keeps nothing on disk",
        "load": "it has no way of its own: rdflib's parser reads 20,000 a second",
    },
    slow=True,
    remark="Nothing is on disk, and nothing is isolated; queries are prepared.",
)
