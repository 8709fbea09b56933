"""How rdflib's algebra is taken apart: fields of its nodes, conjuncts of a filter, operands of a join."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from rdflib.plugins.sparql.parserutils import CompValue, Expr
from rdflib.term import URIRef, Variable

UNDEFINED: Final = "UNDEF"
"""What rdflib writes for an unbound place of VALUES."""

EXISTS: Final = frozenset(("Builtin_EXISTS", "Builtin_NOTEXISTS"))
VOLATILE: Final = frozenset(("Builtin_RAND", "Builtin_UUID", "Builtin_STRUUID", "Builtin_BNODE"))
"""Functions that give another value each time they are called."""


def field(node: CompValue, name: str) -> Any:
    """What a part of the algebra has by a name; None if it has nothing. ``node.name`` is the same, with four calls in
    between. Not for expressions, which rdflib evaluates when they are asked for their fields."""
    return dict.get(node, name)


def fields(node: CompValue) -> Iterable[Any]:
    """The values of a node's fields; not those that rdflib's own analysis leaves there."""
    return [value for key, value in node.items() if key != "_vars"]


def conjuncts(expression: Any) -> Iterator[Any]:
    """The expressions that must all be true for ``expression`` to be."""
    if isinstance(expression, Expr) and expression.name == "ConditionalAndExpression":
        yield from conjuncts(expression.expr)
        for each in expression.other or ():
            yield from conjuncts(each)
    elif not (isinstance(expression, Expr) and expression.name == "TrueFilter"):
        yield expression


def named_by(expression: Any) -> tuple[Variable, URIRef] | None:
    """The variable and the IRI if an expression says that they are the same."""
    if isinstance(expression, Expr) and expression.name == "RelationalExpression" and expression.op == "=":
        for one, other in ((expression.expr, expression.other), (expression.other, expression.expr)):
            if isinstance(one, Variable) and isinstance(other, URIRef):
                return one, other
    return None


def operands(part: CompValue) -> Iterator[CompValue]:
    """The parts that a join of joins joins."""
    if part.name == "Join":
        yield from operands(part.p1)
        yield from operands(part.p2)
    else:
        yield part


def copied(expression: Any) -> Any:
    """A copy of an expression that one evaluation has for itself.

    rdflib keeps the solution in the expression while it evaluates it, so two threads must not share one. What an EXISTS
    asks for is not copied: this package evaluates it without changing it.
    """
    if isinstance(expression, Expr):
        copy = _alike(expression)
        for key, value in expression.items():
            copy[key] = value if expression.name in EXISTS else copied(value)
        return copy
    if isinstance(expression, list):
        return [copied(each) for each in expression]
    return expression


def _alike(expression: Expr) -> Expr:
    """An expression of the same kind, without its fields. What evaluates it is a method of the one that it is for."""
    function = expression.__dict__.get("_evalfn")
    return Expr(expression.name, None if function is None else function.__func__)


def contains(expression: Any, names: frozenset[str]) -> bool:
    """Whether a node with one of these names stands in an expression."""
    if isinstance(expression, CompValue):
        return expression.name in names or any(contains(each, names) for each in fields(expression))
    if isinstance(expression, list | tuple) or hasattr(expression, "as_list"):
        return any(contains(each, names) for each in expression)
    return False


def lifted(expression: Any) -> tuple[Any, list[tuple[Variable, Expr]]]:
    """An expression with a variable in the place of each EXISTS, and what each of these variables stands for."""
    asked: list[tuple[Variable, Expr]] = []

    def replaced(node: Any) -> Any:
        if isinstance(node, Expr) and node.name in EXISTS:
            asked.append((Variable(f"-exists{len(asked)}"), node))
            return asked[-1][0]
        if isinstance(node, Expr):
            copy = _alike(node)
            for key, value in node.items():
                copy[key] = replaced(value)
            return copy
        return [replaced(each) for each in node] if isinstance(node, list) else node

    return (replaced(expression), asked) if contains(expression, EXISTS) else (expression, asked)
