"""Finds cycles in directed graphs. Pure functions over numbered nodes."""

from __future__ import annotations

from collections.abc import Sequence

Successors = Sequence[Sequence[int]]
"""The successors of each node."""


def components(successors: Successors) -> list[list[int]]:
    """Return the strongly connected components that contain a cycle: more than one node, or an edge to itself.

    Tarjan's algorithm without recursion: each entry of ``work`` is a node and the number of its edges followed so far.
    """
    count = len(successors)
    index, low = [0] * count, [0] * count
    on_stack = bytearray(count)
    stack: list[int] = []
    found: list[list[int]] = []
    numbered = 0
    for root in range(count):
        if index[root]:
            continue
        work = [(root, 0)]
        while work:
            node, followed = work.pop()
            if not followed:
                numbered += 1
                index[node] = low[node] = numbered
                stack.append(node)
                on_stack[node] = 1
            edges = successors[node]
            while followed < len(edges):
                target = edges[followed]
                followed += 1
                if not index[target]:
                    work.append((node, followed))
                    work.append((target, 0))
                    break
                if on_stack[target] and index[target] < low[node]:
                    low[node] = index[target]
            else:
                if low[node] == index[node]:
                    component = _popped(stack, on_stack, node)
                    if len(component) > 1 or node in edges:
                        found.append(sorted(component))
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[node])
    return found


def _popped(stack: list[int], on_stack: bytearray, root: int) -> list[int]:
    component = []
    while True:
        node = stack.pop()
        on_stack[node] = 0
        component.append(node)
        if node == root:
            return component


class Budget:
    """The number of edges that may still be followed. A search ends when it is spent."""

    def __init__(self, steps: int) -> None:
        self.left = steps


def shortest_path(successors: Successors, start: int, goal: int, budget: Budget) -> list[int] | None:
    """Return the nodes of a shortest path, ``[start]`` if that is the goal. None if none was found within budget."""
    if start == goal:
        return [start]
    came_from = {start: start}
    frontier = [start]
    while frontier and budget.left > 0:
        reached = []
        for node in frontier:
            edges = successors[node]
            budget.left -= len(edges)
            for target in edges:
                if target in came_from:
                    continue
                came_from[target] = node
                if target == goal:
                    return _back(came_from, start, goal)
                reached.append(target)
        frontier = reached
    return None


def _back(came_from: dict[int, int], start: int, goal: int) -> list[int]:
    path = [goal]
    while path[-1] != start:
        path.append(came_from[path[-1]])
    return path[::-1]
