"""What an evaluation did, for ``explain``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rdflib.plugins.sparql.parserutils import CompValue

from lowtide.quads.sparql.tables import Solutions


@dataclass(slots=True)
class PlanNode:
    """An operator, or a triple pattern of the join order, with its estimated and actual counts.

    ``estimated`` is about how many statements match the pattern's constants; None for operators. ``rows`` is how many
    solutions there were after it. ``how`` says how a pattern was read: scan, lookups, extent or path.
    """

    name: str
    how: str = ""
    estimated: int | None = None
    rows: int = 0
    calls: int = 1
    children: list[PlanNode] = field(default_factory=list)

    def lines(self, depth: int = 0) -> Iterator[str]:
        """The node and what is below it, indented."""
        about = [f"rows {self.rows}"]
        if self.estimated is not None:
            about.insert(0, f"estimated {self.estimated}")
        if self.how:
            about.insert(0, self.how)
        if self.calls > 1:
            about.append(f"{self.calls} times")
        yield f"{'  ' * depth}{self.name}  ({', '.join(about)})"
        for child in self.children:
            yield from child.lines(depth + 1)


class Trace:
    """Collects the plan of one evaluation while it runs."""

    def __init__(self) -> None:
        self.root = PlanNode("Query")
        self._open = [self.root]
        self._known: dict[tuple[int, int], PlanNode] = {}

    def watched(self, part: CompValue, blocks: Iterator[Solutions]) -> Iterator[Solutions]:
        """The blocks of a part, counted. A part that is evaluated again below the same one adds to its node."""
        parent = self._open[-1]
        node = self._known.get((id(parent), id(part)))
        if node is None:
            node = self._known[id(parent), id(part)] = PlanNode(part.name)
            parent.children.append(node)
        else:
            node.calls += 1
        while True:
            self._open.append(node)
            try:
                table = next(blocks)
            except StopIteration:
                return
            finally:
                self._open.remove(node)
            node.rows += table.size
            yield table

    def step(self, name: str, how: str, estimated: int, rows: int) -> None:
        """A triple pattern was joined."""
        parent = self._open[-1]
        for child in parent.children:
            if child.name == name and child.how == how:
                child.rows += rows
                child.calls += 1
                return
        parent.children.append(PlanNode(name, how, estimated, rows))
