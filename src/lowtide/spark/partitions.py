"""Splits a read into parts: ranges of keys, or of an index's entries, with roughly equal numbers of rows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from pyspark.sql.datasource import InputPartition

from lowtide.columnar.cache import Block
from lowtide.documents.plans.plan import KeyStretch, Plan
from lowtide.documents.reader import CollectionReader
from lowtide.engine import EngineSnapshot, Range, after_prefix
from lowtide.errors import InvalidDocument, UsageError, shown
from lowtide.spark.options import SparkOptions
from lowtide.values.ids import ID_TYPES, id_key
from lowtide.values.ordering import AFTER_ALL, encode

SMALL: Final = 20_000
"""Rows below which another task is not worthwhile: starting one takes about as long as reading them."""
SMALL_BYTES: Final = 32 << 20
"""The same limit in bytes, so that large rows need not be counted by the thousands."""
SMALL_ENTRIES: Final = 30_000
"""About the same limit for entries of an index. Each entry leads to a row on another page, so two tasks map nearly the
same pages, and planning must find where to cut: one task of 20,000 takes 160 ms of CPU, two of 10,000 take 115 ms
each."""


@dataclass(frozen=True)
class RowRange(InputPartition):
    """The rows with keys in ``[low, high)``, without the keyspace prefix. A ``high`` of None is the end.

    ``block`` is their block in the columnar cache, which may have to be filled.
    """

    low: bytes
    high: bytes | None
    block: Block | None = None


@dataclass(frozen=True)
class EntryRange(InputPartition):
    """The rows that the filter's plan selects: all of them, or only through the entries in ``[low, high)``."""

    low: bytes | None
    high: bytes | None


@dataclass(frozen=True)
class Bounds:
    """The keys to read: ``[low, high)``. A ``high`` of None is the end."""

    low: bytes
    high: bytes | None

    def meet(self, low: bytes, high: bytes | None) -> Bounds | None:
        """Return the intersection with ``[low, high)``. None if it is empty."""
        lowest = max(self.low, low)
        highest = min((each for each in (self.high, high) if each is not None), default=None)
        return None if highest is not None and lowest >= highest else Bounds(lowest, highest)


EVERYTHING: Final = Bounds(b"", None)


def bounds(options: SparkOptions) -> Bounds:
    """Return the key range that the options select."""
    first, last, prefix = (options.text(name) for name in ("keyStart", "keyEnd", "keyPrefix"))
    if prefix is not None and (first is not None or last is not None):
        raise UsageError("option 'keyPrefix' sets both the start and the end; give it without keyStart and keyEnd")
    key = _id_key if options.keyspace is None else _raw_key
    if prefix is not None:
        low = encode(_string(prefix))[:-2] if options.keyspace is None else _raw_key("keyPrefix", prefix)
        return Bounds(low, after_prefix(low) if low else None)
    low = key("keyStart", first) if first is not None else b""
    high = key("keyEnd", last) if last is not None else None
    if high is not None and low >= high:
        raise UsageError(f"option 'keyStart' {first!r} must sort before 'keyEnd' {last!r}")
    return Bounds(low, high)


def _string(text: str) -> str:
    """Return the key prefix for string _ids, given as JSON or as plain text."""
    value = _value("keyPrefix", text)
    return value if isinstance(value, str) else text


def _value(name: str, text: str) -> Any:
    """Parse JSON text. Any other text is returned unchanged."""
    try:
        return SparkOptions({name: text}).json(name)
    except UsageError:
        return text


def _id_key(name: str, text: str) -> bytes:
    """Return the key of an _id, given as JSON or as plain text. Numbers and objects are never taken as text."""
    value = _value(name, text)
    if type(value) not in ID_TYPES and not isinstance(value, float | Decimal):
        value = text
    if value == text and text.lstrip().startswith("{"):
        value = {}
    try:
        return id_key(value)
    except InvalidDocument as error:
        raise UsageError(f"option {name!r} is not a valid _id: {shown(text)}: {error}") from error


def _raw_key(name: str, text: str) -> bytes:
    """Parse a key: hexadecimal after 0x, else UTF-8."""
    if not text.startswith("0x"):
        return text.encode()
    try:
        return bytes.fromhex(text[2:])
    except ValueError as error:
        raise UsageError(f"option {name!r} begins with 0x, but is not hexadecimal: {text!r}") from error


def parts_of(asked: int | None, snapshot: EngineSnapshot, keyspace: str, within: Bounds) -> int:
    """Return the number of parts: the requested one, or else one for few rows and the number of cores for many."""
    if asked is not None:
        return asked
    left, size = SMALL, SMALL_BYTES
    for key, value in snapshot.keyspace(keyspace).scan(within.low or None, within.high):
        left -= 1
        size -= len(key) + len(value)
        if left < 0 or size < 0:
            return os.cpu_count() or 1
    return 1


def cut(snapshot: EngineSnapshot, keyspace: str, within: Bounds, parts: int) -> list[RowRange]:
    """Split the rows of a keyspace into at most ``parts`` ranges."""
    cuts = snapshot.cuts(keyspace, parts, within.low or None, within.high)
    return [RowRange(low, high) for low, high in zip([within.low, *cuts], [*cuts, within.high], strict=True)]


def of_plan(
    snapshot: EngineSnapshot, look: CollectionReader, by: Plan, within: Bounds, parts: int
) -> Sequence[RowRange | EntryRange]:
    """Return the parts of a filtered read."""
    if by.keys is not None or by.branches or (by.index is not None and (by.repeats or parts == 1)):
        return [EntryRange(None, None)]
    ranges = stretches(by, within if by.index is None else EVERYTHING)
    if by.index is not None and _about(snapshot, look.prefix_of(by.index.keyspace), ranges) <= SMALL_ENTRIES:
        return [EntryRange(None, None)]
    if not ranges:
        return [RowRange(b"", b"")]
    around = Bounds(ranges[0].low, ranges[-1].high)
    if by.index is None:
        return cut(snapshot, look.row.keyspace, around, parts)
    return [EntryRange(each.low, each.high) for each in cut(snapshot, by.index.keyspace, around, parts)]


def _about(snapshot: EngineSnapshot, prefix: bytes, ranges: Iterable[Bounds]) -> int:
    """Return the approximate number of entries in the ranges. Stops counting once there are many."""
    found = 0
    for each in ranges:
        high = after_prefix(prefix) if each.high is None else prefix + each.high
        found += snapshot.about(Range(prefix + each.low, high))
        if found > SMALL_ENTRIES:
            break
    return found


def stretches(by: Plan, within: Bounds) -> list[Bounds]:
    """Return the entries of these keys that a plan reads, in ascending order."""
    met = [within] if by.stretches is None else [within.meet(low, high) for low, high in by.stretches]
    return [each for each in met if each is not None and each.high != b""]


def narrowed(by: Plan, part: EntryRange) -> Plan:
    """Return the plan restricted to one part of its entries."""
    if part.low is None:
        return by
    found = stretches(by, Bounds(part.low, part.high))
    ranges = tuple(KeyStretch(each.low, AFTER_ALL if each.high is None else each.high) for each in found)
    return Plan(index=by.index, stretches=ranges, exact=by.exact)
