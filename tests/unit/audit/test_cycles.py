"""The cycle search finds exactly what an exhaustive search finds."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.audit.anomalies import Edge, name_of
from lowtide.audit.cycles import Budget, components, shortest_path
from lowtide.audit.graph import KINDS, DependencyGraph
from lowtide.audit.search import cycles_in

NODES = 6
EDGES = st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)), max_size=18)
FORBIDDEN_TO_SNAPSHOT = {"lost-update", "G-single", "long-fork", "G-nonadjacent"}
ALLOWED_BY_SNAPSHOT = {"write-skew", "G2-item", "G2"}


def adjacency(edges: list[tuple[int, int]]) -> list[list[int]]:
    return [[target for source, target in edges if source == node] for node in range(NODES)]


def reachable(successors: list[list[int]], start: int) -> dict[int, int]:
    """Where one comes by one edge or more, and in how many."""
    found: dict[int, int] = {}
    frontier, steps = [start], 0
    while frontier:
        steps += 1
        frontier = [target for target in {t for node in frontier for t in successors[node]} if target not in found]
        found |= dict.fromkeys(frontier, steps)
    return found


@given(EDGES)
def test_components_are_the_nodes_that_reach_each_other(edges: list[tuple[int, int]]) -> None:
    successors = adjacency(edges)
    reach = [reachable(successors, node) for node in range(NODES)]
    expected = {
        frozenset(other for other in range(NODES) if other in reach[node] and node in reach[other])
        for node in range(NODES)
        if node in reach[node]
    }
    assert {frozenset(each) for each in components(successors)} == expected


@given(EDGES)
def test_a_path_is_the_shortest(edges: list[tuple[int, int]]) -> None:
    successors = adjacency(edges)
    for start, goal in product(range(NODES), repeat=2):
        path = shortest_path(successors, start, goal, Budget(10_000))
        if start == goal:
            assert path == [start]
        elif path is None:
            assert goal not in reachable(successors, start)
        else:
            assert (path[0], path[-1]) == (start, goal)
            assert all(target in successors[source] for source, target in pairwise(path))
            assert len(path) - 1 == reachable(successors, start)[goal]


def test_a_long_chain_needs_no_recursion() -> None:
    count = 50_000
    successors = [[(node + 1) % count] for node in range(count)]
    assert components(successors) == [list(range(count))]
    successors[-1] = []
    assert components(successors) == []


def test_a_search_ends_when_its_budget_is_spent() -> None:
    chain = [[node + 1] for node in range(100)] + [[]]
    assert shortest_path(chain, 0, 100, Budget(1000)) == list(range(101))
    assert shortest_path(chain, 0, 100, Budget(50)) is None


# Names of cycles, against a search of all cycles


def random_graph(seed: int) -> tuple[DependencyGraph, list[Edge]]:
    chance = random.Random(seed)
    graph, edges = DependencyGraph(NODES), []
    for _ in range(chance.randint(2, 12)):
        kind = chance.choices(KINDS, [3, 3, 5, 1, 1])[0]
        source, target = chance.sample(range(NODES), 2)
        if kind in ("session", "time") and source > target:
            source, target = target, source  # time goes one way
        graph.add(kind, source, target, (chance.choice("xy"), None, None))
        edges.append(graph.edge(source, target, (kind,)))
    return graph, edges


def all_cycles(edges: list[Edge]) -> Iterator[list[Edge]]:
    """Each cycle that meets no node twice, from its lowest node on."""

    def extend(path: list[Edge]) -> Iterator[list[Edge]]:
        for edge in edges:
            if edge.source != path[-1].target:
                continue
            if edge.target == path[0].source:
                yield [*path, edge]
            elif edge.target > path[0].source and edge.target not in {each.source for each in path}:
                yield from extend([*path, edge])

    for edge in edges:
        if edge.target > edge.source:
            yield from extend([edge])


@pytest.mark.parametrize("start", range(0, 3000, 500))
def test_the_search_finds_a_cycle_of_each_class_that_there_is(start: int) -> None:
    met: set[str] = set()
    for seed in range(start, start + 500):
        graph, edges = random_graph(seed)
        every = {name_of(cycle) for cycle in all_cycles(list(dict.fromkeys(edges)))}
        findings = cycles_in(graph)
        found = {finding.name for finding in findings}
        met |= found
        assert bool(every) is bool(found), seed
        for name in ("G0", "G1c", "stale-read"):
            assert name not in every or name in found, (seed, name)
        if every & FORBIDDEN_TO_SNAPSHOT:
            assert found & (FORBIDDEN_TO_SNAPSHOT | {"stale-read"}), seed
        if every and every <= ALLOWED_BY_SNAPSHOT:
            nowhere_twice = [each for each in findings if len(set(each.transactions)) == len(each.transactions)]
            assert {each.name for each in nowhere_twice} <= ALLOWED_BY_SNAPSHOT, seed
        for finding in findings:
            assert set(finding.edges) <= set(edges), seed
            assert name_of(finding.edges) == finding.name
            ends = [edge.target for edge in finding.edges]
            assert [*ends[-1:], *ends[:-1]] == [edge.source for edge in finding.edges], seed
            if len(set(finding.transactions)) == len(finding.transactions):
                assert finding.name in every, seed
    assert len(met) >= 8


@given(EDGES)
def test_without_a_cycle_nothing_is_found(edges: list[tuple[int, int]]) -> None:
    graph = DependencyGraph(NODES)
    for source, target in edges:
        graph.add("rw", min(source, target), max(source, target), ("x", None, None))
    assert cycles_in(graph) == []


def test_a_longer_circle_that_snapshot_forbids_is_not_hidden_by_shorter_ones_that_it_allows() -> None:
    """Each missed write of the long fork 0, 1, 2, 3 is also the first of two in a row, which make a shorter circle."""
    graph = DependencyGraph(NODES)
    for source, target in ((0, 1), (2, 3), (1, 4), (3, 5)):
        graph.add("rw", source, target, ("x", None, None))
    for source, target in ((1, 2), (3, 0), (4, 0), (5, 2)):
        graph.add("wr", source, target, ("x", None, None))
    assert {finding.name for finding in cycles_in(graph)} == {"long-fork", "G2-item"}
