"""Which variables a part of a query binds: in every solution, or in some. Pure functions over rdflib's algebra."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rdflib.paths import Path
from rdflib.plugins.sparql.parserutils import CompValue, Expr
from rdflib.term import BNode, Identifier, Variable

from lowtide.quads.sparql.operands import UNDEFINED, fields, lifted, operands

if TYPE_CHECKING:
    from lowtide.quads.sparql.patterns import ResolvedPart

Names = frozenset[Identifier]

NOTHING: Names = frozenset()
THROUGH = frozenset(("Filter", "Distinct", "Reduced", "Slice", "OrderBy", "Minus", "LeftJoin", "Extend"))
"""What binds at least what its first operand binds."""


def is_variable(term: object) -> bool:
    """Whether a term of a pattern stands for any term; in a query blank nodes do."""
    return isinstance(term, Variable | BNode)


class Scopes:
    """The variables of the parts of one parsed query, each worked out once.

    Parts are known by identity, so each is kept with its answer: no other part gets its identity. Filled without a
    lock: two threads at most work out the same answer twice.
    """

    def __init__(self) -> None:
        self._certain: dict[int, tuple[CompValue, Names]] = {}
        self._possible: dict[int, tuple[CompValue, Names]] = {}
        self._mentioned: dict[int, tuple[CompValue, Names]] = {}
        self._lifted: dict[int, tuple[Expr, tuple[Any, list[tuple[Variable, Expr]]]]] = {}
        self._joins: dict[int, tuple[CompValue, list[CompValue]]] = {}
        self.resolved: dict[int, ResolvedPart] = {}
        """The triple patterns of parts with ids, by the identity of the part."""

    def certain(self, part: CompValue) -> Names:
        """The variables that are bound in every solution of ``part``."""
        found = self._certain.get(id(part))
        if found is None:
            found = self._certain[id(part)] = (part, self._find_certain(part))
        return found[1]

    def _find_certain(self, part: CompValue) -> Names:
        if part.name == "BGP":
            return frozenset(term for triple in part.triples for term in triple if is_variable(term))
        if part.name == "Join":
            return self.certain(part.p1) | self.certain(part.p2)
        if part.name == "Union":
            return self.certain(part.p1) & self.certain(part.p2)
        if part.name in THROUGH:
            return self.certain(part.p1 if part.p is None else part.p)
        if part.name == "Project":
            return self.certain(part.p) & frozenset(part.PV)
        if part.name == "Graph":
            return self.certain(part.p) | (frozenset((part.term,)) if is_variable(part.term) else NOTHING)
        if part.name == "ToMultiSet" and isinstance(part.p, CompValue):
            if part.p.name != "values":
                return self.certain(part.p)
            names = frozenset(name for row in part.p.res for name in row)
            return frozenset(name for name in names if all(row[name] != UNDEFINED for row in part.p.res))
        return NOTHING

    def possible(self, part: CompValue) -> Names:
        """The variables that are in scope after ``part``: those that some solution may bind."""
        found = self._possible.get(id(part))
        if found is None:
            found = self._possible[id(part)] = (part, self._find_possible(part))
        return found[1]

    def _find_possible(self, part: CompValue) -> Names:
        if part.name in ("Join", "Union", "LeftJoin"):
            return self.possible(part.p1) | self.possible(part.p2)
        if part.name == "Minus":
            return self.possible(part.p1)
        if part.name == "Extend":
            return self.possible(part.p) | {part.var}
        if part.name in THROUGH:
            return self.possible(part.p)
        if part.name == "Project":
            return frozenset(part.PV)
        if part.name == "Graph":
            return self.possible(part.p) | (frozenset((part.term,)) if is_variable(part.term) else NOTHING)
        if part.name == "ToMultiSet" and isinstance(part.p, CompValue):
            if part.p.name != "values":
                return self.possible(part.p)
            return frozenset(name for row in part.p.res for name in row)
        if part.name == "AggregateJoin":
            return frozenset(each.res for each in part.A)
        return self.certain(part) if part.name == "BGP" else self.mentioned(part)

    def mentioned(self, part: object) -> Names:
        """The variables that stand anywhere in a part or an expression."""
        if not isinstance(part, CompValue):
            return frozenset(_walk(part))
        found = self._mentioned.get(id(part))
        if found is None:
            found = self._mentioned[id(part)] = (part, frozenset(_walk(part)))
        return found[1]

    def lifted(self, expression: object) -> tuple[Any, list[tuple[Variable, Expr]]]:
        """An expression without EXISTS; see ``operands.lifted``."""
        if not isinstance(expression, Expr):
            return expression, []
        found = self._lifted.get(id(expression))
        if found is None:
            found = self._lifted[id(expression)] = (expression, lifted(expression))
        return found[1]

    def joins(self, part: CompValue) -> list[CompValue]:
        """What a join of joins joins, in a good order: what is small or cannot be restricted by the others' solutions
        first, and all basic graph patterns as one."""
        found = self._joins.get(id(part))
        if found is None:
            found = self._joins[id(part)] = (part, self._find_joins(part))
        return found[1]

    def _find_joins(self, part: CompValue) -> list[CompValue]:
        parts = list(operands(part))
        triples = [triple for each in parts if each.name == "BGP" for triple in each.triples]
        others = [each for each in parts if each.name != "BGP"]
        if triples:
            others.append(CompValue("BGP", triples=triples))
        return sorted(others, key=self._rank)

    def _rank(self, part: CompValue) -> int:
        if part.name == "ToMultiSet":
            return 0 if not isinstance(part.p, CompValue) or part.p.name == "values" else 1
        return {"BGP": 2, "ServiceGraphPattern": 4}.get(part.name, 3)


def _walk(node: Any) -> Iterator[Identifier]:
    if is_variable(node):
        yield node
    elif isinstance(node, CompValue):
        for value in fields(node):
            yield from _walk(value)
    elif isinstance(node, dict):
        for key, value in node.items():
            yield from _walk(key)
            yield from _walk(value)
    elif isinstance(node, list | tuple | set) or (hasattr(node, "as_list") and not isinstance(node, Path)):
        for value in node:
            yield from _walk(value)
