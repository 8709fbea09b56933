"""Array operators of expressions, including the conversions between arrays and objects."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import Any, Final

from lowtide.documents.aggregation.context import (
    BadOperand,
    Build,
    Context,
    Evaluate,
    Variables,
    by_name,
    described,
    hashable,
    place_of,
    several,
    truth,
    unary,
    whole_number,
)
from lowtide.values.paths import MISSING
from lowtide.values.values import Document

MAX_RANGE: Final = 1 << 24
"""Maximum number of elements that ``$range`` returns."""


def array(value: Any) -> list[Any]:
    """Return ``value`` if it is an array, else raise BadOperand."""
    if not isinstance(value, list):
        raise BadOperand(f"expected an array, got {described(value)}")
    return value


def whole(value: object, what: str) -> int:
    found = whole_number(value)
    if found is None:
        raise BadOperand(f"{what} must be an integer, got {described(value)}")
    return found


def _element_at(value: Any, index: Any) -> Any:
    elements, position = array(value), whole(index, "the index")
    return elements[position] if -len(elements) <= position < len(elements) else MISSING


def _slice(value: Any, *bounds: Any) -> list[Any]:
    elements = array(value)
    if len(bounds) == 1:
        count = whole(bounds[0], "the count")
        return elements[:count] if count >= 0 else elements[count:]
    start, count = whole(bounds[0], "the position"), whole(bounds[1], "the count")
    if count <= 0:
        raise BadOperand(f"the count must be greater than zero if a position is given, got {count}")
    first = max(len(elements) + start, 0) if start < 0 else start
    return elements[first : first + count]


def _concat(*values: Any) -> list[Any]:
    return [element for value in values for element in array(value)]


def _in(value: Any, elements: Any) -> bool:
    sought = place_of(value)
    return any(place_of(each) == sought for each in array(elements))


def _index_of(value: Any, sought: Any, start: Any = 0, end: Any = None) -> int | None:
    if value is None or value is MISSING:
        return None
    elements, wanted = array(value), place_of(sought)
    first, last = whole(start, "the start"), len(elements) if end is None else whole(end, "the end")
    if first < 0 or last < 0:
        raise BadOperand("start and end must not be negative")
    return next((at for at in range(first, min(last, len(elements))) if place_of(elements[at]) == wanted), -1)


def _range(start: Any, end: Any, step: Any = 1) -> list[int]:
    by = whole(step, "the step")
    if by == 0:
        raise BadOperand("the step must not be zero")
    numbers = range(whole(start, "the start"), whole(end, "the end"), by)
    if numbers[MAX_RANGE:]:
        raise BadOperand(f"the range has more than {MAX_RANGE:,} numbers")
    return list(numbers)


def _zip(inputs: Any, longest: Any, defaults: Any) -> list[Any] | None:
    """Transpose the input arrays. The result is as long as the shortest, or with ``useLongestLength`` the longest."""
    if any(each is None for each in array(inputs)):
        return None
    columns = [array(each) for each in inputs]
    if longest is not True:
        if defaults is not MISSING:
            raise BadOperand("defaults requires useLongestLength: true")
        return [list(row) for row in zip(*columns, strict=False)]
    fill = [None] * len(columns) if defaults is MISSING else array(defaults)
    if len(fill) != len(columns):
        raise BadOperand("defaults must have as many elements as inputs")
    rows = zip_longest(*columns, fillvalue=MISSING)
    return [[fill[at] if each is MISSING else each for at, each in enumerate(row)] for row in rows]


def _sort(value: Any, by: Any) -> list[Any]:
    """Sort an array by its elements (1 or -1), or by fields of its elements."""
    elements = list(array(value))
    keys = list(by.items()) if isinstance(by, dict) else [("", by)]
    for path, direction in reversed(keys):
        if direction not in (1, -1):
            raise BadOperand(f"sortBy must be 1 or -1, got {described(direction)}")
        elements.sort(key=lambda each, path=path: place_of(_inside(each, path)), reverse=direction == -1)  # type: ignore[misc]
    return elements


def _inside(value: Any, path: str) -> Any:
    for name in path.split(".") if path else ():
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _first_n(count: Any, value: Any) -> list[Any]:
    return array(value)[: positive(count)]


def _last_n(count: Any, value: Any) -> list[Any]:
    return array(value)[-positive(count) :]


def _least_n(count: Any, value: Any) -> list[Any]:
    return sorted((each for each in array(value) if each is not None), key=place_of)[: positive(count)]


def _greatest_n(count: Any, value: Any) -> list[Any]:
    present = (each for each in array(value) if each is not None)
    return sorted(present, key=place_of, reverse=True)[: positive(count)]


def positive(value: object) -> int:
    found = whole(value, "n")
    if found < 1:
        raise BadOperand(f"n must be greater than zero, got {found}")
    return found


def unique(elements: list[Any]) -> list[Any]:
    """Remove duplicates. The first of several equal elements is kept."""
    found: dict[Any, Any] = {}
    for each in elements:
        found.setdefault(hashable(each), each)
    return list(found.values())


def _union(*values: Any) -> list[Any]:
    return unique(_concat(*values))


def _intersection(*values: Any) -> list[Any]:
    if not values:
        return []
    rest = [set(map(hashable, array(value))) for value in values[1:]]
    return [each for each in unique(array(values[0])) if all(hashable(each) in keys for keys in rest)]


def _difference(first: Any, second: Any) -> list[Any]:
    without = set(map(hashable, array(second)))
    return [each for each in unique(array(first)) if hashable(each) not in without]


def _equals(*values: Any) -> bool:
    first, *rest = (set(map(hashable, array(value))) for value in values)
    return all(each == first for each in rest)


def _subset(first: Any, second: Any) -> bool:
    return set(map(hashable, array(first))) <= set(map(hashable, array(second)))


def _to_pairs(value: Any) -> list[Any]:
    if not isinstance(value, dict):
        raise BadOperand(f"expected an object, got {described(value)}")
    return [{"k": name, "v": each} for name, each in value.items()]


def _to_object(value: Any) -> Document:
    made: Document = {}
    first: type | None = None
    for each in array(value):
        if first is not None and isinstance(each, dict | list) and not isinstance(each, first):
            raise BadOperand("expected an array of [name, value] or of {k, v}, got a mixture of both")
        first = type(each)
        if isinstance(each, dict) and each.keys() == {"k", "v"}:
            name, inner = each["k"], each["v"]
        elif isinstance(each, list) and len(each) == 2:
            name, inner = each
        else:
            raise BadOperand(f"expected an array of [name, value] or of {{k, v}}, got the element {described(each)}")
        if not isinstance(name, str):
            raise BadOperand(f"field names must be strings, got {described(name)}")
        made[name] = inner
    return made


def merged(*values: Any) -> Document:
    """Merge objects. If a field occurs several times, the last one wins. Null and missing values are skipped."""
    made: Document = {}
    for value in values:
        if isinstance(value, dict):
            made.update(value)
        elif value is not None and value is not MISSING:
            raise BadOperand(f"expected objects, got {described(value)}")
    return made


def _get_field(operand: Any, context: Context) -> Evaluate:
    """Compile $getField: ``{field, input}``, or only the name. The name may contain dots, or $ in ``$literal``."""
    alone = isinstance(operand, str) or (isinstance(operand, dict) and "$literal" in operand)
    given = {"field": operand} if alone else context.named(operand, ("field",), ("input",))
    said = given["field"]
    literal = isinstance(said, dict) and said.keys() == {"$literal"}
    name = said["$literal"] if literal else said
    if not isinstance(name, str) or (name[:1] == "$" and not literal):
        context.fail(f"field must be a field name, in $literal if it begins with $, got {described(said)}")
    inner = context.compile(given.get("input", "$$CURRENT"))

    def evaluate(document: Document, variables: Variables) -> Any:
        value = inner(document, variables)
        return value.get(name, MISSING) if isinstance(value, dict) else None if value is None else MISSING

    return evaluate


def _input(operand: Any, context: Context) -> Callable[[Document, Variables], list[Any] | None]:
    """Compile the input array of an operator. It evaluates to None if it is null or missing."""
    inner = context.compile(operand)

    def evaluate(document: Document, variables: Variables) -> list[Any] | None:
        value = inner(document, variables)
        if value is None or value is MISSING:
            return None
        if not isinstance(value, list):
            context.fail(f"input must be an array, got {described(value)}")
        return value

    return evaluate


def _name(given: dict[str, Any], context: Context) -> str:
    name = given.get("as", "this")
    if not isinstance(name, str):
        context.fail(f"as must be a variable name, got {described(name)}")
    return name


def _filter(operand: Any, context: Context) -> Evaluate:
    given = context.named(operand, ("input", "cond"), ("as", "limit"))
    name, elements = _name(given, context), _input(given["input"], context)
    condition = context.binding(name).compile(given["cond"])
    limit = context.compile(given.get("limit"))

    def evaluate(document: Document, variables: Variables) -> Any:
        found = elements(document, variables)
        if found is None:
            return None
        most = limit(document, variables)
        if most is not None and (type(most) is not int or most < 1):
            context.fail(f"limit must be a positive integer, got {described(most)}")
        kept = []
        for each in found:
            if truth(condition(document, {**variables, name: each})):
                kept.append(each)
                if len(kept) == most:
                    break
        return kept

    return evaluate


def _map(operand: Any, context: Context) -> Evaluate:
    given = context.named(operand, ("input", "in"), ("as",))
    name, elements = _name(given, context), _input(given["input"], context)
    made = context.binding(name).compile(given["in"])

    def evaluate(document: Document, variables: Variables) -> Any:
        found = elements(document, variables)
        if found is None:
            return None
        results = [made(document, {**variables, name: each}) for each in found]
        return [None if each is MISSING else each for each in results]

    return evaluate


def _reduce(operand: Any, context: Context) -> Evaluate:
    given = context.named(operand, ("input", "initialValue", "in"))
    elements, initial = _input(given["input"], context), context.compile(given["initialValue"])
    made = context.binding("this", "value").compile(given["in"])

    def evaluate(document: Document, variables: Variables) -> Any:
        found = elements(document, variables)
        if found is None:
            return None
        value = initial(document, variables)
        for each in found:
            value = made(document, {**variables, "this": each, "value": value})
        return value

    return evaluate


_N: Final = (("n", "input"), ())

OPERATORS: Final[dict[str, Build]] = {
    "$allElementsTrue": unary(lambda value: all(map(truth, array(value))), strict=False),
    "$anyElementTrue": unary(lambda value: any(map(truth, array(value))), strict=False),
    "$arrayElemAt": several(_element_at, 2, 2),
    "$arrayToObject": unary(_to_object),
    "$concatArrays": several(_concat, 0),
    "$filter": _filter,
    "$first": unary(lambda value: _element_at(value, 0)),
    "$firstN": by_name(_first_n, *_N),
    "$getField": _get_field,
    "$in": several(_in, 2, 2, strict=False),
    "$indexOfArray": several(_index_of, 2, 4, strict=False),
    "$isArray": unary(lambda value: isinstance(value, list), strict=False),
    "$last": unary(lambda value: _element_at(value, -1)),
    "$lastN": by_name(_last_n, *_N),
    "$map": _map,
    "$maxN": by_name(_greatest_n, *_N),
    "$mergeObjects": several(merged, 0, strict=False),
    "$minN": by_name(_least_n, *_N),
    "$objectToArray": unary(_to_pairs),
    "$range": several(_range, 2, 3, strict=False),
    "$reduce": _reduce,
    "$reverseArray": unary(lambda value: array(value)[::-1]),
    "$setDifference": several(_difference, 2, 2),
    "$setEquals": several(_equals, 2, strict=False),
    "$setIntersection": several(_intersection, 0),
    "$setIsSubset": several(_subset, 2, 2, strict=False),
    "$setUnion": several(_union, 0),
    "$size": unary(lambda value: len(array(value)), strict=False),
    "$slice": several(_slice, 2, 3),
    "$sortArray": by_name(_sort, ("input", "sortBy"), strict=("input",)),
    "$zip": by_name(_zip, ("inputs",), ("useLongestLength", "defaults"), strict=("inputs",)),
}
