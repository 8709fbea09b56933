"""A recorded history: what transactions did and saw, as one flat row per operation.

Rows are stored as JSON Lines, one JSON object per line. docs/audit.md describes the fields. If each row has an
``index``, its position in its transaction, the order of rows does not matter. Without one, the rows of a transaction
are in file order. A row may also be a whole transaction, as a store that records itself writes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from lowtide.errors import UsageError

Name = int | str
"""The name of a transaction or a session."""
Element = int | str
"""A written or appended value. It must be unique among the writes of its key, unless reads name versions."""
Value = Element | list[Element] | None
"""The result of a read: the elements of a list, a value, or None if the key does not exist."""
Outcome = Literal["committed", "aborted", "unknown"]

WRITES = ("write", "append")


class Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One operation of one transaction."""

    tx: Name
    op: Literal["begin", "read", "write", "append", "scan", "commit", "abort", "transaction"]
    index: int | None = None
    key: str | None = None
    value: Value | UnsetType = UNSET
    """The value that was read, written (None: deleted) or appended."""
    merged: bool = False
    """A write of the value that a concurrent transaction had just put there, so that it overwrote nothing."""
    version: int | None = None
    """For a read, the commit that wrote the value, 0 for none. For a commit, or an autocommit write, its own."""
    low: str | None = None
    high: str | None = None
    """A scan's range ``[low, high)``. None is unbounded."""
    values: dict[str, Element | list[Element]] | None = None
    versions: dict[str, int] | None = None
    """The values or versions that a scan found. A key of the range that is in neither did not exist."""
    session: Name | None = None
    turn: int | None = None
    """The session, and the transaction's number in it. Given when the transaction begins."""
    time: float | None = None
    """The time of the begin or end, by one clock for all sessions."""
    begun: float | None = None
    """When a whole transaction began; ``time`` is when it ended."""
    reads: list[list[Any]] | None = None
    """What a whole transaction read, in order: a key and its version, or a scan's low, high and versions."""
    writes: list[str] | None = None
    deletes: list[str] | None = None
    """The keys that it wrote and deleted, after its reads."""
    merges: list[str] | None = None
    """The keys that it wrote, after its reads, with writes that merged."""


@dataclass(slots=True)
class RecordedTransaction:
    """The operations of one transaction, in order, and how it ended."""

    name: Name
    operations: list[Row] = field(default_factory=list)
    outcome: Outcome = "unknown"
    version: int | None = None
    session: Name | None = None
    turn: int | None = None
    begun: float | None = None
    ended: float | None = None

    def __str__(self) -> str:
        return self.name if isinstance(self.name, str) else f"T{self.name}"


class History:
    """Transactions, ordered by name.

    >>> from lowtide.audit.history import History
    >>> history = History.of([{"tx": 1, "op": "append", "key": "x", "value": 7}, {"tx": 1, "op": "commit"}])
    >>> [transaction.outcome for transaction in history.transactions]
    ['committed']
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        gathered: dict[Name, list[Row]] = {}
        for row in rows:
            gathered.setdefault(row.tx, []).extend((row,) if row.op != "transaction" else expanded(row))
        names = sorted(gathered, key=lambda name: (isinstance(name, str), name))
        self.transactions = [recorded(name, gathered[name]) for name in names]

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> History:
        """Build a history from rows given as dictionaries, such as those of a DataFrame."""
        return cls(_converted(rows))

    @classmethod
    def load(cls, *paths: str | Path) -> History:
        """Load a history from one or more JSON Lines files."""
        return cls(row for path in paths for row in _rows_of(path))


def write_rows(path: str | Path, rows: Iterable[Row]) -> None:
    """Write rows to a file that ``History.load`` reads."""
    encoder = msgspec.json.Encoder()
    with open(path, "wb") as file:
        file.writelines(encoder.encode(row) + b"\n" for row in rows)


def _rows_of(path: str | Path) -> Iterator[Row]:
    with open(path, "rb") as file:
        yield from _decoded(file, str(path))


def _decoded(lines: Iterable[bytes], where: str) -> Iterator[Row]:
    decode = msgspec.json.Decoder(Row).decode
    for number, line in enumerate(lines, 1):
        if line.isspace():
            continue
        try:
            yield checked(decode(line))
        except (msgspec.MsgspecError, UnicodeDecodeError, UsageError) as error:
            if is_torn(line):
                return
            raise UsageError(f"{where}, line {number}: {error}") from error


def _converted(rows: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    for number, row in enumerate(rows, 1):
        try:
            yield checked(msgspec.convert(dict(row), Row))
        except (msgspec.MsgspecError, UsageError) as error:
            raise UsageError(f"row {number}: {error}") from error


def checked(row: Row) -> Row:
    """Return the row, or raise UsageError if its operation lacks a field."""
    op, value = row.op, row.value
    if op in ("read", "write", "append") and row.key is None:
        raise UsageError(f"a {op} names its key")
    if op == "read" and value is UNSET and row.version is None:
        raise UsageError("a read says what it saw: a value, null if there was none, or a version")
    if op == "scan" and row.values is None and row.versions is None:
        raise UsageError("a scan says what it found: values or versions, {} if there was nothing")
    if op == "write" and (value is UNSET or isinstance(value, list)):
        raise UsageError("a write has a value that is a number or a string, null for a delete")
    if row.merged and (op != "write" or value is None):
        raise UsageError("only a write of a value merges with an equal one")
    if op == "append" and (value is UNSET or value is None or isinstance(value, list)):
        raise UsageError("an append has a value that is a number or a string")
    if row.version is not None and row.version < 0:
        raise UsageError("versions are numbers from 0 on")
    return row


def is_torn(line: bytes) -> bool:
    """Whether the last line of a file is only the beginning of one: its writer was killed."""
    if line.endswith(b"\n"):
        return False
    try:
        msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return True
    return False


def expanded(row: Row) -> list[Row]:
    """Return the rows of the operations of a row that is a whole transaction.

    >>> from lowtide.audit.history import Row, expanded
    >>> [each.op for each in expanded(Row(tx=1, op="transaction", reads=[["x", 3]], writes=["x"], version=4))]
    ['begin', 'read', 'write', 'commit']
    """
    tx = row.tx
    rows = [Row(tx=tx, op="begin", index=0, time=row.begun, session=row.session, turn=row.turn)]
    for seen in row.reads or ():
        rows.append(_seen(tx, len(rows), seen))
    rows += [
        Row(tx=tx, op="write", index=place, key=key, value=tx) for place, key in enumerate(row.writes or (), len(rows))
    ]
    rows += [
        Row(tx=tx, op="write", index=place, key=key, value=None)
        for place, key in enumerate(row.deletes or (), len(rows))
    ]
    rows += [
        Row(tx=tx, op="write", index=place, key=key, value=tx, merged=True)
        for place, key in enumerate(row.merges or (), len(rows))
    ]
    rows.append(Row(tx=tx, op="commit", index=len(rows), version=row.version, time=row.time))
    return rows


def _seen(tx: Name, index: int, seen: list[Any]) -> Row:
    try:
        if len(seen) == 3:
            low, high, versions = seen
            return Row(tx=tx, op="scan", index=index, low=low, high=high, versions=versions)
        key, saw = seen
    except ValueError:
        raise UsageError(
            f"transaction {tx!r} reads {seen!r}: a read is a key and a version, or low, high and versions of a scan"
        ) from None
    if isinstance(saw, int):
        return checked(Row(tx=tx, op="read", index=index, key=key, version=saw))
    return Row(tx=tx, op="read", index=index, key=key, value=saw)


def recorded(name: Name, rows: list[Row]) -> RecordedTransaction:
    """Return the transaction that these rows record, or raise UsageError if they contradict each other."""
    transaction = RecordedTransaction(name)
    ended = False
    for row in _in_order(name, rows):
        op = row.op
        if ended:
            raise UsageError(f"transaction {name!r} continues after its end, with a {op}")
        if op == "begin":
            if transaction.operations:
                raise UsageError(f"transaction {name!r} begins after its first operation")
            transaction.session, transaction.turn, transaction.begun = row.session, row.turn, row.time
        elif op == "commit" or op == "abort":
            ended = True
            transaction.outcome = "committed" if op == "commit" else "aborted"
            transaction.version, transaction.ended = row.version, row.time
        else:
            transaction.operations.append(row)
    if transaction.begun is not None and transaction.ended is not None and transaction.ended < transaction.begun:
        raise UsageError(f"transaction {name!r} ends before it begins")
    return transaction


def _in_order(name: Name, rows: list[Row]) -> list[Row]:
    indexes = {row.index for row in rows}
    if None in indexes:
        if len(indexes) > 1:
            raise UsageError(f"some rows of transaction {name!r} have an index, and some have none")
        return rows
    if len(indexes) < len(rows):
        raise UsageError(f"two rows of transaction {name!r} have the same index")
    return sorted(rows, key=_index)


def _index(row: Row) -> int:
    return row.index or 0
