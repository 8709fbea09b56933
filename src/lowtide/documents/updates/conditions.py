"""Filters inside updates: the conditions of $pull, and the array filters of ``$[name]``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from lowtide.documents.filters import compile_filter
from lowtide.documents.updates.arrays import removing
from lowtide.documents.updates.tree import Change, described
from lowtide.errors import OperationFailure
from lowtide.values.codec import clean
from lowtide.values.values import place

_NAME: Final = re.compile(r"[a-z][a-zA-Z0-9]*")
_LOGICAL: Final = ("$and", "$or", "$nor")


def pulling(operand: Any, path: str) -> Change:
    """Compile $pull: removes the elements that match.

    The operand is a value, a condition such as ``{"$gte": 5}``, or for objects a filter such as ``{"score": 8}``.
    """
    if isinstance(operand, re.Pattern):
        return removing("$pull", _element_condition(operand))
    if not isinstance(operand, Mapping):
        unwanted = place(clean(operand, path))
        return removing("$pull", lambda element: place(element) == unwanted)
    first = next(iter(operand), "")
    if isinstance(first, str) and first.startswith("$") and first not in _LOGICAL:
        return removing("$pull", _element_condition(operand))
    matches = compile_filter(operand).matches
    return removing("$pull", lambda element: type(element) is dict and matches(element))


def _element_condition(condition: Any) -> Callable[[Any], bool]:
    """Compile a condition on an element, as a filter on a document with the element as its only field."""
    matches = compile_filter({"element": condition}).matches
    return lambda element: matches({"element": element})


def compile_array_filters(
    array_filters: Sequence[Mapping[str, Any]] | None,
) -> dict[str, Callable[[Any], bool]]:
    """Compile the array filters to predicates on elements, by name."""
    if array_filters is None:
        return {}
    if not isinstance(array_filters, list | tuple):
        raise OperationFailure(f"array_filters must be a list of filters, got {described(array_filters)}")
    compiled: dict[str, Callable[[Any], bool]] = {}
    for each in array_filters:
        name = _name_of(each)
        if name in compiled:
            raise OperationFailure(
                f"there are two array filters for {name!r}; combine them into one, with $and if necessary"
            )
        compiled[name] = _named(name, each)
    return compiled


def _named(name: str, condition: Mapping[str, Any]) -> Callable[[Any], bool]:
    matches = compile_filter(condition).matches
    return lambda element: matches({name: element})


def _name_of(condition: Any) -> str:
    """Return the name that all paths of an array filter begin with."""
    if not isinstance(condition, Mapping):
        raise OperationFailure(
            f"an array filter must be a dict such as {{'item.price': {{'$gt': 5}}}}, got {condition!r}"
        )
    names = sorted(set(_names(condition)))
    if len(names) != 1:
        found = f"it has {', '.join(map(repr, names))}" if names else "it has none"
        raise OperationFailure(
            f"all paths of an array filter must begin with the same name, but {found}: {condition!r}"
        )
    if not _NAME.fullmatch(names[0]):
        raise OperationFailure(
            f"the name of an array filter is letters and digits, beginning with a lowercase letter, not {names[0]!r}"
        )
    return names[0]


def _names(condition: Mapping[str, Any]) -> Iterator[str]:
    for name, operand in condition.items():
        if name in _LOGICAL and isinstance(operand, list | tuple):
            for each in operand:
                if isinstance(each, Mapping):
                    yield from _names(each)
        else:
            yield str(name).split(".")[0]
