"""Compiles an expression to a function of a document: field paths, variables, literals, objects, arrays and operators.

>>> price = compile_expression({"$multiply": ["$price", "$count"]}, Context("here", compile_expression))
>>> price({"price": 2, "count": 3}, {})
6
"""

from __future__ import annotations

import re
from typing import Any, Final

from lowtide.documents.aggregation import arithmetic, arrays, conditions, conversions, dates, folding, strings
from lowtide.documents.aggregation.context import Build, Context, Evaluate, Variables, described
from lowtide.values.paths import MISSING
from lowtide.values.values import Document

_OF_DOCUMENT: Final = frozenset(("ROOT", "CURRENT"))


def compile_expression(expression: Any, context: Context) -> Evaluate:
    """The function of an expression, which has been cleaned. Raises OperationFailure for unknown operators and
    variables, and for operands that cannot be."""
    if isinstance(expression, str):
        return _string(expression, context)
    if isinstance(expression, dict):
        return _operator_or_object(expression, context)
    if isinstance(expression, list):
        return _array(expression, context)
    if isinstance(expression, re.Pattern):
        context.fail("a regular expression stands only in $regexMatch, $regexFind and $regexFindAll")
    return _constant(expression)


def flat_field(expression: Any) -> str | None:
    """The name of the top-level field that an expression is; None if it is anything else."""
    if isinstance(expression, str) and expression[:1] == "$" and expression[:2] != "$$" and "." not in expression:
        return expression[1:] or None
    return None


def is_constant(expression: Any) -> bool:
    """Whether it is a plain value, which no document changes."""
    return not isinstance(expression, dict | list) and not (isinstance(expression, str) and expression[:1] == "$")


def _constant(value: Any) -> Evaluate:
    return lambda document, variables: value


def _string(expression: str, context: Context) -> Evaluate:
    if expression[:2] == "$$":
        return _variable(expression[2:], context)
    if expression[:1] == "$":
        return _field(expression[1:], context)
    return _constant(expression)


def _parts(path: str, context: Context) -> list[str]:
    parts = path.split(".")
    if not all(parts) or any(part[:1] == "$" for part in parts):
        context.fail(f"{path!r} is no path of a field: its parts are not empty and do not begin with $")
    return parts


def _field(path: str, context: Context) -> Evaluate:
    name, *rest = _parts(path, context)
    context.reads.fields.add(name)
    if not rest:
        return lambda document, variables: document.get(name, MISSING)
    if len(rest) == 1:
        inner = rest[0]

        def evaluate(document: Document, variables: Variables) -> Any:
            value = document.get(name)
            return value.get(inner, MISSING) if type(value) is dict else follow(value, rest)

        return evaluate
    return lambda document, variables: follow(document.get(name), rest)


def follow(value: Any, parts: list[str], at: int = 0) -> Any:
    """What is at the path ``parts[at:]`` in ``value``: of an array, what its objects have there; MISSING if nothing
    is. Numbers in a path are names, never positions."""
    for index in range(at, len(parts)):
        if type(value) is dict:
            value = value.get(parts[index], MISSING)
        elif type(value) is list:
            found = [follow(each, parts, index) for each in value if type(each) is dict]
            return [each for each in found if each is not MISSING]
        else:
            return MISSING
    return value


def _variable(path: str, context: Context) -> Evaluate:
    name, *rest = _parts(path, context)
    if name == "REMOVE":
        return lambda document, variables: MISSING
    if name in _OF_DOCUMENT:
        if rest:
            return _field(".".join(rest), context)
        context.reads.whole = True
        return lambda document, variables: document
    if name != "NOW" and name not in context.variables:
        known = ", ".join(f"$${each}" for each in sorted(context.variables | {"ROOT", "CURRENT", "NOW", "REMOVE"}))
        context.fail(f"the variable $${name} is unknown; there are {known}")
    if not rest:
        return lambda document, variables: variables[name]
    return lambda document, variables: follow(variables[name], rest)


def _array(expression: list[Any], context: Context) -> Evaluate:
    inner = [context.compile(each) for each in expression]

    def evaluate(document: Document, variables: Variables) -> Any:
        values = [each(document, variables) for each in inner]
        return [None if value is MISSING else value for value in values]

    return evaluate


def _operator_or_object(expression: dict[str, Any], context: Context) -> Evaluate:
    name = next(iter(expression), "")
    if name[:1] == "$":
        if len(expression) > 1:
            context.fail(f"an operator stands alone in its object, but beside {name} there is {list(expression)[1]!r}")
        if name not in OPERATORS:
            context.fail(f"the operator {name} is unknown")
        return OPERATORS[name](expression[name], context.at(name))
    return _object(expression, context)


def _object(expression: dict[str, Any], context: Context) -> Evaluate:
    inner = []
    for name, each in expression.items():
        if not name or name[:1] == "$" or "." in name:
            context.fail(f"{name!r} cannot name a field of an object: no $ in front, no dots, not empty")
        inner.append((name, context.compile(each)))

    def evaluate(document: Document, variables: Variables) -> Any:
        made = {}
        for name, each in inner:
            value = each(document, variables)
            if value is not MISSING:
                made[name] = value
        return made

    return evaluate


def _literal(operand: Any, context: Context) -> Evaluate:
    return _constant(operand)


def _let(operand: Any, context: Context) -> Evaluate:
    given = context.named(operand, ("vars", "in"))
    if not isinstance(given["vars"], dict):
        context.fail(f"vars is an object of names and expressions, not {described(given['vars'])}")
    bound = [(name, context.compile(each)) for name, each in given["vars"].items()]
    inner = context.binding(*given["vars"]).compile(given["in"])

    def evaluate(document: Document, variables: Variables) -> Any:
        return inner(document, {**variables, **{name: each(document, variables) for name, each in bound}})

    return evaluate


OPERATORS: Final[dict[str, Build]] = {
    "$let": _let,
    "$literal": _literal,
    **arithmetic.OPERATORS,
    **arrays.OPERATORS,
    **conditions.OPERATORS,
    **conversions.OPERATORS,
    **dates.OPERATORS,
    **folding.OPERATORS,
    **strings.OPERATORS,
}
"""Every operator of expressions, by name."""
