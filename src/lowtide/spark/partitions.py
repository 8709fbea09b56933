"""Into which parts a read is cut: ranges of keys with about as many rows each, or of an index's entries."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import Any, Final

from pyspark.sql.datasource import InputPartition

from lowtide.columnar.cache import Block
from lowtide.documents.plans.plan import KeyStretch, Plan
from lowtide.documents.reader import CollectionReader
from lowtide.engine import EngineSnapshot, after_prefix
from lowtide.errors import InvalidDocument, UsageError, shown
from lowtide.spark.options import SparkOptions
from lowtide.values.ids import ID_TYPES, id_key
from lowtide.values.ordering import AFTER_ALL, encode

SMALL: Final = 20_000
"""Rows that are not worth a further task: one costs about as long as it takes to read them."""
SMALL_BYTES: Final = 32 << 20
"""Bytes of them. Of large rows, there is no need to read thousands to see that they are much."""


@dataclass(frozen=True)
class RowRange(InputPartition):
    """The rows from ``low`` on, before ``high``, None for the end; keys without the keyspace. ``block`` is where the
    columnar cache has them, or is to."""

    low: bytes
    high: bytes | None
    block: Block | None = None


@dataclass(frozen=True)
class EntryRange(InputPartition):
    """What the filter's plan leads to: all of it, or only by the entries from ``low`` on, before ``high``."""

    low: bytes | None
    high: bytes | None


@dataclass(frozen=True)
class Bounds:
    """The keys that may be read: from ``low`` on, before ``high``; None for the end of all."""

    low: bytes
    high: bytes | None

    def meet(self, low: bytes, high: bytes | None) -> Bounds | None:
        """What of these is also between ``low`` and ``high``; None if nothing is."""
        lowest = max(self.low, low)
        highest = min((each for each in (self.high, high) if each is not None), default=None)
        return None if highest is not None and lowest >= highest else Bounds(lowest, highest)


EVERYTHING: Final = Bounds(b"", None)


def bounds(options: SparkOptions) -> Bounds:
    """The keys that the options ask for."""
    first, last, prefix = (options.text(name) for name in ("keyStart", "keyEnd", "keyPrefix"))
    if prefix is not None and (first is not None or last is not None):
        raise UsageError("option 'keyPrefix' says where to start and to end; give it without keyStart and keyEnd")
    key = _id_key if options.keyspace is None else _raw_key
    if prefix is not None:
        low = encode(_string(prefix))[:-2] if options.keyspace is None else _raw_key("keyPrefix", prefix)
        return Bounds(low, after_prefix(low) if low else None)
    low = key("keyStart", first) if first is not None else b""
    high = key("keyEnd", last) if last is not None else None
    if high is not None and low >= high:
        raise UsageError(f"option 'keyStart' {first!r} does not lie before 'keyEnd' {last!r}")
    return Bounds(low, high)


def _string(text: str) -> str:
    """A prefix of _ids, which are strings then: as JSON, else the text itself."""
    value = _value("keyPrefix", text)
    return value if isinstance(value, str) else text


def _value(name: str, text: str) -> Any:
    """The value of JSON text; any other text is itself."""
    try:
        return SparkOptions({name: text}).json(name)
    except UsageError:
        return text


def _id_key(name: str, text: str) -> bytes:
    """The key of an _id: as JSON, else as text. What is a number, or looks like an object, is never meant as text."""
    value = _value(name, text)
    if type(value) not in ID_TYPES and not isinstance(value, float | Decimal):
        value = text
    if value == text and text.lstrip().startswith("{"):
        value = {}
    try:
        return id_key(value)
    except InvalidDocument as error:
        raise UsageError(f"option {name!r} is no _id: {shown(text)}: {error}") from error


def _raw_key(name: str, text: str) -> bytes:
    """The bytes of a key: after 0x in hexadecimal, else as UTF-8."""
    if not text.startswith("0x"):
        return text.encode()
    try:
        return bytes.fromhex(text[2:])
    except ValueError as error:
        raise UsageError(f"option {name!r} begins with 0x, but is not hexadecimal: {text!r}") from error


def parts_of(asked: int | None, snapshot: EngineSnapshot, keyspace: str, within: Bounds) -> int:
    """Into how many parts these rows are cut: what was asked for; else as many as the machine has cores, but one if
    they are few."""
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
    """The rows of a keyspace in at most ``parts`` ranges."""
    cuts = snapshot.cuts(keyspace, parts, within.low or None, within.high)
    return [RowRange(low, high) for low, high in zip([within.low, *cuts], [*cuts, within.high], strict=True)]


def of_plan(
    snapshot: EngineSnapshot, look: CollectionReader, by: Plan, within: Bounds, parts: int
) -> Sequence[RowRange | EntryRange]:
    """The parts of a filtered read."""
    if by.keys is not None or by.branches or (by.index is not None and (by.repeats or parts == 1)):
        return [EntryRange(None, None)]
    if by.index is not None and sum(1 for _ in islice(look.entries(by), SMALL + 1)) <= SMALL:
        return [EntryRange(None, None)]
    ranges = stretches(by, within if by.index is None else EVERYTHING)
    if not ranges:
        return [RowRange(b"", b"")]
    around = Bounds(ranges[0].low, ranges[-1].high)
    if by.index is None:
        return cut(snapshot, look.row.keyspace, around, parts)
    return [EntryRange(each.low, each.high) for each in cut(snapshot, by.index.keyspace, around, parts)]


def stretches(by: Plan, within: Bounds) -> list[Bounds]:
    """What a plan reads of these keys, in ascending order."""
    met = [within] if by.stretches is None else [within.meet(low, high) for low, high in by.stretches]
    return [each for each in met if each is not None and each.high != b""]


def narrowed(by: Plan, part: EntryRange) -> Plan:
    """The plan for one part of its entries."""
    if part.low is None:
        return by
    found = stretches(by, Bounds(part.low, part.high))
    ranges = tuple(KeyStretch(each.low, AFTER_ALL if each.high is None else each.high) for each in found)
    return Plan(index=by.index, stretches=ranges, exact=by.exact)
