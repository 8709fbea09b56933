"""Compiles filters. An unknown operator or an invalid operand is an error that names the operator and the path."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from lowtide.documents.filters.conditions import Condition
from lowtide.documents.filters.filter import Filter, filter_of
from lowtide.documents.filters.flat import compare_field
from lowtide.documents.filters.kinds import codes_of, of_types
from lowtide.documents.filters.nodes import And, ConditionCheck, FilterNode, Negation, Nor, OnPath, Or, on_value
from lowtide.documents.filters.operators import (
    COMPARISONS,
    exists,
    found_by,
    never,
    of_size,
    one_of,
    remainder,
)
from lowtide.documents.filters.patterns import pattern_of, prefix_of
from lowtide.errors import InvalidDocument, OperationFailure, shown
from lowtide.values.cleaning import MAX_DEPTH
from lowtide.values.codec import clean
from lowtide.values.paths import steps_of

_Checks = list[ConditionCheck | Negation]
_LOGICAL: Final = frozenset(("$and", "$or", "$nor"))
_SPANS: Final = frozenset((*COMPARISONS, "$in", "$regex"))
"""Operators whose matching values form ranges of an index."""
_PLAIN: Final = frozenset((int, bool, type(None), bytes))
"""Types of operands that ``clean`` would return unchanged."""


def compile_filter(filter: Mapping[str, Any] | None) -> Filter:
    """Compile a filter. None and an empty filter match every document.

    >>> adult = compile_filter({"age": {"$gte": 18}, "tags": "new"})
    >>> adult.matches({"age": 20, "tags": ["new", "vip"]}), adult.matches({"age": "20", "tags": "new"})
    (True, False)
    >>> adult.conjuncts[0]
    Condition(path='age', operator='$gte', operand=18)
    """
    if filter is None:
        return _EVERYTHING
    if not isinstance(filter, Mapping):
        raise OperationFailure(f"a filter must be a dict, got {filter!r}")
    return filter_of(_object(filter, "", 1))


def _object(filter: Mapping[str, Any], where: str, depth: int) -> FilterNode:
    """Compile a filter, or the part of one at the path ``where``."""
    if depth > MAX_DEPTH:
        raise OperationFailure(f"the filter nests deeper than {MAX_DEPTH} levels; does it contain itself?")
    children: list[FilterNode] = []
    for name, value in filter.items():
        if not isinstance(name, str):
            raise OperationFailure(f"field names must be strings, got {name!r}{_at(where)}")
        if not name.startswith("$"):
            children += [OnPath(name, check) for check in _field(value, name, depth)]
        elif name in _LOGICAL:
            children += _logical(name, value, where, depth)
        elif name != "$comment":
            raise OperationFailure(_misplaced(name, where))
    return children[0] if len(children) == 1 else And(children)


def _logical(name: str, value: Any, where: str, depth: int) -> list[FilterNode]:
    if not isinstance(value, list | tuple) or not value:
        raise OperationFailure(f"{name}{_at(where)}: expected a non-empty list of filters, got {value!r}")
    nodes = []
    for index, each in enumerate(value):
        if not isinstance(each, Mapping):
            raise OperationFailure(f"{name}{_at(where)}: element {index} must be a filter, a dict, got {each!r}")
        nodes.append(_object(each, f"{where}.{name}.{index}" if where else f"{name}.{index}", depth + 1))
    if name == "$nor":
        return [Nor(nodes)]
    return nodes if name == "$and" or len(nodes) == 1 else [Or(nodes)]


def _at(where: str) -> str:
    return f" at {where!r}" if where else ""


def _misplaced(name: str, where: str) -> str:
    if name in _OPERATORS or name in COMPARISONS or name in ("$regex", "$options"):
        return f'{name}{_at(where)}: expected a field name here; write {{"field": {{"{name}": ...}}}}'
    return f"{name}{_at(where)}: not supported; the top-level operators are $and, $or, $nor and $comment"


def _field(value: Any, path: str, depth: int) -> _Checks:
    """Compile the condition on a field: operators, a pattern, or equality."""
    if type(value) in _PLAIN or type(value) is str:
        return [_comparison("$eq", value, path)]
    if isinstance(value, Mapping) and is_operators(value, path):
        return _operators(value, path, depth)
    if isinstance(value, re.Pattern):
        return [_regex(value, None, path)]
    return [_comparison("$eq", value, path)]


def is_operators(value: Mapping[str, Any], path: str) -> bool:
    """Whether an object consists of operators rather than being a value. Raises OperationFailure for a mixture."""
    marked = [name for name in value if isinstance(name, str) and name.startswith("$")]
    if marked and len(marked) < len(value):
        field = next(name for name in value if name not in marked)
        raise OperationFailure(
            f"{marked[0]} at {path!r}: cannot be mixed with the field {field!r}; use either operators or fields"
        )
    return bool(marked)


def _operators(value: Mapping[str, Any], path: str, depth: int) -> _Checks:
    if depth > MAX_DEPTH:
        raise OperationFailure(f"the filter nests deeper than {MAX_DEPTH} levels; does it contain itself?")
    checks: _Checks = []
    for name, operand in value.items():
        if name in COMPARISONS:
            checks.append(_comparison(name, operand, path))
        elif name == "$regex":
            checks.append(_regex(operand, value.get("$options"), path))
        elif name == "$options":
            if "$regex" not in value:
                raise OperationFailure(f"$options at {path!r}: requires $regex in the same object")
        elif name in _OPERATORS:
            checks += _OPERATORS[name](operand, path, depth)
        elif name != "$comment":
            raise OperationFailure(f"{name} at {path!r}: unknown operator")
    return checks


def _comparison(name: str, operand: Any, path: str) -> ConditionCheck:
    if isinstance(operand, re.Pattern):
        raise OperationFailure(f"{name} at {path!r}: cannot be used with a pattern; use $regex")
    operand = _cleaned(operand, path)
    told = "$eq" if operand is None and name in ("$gte", "$lte") else name
    field = None if "." in path else compare_field(path, name, operand)
    return ConditionCheck(COMPARISONS[name](operand), (Condition(path, told, operand),), exact=True, field=field)


def _cleaned(value: Any, path: str) -> Any:
    if type(value) in _PLAIN or (type(value) is str and value.isascii()):
        return value
    try:
        return clean(value, path)
    except UnicodeEncodeError as error:
        raise InvalidDocument(path, f"not valid Unicode text: {error}") from error


def _regex(given: Any, options: Any, path: str) -> ConditionCheck:
    pattern = pattern_of(given, options, path)
    prefix, exact = prefix_of(pattern)
    return ConditionCheck(
        found_by(pattern), (Condition(path, "$regex", prefix),) if prefix else (), exact=bool(prefix) and exact
    )


def _not_equal(operand: Any, path: str, depth: int) -> _Checks:
    if isinstance(operand, re.Pattern):
        raise OperationFailure(f"$ne at {path!r}: cannot be used with a pattern; use $not")
    return [Negation((_comparison("$eq", operand, path),))]


def _in(operand: Any, path: str, depth: int) -> _Checks:
    return [_membership("$in", operand, path)]


def _not_in(operand: Any, path: str, depth: int) -> _Checks:
    return [Negation((_membership("$nin", operand, path),))]


def _membership(name: str, operand: Any, path: str) -> ConditionCheck:
    if not isinstance(operand, list | tuple):
        raise OperationFailure(f"{name} at {path!r}: expected a list, got {operand!r}")
    values, patterns = [], []
    for each in operand:
        if type(each) in _PLAIN or (type(each) is str and each.isascii()):
            values.append(each)
        elif isinstance(each, re.Pattern):
            patterns.append(pattern_of(each, None, path))
        elif isinstance(each, Mapping) and any(isinstance(key, str) and key.startswith("$") for key in each):
            raise OperationFailure(f"{name} at {path!r}: its list must contain values, got the operator {each!r}")
        else:
            values.append(_cleaned(each, path))
    conditions = () if patterns else (Condition(path, "$in", tuple(values)),)
    return ConditionCheck(one_of(values, patterns), conditions, exact=not patterns)


def _exists(operand: Any, path: str, depth: int) -> _Checks:
    there = ConditionCheck(exists, (Condition(path, "$exists", True),), exact=True)
    if operand:
        return [there]
    return [Negation((there,), (Condition(path, "$exists", False),), exact=True)]


def _type(operand: Any, path: str, depth: int) -> _Checks:
    return [ConditionCheck(of_types(codes_of(operand, path)))]


def _mod(operand: Any, path: str, depth: int) -> _Checks:
    if not isinstance(operand, list | tuple) or len(operand) != 2:
        raise OperationFailure(f"$mod at {path!r}: expected [divisor, remainder], got {operand!r}")
    divisor, rest = [_whole("$mod", each, path) for each in operand]
    if divisor == 0:
        raise OperationFailure(f"$mod at {path!r}: the divisor must not be 0")
    return [ConditionCheck(remainder(divisor, rest))]


def _whole(name: str, value: Any, path: str) -> int:
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        try:
            return int(value)
        except (ValueError, OverflowError):
            pass
    raise OperationFailure(f"{name} at {path!r}: {value!r} is not a finite number")


def _size(operand: Any, path: str, depth: int) -> _Checks:
    size = _whole("$size", operand, path)
    if size != operand or size < 0:
        raise OperationFailure(f"$size at {path!r}: expected an integer of at least 0, got {shown(operand)}")
    return [ConditionCheck(of_size(size), expand=False)]


def _not(operand: Any, path: str, depth: int) -> _Checks:
    if isinstance(operand, re.Pattern):
        return [Negation((_regex(operand, None, path),))]
    if not isinstance(operand, Mapping) or not operand or not is_operators(operand, path):
        raise OperationFailure(f"$not at {path!r}: expected an object of operators or a pattern, got {operand!r}")
    return [Negation(tuple(_operators(operand, path, depth + 1)))]


def _all(operand: Any, path: str, depth: int) -> _Checks:
    if not isinstance(operand, list | tuple):
        raise OperationFailure(f"$all at {path!r}: expected a list, got {operand!r}")
    if not operand:
        return [ConditionCheck(never, (Condition(path, "$in", ()),), exact=True)]
    checks: _Checks = []
    nested = [isinstance(each, Mapping) and is_operators(each, path) for each in operand]
    for each in operand:
        if any(nested):
            if not isinstance(each, Mapping) or list(each) != ["$elemMatch"]:
                raise OperationFailure(f"$all at {path!r}: expected only values or only $elemMatch, got {each!r}")
            checks += _elem_match(each["$elemMatch"], path, depth)
        elif isinstance(each, re.Pattern):
            checks.append(_regex(each, None, path))
        else:
            checks.append(_comparison("$eq", each, path))
    return checks


def _elem_match(operand: Any, path: str, depth: int) -> _Checks:
    if not isinstance(operand, Mapping):
        raise OperationFailure(f"$elemMatch at {path!r}: expected an object, got {operand!r}")
    first = next(iter(operand), None)
    if isinstance(first, str) and first.startswith("$") and first not in _LOGICAL and is_operators(operand, path):
        checks = _operators(operand, path, depth + 1)
        return [_of_elements(on_value(checks), _of_values(checks, path))]
    node = _object(operand, path, depth + 1)
    matches = node.matches

    def passes(value: Any) -> bool:
        if type(value) is dict:
            return matches(value)
        return type(value) is list and matches({str(index): each for index, each in enumerate(value)})

    told = [
        Condition(f"{path}.{each.path}", each.operator, each.operand)
        for each in filter_of(node).conjuncts
        if _of_fields(each)
    ]
    return [_of_elements(passes, tuple(told))]


def _of_elements(passes: Callable[[Any], bool], conditions: tuple[Condition, ...]) -> ConditionCheck:
    def test(value: Any) -> bool:
        if type(value) is list:
            for each in value:
                if passes(each):
                    return True
        return False

    def element(array: Any) -> int:
        return next(index for index, each in enumerate(array) if passes(each))

    return ConditionCheck(test, conditions, expand=False, element=element)


def _of_values(checks: _Checks, path: str) -> tuple[Condition, ...]:
    """Return the conditions of checks on the elements themselves.

    An array that is reached by its index is not expanded, so there is no condition for its elements.
    """
    told = [
        Condition("", each.operator, each.operand)
        for check in checks
        for each in check.conditions
        if each.path == path and each.operator in _SPANS
    ]
    indexed = any(index >= 0 for _, index in steps_of(path))
    return (Condition(path, "$elemMatch", tuple(told)),) if told and not indexed else ()


def _of_fields(condition: Condition) -> bool:
    """Whether a condition on an element also holds for the path through the array.

    An element that is itself an array has the fields "0", "1" and so on here. The path through the outer
    array does not descend into it, and does not count it as missing a field.
    """
    if condition.path == "" or steps_of(condition.path)[0][1] >= 0:
        return False
    match condition.operator:
        case "$exists":
            return condition.operand is True
        case "$in":
            return None not in condition.operand
        case "$eq":
            return condition.operand is not None
    return True


_OPERATORS: Final[dict[str, Callable[[Any, str, int], _Checks]]] = {
    "$ne": _not_equal,
    "$in": _in,
    "$nin": _not_in,
    "$exists": _exists,
    "$type": _type,
    "$mod": _mod,
    "$size": _size,
    "$not": _not,
    "$all": _all,
    "$elemMatch": _elem_match,
}
_EVERYTHING: Final = filter_of(And(()))
