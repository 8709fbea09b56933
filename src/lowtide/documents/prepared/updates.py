"""``prepare_update``: recognizes the shape of an update of top-level fields, and generates its function.

The function of ``{"$set": {"a": ...}, "$inc": {"n": ...}}``, with an int for ``n``, is:

    def change(document, values):
        new = document.copy()
        new['a'] = values[0]
        old = document.get('n', missing)
        if type(old) is int: new['n'] = old + values[1]
        elif old is missing: new['n'] = values[1]
        else: return None
        return new

It returns None if the document has a value for which the update must be compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from lowtide.documents.prepared.binding import bind_update
from lowtide.documents.prepared.bound import PreparedUpdate, UpdateShape
from lowtide.documents.prepared.source import function, literal
from lowtide.documents.prepared.splices import FieldChange, rewrite_of
from lowtide.documents.updates import AnyUpdate, compile_update
from lowtide.documents.updates.tree import MISSING

_STORED: Final = frozenset((str, int, float, bool, bytes, type(None), UUID))
"""Types whose values are stored as they are, except for NaN."""
_MOST_SHAPES: Final = 4096


def prepare_update(update: Mapping[str, Any], array_filters: Sequence[Mapping[str, Any]] | None = None) -> AnyUpdate:
    """Return an update, prepared if it has a shape, else compiled. Raises OperationFailure if it is invalid.

    >>> from datetime import datetime
    >>> prepare_update({"$inc": {"n": 1}}).apply({"_id": 7}, now=datetime(2030, 1, 1))
    {'_id': 7, 'n': 1}
    """
    if array_filters or type(update) is not dict:
        return compile_update(update, array_filters)
    key: list[Any] = []
    values: list[Any] = []
    for operator, fields in update.items():
        if type(fields) is not dict:
            return compile_update(update, array_filters)
        key.append(operator)
        for name, value in fields.items():
            key.append(name)
            key.append(type(value))
            values.append(value)
    named = tuple(key)
    try:
        shape = _shapes[named]
    except KeyError:
        shape = _learned(named, update)
    if shape is None:
        return compile_update(update)
    if shape.has_floats:
        for value in values:
            if value != value:
                return compile_update(update)
    return PreparedUpdate(shape, values, shape.fields, update)


_shapes: Final[dict[Any, UpdateShape | None]] = {}
"""The shapes, by each operator's name followed by its fields, each with the type of its value. Operators and fields of
a valid update are strings, so the key is unambiguous. None for an update that has no shape."""


def _learned(key: Any, update: dict[str, Any]) -> UpdateShape | None:
    compile_update(update)  # raises if it is invalid, so that it is not cached
    if len(_shapes) >= _MOST_SHAPES:
        _shapes.clear()
    found = _shapes[key] = _shape(update)
    return found


def _shape(update: dict[str, Any]) -> UpdateShape | None:
    """Return the shape of a valid update; None if it has other operators, paths or values."""
    lines, place, has_floats = list[str](), 0, False
    names: set[str] = set()
    changes: list[FieldChange] = []
    for operator, fields in update.items():
        write = _WRITERS.get(operator)
        if write is None:
            return None
        for name, value in fields.items():
            if type(name) is not str or not name or name == "_id" or "." in name or "$" in name:
                return None
            written = write(literal(name), f"values[{place}]", type(value))
            if written is None:
                return None
            lines += written
            names.add(name)
            changes.append(FieldChange(operator, name, type(value)))
            has_floats |= type(value) is float
            place += 1
    if not changes:
        return None
    change = function("change(document, values)", ["new = document.copy()", *lines, "return new"], missing=MISSING)
    return UpdateShape(change, rewrite_of(lines, changes), bind_update(changes), frozenset(names), has_floats)


def _set(field: str, value: str, kind: type) -> list[str] | None:
    return [f"new[{field}] = {value}"] if kind in _STORED else None


def _unset(field: str, value: str, kind: type) -> list[str] | None:
    return [f"new.pop({field}, None)"]


def _increment(field: str, value: str, kind: type) -> list[str] | None:
    if kind not in (int, float):
        return None
    return [
        f"old = document.get({field}, missing)",
        f"if type(old) is {kind.__name__}: new[{field}] = total = old + {value}",
        f"elif old is missing: new[{field}] = total = {value}",
        "else: return None",
        *(["if total != total: return None"] if kind is float else []),
    ]


def _push(field: str, value: str, kind: type) -> list[str] | None:
    if kind not in _STORED:
        return None
    return [
        f"old = document.get({field}, missing)",
        f"if type(old) is list: new[{field}] = [*old, {value}]",
        f"elif old is missing: new[{field}] = [{value}]",
        "else: return None",
    ]


_WRITERS: Final[dict[str, Callable[[str, str, type], list[str] | None]]] = {
    "$set": _set,
    "$unset": _unset,
    "$inc": _increment,
    "$push": _push,
}
"""By operator, the function that generates the lines for one field. None for a value that cannot be a parameter."""
