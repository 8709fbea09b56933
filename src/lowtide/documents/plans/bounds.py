"""The spans of encoded values that satisfy a condition, in ascending order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from lowtide.documents.filters import Condition
from lowtide.engine import after_prefix
from lowtide.values.ordering import encode, inverted, kind_bounds
from lowtide.values.values import RANKS


class Bound(NamedTuple):
    """A position between encoded values: before or after all values that begin with ``start``."""

    key: bytes
    """The smallest key at or after this position."""
    start: bytes
    after: bool

    def turned(self) -> Bound:
        """Return the same position for a descending field."""
        return after(inverted(self.start)) if not self.after else before(inverted(self.start))


def before(start: bytes) -> Bound:
    return Bound(start, start, False)


def after(start: bytes) -> Bound:
    key = after_prefix(start)
    assert key is not None, "no encoding begins with 0xff"
    return Bound(key, start, True)


class Span(NamedTuple):
    """The values ``low <= value < high``."""

    low: Bound
    high: Bound
    point: bytes | None = None
    """The encoded value, if the span has exactly one; else None."""

    def turned(self) -> Span:
        return Span(self.high.turned(), self.low.turned(), inverted(self.point) if self.point is not None else None)

    def both(self, other: Span) -> Span:
        """Return the intersection with another span."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        for each in (self, other):
            if (low, high) == (each.low, each.high):
                return each
        return Span(low, high)


class Spans(NamedTuple):
    """Disjoint spans in ascending order.

    ``exact`` says that every value in them satisfies the condition, unless it is an array element.
    """

    spans: tuple[Span, ...]
    exact: bool

    @property
    def points(self) -> list[bytes] | None:
        """Return the encoded values if every span is a single value; else None."""
        found = [span.point for span in self.spans]
        return [each for each in found if each is not None] if None not in found else None

    def turned(self) -> Spans:
        return Spans(tuple(span.turned() for span in reversed(self.spans)), self.exact)


def spans_of(condition: Condition) -> Spans | None:
    """Return the spans that contain an index entry of every matching document; None if it can be anywhere."""
    operand = condition.operand
    match condition.operator:
        case "$eq":
            return _union(_equal(operand), type(operand) is not list)
        case "$in":
            if not any(type(each) is list for each in operand):
                return Spans(tuple(map(_point, sorted(set(map(encode, operand))))), True)
            return _union([span for each in operand for span in _equal(each)], False)
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
    """Return the spans of an equality. An array is indexed by its elements, or as itself if nested in another array."""
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
            if span.high > merged[-1].high:  # a point that occurs twice stays a point
                merged[-1] = Span(merged[-1].low, span.high)
        else:
            merged.append(span)
    return Spans(tuple(merged), exact)


def intersection(first: Spans, second: Spans) -> Spans:
    """Return the spans of values in both."""
    found = [one.both(other) for one in first.spans for other in second.spans]
    exact = first.exact and second.exact
    if len(found) == 1:
        return Spans(tuple(found) if found[0].low < found[0].high else (), exact)
    return _union(found, exact)


def within(inner: Spans, outer: Spans) -> bool:
    """Whether ``outer`` contains every value of ``inner``."""
    return all(any(wide.low <= span.low and span.high <= wide.high for wide in outer.spans) for span in inner.spans)
