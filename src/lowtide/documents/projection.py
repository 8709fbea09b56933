"""Projections: which fields of a document a query returns, in PyMongo's form.

A projection does not modify the document. The result shares its values with the document. For an inclusion the set of
fields is known, so that the others are not even decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from math import isfinite
from typing import Any, Final

from lowtide.documents.filters import Filter, compile_filter
from lowtide.errors import OperationFailure
from lowtide.values.partial import Decode, decoder_for
from lowtide.values.paths import MISSING
from lowtide.values.values import Document

_MOST_PROJECTIONS: Final = 1024
_Change = Callable[[Any], Any]
"""Converts a field's value to another value, or to MISSING."""
_Tree = dict[str, Any]
"""By field name: True to include, False to exclude, a change, or the tree of the nested fields."""


class Projection:
    """A compiled projection. Immutable, and shared by all threads.

    >>> compile_projection(["name"])({"_id": 1, "name": "Ann", "age": 33})
    {'_id': 1, 'name': 'Ann'}
    """

    __slots__ = ("_apply", "decode", "fields")

    def __init__(self, apply: Callable[[Document], Document], tree: _Tree | None = None) -> None:
        """``tree`` is the tree of an inclusion, which reads no other fields."""
        self._apply = apply
        self.fields: frozenset[str] | None = frozenset(tree) if tree is not None else None
        """The top-level fields that it reads; None if it may read all."""
        self.decode: Decode = self._decoding(tree)
        """Returns the result for a stored document, without decoding fields that are not in it."""

    def __call__(self, document: Document) -> Document:
        return self._apply(document)

    def _decoding(self, tree: _Tree | None) -> Decode:
        apply, decode = self._apply, decoder_for(self.fields)
        if tree is not None and decode is not decoder_for(None) and all(each is True for each in tree.values()):
            return decode
        return lambda stored: apply(decode(stored))


class _Parsed:
    """A projection while it is parsed."""

    def __init__(self) -> None:
        self.tree: _Tree = {}
        self.own: bool | None = None
        """The specification of ``_id``."""
        self.included = ""
        self.excluded = ""
        """The first included path and the first excluded path, other than ``_id``."""
        self.chosen = ""
        """The first path with ``$elemMatch``."""
        self.positional = ""
        """The path with ``$``."""
        self.flat = True
        """Whether it contains only 0 and 1."""


def compile_projection(
    projection: Mapping[str, Any] | Iterable[str] | None, filter: Mapping[str, Any] | None = None
) -> Projection | None:
    """Compile a projection; None if it returns whole documents. ``"array.$"`` needs the query's ``filter``.

    >>> compile_projection({"name": 1, "tags": {"$slice": 1}})({"_id": 1, "name": "A", "age": 7, "tags": ["x", "y"]})
    {'_id': 1, 'name': 'A', 'tags': ['x']}
    >>> compile_projection({"_id": 0, "address.city": 0})({"_id": 1, "address": {"city": "B", "zip": 2}})
    {'address': {'zip': 2}}
    """
    if projection is None:
        return None
    key: Any = None
    if type(projection) is dict:
        key = (tuple(projection), tuple(projection.values()))
    elif type(projection) is list:
        key = tuple(projection)
    try:
        return _known[key]
    except (KeyError, TypeError):  # a projection with operators has no hash
        return _learned(key, projection, filter)


_known: Final[dict[Any, Projection | None]] = {}
"""Compiled projections by their fields. Any thread may add to it; all threads compute the same projection."""


def _learned(
    key: Any, projection: Mapping[str, Any] | Iterable[str], filter: Mapping[str, Any] | None
) -> Projection | None:
    """Compile a projection, and cache it unless it depends on more than its fields."""
    parsed = _parsed(projection)
    compiled = _compiled(parsed, filter) if parsed.tree or parsed.own is not None else None
    if key is not None and parsed.flat and not parsed.positional:
        if len(_known) >= _MOST_PROJECTIONS:
            _known.clear()
        _known[key] = compiled
    return compiled


def _parsed(projection: Mapping[str, Any] | Iterable[str]) -> _Parsed:
    parsed = _Parsed()
    if isinstance(projection, Mapping):
        _read(projection, "", parsed)
    elif isinstance(projection, str | bytes) or not isinstance(projection, Iterable):
        raise OperationFailure(f"a projection must be a dict or a list of names, got {projection!r}")
    else:
        _read(_listed(projection), "", parsed)
    if parsed.excluded and (parsed.included or parsed.positional):
        raise OperationFailure(
            f"the projection includes {parsed.included or parsed.positional!r} and excludes {parsed.excluded!r}; "
            "it cannot do both, except for _id"
        )
    return parsed


def _listed(names: Iterable[Any]) -> dict[str, bool]:
    """Convert a list of names to an inclusion."""
    listed = {}
    for name in names:
        if not isinstance(name, str):
            raise OperationFailure(f"a projection list must contain field names, got {name!r}")
        listed[name] = True
    return listed


def _compiled(parsed: _Parsed, filter: Mapping[str, Any] | None) -> Projection:
    tree = parsed.tree
    told = bool(parsed.included or parsed.chosen or parsed.positional or parsed.own)
    if parsed.excluded or not told:
        if parsed.own is False:
            tree["_id"] = False
        return Projection(lambda document: _exclude(tree, document))
    if parsed.own is not False:
        tree.setdefault("_id", True)
    if parsed.positional:
        if not filter:
            raise OperationFailure(f"the projection of {parsed.positional + '.$'!r} requires a filter on the array")
        return Projection(_positional(tree, parsed.positional, compile_filter(filter)))
    if all(each is True for each in tree.values()):
        return Projection(lambda document: {name: value for name, value in document.items() if name in tree}, tree)
    return Projection(lambda document: _include(tree, document), tree)


def _read(projection: Mapping[Any, Any], above: str, parsed: _Parsed) -> None:
    for name, said in projection.items():
        if not isinstance(name, str):
            raise OperationFailure(f"field names in a projection must be strings, got {name!r}")
        path = above + name
        if path.endswith(".$"):
            _read_positional(path, said, parsed)
            continue
        if not all(path.split(".")) or any(part.startswith("$") for part in path.split(".")):
            raise OperationFailure(f"the projection contains {path!r}, which is not a valid field path")
        if isinstance(said, Mapping):
            parsed.flat = False
            _read_object(path, said, parsed)
        elif not isinstance(said, bool | int | float | Decimal):
            raise OperationFailure(
                f"the projection of {path!r} must be 1, 0, $slice or $elemMatch, got {said!r}; "
                "to compute values, use aggregate() with $project"
            )
        elif path == "_id":
            if "_id" in parsed.tree:
                raise OperationFailure("the projection contains '_id' and a path inside it; use only one of them")
            parsed.own = bool(said)
        else:
            if said:
                parsed.included = parsed.included or path
            else:
                parsed.excluded = parsed.excluded or path
            _plant(parsed, path, bool(said))


def _read_positional(path: str, said: Any, parsed: _Parsed) -> None:
    array = path.removesuffix(".$")
    if not said or isinstance(said, Mapping | str):
        raise OperationFailure(f"the projection of {path!r} must be 1, got {said!r}")
    if parsed.positional:
        raise OperationFailure(f"the projection has {parsed.positional + '.$'!r} and {path!r}; one is allowed")
    if not all(array.split(".")) or "$" in array:
        raise OperationFailure(
            f"the projection contains {path!r}; $ is only allowed once, at the end, after the path of an array"
        )
    parsed.positional = array
    _plant(parsed, array, True)


def _read_object(path: str, said: Mapping[str, Any], parsed: _Parsed) -> None:
    operators = [name for name in said if isinstance(name, str) and name.startswith("$")]
    if not said or (operators and len(said) > 1):
        raise OperationFailure(
            f"the projection of {path!r} must be one operator or an object of fields, got {dict(said)!r}"
        )
    if not operators:
        _read(said, path + ".", parsed)
    elif operators == ["$slice"]:
        _plant(parsed, path, _slice(path, said["$slice"]))
    elif operators == ["$elemMatch"]:
        if "." in path:
            raise OperationFailure(f"$elemMatch in the projection of {path!r}: only supported for top-level fields")
        parsed.chosen = parsed.chosen or path
        _plant(parsed, path, _elem_match(path, said["$elemMatch"]))
    else:
        raise OperationFailure(f"{operators[0]} in the projection of {path!r}: not supported; use $slice or $elemMatch")


def _plant(parsed: _Parsed, path: str, leaf: Any) -> None:
    """Add a leaf to the tree. Raises OperationFailure if another leaf is at, above or below its path."""
    *way, last = path.split(".")
    tree = parsed.tree
    for name in way:
        tree = tree.setdefault(name, {})
        if type(tree) is not dict:
            break
    if type(tree) is not dict or last in tree or (way and way[0] == "_id" and parsed.own is not None):
        raise OperationFailure(f"the projection contains {path!r} and a path above or below it; use only one of them")
    tree[last] = leaf


def _slice(path: str, operand: Any) -> _Change:
    numbers = operand if isinstance(operand, list | tuple) else [operand]
    whole = all(
        (isinstance(each, int) and not isinstance(each, bool)) or (isinstance(each, float) and isfinite(each))
        for each in numbers
    )
    pair = isinstance(operand, list | tuple)
    if not whole or (pair and len(numbers) != 2) or (pair and numbers[1] <= 0):
        raise OperationFailure(
            f"$slice in the projection of {path!r}: expected a number, or [skip, a number above 0], got {operand!r}"
        )
    count = int(numbers[-1])
    skip = int(numbers[0]) if pair else min(count, 0)

    def change(value: Any) -> Any:
        if type(value) is not list:
            return value
        start = max(len(value) + skip, 0) if skip < 0 else skip
        return value[start : start + abs(count)]

    return change


def _elem_match(path: str, operand: Any) -> _Change:
    chosen = compile_filter({path: {"$elemMatch": operand}})

    def change(value: Any) -> Any:
        position = chosen.position({path: value})
        return MISSING if position is None else [value[position]]

    return change


def _positional(tree: _Tree, path: str, filter: Filter) -> Callable[[Document], Document]:
    *way, last = path.split(".")

    def project(document: Document) -> Document:
        position = filter.position(document)
        if position is None:
            raise OperationFailure(f"the projection of {path + '.$'!r}: the filter did not match an array element")
        projected = _include(tree, document)
        inner: Any = projected
        for name in way:
            inner = inner.get(name) if type(inner) is dict else None
        if type(inner) is dict and type(inner.get(last)) is list:
            inner[last] = inner[last][position : position + 1]
        return projected

    return project


def _include(tree: _Tree, document: Document) -> Document:
    included = {}
    for name, value in document.items():
        leaf = tree.get(name)
        if leaf is None:
            continue
        if leaf is not True:
            value = _include_below(leaf, value) if type(leaf) is dict else leaf(value)
            if value is MISSING:
                continue
        included[name] = value
    return included


def _include_below(tree: _Tree, value: Any) -> Any:
    if type(value) is dict:
        return _include(tree, value)
    if type(value) is list:
        return [_include_below(tree, each) for each in value if type(each) in (dict, list)]
    return MISSING


def _exclude(tree: _Tree, document: Document) -> Document:
    left = {}
    for name, value in document.items():
        leaf = tree.get(name)
        if leaf is not None:
            if leaf is False:
                continue
            value = _exclude_below(leaf, value) if type(leaf) is dict else leaf(value)
            if value is MISSING:
                continue
        left[name] = value
    return left


def _exclude_below(tree: _Tree, value: Any) -> Any:
    if type(value) is dict:
        return _exclude(tree, value)
    if type(value) is list:
        return [_exclude_below(tree, each) for each in value]
    return value
