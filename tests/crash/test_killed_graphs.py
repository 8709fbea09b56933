"""SIGKILL between and inside calls of addN on an rdflib graph: each call is stored whole or not at all."""

from __future__ import annotations

from pathlib import Path

from rdflib import Literal, URIRef

from lowtide.rdf import Dataset, LowtideStore
from tests.crash.stores import child, lines_of

PROGRAM = """
import json, sys
from rdflib import Literal, URIRef
from lowtide.rdf import Graph, LowtideStore

path, durability = sys.argv[1:]
options = {"durability": durability, "segment_bytes": 16384, "checkpoint_versions": 300}
graph = Graph(LowtideStore({"path": path, **options}))
number = len(graph) // 20
while True:
    graph.addN((URIRef(f"urn:{number}"), URIRef("urn:part"), Literal(part), graph) for part in range(20))
    print(json.dumps(number), flush=True)
    number += 1
    with graph.transaction():
        graph.set((URIRef("urn:last"), URIRef("urn:is"), Literal(number)))
        graph.remove((URIRef("urn:last"), URIRef("urn:is"), None))
"""


def test_acknowledged_calls_are_there_and_none_in_part(tmp_path: Path) -> None:
    path = tmp_path / "store"
    last = -1
    for durability in ("full", "relaxed", "full"):
        with child(PROGRAM, path, durability) as process:
            heard = 0
            for number in lines_of(process):
                last = number
                heard += 1
                if heard == 40:
                    process.kill()
            assert heard >= 40, "the child ended by itself"
        plugin = LowtideStore(path)
        parts: dict[object, set[object]] = {}
        for s, _, o in Dataset(plugin).default_graph:
            parts.setdefault(s, set()).add(o)
        assert all(found == {Literal(part) for part in range(20)} for found in parts.values())
        assert {URIRef(f"urn:{number}") for number in range(last + 1)} <= parts.keys()
        assert len(parts) <= last + 2
        assert plugin.store.verify().ok
        plugin.close()
