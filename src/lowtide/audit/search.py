"""Searches for cycles of each class, one strongly connected component at a time.

Whether a cycle of a class exists is decided exactly, in time linear in the size of the component. Each class is a rule
for which edge may follow which. A cycle that obeys the rule is a cycle in the product of the graph with the rule. A
history without cycles costs one pass.

Witnesses are found breadth first, so they are short. Their number and the effort to find them are limited. If cycles of
several classes overlap, not every class may be reported. A component that has a cycle of a class is never skipped
entirely.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from lowtide.audit.anomalies import Edge, Finding, Kind, cycle
from lowtide.audit.cycles import Budget, components, shortest_path
from lowtide.audit.graph import KINDS, DependencyGraph

_STEPS = 2_000_000
"""Maximum number of edges followed per component and class."""
_WITNESSES = 3
"""Maximum number of witnesses per component and name."""

_WRITTEN: tuple[Kind, ...] = ("ww", "session", "time")
_DEPENDENT: tuple[Kind, ...] = ("ww", "wr", "session", "time")
_ORDERED: tuple[Kind, ...] = ("session", "time")
_READ: tuple[Kind, ...] = ("ww", "wr")


def cycles_in(graph: DependencyGraph) -> list[Finding]:
    """Find witnesses for the cycles of a graph."""
    parts = components(graph.successors())
    return [finding for component in parts for finding in _Component(graph, component).findings()]


class _Component:
    """A strongly connected part of the graph, its nodes renumbered."""

    def __init__(self, graph: DependencyGraph, nodes: list[int]) -> None:
        self._graph = graph
        self._nodes = nodes
        numbers = {node: number for number, node in enumerate(nodes)}
        self._targets: dict[Kind, list[list[int]]] = {
            kind: [[numbers[target] for target in graph.targets(kind, node) if target in numbers] for node in nodes]
            for kind in KINDS
        }
        self._found: dict[str, dict[frozenset[int], Finding]] = {}

    def findings(self) -> Iterator[Finding]:
        self._through("ww", _WRITTEN)
        self._through("wr", _DEPENDENT)
        self._stale()
        self._nonadjacent()
        self._adjacent()
        for found in self._found.values():
            yield from sorted(found.values(), key=lambda each: (len(each.edges), each.transactions))[:_WITNESSES]

    def _joined(self, kinds: Iterable[Kind]) -> list[list[int]]:
        """Return the successors by edges of these kinds."""
        lists = [self._targets[kind] for kind in kinds]
        return [
            list(dict.fromkeys(target for each in lists for target in each[node])) for node in range(len(self._nodes))
        ]

    def _note(self, edges: list[Edge]) -> Finding:
        finding = cycle(edges)
        of_name = self._found.setdefault(finding.name, {})
        return of_name.setdefault(frozenset(finding.transactions), finding)

    def _enough(self, *names: str) -> bool:
        return all(len(self._found.get(name, ())) >= _WITNESSES for name in names)

    def _edges(self, path: list[int], kinds: Iterable[Kind]) -> list[Edge]:
        nodes = [self._nodes[number] for number in path]
        return [self._graph.edge(source, target, kinds) for source, target in pairwise(nodes)]

    def _one(self, source: int, target: int, kind: Kind) -> Edge:
        return self._graph.edge(self._nodes[source], self._nodes[target], (kind,))

    # G0 and G1c: no write was missed

    def _through(self, kind: Kind, kinds: tuple[Kind, ...]) -> None:
        """Find cycles through an edge of ``kind`` along edges of ``kinds``."""
        successors = self._joined(kinds)
        budget = Budget(_STEPS)
        name = "G0" if kind == "ww" else "G1c"
        for part in components(successors):
            inside = set(part)
            for source, target in ((s, t) for s in part for t in self._targets[kind][s] if t in inside):
                if self._enough(name):
                    return
                path = shortest_path(successors, target, source, budget)
                if path is not None:
                    self._note([self._one(source, target, kind), *self._edges(path, kinds)])

    # Stale reads: an rw edge directly after a session or time edge

    def _stale(self) -> None:
        """The rule: an rw edge may only directly follow a session or time edge."""
        size = len(self._nodes)
        late, other = range(size, 2 * size), range(size)
        ordered, read = self._joined(_ORDERED), self._joined(_READ)
        if not any(ordered):
            return
        missed = self._targets["rw"]
        product = [
            [other[target] for target in read[node]] + [late[target] for target in ordered[node]]
            for node in range(size)
        ]
        product += [[other[target] for target in missed[node]] + product[node] for node in range(size)]
        budget = Budget(_STEPS)
        for part in components(product):
            inside = set(part)
            for source in (node for node in part if node >= size):
                for target in missed[source - size]:
                    if target not in inside or self._enough("stale-read"):
                        continue
                    path = shortest_path(product, target, source, budget)
                    if path is not None:
                        edges = [self._step(a, b) for a, b in pairwise(path)]
                        self._note([self._one(source - size, target, "rw"), *edges])

    def _step(self, source: int, target: int) -> Edge:
        """Return the edge for a step in the product of ``_stale``."""
        size = len(self._nodes)
        kinds: tuple[Kind, ...] = _ORDERED if target >= size else (*_READ, "rw") if source >= size else _READ
        return self._edges([source % size, target % size], kinds)[0]

    # What SNAPSHOT forbids: missed writes, but no two in a row

    def _nonadjacent(self) -> None:
        """The rule: no two rw edges in a row. The state is whether the previous edge was one."""
        size = len(self._nodes)
        dependent, missed = self._joined(_DEPENDENT), self._targets["rw"]
        product = [dependent[node] + [target + size for target in missed[node]] for node in range(size)]
        product += dependent
        budget = Budget(_STEPS)
        for part in components(product):
            inside = set(part)
            pairs = [(s, t) for s in part if s < size for t in missed[s] if t + size in inside]
            alone = []
            for source, target in pairs:
                if self._enough("G-single"):
                    break
                path = shortest_path(dependent, target, source, budget)
                if path is None:
                    alone.append((source, target))
                else:
                    self._note([self._one(source, target, "rw"), *self._edges(path, _DEPENDENT)])
            for source, target in alone[: 10 * _WITNESSES]:
                path = shortest_path(product, target + size, source, Budget(_STEPS))
                if path is not None:
                    steps = pairwise(path)
                    edges = [
                        self._edges([a % size, b % size], ("rw",) if b >= size else _DEPENDENT)[0] for a, b in steps
                    ]
                    self._note([self._one(source, target, "rw"), *edges])

    # What only SERIALIZABLE forbids: two missed writes in a row

    def _adjacent(self) -> None:
        missed = self._targets["rw"]
        inverse = [set(targets) for targets in missed]
        everything = self._joined(("ww", "wr", "session", "time", "rw"))
        budget = Budget(_STEPS)
        for first in range(len(self._nodes)):
            for second in missed[first]:
                if second > first and first in inverse[second] and not self._enough("write-skew"):
                    self._note([self._one(first, second, "rw"), self._one(second, first, "rw")])
        tried = 0
        kinds: tuple[Kind, ...] = (*_DEPENDENT, "rw")
        for first in range(len(self._nodes)):
            for second in missed[first]:
                for third in missed[second]:
                    if third == first or tried >= 1000 or self._enough("G2", "G2-item") or budget.left <= 0:
                        continue
                    tried += 1
                    path = shortest_path(everything, third, first, budget)
                    if path is not None and second not in path:
                        edges = [self._one(first, second, "rw"), self._one(second, third, "rw")]
                        self._note([*edges, *self._edges(path, kinds)])
