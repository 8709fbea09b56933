"""Compiles expressions to functions of a document.

An expression is a field path, a variable, a literal, an object, an array or an operator.

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
    """Compile an expression that has been cleaned.

    Raises OperationFailure for an unknown operator or variable, and for an invalid operand.
    """
    if isinstance(expression, str):
        return _string(expression, context)
    if isinstance(expression, dict):
        return _operator_or_object(expression, context)
    if isinstance(expression, list):
        return _array(expression, context)
    if isinstance(expression, re.Pattern):
        context.fail("a regular expression is only allowed in $regexMatch, $regexFind and $regexFindAll")
    return _constant(expression)


def flat_field(expression: Any) -> str | None:
    """Return the field name if the expression is just a top-level field; None otherwise."""
    if isinstance(expression, str) and expression[:1] == "$" and expression[:2] != "$$" and "." not in expression:
        return expression[1:] or None
    return None


def is_constant(expression: Any) -> bool:
    """Whether the expression is a plain value, the same for every document."""
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
        context.fail(f"{path!r} is not a valid field path: its parts must not be empty or begin with $")
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
    """Return the value at the path ``parts[at:]`` in ``value``, or MISSING.

    For an array, it is the array of the values in its objects. A number in a path is a field name, never
    an array index.
    """
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
        context.fail(f"unknown variable $${name}; in scope are {known}")
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
            context.fail(
                f"an operator must be the only field of its object, but {name} is next to {list(expression)[1]!r}"
            )
        if name not in OPERATORS:
            context.fail(f"unknown operator {name}")
        return OPERATORS[name](expression[name], context.at(name))
    return _object(expression, context)


def _object(expression: dict[str, Any], context: Context) -> Evaluate:
    inner = []
    for name, each in expression.items():
        if not name or name[:1] == "$" or "." in name:
            context.fail(f"{name!r} is not a valid field name: it must not be empty, begin with $ or contain a dot")
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
        context.fail(f"vars must be an object of names and expressions, got {described(given['vars'])}")
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
"""All expression operators, by name."""
