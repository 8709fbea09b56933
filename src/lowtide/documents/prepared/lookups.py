"""``Lookup``: a plan without its values. With the values of another filter of the same shape, it is that filter's plan.

Which index a plan uses, and how, depends on the paths, operators and types of a filter, but not on its values, except
for what ``Lookup.plan`` checks. A shape has no lookup if the planner's choice may depend on values (partial indexes),
or if its plan is not a single stretch of one index (arrays, ``$or``). The ``_id`` may be one of several, by ``$in``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from lowtide.documents.filters import Filter
from lowtide.documents.indexes.entries import CUT
from lowtide.documents.indexes.spec import Index
from lowtide.documents.plans.plan import KeyStretch, Plan
from lowtide.documents.plans.planner import SortKeys, plan
from lowtide.documents.prepared.keys import encoded_parts
from lowtide.documents.prepared.source import function
from lowtide.engine import after_prefix
from lowtide.values.ids import MAX_ID
from lowtide.values.ordering import (
    AFTER_ALL,
    ENCODERS,
    INVERSE,
    encode,
    encode_column,
    encode_texts,
    inverted,
    kind_bounds,
)
from lowtide.values.values import RANKS

_PRIMARY: Final = (("_id", 1),)
_LOWER: Final = frozenset(("$gt", "$gte"))
_UPPER: Final = frozenset(("$lt", "$lte"))

Values = tuple[Any, ...]
Bounds = Callable[[Values], tuple[bytes, bytes]]
"""Returns the first key of a stretch, and the first key after it."""


class Term(NamedTuple):
    """One condition of a shape: its path, its operator and the type of its operand."""

    path: str
    operator: str
    kind: type


@dataclass(slots=True)
class Lookup:
    """How to find the documents of a shape. ``by`` is the plan without its keys and stretches."""

    by: Plan
    bounds: Bounds | None
    """None if the plan has no bounds: it reads a whole index, or the whole collection."""
    by_key: bool
    """Whether the plan reads one key: that of a document, or of an entry in a unique index."""
    most: int
    """The longest key for which the plan is valid."""
    members: int | None = None
    """For a plan that reads several ids: the position of the ids among the values."""

    def plan(self, values: Values) -> Plan | None:
        """Return the plan for these values. None if the planner must make it, because a key is too long or the range is
        empty."""
        by, bounds = self.by, self.bounds
        if self.members is not None:
            keys = self.member_keys(values)
            if keys is None:
                return None
            several = sorted(set(keys))  # with fewer than two the planner makes another plan
            return replace(by, keys=tuple(several)) if len(several) > 1 else None
        if bounds is None:
            return by
        low, high = bounds(values)
        if self.by_key:
            if len(low) > self.most:
                return None
            return Plan(by.index, keys=(low,), reverse=by.reverse, ordered=by.ordered, exact=by.exact)
        if len(low) > self.most or len(high) > self.most or low >= high:
            return None
        stretches = (KeyStretch(low, high),)
        return Plan(by.index, stretches, reverse=by.reverse, ordered=by.ordered, exact=by.exact)

    def member_keys(self, values: Values, prefix: bytes = b"") -> list[bytes] | None:
        """Return the keys of the documents that ``$in`` selects, in its order, each after a prefix. None if one is too
        long."""
        assert self.members is not None
        members: tuple[Any, ...] = values[self.members]
        keys, most = _keys_of(members, prefix), self.most + len(prefix)
        return keys if len(b"".join(keys)) <= most or max(map(len, keys)) <= most else None


def _keys_of(ids: Sequence[Any], prefix: bytes) -> list[bytes]:
    if ids and type(ids[0]) is str:
        try:
            return encode_texts(ids, prefix)
        except TypeError:  # not all of them are strings
            return [prefix + encode(each) for each in ids]
    kinds = set(map(type, ids))
    keys = encode_column(kinds.pop(), ids) if len(kinds) == 1 else map(encode, ids)
    return [prefix + key for key in keys]


def lookup_of(
    terms: Sequence[Term], values: Values, filter: Filter, sort: SortKeys, indexes: Sequence[Index], limited: bool
) -> Lookup | None:
    """Return the lookup for filters with these terms; None if there is none. ``filter`` is one such filter, with its
    ``values``."""
    concerned = {each.path for each in terms} | {path for path, _ in sort[:1]}
    if any(each.partial is not None and each.keys[0][0] in concerned for each in indexes):
        return None
    by = plan(filter, sort, indexes, limited=limited)
    if by.branches or by.merged or by.repeats:
        return None
    keys = by.index.keys if by.index is not None else _PRIMARY
    by_key = by.keys is not None
    bare = replace(by, stretches=None, keys=None)
    members = [place for place, term in enumerate(terms) if term.operator == "$in"]
    if members:
        if by.index is not None or not by_key or any("_id" in each.paths for each in indexes):
            return None  # how an index on ``_id`` is used depends on the number of values
        lookup = Lookup(bare, None, False, MAX_ID, members[0])
        return lookup if lookup.plan(values) == by else None
    bounds = _bounds(keys, terms) if by_key or by.stretches is not None else None
    lookup = Lookup(bare, bounds, by_key, MAX_ID if by.index is None and by_key else CUT)
    return lookup if lookup.plan(values) == by else None


def _bounds(keys: Sequence[tuple[str, int]], terms: Sequence[Term]) -> Bounds | None:
    """Generate the function that computes the bounds: the fields with an equality, then one with a range, if there is
    one."""
    equal: list[tuple[str, int]] = []
    names: dict[str, Any] = {"encoders": ENCODERS, "inverse": INVERSE, "after": after_prefix, "end": AFTER_ALL}
    low, high = "prefix", "prefix + end"
    for path, direction in keys:
        at = [place for place, term in enumerate(terms) if term.path == path]
        operators = {terms[place].operator for place in at}
        if operators == {"$eq"} and len(at) == 1:
            equal.append((f"values[{at[0]}]", direction))
            continue
        if at:
            first, last = _range([(terms[place], f"values[{place}]") for place in at], direction, names)
            low, high = f"prefix + {first}", f"prefix + {last}"
        break
    lines = [f"prefix = {encoded_parts(equal) or 'b' + repr('')}", f"return {low}, {high}"]
    made: Bounds = function("bounds(values)", lines, **names)
    return made


def _range(conditions: Sequence[tuple[Term, str]], direction: int, names: dict[str, Any]) -> tuple[str, str]:
    """Return the source text of both bounds of a field. For a descending field they are swapped."""
    low, high = "first", "last"
    names["first"], names["last"] = kind_bounds(RANKS[conditions[0][0].kind])
    if direction < 0:
        names["first"], names["last"] = after_prefix(inverted(names["last"])), after_prefix(inverted(names["first"]))
    for term, value in conditions:
        encoded = encoded_parts([(value, direction)])
        # The bound is after all keys that begin with the value, or before them.
        behind = term.operator in (("$gt", "$lte") if direction > 0 else ("$lt", "$gte"))
        bound = f"after({encoded})" if behind else f"({encoded})"
        if (term.operator in _LOWER) == (direction > 0):
            low = bound
        else:
            high = bound
    return low, high
