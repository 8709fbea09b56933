"""The records that the steps of the audit pass to each other, between processes as bytes.

A transaction is divided by its keys (``Share``) and its scans (``Scan``); what is left of it is its ``Header``. A key
yields edges (``Link``), spans of its reads (``Glimpse``) and the writes that a scan misses if it does not find the
key (``First``). What is found wrong is an ``Anomaly``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

from lowtide.audit.anomalies import Finding, Kind
from lowtide.audit.history import Element, Name, Outcome, RecordedTransaction, Value
from lowtide.audit.witness import because, witness

_T = TypeVar("_T")


class Facts(Struct, frozen=True, array_like=True, gc=False):
    """What every share of a transaction knows of it."""

    name: Name
    outcome: Outcome
    version: int | None
    begun: float | None
    ended: float | None
    last: int | None
    """The last commit that it made."""
    writes: bool


class TransactionHeader(Struct, frozen=True, array_like=True, gc=False):
    """A transaction without its operations."""

    facts: Facts
    session: Name | None
    turn: int | None
    operations: int


class Operation(Struct, frozen=True, array_like=True, gc=False):
    """One operation, as far as it concerns one key. ``found``: a scan shows the key, or it is no scan. ``merged``: of a
    write, as in a row of the history."""

    place: int
    op: Literal["read", "write", "append", "scan"]
    value: Value
    given: bool
    version: int | None
    low: str | None = None
    high: str | None = None
    found: bool = True
    merged: bool = False


class KeyShare(Struct, frozen=True, array_like=True):
    """The operations of one transaction on one key."""

    facts: Facts
    operations: list[Operation]


class RangeRead(Struct, frozen=True, array_like=True):
    """A scan: its range, the keys that it found, and those of its range that its own transaction writes."""

    facts: Facts
    place: int
    low: str | None
    high: str | None
    found: list[str]
    own: list[str]


class WriteNote(Struct, frozen=True, array_like=True, gc=False):
    """A write, as a witness tells of it."""

    value: Element | None
    version: int | None
    appended: bool


class ReadNote(Struct, frozen=True, array_like=True):
    """A read, as a witness tells of it."""

    place: int
    shown: Value
    writer: WriteNote | None
    phantom: bool = False


class Link(Struct, frozen=True, array_like=True):
    """An edge of the graph, from one transaction to another; ``stage`` and ``rank`` as in ``audit.graph``."""

    source: Name
    target: Name
    kind: Kind
    key: str
    stage: int
    rank: int
    earlier_write: WriteNote | None
    earlier_read: ReadNote | None
    later_write: WriteNote | None
    later_read: ReadNote | None


class Glimpse(Struct, frozen=True, array_like=True):
    """The span of one read; see ``audit.instants``."""

    name: Name
    place: int
    scan: bool
    key: str
    begin: float
    end: float
    writers: list[Name]


class First(Struct, frozen=True, array_like=True):
    """A write that comes next after the state in which a key is not there.

    ``end`` is the commit that ended that state, None where that is not known. ``unread``: an append that no read shows,
    which is the ``rank``-th one.
    """

    key: str
    name: Name
    end: float | None
    unread: bool
    rank: int
    write: WriteNote


class Step(Struct, frozen=True):
    """One edge of a cycle, and why it is there."""

    source: Name
    target: Name
    kind: Kind
    key: str
    because: str


class Anomaly(Struct, frozen=True):
    """What was found: an anomaly, the transactions that show it, and the circle that they make, if they make one."""

    name: str
    transactions: list[Name]
    keys: list[str]
    witness: str
    steps: list[Step] = []


_pack = msgspec.msgpack.Encoder().encode
_name: Callable[[str], Name] = msgspec.json.Decoder(Name).decode


def packed(record: Struct) -> bytes:
    """A record as bytes."""
    return _pack(record)


def unpacker(kind: type[_T]) -> Callable[[bytes], _T]:
    """What reads bytes of ``packed`` as records of this kind."""
    return msgspec.msgpack.Decoder(kind).decode


def label(name: Name) -> str:
    """A name as text that no other name has: 1 and "1" are two."""
    return msgspec.json.encode(name).decode()


def name_of(text: str) -> Name:
    """The name whose label this is."""
    return _name(text)


def in_name_order(name: Name) -> tuple[bool, Name]:
    """The key by which a history sorts its transactions."""
    return isinstance(name, str), name


def anomaly(finding: Finding, transactions: list[RecordedTransaction]) -> Anomaly:
    """A finding without its numbers, which mean something only beside ``transactions``."""
    return Anomaly(
        finding.name,
        [transactions[tx].name for tx in finding.transactions],
        list(finding.keys),
        witness(finding, transactions),
        [
            Step(
                transactions[edge.source].name,
                transactions[edge.target].name,
                edge.kind,
                edge.key,
                because(edge, transactions),
            )
            for edge in finding.edges
        ],
    )


def brevity(found: Anomaly) -> tuple[int, list[tuple[bool, Name]], list[str]]:
    """The key by which the shortest witness comes first."""
    return len(found.transactions), [in_name_order(name) for name in found.transactions], found.keys
