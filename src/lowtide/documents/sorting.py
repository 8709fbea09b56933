"""Sorts documents by one or more fields, ascending or descending, in PyMongo's form.

A missing field counts as null. An array sorts by its smallest element in ascending order, and by its largest
in descending order. An empty array sorts before null.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, ItemsView, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from lowtide.errors import OperationFailure
from lowtide.values.paths import Step, steps_of
from lowtide.values.values import Document, Place, place

ASCENDING: Final = 1
DESCENDING: Final = -1

SortSpec = str | Mapping[str, int] | Sequence[str | tuple[str, int]] | ItemsView[str, int]

_NULL: Final[Place] = place(None)
_EMPTY: Final[Place] = (0, 0)
"""Sorts before all values."""
_Placing = Callable[[Document], Place]


class _Descending:
    """A position with reversed order."""

    __slots__ = ("place",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, place: Place) -> None:
        self.place = place

    def __lt__(self, other: _Descending) -> bool:
        return other.place < self.place

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and self.place == other.place


@dataclass(frozen=True, slots=True)
class Sort:
    """A compiled sort order."""

    keys: tuple[tuple[str, int], ...]
    """The paths in order of significance, each with 1 for ascending or -1 for descending."""
    key: Callable[[Document], Any]
    """The key function for ``sorted`` and ``heapq``."""
    placings: tuple[_Placing, ...]
    """For each path, a function that returns a document's position, always ascending."""

    def sorted(self, documents: Iterable[Document]) -> list[Document]:
        """Return the documents in order. The sort is stable.

        >>> compile_sort([("a", 1), ("b", -1)]).sorted([{"a": 2}, {"a": 1, "b": 1}, {"a": 1, "b": 5}])
        [{'a': 1, 'b': 5}, {'a': 1, 'b': 1}, {'a': 2}]
        """
        ordered = list(documents)
        for (_, direction), placing in zip(reversed(self.keys), reversed(self.placings), strict=True):
            ordered.sort(key=placing, reverse=direction == DESCENDING)
        return ordered

    def smallest(self, count: int, documents: Iterable[Document]) -> list[Document]:
        """Return the first ``count`` documents of ``sorted``. Uses memory for only that many."""
        if len(self.keys) == 1 and self.keys[0][1] == DESCENDING:
            return heapq.nlargest(count, documents, key=self.placings[0])
        return heapq.nsmallest(count, documents, key=self.key)


def compile_sort(spec: SortSpec, direction: int | None = None) -> Sort:
    """Compile a sort: ``"name"``, ``[("a", 1), ("b", -1)]``, ``["a", "b"]``, ``{"a": 1}``, or a name and a direction.

    >>> compile_sort({"age": -1, "name": 1}).keys
    (('age', -1), ('name', 1))
    """
    keys = tuple(_pairs(spec, direction))
    if not keys:
        raise OperationFailure("a sort requires at least one field")
    return _sort_of(keys)


@lru_cache(maxsize=512)
def _sort_of(keys: tuple[tuple[str, int], ...]) -> Sort:
    placings = tuple([_placing(path, direction == DESCENDING) for path, direction in keys])
    return Sort(keys, _key(keys, placings), placings)


def _pairs(spec: Any, direction: Any) -> Iterable[tuple[str, int]]:
    if type(spec) is list and len(spec) == 1 and direction is None and type(spec[0]) is tuple:
        return [_pair(*spec[0])] if len(spec[0]) == 2 else _listed(spec)
    if direction is not None:
        if not isinstance(spec, str):
            raise OperationFailure(f"a direction can only be given with a single field name, got {spec!r}")
        return [_pair(spec, direction)]
    if isinstance(spec, str):
        return [(spec, ASCENDING)]
    if isinstance(spec, Mapping):
        return [_pair(path, each) for path, each in spec.items()]
    if not isinstance(spec, list | tuple | ItemsView):
        raise OperationFailure(f"a sort must be a name, a list of (name, direction) or a dict, got {spec!r}")
    return _listed(spec)


def _listed(spec: Iterable[Any]) -> Iterable[tuple[str, int]]:
    named: dict[str, int] = {}
    for each in spec:
        if isinstance(each, str):
            named[each] = ASCENDING
        elif isinstance(each, list | tuple) and len(each) == 2:
            path, way = _pair(*each)
            named[path] = way
        else:
            raise OperationFailure(f"a sort list must contain names or (name, direction) pairs, got {each!r}")
    return named.items()


def _pair(path: Any, direction: Any) -> tuple[str, int]:
    if not isinstance(path, str) or not path or path.startswith("$"):
        raise OperationFailure(f"a sort requires field names, got {path!r}")
    if type(direction) is int and direction in (1, -1):
        return path, direction
    if isinstance(direction, bool) or not isinstance(direction, int | float) or direction not in (1, -1):
        raise OperationFailure(f"the direction of sort field {path!r} must be 1 or -1, got {direction!r}")
    return path, int(direction)


def _key(keys: tuple[tuple[str, int], ...], placings: tuple[_Placing, ...]) -> Callable[[Document], Any]:
    parts = [
        _descending(placing) if direction == DESCENDING else placing
        for (_, direction), placing in zip(keys, placings, strict=True)
    ]
    if len(parts) == 1:
        return parts[0]
    return lambda document: tuple([part(document) for part in parts])


def _descending(placing: _Placing) -> Callable[[Document], Any]:
    return lambda document: _Descending(placing(document))


def _placing(path: str, descending: bool) -> _Placing:
    chosen: Callable[[Iterable[Place]], Place] = max if descending else min
    if "." not in path:

        def flat(document: Document) -> Place:
            value = document.get(path)
            if type(value) is list:
                return chosen(map(place, value)) if value else _EMPTY
            return place(value)

        return flat
    steps = steps_of(path)

    def dotted(document: Document) -> Place:
        found: list[Place] = []
        _collect(document, steps, 0, found)
        return chosen(found)

    return dotted


def _collect(value: Any, steps: tuple[Step, ...], at: int, found: list[Place]) -> None:
    """Collect the positions of a value at the rest of a path; at least one."""
    for step in range(at, len(steps)):
        name, index = steps[step]
        if type(value) is dict:
            value = value.get(name)
        elif type(value) is list and 0 <= index < len(value):
            value = value[index]
        elif type(value) is list and value:
            for each in value:
                _collect(each if type(each) is dict else None, steps, step, found)
            return
        else:
            found.append(_NULL)
            return
    if type(value) is list:
        found += map(place, value) if value else [_EMPTY]
    else:
        found.append(place(value))
