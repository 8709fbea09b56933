"""A look at a collection: its row and its documents, as they are at one instant, read by a plan."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from lowtide.base.codec import after_prefix
from lowtide.documents.catalog import CATALOG, row_key, row_of
from lowtide.documents.codec import decode_document
from lowtide.documents.filters import Filter
from lowtide.documents.indexes.entries import document_key_of
from lowtide.documents.plans.plan import Plan, Stretch
from lowtide.documents.plans.planner import SortKeys, plan
from lowtide.documents.points import Point
from lowtide.documents.sorting import Sort
from lowtide.documents.source import PrefixOf
from lowtide.documents.values import Document
from lowtide.transaction.statement import Reading
from lowtide.versions.visibility import Range

_FIRST_FETCH: Final = 16
_LARGEST_FETCH: Final = 1024

Stored = tuple[bytes, bytes]
"""A document's key, and its stored form."""
Found = tuple[bytes, bytes, Document]
"""A document's key, its stored form, and the document."""
Decode = Callable[[bytes], Document]


@dataclass(slots=True)
class Touched:
    """What a query has read, for ``explain``."""

    keys: int = 0
    documents: int = 0


class Look:
    """One collection at one instant."""

    __slots__ = ("name", "prefix", "prefix_of", "reading", "row", "row_key")

    def __init__(self, reading: Reading, prefix_of: PrefixOf, name: str) -> None:
        self.name = name
        self.reading = reading
        self.prefix_of = prefix_of
        self.row_key = prefix_of(CATALOG) + row_key(name)
        self.row = row_of(name, reading.read(self.row_key))
        self.prefix = prefix_of(self.row.keyspace)

    def plan(
        self, filter: Filter, sort: Sort | None, hint: str | SortKeys | None = None, limited: bool = False
    ) -> Plan:
        """How the documents for ``filter`` are found."""
        return plan(filter, sort.keys if sort is not None else (), self.row.indexes, hint, limited=limited)

    def knows(self, point: Point | None) -> bool:
        """Whether ``at_point`` can be asked."""
        return point is not None and (point.path == "_id" or point.path in self.row.points)

    def at_point(self, point: Point) -> Stored | None:
        """The first document with this value, without a plan."""
        path, encoded = point
        if path == "_id":
            stored = self.reading.read(self.prefix + encoded)
            return (encoded, stored) if stored is not None else None
        index = self.row.points[path]
        prefix = self.prefix_of(index.keyspace) + encoded
        if index.unique:
            key = self.reading.read(prefix)
        else:
            entries = self.reading.scan(Range(prefix, prefix + b"\xff"))
            key = next((document_key_of(index, *entry) for entry in entries), None)
        if key is None:
            return None
        stored = self.reading.read(self.prefix + key)
        return (key, stored) if stored is not None else None

    def matching(
        self,
        filter: Filter,
        by: Plan,
        sort: Sort | None = None,
        limit: int = 0,
        touched: Touched | None = None,
        decode: Decode = decode_document,
    ) -> Iterator[Found]:
        """The documents that match, in the order of ``sort``; the first ``limit`` of them, unless that is 0. They come
        one by one, if the plan has the order that is asked for."""
        found = self._filtered(filter, by, limit, touched, decode)
        if sort is not None and not by.ordered:
            found = iter(_sorted(found, sort, limit))
        return islice(found, limit) if limit else found

    def _filtered(
        self, filter: Filter, by: Plan, limit: int, touched: Touched | None, decode: Decode
    ) -> Iterator[Found]:
        """The documents that match, in the order of the plan."""
        wanted = limit if by.ordered and by.exact else 0
        stored = self.stored(by, wanted, touched)
        matches = filter.matches if filter.conjuncts or filter.alternatives or not filter.complete else None
        if matches is None:
            return ((key, value, decode(value)) for key, value in stored)
        return ((key, value, document) for key, value in stored for document in (decode(value),) if matches(document))

    def stored(self, by: Plan, wanted: int = 0, touched: Touched | None = None) -> Iterator[Stored]:
        """The documents that a plan reads, each once. The first ``wanted`` are sure to be asked for."""
        if by.branches:
            return self._of_branches(by, touched)
        if by.index is not None:
            return self._fetched(self.document_keys(by, touched), wanted, touched)
        if by.keys is not None:
            keys = reversed(by.keys) if by.reverse else iter(by.keys)
            return self._fetched(keys, wanted, touched)
        found = self._scanned(self.prefix, by)
        return found if touched is None else _counted(found, touched)

    def _of_branches(self, by: Plan, touched: Touched | None) -> Iterator[Stored]:
        seen: set[bytes] = set()
        for branch in by.branches:
            for each in self.stored(branch, 0, touched):
                if each[0] not in seen:
                    seen.add(each[0])
                    yield each

    def _scanned(self, prefix: bytes, by: Plan) -> Iterator[tuple[bytes, bytes]]:
        """The entries of a keyspace in the stretches of a plan."""
        scan, reverse = self.reading.scan, by.reverse
        if by.stretches is None:
            return scan(Range(prefix, after_prefix(prefix), reverse))
        stretches: Iterable[Stretch] = reversed(by.stretches) if reverse else by.stretches
        return (entry for each in stretches for entry in scan(Range(prefix + each.low, prefix + each.high, reverse)))

    def entries(self, by: Plan) -> Iterator[tuple[bytes, bytes]]:
        """The entries of the plan's index."""
        assert by.index is not None
        prefix = self.prefix_of(by.index.keyspace)
        if by.keys is None:
            return self._scanned(prefix, by)
        keys = list(reversed(by.keys) if by.reverse else by.keys)
        values = self.reading.read_many([prefix + key for key in keys])
        return ((key, value) for key, value in zip(keys, values, strict=True) if value is not None)

    def document_keys(self, by: Plan, touched: Touched | None = None) -> Iterator[bytes]:
        """The keys of the documents that a plan's index leads to, each once."""
        index = by.index
        assert index is not None
        seen: set[bytes] | None = set() if by.repeats else None
        for key, value in self.entries(by):
            if touched is not None:
                touched.keys += 1
            found = document_key_of(index, key, value)
            if seen is not None:
                if found in seen:
                    continue
                seen.add(found)
            yield found

    def _fetched(self, keys: Iterator[bytes], wanted: int, touched: Touched | None) -> Iterator[Stored]:
        """The documents with these keys, a batch at a time."""
        prefix, size = self.prefix, min(wanted, _LARGEST_FETCH) or 1
        while batch := list(islice(keys, size)):
            if len(batch) == 1:
                values = [self.reading.read(prefix + batch[0])]
            else:
                values = self.reading.read_many([prefix + key for key in batch])
            for key, value in zip(batch, values, strict=True):
                if value is not None:
                    if touched is not None:
                        touched.documents += 1
                    yield key, value
            if len(batch) < size:
                return
            size = min(max(_FIRST_FETCH, size * 4), _LARGEST_FETCH)


def _sorted(found: Iterable[Found], sort: Sort, limit: int) -> list[Found]:
    if limit:
        return heapq.nsmallest(limit, found, key=lambda each: sort.key(each[2]))
    ordered = list(found)
    for (_, direction), placing in zip(reversed(sort.keys), reversed(sort.placings), strict=True):
        ordered.sort(key=lambda each, placing=placing: placing(each[2]), reverse=direction < 0)  # type: ignore[misc]
    return ordered


def _counted(found: Iterator[Stored], touched: Touched) -> Iterator[Stored]:
    for each in found:
        touched.documents += 1
        yield each
