"""``PreparedFilter`` and ``PreparedUpdate``: a filter and an update of a known shape, with the values bound to it.

Apart from what recognizes them, since a compiled build leaves this module interpreted: msgspec makes the Struct, and
the properties of a ``PreparedFilter`` stand in the place of attributes.
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
from lowtide.documents.prepared.splices import Splice
from lowtide.documents.updates import compile_update
from lowtide.values.partial import Decode, decoder_for
from lowtide.values.values import Document

MEMBER: Final = "$in"
"""Has a shape if it asks for ids."""
_MOST_LOOKUPS: Final = 256
"""Of one version of a catalog row."""
_MOST_OTHERS: Final = 32
"""Of one shape."""

Change = Callable[[Document, Sequence[Any]], Document | None]


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
        return frozenset(term.path.split(".")[0] for term in self.terms if term.operator != MEMBER)

    @cached_property
    def decode_others(self) -> Decode:
        """Decodes the fields of a document that its terms other than ``$in`` concern."""
        return decoder_for(self.others)

    def compiled_others(self, values: Values) -> Filter:
        """Return the filter without ``$in``, compiled."""
        others = [pair for pair in zip(self.terms, values, strict=True) if pair[0].operator != MEMBER]
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


class PreparedUpdate(msgspec.Struct):
    """An update of a known shape, with its values: an ``AnyUpdate``. A Struct, since each statement makes one."""

    positional: ClassVar[bool] = False
    timed: ClassVar[bool] = False
    change: Change
    """Returns None for a document for which the update must be compiled."""
    values: Sequence[Any]
    fields: frozenset[str]
    update: Mapping[str, Any]
    splice: Splice | None = None
    """Changes a document in its encoded form; None if there is no way to do that."""

    def apply(
        self, document: Document, *, now: datetime, inserting: bool = False, position: int | None = None
    ) -> Document:
        new = self.change(document, self.values)
        if new is None:
            return compile_update(self.update).apply(document, now=now, inserting=inserting, position=position)
        return new
