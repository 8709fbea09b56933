"""The operators that change arrays: $push, $addToSet, $pop, $pullAll and $pull."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from lowtide.documents.updates.sameness import copied, same
from lowtide.documents.updates.tree import MISSING, Change, Occasion, Refusal, described, index_of
from lowtide.errors import OperationFailure
from lowtide.values.codec import clean
from lowtide.values.values import Place, place

_MODIFIERS: Final = frozenset(("$each", "$position", "$sort", "$slice"))


def pushing(operand: Any, path: str) -> Change:
    """Compile $push: a value, or ``{"$each": [...]}`` with $position, $sort and $slice, applied in this order."""
    if not isinstance(operand, Mapping) or not any(str(name).startswith("$") for name in operand):
        value = clean(operand, path)
        return lambda old, _: [*_array(old, "$push"), copied(value)]
    values = _each(operand, path, "$push")
    for name in operand:
        if name not in _MODIFIERS:
            raise OperationFailure(
                f"$push: unknown modifier {name!r} for {path!r}; use $each, $position, $sort or $slice"
            )
    position = _integer(operand, "$position", path)
    slicing = _slicing(_integer(operand, "$slice", path))
    key = _sort_key(operand["$sort"], path) if "$sort" in operand else None

    def change(old: Any, _: Occasion) -> Any:
        array = list(_array(old, "$push"))
        at = len(array) if position is None else position
        array[at:at] = copied(values)
        if key is not None:
            array = key(array)
        if slicing is not None:
            array = array[slicing]
        return old if same(old, array) else array

    return change


def _each(operand: Mapping[Any, Any], path: str, operator: str) -> list[Any]:
    if "$each" not in operand:
        raise OperationFailure(f"{operator}: the modifiers {', '.join(map(str, operand))} of {path!r} require $each")
    values = clean(operand["$each"], path)
    if type(values) is not list:
        raise OperationFailure(f"{operator}: $each of {path!r} must be an array, got {described(values)}")
    return values


def _integer(operand: Mapping[Any, Any], name: str, path: str) -> int | None:
    if name not in operand:
        return None
    value = clean(operand[name], path)
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is not int:
        raise OperationFailure(f"$push: {name} of {path!r} must be an int, got {described(value)}")
    return value


def _slicing(count: int | None) -> slice | None:
    """Return the slice of a count: the first elements if positive, the last if negative, none for zero."""
    if count is None:
        return None
    return slice(None, count) if count >= 0 else slice(count, None)


def _sort_key(spec: Any, path: str) -> Callable[[list[Any]], list[Any]]:
    """Compile $sort: 1 or -1 sorts by the elements, an object sorts by their fields.

    A missing field counts as null. The sort is stable.
    """
    if isinstance(spec, Mapping) and spec:
        keys = [(_checked_name(name, path), _direction(each, path)) for name, each in spec.items()]
    else:
        keys = [([], _direction(spec, path))]

    def ordered(array: list[Any]) -> list[Any]:
        for parts, descending in reversed(keys):
            array = sorted(array, key=lambda each, parts=parts: place(_at(each, parts)), reverse=descending)  # type: ignore[misc]
        return array

    return ordered


def _checked_name(name: Any, path: str) -> list[str]:
    if not isinstance(name, str) or "" in name.split(".") or name.startswith("$"):
        raise OperationFailure(f"$push: $sort of {path!r} requires field paths of the elements, got {name!r}")
    return name.split(".")


def _direction(value: Any, path: str) -> bool:
    """Return whether a sort direction is descending."""
    if isinstance(value, bool) or value not in (1, -1):
        raise OperationFailure(
            f"$push: $sort of {path!r} must be 1, -1, or an object of fields with 1 or -1, got {described(value)}"
        )
    return bool(value == -1)


def _at(value: Any, parts: list[str]) -> Any:
    for part in parts:
        if type(value) is dict:
            value = value.get(part)
        elif type(value) is list:
            index = index_of(part)
            value = None if index is None or index >= len(value) else value[index]
        else:
            return None
    return value


def _array(old: Any, operator: str) -> list[Any]:
    """Return the array that a field has; empty if the field is missing."""
    if old is MISSING:
        return []
    if type(old) is not list:
        raise Refusal(f"{operator} requires an array, but the field is {described(old)}")
    return old


def adding(operand: Any, path: str) -> Change:
    """Compile $addToSet. A value that compares equal to an element is not added."""
    if isinstance(operand, Mapping) and any(str(name).startswith("$") for name in operand):
        values = _each(operand, path, "$addToSet")
        if len(operand) > 1:
            raise OperationFailure(f"$addToSet: the only modifier is $each, got {', '.join(operand)} for {path!r}")
    else:
        values = [clean(operand, path)]
    wanted: dict[Place, Any] = {}
    for value in values:
        wanted.setdefault(place(value), value)

    def change(old: Any, _: Occasion) -> Any:
        array = _array(old, "$addToSet")
        there = set(map(place, array))
        new = [copied(value) for standing, value in wanted.items() if standing not in there]
        return [*array, *new] if new or old is MISSING else old

    return change


def popping(operand: Any, path: str) -> Change:
    """Compile $pop: 1 removes the last element, -1 the first."""
    if isinstance(operand, bool) or operand not in (1, -1):
        raise OperationFailure(
            f"$pop of {path!r} must be 1 for the last element or -1 for the first, got {described(operand)}"
        )
    kept = slice(None, -1) if operand == 1 else slice(1, None)

    def change(old: Any, _: Occasion) -> Any:
        return _array(old, "$pop")[kept] if old is not MISSING and old != [] else old

    return change


def pulling_all(operand: Any, path: str) -> Change:
    """Compile $pullAll: removes every element that compares equal to one of the values."""
    values = clean(operand, path)
    if type(values) is not list:
        raise OperationFailure(f"$pullAll of {path!r} must be an array of values, got {described(values)}")
    places = set(map(place, values))
    return removing("$pullAll", lambda element: place(element) in places)


def removing(operator: str, unwanted: Callable[[Any], bool]) -> Change:
    """Return a change that removes the elements for which ``unwanted`` is true. A missing field stays missing."""

    def change(old: Any, _: Occasion) -> Any:
        if old is MISSING:
            return old
        kept = [each for each in _array(old, operator) if not unwanted(each)]
        return old if len(kept) == len(old) else kept

    return change
