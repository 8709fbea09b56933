"""rdflib's store on Berkeley DB, if the package ``berkeleydb`` is installed, which needs the library's headers."""

from __future__ import annotations

from pathlib import Path

import rdflib

from bench.rdf.protocol import Adapter
from bench.rdf.rdflib_graph import NAME, RdflibGraph
from bench.registry import Durability


class BerkeleyGraph(RdflibGraph):
    def __init__(self, directory: Path, durability: Durability) -> None:
        graph = rdflib.Graph("BerkeleyDB", identifier=NAME)
        graph.open(str(directory), create=True)
        super().__init__(graph)


ADAPTER = Adapter(
    BerkeleyGraph,
    {"unsynced": "its own sync thread"},
    cannot={
        "add": "a thread of its own syncs it, some seconds later",
        "load": "it has no way of its own: rdflib's parser reads 20,000 a second",
    },
    slow=True,
    remark="Queries are prepared.",
)
