"""Statements that match a pattern, as rdflib's stores return them: a triple, and the graphs that it is in.

All of it reads one instant: that of an ``IdReader``, which is closed when the last statement was read or the iterator
is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from rdflib.graph import Graph
from rdflib.term import Identifier, Node

from lowtide.quads import IdReader
from lowtide.quads.hashing import ID_BYTES
from lowtide.quads.ids import DEFAULT_GRAPH, IdKind, kinds
from lowtide.quads.indexes import quad_of

Match = tuple[tuple[Node, Node, Node], Iterator[Graph]]
NodeOf = Callable[[Identifier], Node]
ContextOf = Callable[[Identifier | None], Graph]
Keys = Iterator[list[bytes]]
"""Chunks of keys of an index, in its order: four ids each."""

_TRIPLE = 3 * ID_BYTES


def in_graph(reader: IdReader, order: str, chunks: Keys, context: Graph, node_of: NodeOf) -> Iterator[Match]:
    """The statements of keys that are all of one graph."""
    first, second, third = (
        slice(ID_BYTES * order.index(each), ID_BYTES * order.index(each) + ID_BYTES) for each in "spo"
    )
    for chunk in chunks:
        nodes = _nodes(reader, {key[part] for key in chunk for part in (first, second, third)}, node_of)
        for key in chunk:
            yield (nodes[key[first]], nodes[key[second]], nodes[key[third]]), iter((context,))


def in_any(reader: IdReader, order: str, chunks: Keys, context_of: ContextOf, node_of: NodeOf) -> Iterator[Match]:
    """The asserted statements of keys whose last id is the graph: each triple once, with all its graphs."""
    first, second, third = (
        slice(ID_BYTES * order.index(each), ID_BYTES * order.index(each) + ID_BYTES) for each in "spo"
    )
    contexts: dict[bytes, Graph] = {}
    for groups in _grouped(chunks):
        nodes = _nodes(reader, {triple[part] for triple, _ in groups for part in (first, second, third)}, node_of)
        for graph in {graph for _, graphs in groups for graph in graphs} - contexts.keys():
            contexts[graph] = context_of(None if graph == DEFAULT_GRAPH else reader.term_of(graph))
        for triple, graphs in groups:
            found = (nodes[triple[first]], nodes[triple[second]], nodes[triple[third]])
            yield found, iter([contexts[graph] for graph in graphs])


def _grouped(chunks: Keys) -> Iterator[list[tuple[bytes, list[bytes]]]]:
    """The triples of keys, each with the graphs that it is asserted in. Keys of one triple follow each other, perhaps
    over the end of a chunk."""
    last, graphs = b"", []  # type: bytes, list[bytes]
    for chunk in chunks:
        groups = []
        for key in chunk:
            graph = key[_TRIPLE:]
            if graph[0] >> 4 == IdKind.FORMULA:
                continue
            triple = key[:_TRIPLE]
            if triple != last:
                if graphs:
                    groups.append((last, graphs))
                last, graphs = triple, []
            graphs.append(graph)
        if groups:
            yield groups
    if graphs:
        yield [(last, graphs)]


def _nodes(reader: IdReader, ids: set[bytes], node_of: NodeOf) -> dict[bytes, Node]:
    wanted = list(ids)
    return dict(zip(wanted, map(node_of, reader.terms_of(wanted)), strict=True))


def count_asserted(chunks: Keys) -> int:
    """How many different triples are asserted, in any graph; the last id of a key is the graph."""
    total = 0
    last = np.zeros(3, np.uint64)
    for chunk in chunks:
        columns = np.frombuffer(b"".join(chunk), ">u8").astype(np.uint64).reshape(-1, 4)
        triples = columns[kinds(columns[:, 3]) != IdKind.FORMULA, :3]
        if len(triples):
            total += int((triples[1:] != triples[:-1]).any(axis=1).sum()) + bool((triples[0] != last).any())
            last = triples[-1]
    return total


def asserted_ids(graphs: Iterable[bytes]) -> list[bytes]:
    """The ids of graphs without those of formulas."""
    return [graph for graph in graphs if graph[0] >> 4 != IdKind.FORMULA]


def asserted_quads(order: str, chunks: Keys) -> list[bytes]:
    """The statements of keys without those of formulas: four ids each, the graph's last."""
    quads = (quad_of(order, key) for chunk in chunks for key in chunk)
    return [b"".join(quad) for quad in quads if quad[3][0] >> 4 != IdKind.FORMULA]


def closing(reader: IdReader, matches: Iterator[Match]) -> Iterator[Match]:
    """The matches; the reader is closed when they end, or are dropped."""
    try:
        yield from matches
    finally:
        reader.close()
