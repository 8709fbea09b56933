"""``PreparedFilter`` and ``PreparedUpdate``: a filter and an update of a known shape, bound to values.

They are not in the modules that recognize shapes, because a compiled build leaves this module interpreted: msgspec
creates the Struct, and the properties of a ``PreparedFilter`` override attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, ClassVar, Final

import msgspec

from lowtide.documents.catalog import CatalogRow
from lowtide.documents.filters import Condition, Filter, compile_filter
from lowtide.documents.filters.flat import Predicate
from lowtide.documents.plans.plan import Plan
from lowtide.documents.plans.planner import SortKeys
from lowtide.documents.prepared.lookups import Lookup, Term, Values, lookup_of
from lowtide.documents.prepared.splices import Rewrite
from lowtide.documents.updates import compile_update
from lowtide.values.partial import Decode, decoder_for
from lowtide.values.values import Document

MEMBER: Final = "$in"
"""The operator that has a shape only on ``_id``."""
_MOST_LOOKUPS: Final = 256
"""Maximum number of lookups for one version of a catalog row."""
_MOST_OTHERS: Final = 32
"""Maximum number of compiled filters without ``$in`` for one shape."""

Change = Callable[[Document, Sequence[Any]], Document | None]
Bind = Callable[[Mapping[str, Any]], list[Any] | None]
"""Returns the values of an update of a known shape; None for another one."""
BindFilter = Callable[[Mapping[str, Any]], Values | None]
"""Returns the values of a filter of a known shape; None for another one."""


class FilterShape:
    """The shape of a filter: a conjunction of comparisons with plain values, and at most one ``$in`` on ``_id``. Shared
    by all threads. Immutable except for ``_others``: any thread may add to it, and all threads compute the same
    entries."""

    def __init__(self, terms: tuple[Term, ...], bind: BindFilter | None = None) -> None:
        self.terms = terms
        self.bind = bind
        """Returns the values of a filter of this shape with the same paths in the same order; None for another one."""
        self._others: dict[Values, Filter] = {}
        """The compiled terms other than ``$in``, by their values. Equal values of one type match the same documents."""

    def lookup(self, row: CatalogRow, values: Values, sort: SortKeys, limited: bool) -> Lookup | None:
        """Return the lookup for a collection. It is computed once for each version of the collection's row. Two threads
        that compute it at the same time get equal lookups."""
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
        """Return the compiled filter for these values."""
        filter: dict[str, dict[str, Any]] = {}
        for term, value in zip(self.terms, values, strict=True):
            filter.setdefault(term.path, {})[term.operator] = value if term.kind is not list else list(value)
        return compile_filter(filter)

    @cached_property
    def others(self) -> frozenset[str]:
        """The top-level fields that its terms other than ``$in`` refer to."""
        return frozenset(term.path.split(".")[0] for term in self.terms if term.operator != MEMBER)

    @cached_property
    def decode_others(self) -> Decode:
        """The decoder of the fields that its terms other than ``$in`` refer to."""
        return decoder_for(self.others)

    def compiled_others(self, values: Values) -> Filter:
        """Return the compiled filter without ``$in``."""
        others = [pair for pair in zip(self.terms, values, strict=True) if pair[0].operator != MEMBER]
        given = tuple([value for _, value in others])
        found = self._others.get(given)
        if found is None:
            if len(self._others) >= _MOST_OTHERS:
                self._others.clear()
            found = self._others[given] = FilterShape(tuple([term for term, _ in others])).compiled(given)
        return found


class PreparedFilter(Filter):
    """A filter of a known shape. What a lookup does not need is compiled on demand. ``prepared`` creates it."""

    __slots__ = ("_compiled", "shape", "values")

    shape: FilterShape
    values: Values
    _compiled: Filter | None

    def plan(self, row: CatalogRow, sort: SortKeys, limited: bool) -> Plan | None:
        """Return the plan for a collection; None if the planner must make it."""
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


_new: Final = object.__new__


def prepared(shape: FilterShape, values: Values) -> PreparedFilter:
    """Return a filter. That is faster than an ``__init__``, which would be called from C."""
    made = _new(PreparedFilter)
    made.shape = shape
    made.values = values
    made._compiled = None
    return made


class UpdateShape:
    """The shape of an update. Immutable, and shared by all threads."""

    __slots__ = ("bind", "change", "fields", "has_floats", "rewrite")

    def __init__(
        self, change: Change, rewrite: Rewrite | None, bind: Bind, fields: frozenset[str], has_floats: bool
    ) -> None:
        self.change = change
        """The function of the update. Returns None for a document for which the update must be compiled."""
        self.rewrite = rewrite
        """Changes a document in its encoded form; None if that is not possible."""
        self.bind = bind
        """Returns the values of an update of this shape, whatever the order of its fields; None for another update."""
        self.fields = fields
        self.has_floats = has_floats
        """Whether a value may be NaN, which cannot be stored."""


class PreparedUpdate(msgspec.Struct):
    """An update of a known shape, with its values: an ``AnyUpdate``. It is a Struct because every statement creates
    one."""

    positional: ClassVar[bool] = False
    timed: ClassVar[bool] = False
    shape: UpdateShape
    values: Sequence[Any]
    fields: frozenset[str]
    update: Mapping[str, Any]

    def apply(
        self, document: Document, *, now: datetime, inserting: bool = False, position: int | None = None
    ) -> Document:
        new = self.shape.change(document, self.values)
        if new is None:
            return compile_update(self.update).apply(document, now=now, inserting=inserting, position=position)
        return new
