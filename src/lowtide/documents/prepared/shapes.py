"""``prepare_filter``: recognizes the shape of a filter, so that it need not be compiled and planned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cached_property
from typing import Any, Final
from uuid import UUID

from lowtide.documents.catalog import CatalogRow
from lowtide.documents.filters import Condition, Filter, compile_filter
from lowtide.documents.filters.flat import Predicate
from lowtide.documents.plans.plan import Plan
from lowtide.documents.plans.planner import SortKeys
from lowtide.documents.prepared.lookups import Lookup, Term, Values, lookup_of
from lowtide.values.codec import decoder_of
from lowtide.values.ids import ID_TYPES
from lowtide.values.values import Document

_KINDS: Final = frozenset((str, int, float, bool, bytes, UUID, datetime))
"""The types of parameters."""
_OPERATORS: Final = frozenset(("$eq", "$gt", "$gte", "$lt", "$lte"))
_MEMBER: Final = "$in"
"""Has a shape if it asks for ids."""
_MOST_SHAPES: Final = 4096
_MOST_LOOKUPS: Final = 256
"""Of one version of a catalog row."""
_MOST_OTHERS: Final = 32
"""Of one shape."""


class FilterShape:
    """The shape of a filter: a conjunction of comparisons with plain values, and at most one ``$in`` that asks for
    ids. Shared by all threads, and immutable but for ``_others``: any thread adds to it, and all find the same."""

    def __init__(self, terms: tuple[Term, ...]) -> None:
        self.terms = terms
        self._others: dict[Values, Filter] = {}
        """By the values of the terms other than ``$in``, these, compiled. Of one type, equal values match the same."""

    def lookup(self, row: CatalogRow, values: Values, sort: SortKeys, limited: bool) -> Lookup | None:
        """Return how the documents are found in a collection. It is worked out once for each version of its row; two
        threads that do so at once find the same."""
        lookups: dict[Any, Lookup | None] = row.lookups
        key = (self, sort, limited)
        try:
            return lookups[key]
        except KeyError:
            if len(lookups) >= _MOST_LOOKUPS:
                lookups.clear()
            found = lookups[key] = lookup_of(
                self.terms, values, self.compiled(values), sort=sort, indexes=row.indexes, limited=limited
            )
            return found

    def compiled(self, values: Values) -> Filter:
        """Return the filter, compiled."""
        filter: dict[str, dict[str, Any]] = {}
        for term, value in zip(self.terms, values, strict=True):
            filter.setdefault(term.path, {})[term.operator] = value if term.kind is not list else list(value)
        return compile_filter(filter)

    @cached_property
    def others(self) -> frozenset[str]:
        """The top-level fields that its terms other than ``$in`` concern."""
        return frozenset(term.path.split(".")[0] for term in self.terms if term.operator != _MEMBER)

    @cached_property
    def decode_others(self) -> Callable[[bytes], Document]:
        """Decodes the fields of a document that its terms other than ``$in`` concern."""
        return decoder_of(tuple(sorted(self.others)))

    def compiled_others(self, values: Values) -> Filter:
        """Return the filter without ``$in``, compiled."""
        others = [pair for pair in zip(self.terms, values, strict=True) if pair[0].operator != _MEMBER]
        given = tuple([value for _, value in others])
        found = self._others.get(given)
        if found is None:
            if len(self._others) >= _MOST_OTHERS:
                self._others.clear()
            found = self._others[given] = FilterShape(tuple([term for term, _ in others])).compiled(given)
        return found


class PreparedFilter(Filter):
    """A filter of a known shape. What a lookup does not need is compiled when it is asked for."""

    __slots__ = ("_compiled", "shape", "values")

    def __init__(self, shape: FilterShape, values: Values) -> None:
        self.shape = shape
        self.values = values
        self._compiled: Filter | None = None

    def plan(self, row: CatalogRow, sort: SortKeys, limited: bool) -> Plan | None:
        """Return the plan in a collection; None if the planner must be asked."""
        lookup = self.shape.lookup(row, self.values, sort, limited)
        return lookup.plan(self.values) if lookup is not None else None

    @property
    def compiled(self) -> Filter:
        if self._compiled is None:
            self._compiled = self.shape.compiled(self.values)
        return self._compiled

    @property
    def matches(self) -> Predicate:  # type: ignore[override]
        return self.compiled.matches

    @property
    def conjuncts(self) -> tuple[Condition, ...]:  # type: ignore[override]
        return self.compiled.conjuncts

    @property
    def alternatives(self) -> tuple[Filter, ...]:  # type: ignore[override]
        return ()

    @property
    def complete(self) -> bool:  # type: ignore[override]
        return True

    def position(self, document: Document) -> int | None:
        return self.compiled.position(document)


def prepare_filter(filter: Mapping[str, Any] | None) -> Filter:
    """Return a filter, prepared if it has a shape, else compiled. Raises OperationFailure if it is invalid.

    >>> first, second = prepare_filter({"age": {"$gt": 30}}), prepare_filter({"age": {"$gt": 40}})
    >>> first.shape is second.shape, first.matches({"age": 35}), second.matches({"age": 35})
    (True, True, False)
    """
    if type(filter) is not dict:
        return compile_filter(filter)
    values: Values = tuple(filter.values())
    kinds = tuple(map(type, values))
    key: Any = (tuple(filter), kinds)
    if dict in kinds:
        key = (
            key[0],
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
    return PreparedFilter(shape, values)


_shapes: Final[dict[Any, FilterShape | None]] = {}
"""By paths, operators and types; None for what has no shape."""


def _learned(key: Any, filter: dict[str, Any]) -> FilterShape | None:
    compile_filter(filter)  # raises if it is invalid; then it is not remembered
    if len(_shapes) >= _MOST_SHAPES:
        _shapes.clear()
    terms = _terms(filter)
    found = _shapes[key] = FilterShape(terms) if terms is not None else None
    return found


def _terms(filter: dict[str, Any]) -> tuple[Term, ...] | None:
    """Return the terms of a filter; None if it has other parts."""
    terms: list[Term] = []
    for path, value in filter.items():
        if type(path) is not str or path.startswith("$"):
            return None
        inner = value if type(value) is dict else {"$eq": value}
        if path == "_id" and len(inner) == 1 and type(inner.get(_MEMBER)) is list:
            terms.append(Term(path, _MEMBER, list))
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
    """Whether all values can be stored as they are: text must be valid, and a number must not be NaN. Those of an
    ``$in`` must be ids."""
    for value in values:
        kind = type(value)
        if kind is tuple:
            if not ID_TYPES.issuperset(map(type, value)):
                return False
            value, kind = "".join([each for each in value if type(each) is str]), str
        if kind is str:
            if not value.isascii():
                try:
                    value.encode()
                except UnicodeEncodeError:
                    return False
        elif kind is float and value != value:
            return False
    return True
