"""``prepare_filter``: recognizes the shape of a filter, so that it need not be compiled and planned."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from lowtide.documents.filters import Filter, compile_filter
from lowtide.documents.prepared.binding import bind_filter, is_text
from lowtide.documents.prepared.bound import MEMBER, FilterShape, prepared
from lowtide.documents.prepared.lookups import Term, Values
from lowtide.values.ids import ID_TYPES

_KINDS: Final = frozenset((str, int, float, bool, bytes, UUID, datetime))
"""The types that parameters can have."""
_OPERATORS: Final = frozenset(("$eq", "$gt", "$gte", "$lt", "$lte"))
_MOST_SHAPES: Final = 4096


def prepare_filter(filter: Mapping[str, Any] | None) -> Filter:
    """Return a filter, prepared if it has a shape, else compiled. Raises OperationFailure if it is invalid.

    >>> first, second = prepare_filter({"age": {"$gt": 30}}), prepare_filter({"age": {"$gt": 40}})
    >>> first.shape is second.shape, first.matches({"age": 35}), second.matches({"age": 35})
    (True, True, False)
    """
    if type(filter) is not dict:
        return compile_filter(filter)
    paths = tuple(filter)
    last = _last.get(paths)
    if last is not None and last.bind is not None:
        bound = last.bind(filter)
        if bound is not None:
            return prepared(last, bound)
    values: Values = tuple(filter.values())
    kinds = tuple(map(type, values))
    key: Any = (paths, kinds)
    if dict in kinds:
        key = (
            paths,
            tuple([(*each, *map(type, each.values())) if type(each) is dict else type(each) for each in values]),
        )
        values = tuple([one for each in values for one in (each.values() if type(each) is dict else (each,))])
        if list in map(type, values):  # the caller may change it before the statement runs
            values = tuple([tuple(each) if type(each) is list else each for each in values])
    try:
        shape = _shapes[key]
    except KeyError:
        shape = _learned(key, filter)
    except TypeError:  # a key of an inner dict is not hashable: not possible in a dict, but in a subclass of one
        shape = None
    if shape is None or not _plain(values):
        return compile_filter(filter)
    if len(_last) >= _MOST_SHAPES:
        _last.clear()
    _last[paths] = shape
    return prepared(shape, values)


_shapes: Final[dict[Any, FilterShape | None]] = {}
"""The shapes by paths, operators and types; None for a filter that has none."""
_last: Final[dict[tuple[Any, ...], FilterShape]] = {}
"""The shape of the last filter with these paths."""


def _learned(key: Any, filter: dict[str, Any]) -> FilterShape | None:
    compile_filter(filter)  # raises if it is invalid, so that it is not cached
    if len(_shapes) >= _MOST_SHAPES:
        _shapes.clear()
    terms = _terms(filter)
    found = _shapes[key] = FilterShape(terms, bind_filter(filter)) if terms is not None else None
    return found


def _terms(filter: dict[str, Any]) -> tuple[Term, ...] | None:
    """Return the terms of a filter; None if it has other parts."""
    terms: list[Term] = []
    for path, value in filter.items():
        if type(path) is not str or path.startswith("$"):
            return None
        inner = value if type(value) is dict else {"$eq": value}
        if path == "_id" and len(inner) == 1 and type(inner.get(MEMBER)) is list:
            terms.append(Term(path, MEMBER, list))
            continue
        sides = set()
        for operator, operand in inner.items():
            if operator not in _OPERATORS or type(operand) not in _KINDS:
                return None
            sides.add(operator[:3] if operator != "$eq" else "$eq")
            terms.append(Term(path, operator, type(operand)))
        kinds = {type(operand) for operand in inner.values()}
        if not inner or len(sides) < len(inner) or ("$eq" in sides and len(sides) > 1) or len(kinds) > 1:
            return None  # two bounds on one side, or of different types, are left to the planner
    return tuple(terms)


def _plain(values: Values) -> bool:
    """Whether all values can be stored as they are: strings must be valid, and numbers must not be NaN. The values of
    ``$in`` must be ids."""
    for value in values:
        kind = type(value)
        if kind is tuple:
            if not ID_TYPES.issuperset(map(type, value)):
                return False
            value, kind = "".join([each for each in value if type(each) is str]), str
        if kind is str:
            if not value.isascii() and not is_text(value):
                return False
        elif kind is float and value != value:
            return False
    return True
