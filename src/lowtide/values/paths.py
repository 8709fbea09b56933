"""Paths into documents: which values a dotted path leads to, through objects and arrays, as MongoDB reads them.

A part of a path names a field of an object. In an array, it is looked up in each element that is an object; a part that
is a number is an index of the array besides. At the end of the path, an array stands for its elements and for itself;
one that was reached by its index stands for itself only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from lowtide.values.values import Document


class _Missing:
    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final[Any] = _Missing()
"""What a path leads to where an object does not have the field. Not null, though most conditions take it for null."""

Step = tuple[str, int]
"""A part of a path, and the index that it is in an array, or -1."""
Found = list[tuple[Any, int | None]]
"""Values, each with the index of the element, in the outermost array on the way, that led to it."""


def steps_of(path: str) -> tuple[Step, ...]:
    """The parts of a path.

    >>> steps_of("items.0.price")
    (('items', -1), ('0', 0), ('price', -1))
    """
    return tuple([(part, _index(part)) for part in path.split(".")])


def _index(part: str) -> int:
    if part.isascii() and part.isdigit() and (part == "0" or part[0] != "0") and len(part) < 10:
        return int(part)
    return -1


def values_at(document: Document, path: str) -> list[Any]:
    """The values that a condition on ``path`` meets, among them MISSING for each object that lacks the field.

    Nothing at all is found where the path ends in an array of other than objects on the way.

    >>> values_at({"a": [{"b": 1}, {"b": [2, 3]}, {}]}, "a.b")
    [1, 2, 3, [2, 3], MISSING]
    >>> values_at({"a": []}, "a"), values_at({"a": []}, "a.b")
    ([[]], [])
    """
    if "." not in path:
        value = document.get(path, MISSING)
        return [*value, value] if type(value) is list else [value]
    return values_of(document, steps_of(path))


def values_of(document: Document, steps: tuple[Step, ...], expand: bool = True) -> list[Any]:
    """As ``values_at``; unless ``expand``, an array at the end stands for itself only."""
    return [value for value, _ in places_of(document, steps, expand)]


def places_of(document: Document, steps: tuple[Step, ...], expand: bool = True) -> Found:
    """As ``values_of``, each value with the index of the array element that led to it, None if there was no array."""
    found: Found = []
    _in_object(document, steps, 0, expand, found, None)
    return found


def value_at(document: Document, path: str) -> Any:
    """The one value at ``path``, through objects and by index through arrays; MISSING if there is none.

    >>> value_at({"a": [{"b": 1}]}, "a.0.b")
    1
    """
    value: Any = document
    for name, index in steps_of(path):
        if type(value) is dict:
            value = value.get(name, MISSING)
        elif type(value) is list and 0 <= index < len(value):
            value = value[index]
        else:
            return MISSING
    return value


def _in_object(value: Any, steps: tuple[Step, ...], at: int, expand: bool, found: Found, element: int | None) -> None:
    for step in range(at, len(steps)):
        if type(value) is dict:
            value = value.get(steps[step][0], MISSING)
        elif type(value) is list:
            _in_array(value, steps, step, expand, found, element)
            return
        else:
            found.append((MISSING, element))
            return
    if expand and type(value) is list:
        if element is None:
            found += [(each, index) for index, each in enumerate(value)]
        else:
            found += [(each, element) for each in value]
    found.append((value, element))


def _in_array(
    array: list[Any], steps: tuple[Step, ...], at: int, expand: bool, found: Found, element: int | None
) -> None:
    wanted = steps[at][1]
    for index, each in enumerate(array):
        here = index if element is None else element
        if type(each) is dict:
            _in_object(each, steps, at, expand, found, here)
        if index == wanted:
            if at + 1 == len(steps):
                found.append((each, here))
            elif type(each) is dict:
                _in_object(each, steps, at + 1, expand, found, element)
            elif type(each) is list:
                _in_array(each, steps, at + 1, expand, found, element)


def position(document: Any, path: Iterable[str | int]) -> tuple[int, ...]:
    """The place of a path in the order of the document; what is missing comes after what is there."""
    found: list[int] = []
    value = document
    for part in path:
        if isinstance(part, int):
            found.append(part)
            value = value[part] if isinstance(value, list) else None
        else:
            names = list(value) if isinstance(value, dict) else []
            found.append(names.index(part) if part in names else len(names))
            value = value.get(part) if isinstance(value, dict) else None
    return tuple(found)
