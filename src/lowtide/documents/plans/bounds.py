"""Where the values lie that satisfy a condition: spans of encoded values, in the order of an ascending part."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from lowtide.documents.filters import Condition
from lowtide.engine import after_prefix
from lowtide.values.ordering import encode, inverted, kind_bounds
from lowtide.values.values import RANKS


class Bound(NamedTuple):
    """A place between encoded values: before, or after, all that begin with ``start``."""

    key: bytes
    """The least key that is not below this place."""
    start: bytes
    after: bool

    def turned(self) -> Bound:
        """The same place in a part that descends."""
        return after(inverted(self.start)) if not self.after else before(inverted(self.start))


def before(start: bytes) -> Bound:
    return Bound(start, start, False)


def after(start: bytes) -> Bound:
    key = after_prefix(start)
    assert key is not None, "no encoding begins with 0xff"
    return Bound(key, start, True)


class Span(NamedTuple):
    """The values from ``low`` on that lie before ``high``."""

    low: Bound
    high: Bound
    point: bytes | None = None
    """The one value that this is, encoded; None if there may be others."""

    def turned(self) -> Span:
        return Span(self.high.turned(), self.low.turned(), inverted(self.point) if self.point is not None else None)

    def both(self, other: Span) -> Span:
        """What lies in both."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        for each in (self, other):
            if (low, high) == (each.low, each.high):
                return each
        return Span(low, high)


class Spans(NamedTuple):
    """Disjoint spans in ascending order. ``exact`` is whether a value in them surely satisfies the condition, if it is
    no element of an array."""

    spans: tuple[Span, ...]
    exact: bool

    @property
    def points(self) -> list[bytes] | None:
        """The encoded values, if these are all."""
        found = [span.point for span in self.spans]
        return [each for each in found if each is not None] if None not in found else None

    def turned(self) -> Spans:
        return Spans(tuple(span.turned() for span in reversed(self.spans)), self.exact)


def spans_of(condition: Condition) -> Spans | None:
    """Where an index entry of each matching document lies; None if anywhere."""
    operand = condition.operand
    match condition.operator:
        case "$eq":
            return _union(_equal(operand), type(operand) is not list)
        case "$in":
            spans = [span for each in operand for span in _equal(each)]
            return _union(spans, not any(type(each) is list for each in operand))
        case "$gt" | "$gte" | "$lt" | "$lte":
            return _compared(condition.operator, operand)
        case "$exists":
            return None if operand else Spans((_point(encode(None)),), False)
        case "$regex":
            start = encode(operand)[:-2]  # without the end of the string
            return Spans((Span(before(start), after(start)),), False)
        case "$elemMatch":
            return _all_of(operand)
    return None


def _point(encoded: bytes) -> Span:
    return Span(before(encoded), after(encoded), encoded)


def _equal(value: Any) -> list[Span]:
    """An array is there as its elements, or, as the element of another one, as itself."""
    if type(value) is list and value:
        return [_point(encode(value[0])), _point(encode(value))]
    return [_point(encode(value))]


def _compared(operator: str, operand: Any) -> Spans | None:
    if operand is None or type(operand) is list:
        return None
    encoded = encode(operand)
    if operator in ("$gt", "$gte"):
        low = before(encoded) if operator == "$gte" else after(encoded)
        span = Span(low, before(kind_bounds(RANKS[type(operand)])[1]))
    else:
        high = before(encoded) if operator == "$lt" else after(encoded)
        span = Span(before(kind_bounds(RANKS[type(operand)])[0]), high)
    return Spans((span,) if span.low < span.high else (), True)


def _all_of(conditions: Iterable[Condition]) -> Spans | None:
    found: Spans | None = None
    for each in conditions:
        spans = spans_of(each)
        if spans is not None:
            found = spans if found is None else intersection(found, spans)
    return Spans(found.spans, False) if found is not None else None


def _union(spans: list[Span], exact: bool) -> Spans:
    merged: list[Span] = []
    for span in sorted((each for each in spans if each.low < each.high), key=lambda each: each.low):
        if merged and span == merged[-1]:
            continue
        if merged and span.low < merged[-1].high:
            if span.high > merged[-1].high:  # a point that is named twice stays one
                merged[-1] = Span(merged[-1].low, span.high)
        else:
            merged.append(span)
    return Spans(tuple(merged), exact)


def intersection(first: Spans, second: Spans) -> Spans:
    """Where both lie."""
    found = [one.both(other) for one in first.spans for other in second.spans]
    exact = first.exact and second.exact
    if len(found) == 1:
        return Spans(tuple(found) if found[0].low < found[0].high else (), exact)
    return _union(found, exact)


def within(inner: Spans, outer: Spans) -> bool:
    """Whether every value of ``inner`` is one of ``outer``."""
    return all(any(wide.low <= span.low and span.high <= wide.high for wide in outer.spans) for span in inner.spans)
