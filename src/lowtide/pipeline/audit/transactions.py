"""Divides a transaction by its keys: what the audit of one key needs, and the transaction's position among all.

Each rule about a single read, and each edge that comes from a key, depends only on the operations on that key. The
operations on one key are therefore a history of their own, of the same transactions in the same order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Literal

from msgspec import UNSET

from lowtide.audit.history import WRITES, Element, Name, RecordedTransaction, Row
from lowtide.pipeline.audit.records import Facts, KeyShare, Operation, RangeRead, TransactionHeader, in_name_order

Scale = Literal["time", "version", "name"]
"""By what transactions are put in a row: when they were over; the versions of their commits; their names."""


def divided(transaction: RecordedTransaction) -> tuple[TransactionHeader, dict[str, KeyShare], list[RangeRead]]:
    """The header of a transaction, its shares by key, and its scans. Of an aborted one only what it wrote counts."""
    written = {row.key or "" for row in transaction.operations if row.op in WRITES}
    facts = Facts(
        transaction.name,
        transaction.outcome,
        transaction.version,
        transaction.begun,
        transaction.ended,
        last=_last(transaction),
        writes=bool(written),
    )
    by_key: dict[str, list[Operation]] = {}
    scans = []
    for place, row in enumerate(transaction.operations):
        if transaction.outcome == "aborted" and row.op not in WRITES:
            continue
        if row.op == "scan":
            own = sorted(_within(row, written))
            scan = RangeRead(facts, place, row.low, row.high, sorted(_found(row)), own=own)
            scans.append(scan)
            for key in dict.fromkeys((*scan.found, *scan.own)):
                by_key.setdefault(key, []).append(_scanned(place, row, key))
        else:
            by_key.setdefault(row.key or "", []).append(_operation(place, row))
    header = TransactionHeader(facts, transaction.session, transaction.turn, len(transaction.operations))
    return header, {key: KeyShare(facts, operations) for key, operations in by_key.items()}, scans


def _last(transaction: RecordedTransaction) -> int | None:
    """The last commit of a transaction: its own, or that of a write, where each is one."""
    if transaction.version is not None:
        return transaction.version
    return max((row.version for row in transaction.operations if row.op in WRITES and row.version), default=None)


def _found(row: Row) -> set[str]:
    return (row.values or {}).keys() | (row.versions or {}).keys()


def _within(row: Row, keys: Iterable[str]) -> Iterator[str]:
    low, high = row.low or "", row.high
    return (key for key in keys if key >= low and (high is None or key < high))


def _scanned(place: int, row: Row, key: str) -> Operation:
    values, versions = row.values or {}, row.versions or {}
    return Operation(
        place,
        "scan",
        values.get(key),
        given=key in values,
        version=versions.get(key),
        low=row.low,
        high=row.high,
        found=key in values or key in versions,
    )


def _operation(place: int, row: Row) -> Operation:
    given = row.value is not UNSET
    value = row.value if row.value is not UNSET else None
    assert row.op in ("read", "write", "append")
    return Operation(place, row.op, value, given, row.version, merged=row.merged)


def restored(share: KeyShare, key: str, believed: Collection[Name]) -> RecordedTransaction:
    """The transaction of a share, with its operations on that key only."""
    facts = share.facts
    rows = [_row(facts.name, key, operation) for operation in share.operations]
    counts = facts.outcome == "committed" or facts.name in believed
    return RecordedTransaction(facts.name, rows, "committed" if counts else "aborted", facts.version)


def _row(name: Name, key: str, operation: Operation) -> Row:
    value, version = operation.value, operation.version
    if operation.op != "scan":
        shown = value if operation.given else UNSET
        return Row(tx=name, op=operation.op, key=key, value=shown, version=version, merged=operation.merged)
    values = {key: value} if operation.given and value is not None else {}
    versions = None if version is None else {key: version}
    return Row(tx=name, op="scan", low=operation.low, high=operation.high, values=values, versions=versions)


def position(facts: Facts, scale: Scale) -> float | None:
    """The place of a transaction among all, by what is known of it alone; None if nothing is.

    Any place is right, since a wrong one only makes larger pieces. By time it is within the transaction, so that edges
    of time lead forward: at the end of one that writes, and at the beginning of one that only reads, as of a snapshot.
    """
    if scale == "time":
        if facts.begun is not None and (facts.ended is None or not facts.writes):
            return facts.begun
        return facts.ended
    if scale == "version":
        return None if facts.last is None else float(facts.last)
    return float(facts.name) if isinstance(facts.name, int) else None


def scale_of(times: bool, versions: bool) -> Scale:
    """By what to order, if any transaction says when it began and ended, or which commit it was."""
    return "time" if times else "version" if versions else "name"


class Beliefs:
    """Which transactions of unknown outcome were committed: those whose writes a committed one saw."""

    def __init__(self, shares: Iterable[tuple[str, KeyShare]]) -> None:
        """From the shares of all transactions of unknown outcome."""
        self._hints: dict[tuple[str, Element], Name] = {}
        for key, share in sorted(shares, key=lambda each: in_name_order(each[1].facts.name)):
            for operation in share.operations:
                if operation.op in WRITES and isinstance(operation.value, int | str):
                    self._hints[key, operation.value] = share.facts.name

    def seen(self, key: str, share: KeyShare) -> Iterator[Name]:
        """The doubted transactions that the reads of a share show."""
        for operation in share.operations:
            if operation.op in WRITES or not operation.given:
                continue
            value = operation.value
            for element in value if isinstance(value, list) else [value]:
                if element is not None and (name := self._hints.get((key, element))) is not None:
                    yield name


def believed(seen: Iterable[tuple[Name, bool, Name]]) -> set[Name]:
    """The doubted transactions to believe, from who saw whom: the reader, whether it was committed, the writer."""
    found: set[Name] = set()
    by_reader: dict[Name, set[Name]] = {}
    for reader, committed, writer in seen:
        if committed:
            found.add(writer)
        else:
            by_reader.setdefault(reader, set()).add(writer)
    waiting = list(found)
    while waiting:
        more = by_reader.get(waiting.pop(), set()) - found
        found |= more
        waiting += more
    return found
