"""``CollectionReader``: reads a collection's catalog row and its documents at one timestamp, by a plan."""

from __future__ import annotations

import builtins
import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from operator import itemgetter
from typing import Final, TypeVar

from lowtide.documents.catalog import CATALOG, row_key, row_of
from lowtide.documents.filters import Filter
from lowtide.documents.indexes.entries import document_key_of
from lowtide.documents.plans.plan import KeyStretch, Plan
from lowtide.documents.plans.planner import SortKeys, plan
from lowtide.documents.plans.point import Point
from lowtide.documents.prepared.bound import PreparedFilter
from lowtide.documents.projection import Projection
from lowtide.documents.sorting import Sort
from lowtide.engine import EngineSnapshot, PrefixOf, Range, ReadView, after_prefix
from lowtide.values.codec import decode_document
from lowtide.values.ordering import AFTER_ALL
from lowtide.values.partial import Decode, decoder_for
from lowtide.values.values import Document

_FIRST_READ: Final = 128
_FIRST_FETCH: Final = 128
_LARGEST_FETCH: Final = 1024

_Value = TypeVar("_Value")

Stored = tuple[bytes, bytes]
"""A document's key and its encoded form."""
Found = tuple[bytes, bytes, Document]
"""A document's key, its encoded form, and the document."""

_second: Final = itemgetter(1)


@dataclass(slots=True)
class ReadCounts:
    """What a query has read, for ``explain``."""

    keys: int = 0
    documents: int = 0


class CollectionReader:
    """Reads one collection at one timestamp."""

    __slots__ = ("name", "prefix", "prefix_of", "reading", "row", "row_key")

    def __init__(self, reading: ReadView, prefix_of: PrefixOf, name: str) -> None:
        self.name = name
        self.reading = reading
        self.prefix_of = prefix_of
        self.row_key = prefix_of(CATALOG) + row_key(name)
        self.row = row_of(name, reading.read(self.row_key))
        self.prefix = prefix_of(self.row.keyspace)

    def plan(
        self, filter: Filter, sort: Sort | None, hint: str | SortKeys | None = None, limited: bool = False
    ) -> Plan:
        """Return the plan for a query."""
        keys = sort.keys if sort is not None else ()
        if hint is None and type(filter) is PreparedFilter:
            known = filter.plan(self.row, keys, limited)
            if known is not None:
                return known
        return plan(filter, keys, self.row.indexes, hint, limited=limited)

    def knows(self, point: Point | None) -> bool:
        """Whether ``at_point`` can answer for this point."""
        return point is not None and (point.path == "_id" or point.path in self.row.points)

    def at_point(self, point: Point) -> Stored | None:
        """Return the first document with this value, without making a plan."""
        path, encoded, _ = point
        if path == "_id":
            stored = self.reading.read(self.prefix + encoded)
            return (encoded, stored) if stored is not None else None
        index = self.row.points[path]
        prefix = self.prefix_of(index.keyspace) + encoded
        if index.unique:
            key = self.reading.read(prefix)
        else:
            entries = self.reading.scan(Range(prefix, prefix + AFTER_ALL, False, 2))
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
        touched: ReadCounts | None = None,
    ) -> Iterator[Found]:
        """Yield the documents that match, in the order of ``sort``, at most ``limit`` (0: no limit). They are read
        lazily if the plan has that order."""
        stored = self.stored(by, limit if by.ordered else 0, touched)
        matches = _predicate(filter, by)
        found: Iterator[Found]
        if matches is None:
            found = ((key, value, decode_document(value)) for key, value in stored)
        else:
            decoded = ((key, value, decode_document(value)) for key, value in stored)
            found = (each for each in decoded if matches(each[2]))
        if sort is not None and not by.ordered:
            found = iter(_sorted(found, sort, limit))
        return islice(found, limit) if limit else found

    def documents(
        self, filter: Filter, by: Plan, sort: Sort | None = None, limit: int = 0, decode: Decode = decode_document
    ) -> Iterator[Document]:
        """The same as ``matching``, but yields only the documents."""
        found = map(decode, self.values(by, limit if by.ordered else 0))
        matches = _predicate(filter, by)
        if matches is not None:
            found = builtins.filter(matches, found)  # type: ignore[assignment]
        if sort is not None and not by.ordered:
            return iter(sort.smallest(limit, found) if limit else sort.sorted(found))
        return islice(found, limit) if limit else found

    def stored(self, by: Plan, wanted: int = 0, touched: ReadCounts | None = None) -> Iterator[Stored]:
        """Yield the encoded documents that a plan reads, each once. ``wanted`` is about how many the caller will take
        (0: all)."""
        if by.branches:
            return self._of_branches(by, touched)
        if by.index is None and by.keys is None:
            found = self._scanned(self.prefix, by, wanted)
        else:
            fetched = self._fetched(self.document_keys(by, wanted, touched), wanted)
            found = ((key, value) for keys, values in fetched for key, value in zip(keys, values, strict=True) if value)
        return found if touched is None else _counted(found, touched)

    def values(self, by: Plan, wanted: int = 0) -> Iterator[bytes]:
        """The same as ``stored``, but without the keys."""
        if by.branches or (by.index is None and by.keys is None):
            return map(_second, self.stored(by, wanted))
        fetched = self._fetched(self.document_keys(by, wanted), wanted)
        return builtins.filter(None, chain.from_iterable(map(_second, fetched)))

    def count(self, low: bytes = b"", high: bytes | None = None) -> int:
        """Count the documents with ``low <= key < high``. A ``high`` of None is the end of the collection."""
        end = self.prefix + high if high is not None else after_prefix(self.prefix)
        wanted = Range(self.prefix + low, end)
        if isinstance(self.reading, EngineSnapshot):
            return self.reading.count(wanted)
        return sum(1 for _ in self.reading.scan(wanted))

    def between(self, low: bytes, high: bytes | None) -> Iterator[Stored]:
        """Yield the documents with ``low <= key < high``. A ``high`` of None is the end of the collection."""
        prefix = self.prefix
        return self.reading.scan(Range(prefix + low, after_prefix(prefix) if high is None else prefix + high))

    def batches(self, by: Plan, size: int, filter: Filter | None = None) -> Iterator[list[bytes]]:
        """The same as ``values``, but only those that match ``filter``, in non-empty lists of about ``size``. This is
        the fastest way to read all of them."""
        if by.branches:
            found = lists_of(self.values(by), size)
        elif by.index is None and by.keys is None:
            found = chain.from_iterable(self._read_through(each, size) for each in self._ranges(self.prefix, by))
        else:
            found = self._fetched_whole(self.document_keys(by), size)
        return builtins.filter(None, found if filter is None else picked(found, filter, by))

    def batches_narrowed(self, by: Plan, size: int, most: int) -> Iterator[list[bytes]]:
        """Yield at least the documents that a plan leads to, in key order, in lists of about ``size``. If an index
        leads to more than ``most``, yields the whole collection: fetching them one by one would take longer."""
        if by.index is None and by.keys is None and not by.branches:
            return self.batches(by, size)
        keys = () if by.branches else sorted(islice(self.document_keys(by), most + 1))
        if by.branches or len(keys) > most:
            return self.batches_between(b"", None, size)
        return builtins.filter(None, self._fetched_whole(iter(keys), size))

    def batches_between(self, low: bytes, high: bytes | None, size: int) -> Iterator[list[bytes]]:
        """Yield the encoded documents with ``low <= key < high`` in key order, in non-empty lists of about ``size``. A
        ``high`` of None is the end of the collection."""
        end = self.prefix + high if high is not None else after_prefix(self.prefix)
        return builtins.filter(None, self._read_through(Range(self.prefix + low, end), size))

    def _read_through(self, wanted: Range, size: int) -> Iterator[list[bytes]]:
        if isinstance(self.reading, EngineSnapshot) and not wanted.reverse:
            return self.reading.values(wanted, size)
        return lists_of(map(_second, self.reading.scan(wanted)), size)

    def _fetched_whole(self, keys: Iterator[bytes], size: int) -> Iterator[list[bytes]]:
        prefix = self.prefix
        for batch in lists_of(keys, size):
            values = self.reading.read_many([prefix + key for key in batch])
            yield [each for each in values if each is not None]

    def _of_branches(self, by: Plan, touched: ReadCounts | None) -> Iterator[Stored]:
        seen: set[bytes] = set()
        for branch in by.branches:
            for each in self.stored(branch, touched=touched):
                if each[0] not in seen:
                    seen.add(each[0])
                    yield each

    def _scanned(self, prefix: bytes, by: Plan, wanted: int = 0) -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries of a keyspace in the stretches of a plan."""
        scan, ranges = self.reading.scan, self._ranges(prefix, by, wanted)
        if by.merged:
            starts = reversed(by.merged) if by.reverse else by.merged
            return _merged([(scan(each), start) for each, start in zip(ranges, starts, strict=True)], by.reverse)
        return scan(next(ranges)) if by.ranges == 1 else chain.from_iterable(map(scan, ranges))

    def _ranges(self, prefix: bytes, by: Plan, wanted: int = 0) -> Iterator[Range]:
        """Return the stretches of a plan in a keyspace, in reading order."""
        reverse, first = by.reverse, min(wanted + 1, _FIRST_READ) if wanted else 0
        if by.stretches is None:
            return iter((Range(prefix, after_prefix(prefix), reverse, first),))
        stretches: Iterable[KeyStretch] = reversed(by.stretches) if reverse else by.stretches
        return (Range(prefix + each.low, prefix + each.high, reverse, first) for each in stretches)

    def entries(self, by: Plan, wanted: int = 0) -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries of the plan's index."""
        assert by.index is not None
        prefix = self.prefix_of(by.index.keyspace)
        if by.keys is None:
            return self._scanned(prefix, by, wanted)
        keys = list(reversed(by.keys) if by.reverse else by.keys)
        values = self.reading.read_many([prefix + key for key in keys])
        return ((key, value) for key, value in zip(keys, values, strict=True) if value is not None)

    def document_keys(self, by: Plan, wanted: int = 0, touched: ReadCounts | None = None) -> Iterator[bytes]:
        """Yield the keys of the documents that a plan leads to, each once."""
        index = by.index
        if index is None:
            assert by.keys is not None
            return iter(reversed(by.keys) if by.reverse else by.keys)
        entries = self.entries(by, wanted)
        if touched is not None:
            entries = _counted_keys(entries, touched)
        found = map(_second, entries) if index.unique else (key[-value[0] :] for key, value in entries)
        return _once(found) if by.repeats else found

    def _fetched(self, keys: Iterator[bytes], wanted: int) -> Iterator[tuple[list[bytes], list[bytes | None]]]:
        """Yield the keys, read in batches, with their encoded documents; None where there is no document."""
        prefix, size = self.prefix, min(wanted, _LARGEST_FETCH) or _FIRST_FETCH
        while batch := list(islice(keys, size)):
            values: list[bytes | None]
            if len(batch) == 1:
                values = [self.reading.read(prefix + batch[0])]
            else:
                values = self.reading.read_many([prefix + key for key in batch])
            yield batch, values
            if len(batch) < size:
                return
            size = min(max(_FIRST_FETCH, size * 4), _LARGEST_FETCH)


def _from(entries: Iterator[Stored], start: int) -> Iterator[tuple[bytes, bytes, bytes]]:
    return ((key[start:], key, value) for key, value in entries)


def _merged(stretches: list[tuple[Iterator[Stored], int]], reverse: bool) -> Iterator[Stored]:
    """Merge the entries of all stretches in the order of their keys after each stretch's prefix. Lazy: reads no more of
    each stretch than is needed."""
    ordered = [_from(entries, start) for entries, start in stretches]
    return ((key, value) for _, key, value in heapq.merge(*ordered, reverse=reverse))


def _predicate(filter: Filter, by: Plan) -> Callable[[Document], bool] | None:
    """Return the predicate that must still be checked on the documents that a plan reads; None if there is none."""
    if by.exact or (filter.complete and not filter.conjuncts and not filter.alternatives):
        return None
    return filter.matches


def fields_of(filter: Filter) -> frozenset[str] | None:
    """Return the top-level fields that a filter reads; None if its conditions do not show them."""
    return frozenset(each.path.split(".")[0] for each in filter.conjuncts) if filter.complete else None


def fields_read(wanted: frozenset[str] | None, filter: Filter, by: Plan, sort: Sort | None) -> frozenset[str] | None:
    """Return the top-level fields that must be read from each document, where ``wanted`` are those of the results.
    These include the fields that the plan leaves to the filter and to sorting. None for all; ``wanted`` itself if
    nothing else is read."""
    read = wanted
    if read is not None and _predicate(filter, by) is not None:
        of_filter = fields_of(filter)
        read = read | of_filter if of_filter is not None else None
    if read is not None and sort is not None and not by.ordered:
        read |= {path.split(".")[0] for path, _ in sort.keys}
    return read


def decoding(
    projection: Projection | None, filter: Filter, by: Plan, sort: Sort | None
) -> tuple[Decode, Projection | None]:
    """Return the decoder of documents, and the projection that must still be applied to its result."""
    if projection is None or projection.fields is None:
        return decode_document, projection
    read = fields_read(projection.fields, filter, by, sort)
    return (projection.decode, None) if read is projection.fields else (decoder_for(read), projection)


def lists_of(values: Iterator[_Value], size: int) -> Iterator[list[_Value]]:
    """Yield the values in lists of ``size``. The last list may be shorter."""
    while batch := list(islice(values, size)):
        yield batch


def picked(batches: Iterator[list[bytes]], filter: Filter, by: Plan) -> Iterator[list[bytes]]:
    """Return the encoded documents that match. Only the fields that the filter reads are decoded."""
    matches = _predicate(filter, by)
    if matches is None:
        return batches
    decode = decoder_for(fields_of(filter))
    return ([each for each in batch if matches(decode(each))] for batch in batches)


def _once(keys: Iterable[bytes]) -> Iterator[bytes]:
    seen: set[bytes] = set()
    for key in keys:
        if key not in seen:
            seen.add(key)
            yield key


def _sorted(found: Iterable[Found], sort: Sort, limit: int) -> list[Found]:
    if limit:
        return heapq.nsmallest(limit, found, key=lambda each: sort.key(each[2]))
    ordered = list(found)
    for (_, direction), placing in zip(reversed(sort.keys), reversed(sort.placings), strict=True):
        ordered.sort(key=lambda each, placing=placing: placing(each[2]), reverse=direction < 0)  # type: ignore[misc]
    return ordered


def _counted(found: Iterator[Stored], touched: ReadCounts) -> Iterator[Stored]:
    for each in found:
        touched.documents += 1
        yield each


def _counted_keys(entries: Iterator[tuple[bytes, bytes]], touched: ReadCounts) -> Iterator[tuple[bytes, bytes]]:
    for each in entries:
        touched.keys += 1
        yield each
