"""The query planner: chooses the index for a query. Pure functions, without statistics.

An index is a candidate if the filter constrains its first field, or if it has the sort order of the
query. Candidates are ranked by these criteria, most important first:

1. the number of leading fields with an equality condition;
2. a range condition on the next field;
3. the sort order of the query;
4. being sparse, if the filter asks with ``$exists`` for a field that the index requires;
5. giving at most one document: ``_id``, or a unique index with an equality on every field;
6. fewer fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

from lowtide.documents.filters import Condition, Filter
from lowtide.documents.indexes.entries import CUT, cut_bound
from lowtide.documents.indexes.spec import PRIMARY, Index
from lowtide.documents.plans.bounds import Spans, intersection, spans_of, within
from lowtide.documents.plans.plan import KeyStretch, Plan
from lowtide.errors import OperationFailure
from lowtide.values.ids import MAX_ID
from lowtide.values.ordering import AFTER_ALL

MOST_STRETCHES = 1000
"""Maximum number of stretches of one plan. Beyond it, further index fields are left to the filter."""

MOST_MERGED = 100
"""Maximum number of stretches that are merged into sort order. With more, the documents are sorted."""

_AFTER_CUT = b"\xff" * 18
"""Sorts after every continuation of a truncated key."""

SortKeys = Sequence[tuple[str, int]]
Asked = Sequence[tuple[str, Spans | None]]
"""For each condition of a filter: its path, and the spans of values that satisfy it."""


def plan(
    filter: Filter,
    sort: SortKeys,
    indexes: Sequence[Index],
    hint: str | SortKeys | None = None,
    *,
    limited: bool = False,
) -> Plan:
    """Return the plan for a query with ``filter`` and ``sort``. With ``hint``, it uses that index.

    Indexes that are still being built are not used. ``limited`` says that the query has a limit.
    """
    ready = [each for each in indexes if not each.building]
    asked = [(each.path, spans_of(each)) for each in filter.conjuncts]
    if hint is not None:
        return _hinted(filter, asked, sort, ready, hint)
    candidates = [_with_primary(filter, asked, sort)]
    candidates += [found for each in ready if (found := _with_index(filter, asked, sort, each)) is not None]
    best = max(candidates, key=_merit)
    if best.narrowing == (0, 0):
        branches = _alternatives(filter, ready)
        if branches is not None and not (best.plan.ordered and sort and limited):
            return Plan(branches=branches, ordered=not sort, repeats=True)
    return best.plan


class _Candidate(NamedTuple):
    plan: Plan
    equal: int
    ranged: bool
    fewer: bool = False
    """Whether the index contains only documents with a field that the filter requires to exist."""

    @property
    def narrowing(self) -> tuple[int, int]:
        return self.equal, int(self.ranged)


def _merit(candidate: _Candidate) -> tuple[int, int, bool, bool, bool, int]:
    index = candidate.plan.index
    whole = index is None or (index.unique and candidate.equal == len(index.keys))
    parts = len(index.keys) if index is not None else 0
    return (candidate.equal, int(candidate.ranged), candidate.plan.ordered, candidate.fewer, whole, -parts)


def _alternatives(filter: Filter, indexes: Sequence[Index]) -> tuple[Plan, ...] | None:
    """Return a plan for each branch of an ``$or``; None if a branch would read the whole collection."""
    found = []
    for branch in filter.alternatives:
        best = plan(branch, (), indexes)
        if best.reads_everything:
            return None
        found.append(best)
    return tuple(found) or None


def _hinted(filter: Filter, asked: Asked, sort: SortKeys, indexes: Sequence[Index], hint: str | SortKeys) -> Plan:
    if hint in (PRIMARY, (("_id", 1),)):
        return _with_primary(filter, asked, sort).plan
    if hint in ("$natural", (("$natural", 1),), (("$natural", -1),)):
        return Plan(reverse=hint == (("$natural", -1),), ordered=not sort)
    for index in indexes:
        if hint in (index.name, index.keys):
            found = _with_index(filter, asked, sort, index, hinted=True)
            if found is None:
                raise OperationFailure(f"index {index.name!r} does not contain all documents that the filter can match")
            return found.plan
    known = ", ".join(repr(name) for name in (PRIMARY, *(each.name for each in indexes)))
    raise OperationFailure(f"hint {hint!r}: no such index is ready; the ready indexes are {known}")


def _spans_at(asked: Asked, path: str, multikey: bool) -> Spans | None:
    """Return the spans of the entries at a path.

    If the field may be an array, different elements may satisfy different conditions. Then only one
    condition is used: the one with the fewest spans that are not points.
    """
    at_path = [spans for each, spans in asked if each == path]
    found = [spans for spans in at_path if spans is not None]
    if not found:
        return None
    if multikey:
        return min(found, key=lambda spans: (spans.points is None, len(spans.spans)))
    together = reduce(intersection, found)
    return together if len(found) == len(at_path) else Spans(together.spans, False)


def _with_primary(filter: Filter, asked: Asked, sort: SortKeys) -> _Candidate:
    """Return the candidate that scans the documents in ``_id`` order. An ``_id`` is never an array."""
    spans = _spans_at(asked, "_id", False)
    ordered, reverse = not sort, False
    if sort and sort[0][0] == "_id":  # _id is unique, so further sort fields have no effect
        ordered, reverse = True, sort[0][1] < 0
    if spans is None:
        return _Candidate(Plan(ordered=ordered, reverse=reverse), 0, False)
    points = spans.points
    if points is not None:
        points = [each for each in points if len(each) <= MAX_ID]
        ordered = ordered or len(points) <= 1
    exact = spans.exact and filter.complete and all(path == "_id" for path, _ in asked)
    pairs = [(span.low.key, span.high.key) for span in spans.spans] if points is None else []
    if max((max(map(len, pair)) for pair in pairs), default=0) > CUT:
        pairs, exact = _cut(pairs), False
    stretches = tuple(KeyStretch(low, high) for low, high in pairs) if points is None else None
    keys = tuple(points) if points is not None else None
    found = Plan(stretches=stretches, keys=keys, reverse=reverse, ordered=ordered, exact=exact)
    return _Candidate(found, int(points is not None), points is None)


def _with_index(
    filter: Filter, asked: Asked, sort: SortKeys, index: Index, *, hinted: bool = False
) -> _Candidate | None:
    first = index.keys[0][0]
    wanted = hinted or any(path == first for path, _ in asked) or (sort and sort[0][0] == first)
    if not wanted or not _holds_all(filter, index):
        return None
    equal, ranged, exact = 0, False, not index.multikey and filter.complete
    prefixes = [b""]
    starts: list[int] = []
    stretches: list[tuple[bytes, bytes]] | None = None
    used: set[str] = set()
    several: set[str] = set()
    for path, direction in index.keys:
        spans = _spans_at(asked, path, index.multikey)
        if spans is None or len(prefixes) * len(spans.spans) > MOST_STRETCHES:
            break
        if direction < 0:
            spans = spans.turned()
        used.add(path)
        exact = exact and spans.exact
        points = spans.points
        if points is None:
            stretches = [(prefix + span.low.key, prefix + span.high.key) for prefix in prefixes for span in spans.spans]
            starts = [len(prefix) for prefix in prefixes for _ in spans.spans]
            ranged = True
            break
        prefixes = [prefix + point for prefix in prefixes for point in points]
        if len(points) > 1:
            several.add(path)
        equal += 1
    reverse = _order(index.keys[equal:], {path for path, _ in index.keys[:equal]}, sort)
    sorts = reverse is not None and not index.multikey and not index.long
    ordered = not sort or (sorts and not several)
    exists = [each for each in filter.conjuncts if each.operator == "$exists" and each.operand]
    fewer = index.sparse and any(each.path == first for each in exists)
    if not equal and not ranged and not hinted and not fewer and not (sort and ordered):
        return None
    if fewer and not used and len(index.keys) == 1 and len(exists) == len(filter.conjuncts):
        used.add(first)  # the index has an entry for exactly the documents that have the field
    keys: tuple[bytes, ...] | None = None
    if index.unique and equal == len(index.keys) and max(map(len, prefixes), default=0) <= CUT:
        keys = tuple(prefixes)
    elif stretches is None and equal:
        stretches = [(prefix, _end(prefix)) for prefix in prefixes]
        starts = list(map(len, prefixes))
    exact = exact and used.issuperset(path for path, _ in asked)
    longest = max((max(map(len, pair)) for pair in stretches or ()), default=0)
    if longest > CUT:
        stretches, exact = _cut(stretches or []), False
    merges = sorts and not ordered and longest <= CUT and several.isdisjoint(path for path, _ in sort)
    if not merges or keys is not None or len(starts) > MOST_MERGED:
        starts = []
    ordered = ordered or bool(starts)
    found = Plan(
        index,
        tuple(KeyStretch(low, high) for low, high in stretches) if stretches is not None else None,
        keys,
        reverse=bool(reverse) and ordered,
        ordered=ordered,
        exact=exact,
        repeats=index.multikey,
        merged=tuple(starts),
    )
    return _Candidate(found, equal, ranged, fewer)


def _end(prefix: bytes) -> bytes:
    """Return the end of the keys with this prefix of encoded values. Only another encoding, or nothing, can follow."""
    return prefix + AFTER_ALL


def _cut(stretches: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the stretches widened for truncated keys. Stretches that would overlap are merged."""
    found: list[tuple[bytes, bytes]] = []
    for low, high in sorted(
        (cut_bound(low), high if len(high) <= CUT else high[:CUT] + _AFTER_CUT) for low, high in stretches
    ):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return found


def _order(rest: SortKeys, fixed: set[str], sort: SortKeys) -> bool | None:
    """Return whether the index must be read in reverse for the order of ``sort``; None if it cannot give that order.

    ``fixed`` are the paths with a single value. ``rest`` are the index fields after those.
    """
    wanted = [(path, direction) for path, direction in sort if path not in fixed]
    if not wanted:
        return False
    if len(wanted) > len(rest) or any(want[0] != part[0] for want, part in zip(wanted, rest, strict=False)):
        return None
    turned = {want[1] != part[1] for want, part in zip(wanted, rest, strict=False)}
    return turned.pop() if len(turned) == 1 else None


def _holds_all(filter: Filter, index: Index) -> bool:
    """Whether every matching document has an entry in the index."""
    if index.sparse and not any(_demands(filter, path) for path in index.paths):
        return False
    partial = index.partial_filter
    if partial is None:
        return True
    return partial.complete and all(_implies(filter, each) for each in partial.conjuncts)


def _demands(filter: Filter, path: str) -> bool:
    """Whether every matching document has a value at ``path``, possibly null."""
    for each in filter.conjuncts:
        if each.path == path:
            if each.operator == "$exists":
                if each.operand:
                    return True
            elif (each.operator != "$eq" or each.operand is not None) and not (
                each.operator == "$in" and None in each.operand
            ):
                return True
    return False


def _implies(filter: Filter, wanted: Condition) -> bool:
    """Whether every matching document satisfies ``wanted``."""
    if wanted in filter.conjuncts:
        return True
    if wanted.operator == "$exists":
        return bool(wanted.operand) and _demands(filter, wanted.path)
    outer = spans_of(wanted)
    if outer is None or not outer.exact:
        return False
    inner = [spans for each in filter.conjuncts if each.path == wanted.path and (spans := spans_of(each)) is not None]
    return any(within(each, outer) for each in inner)
