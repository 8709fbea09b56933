"""Resolves dotted paths in documents, through objects and arrays, with MongoDB's semantics.

Each part of a path names a field of an object. In an array, it is looked up in every element that is an object. A
numeric part is also an index into the array. An array at the end of the path matches as its elements and as itself; one
that was reached by its index matches only as itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any, Final

from lowtide.values.values import PLAIN, Document, place

_BATCH: Final = 1024
"""Number of values that are deduplicated together."""


class _Missing:
    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final[Any] = _Missing()
"""Stands for a field that an object lacks. It is not null, though most conditions treat it as null."""

Step = tuple[str, int]
"""A part of a path, and its value as an array index, or -1."""
Found = list[tuple[Any, int | None]]
"""Values, each with the index of the element in the outermost array that contains it."""


def steps_of(path: str) -> tuple[Step, ...]:
    """Split a path into its parts.

    >>> steps_of("items.0.price")
    (('items', -1), ('0', 0), ('price', -1))
    """
    return tuple([(part, _index(part)) for part in path.split(".")])


def _index(part: str) -> int:
    if part.isascii() and part.isdigit() and (part == "0" or part[0] != "0") and len(part) < 10:
        return int(part)
    return -1


def values_at(document: Document, path: str) -> list[Any]:
    """Return the values that a condition on ``path`` applies to, with MISSING for each object that lacks the field.

    An array without objects in the middle of the path yields nothing.

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
    """The same as ``values_at``. Without ``expand``, an array at the end matches only as itself."""
    return [value for value, _ in places_of(document, steps, expand)]


def places_of(document: Document, steps: tuple[Step, ...], expand: bool = True) -> Found:
    """The same as ``values_of``, with the index of the array element that contains each value, or None if there is no
    array."""
    found: Found = []
    _in_object(document, steps, 0, expand, found)
    return found


def value_at(document: Document, path: str) -> Any:
    """Return the single value at ``path``, through object fields and array indexes. MISSING if there is none.

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


def _in_object(
    value: Any, steps: tuple[Step, ...], at: int, expand: bool, found: Found, element: int | None = None
) -> None:
    for step in range(at, len(steps)):
        if type(value) is dict:
            value = value.get(steps[step][0], MISSING)
        elif type(value) is list:
            _in_array(value, steps, step, expand, found, element=element)
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
    name, wanted = steps[at]
    if not expand and wanted < 0 and at + 1 == len(steps):  # the usual case without a call for each element
        if element is None:
            found += [(each.get(name, MISSING), index) for index, each in enumerate(array) if type(each) is dict]
        else:
            found += [(each.get(name, MISSING), element) for each in array if type(each) is dict]
        return
    for index, each in enumerate(array):
        here = index if element is None else element
        if type(each) is dict:
            _in_object(each, steps, at, expand, found, element=here)
        if index == wanted:
            if at + 1 == len(steps):
                found.append((each, here))
            elif type(each) is dict:
                _in_object(each, steps, at + 1, expand, found, element=element)
            elif type(each) is list:
                _in_array(each, steps, at + 1, expand, found, element=element)


def distinct_values(documents: Iterable[Document], steps: tuple[Step, ...]) -> list[Any]:
    """Return the distinct values at a path, in the order in which they are found. Each element of an array counts.

    >>> distinct_values([{"a": 1}, {"a": [2, 1.0]}, {}], steps_of("a"))
    [1, 2]
    """
    values: Iterator[Any]
    name = steps[0][0]
    if len(steps) == 1:
        values = (each[name] for each in documents if name in each)
    elif len(steps) == 2 and steps[1][1] < 0:
        values = chain.from_iterable(_below(each.get(name), steps[1][0]) for each in documents)
    else:
        values = chain.from_iterable(values_of(each, steps, expand=False) for each in documents)
    found: dict[Any, Any] = {}
    while batch := list(islice(values, _BATCH)):
        kinds = set(map(type, batch))
        if not found and len(batch) < _BATCH and len(kinds) == 1 and kinds <= PLAIN:
            return list(dict.fromkeys(batch))
        for value in dict.fromkeys(batch) if len(kinds) == 1 and kinds <= PLAIN else batch:
            if type(value) is list:
                for one in value:
                    found.setdefault(place(one), one)
            elif value is not MISSING:
                found.setdefault(place(value), value)
    return list(found.values())


def _below(value: Any, name: str) -> list[Any]:
    """Return the values of a field in an object, or in the objects of an array."""
    if type(value) is list:
        return [each[name] for each in value if type(each) is dict and name in each]
    return [value[name]] if type(value) is dict and name in value else []


def position(document: Any, path: Iterable[str | int]) -> tuple[int, ...]:
    """Return the position of a path in document order. Missing fields come last."""
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
