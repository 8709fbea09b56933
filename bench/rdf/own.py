"""Lowtide itself, through its rdflib plugin. Files are loaded by its own loader."""

from __future__ import annotations

from pathlib import Path

from rdflib import URIRef

import lowtide
import lowtide.rdf
from bench.rdf.protocol import Adapter
from bench.rdf.rdflib_graph import NAME, RdflibGraph
from bench.registry import Durability
from lowtide.quads.loading import load


class LowtideGraph(RdflibGraph):
    """Synced is durability "full". Unsynced is "relaxed": it survives the process, and syncs 20 times a second."""

    def __init__(self, directory: Path, durability: Durability) -> None:
        self._store = lowtide.open(directory, durability="full" if durability == "synced" else "relaxed")
        super().__init__(lowtide.rdf.Graph(lowtide.rdf.LowtideStore(self._store), identifier=NAME))

    def load(self, file: Path) -> None:
        load(self._store.quads("default"), file, graph=URIRef(NAME))

    def settle(self) -> None:
        # At rest the data is in the B+tree and the versions in memory are gone; a checkpoint brings that about.
        self._store.checkpoint()

    def close(self) -> None:
        super().close()
        self._store.close()


ADAPTER = Adapter(
    LowtideGraph,
    {"synced": "full", "unsynced": "relaxed"},
    remark="A checkpoint brings it to rest; queries are prepared.",
)
