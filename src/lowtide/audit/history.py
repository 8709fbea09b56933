"""A recorded history: what transactions did and saw, a flat row for each operation.

Rows are kept in a file of JSON Lines, one JSON object to a line; docs/audit.md describes the fields. Their order does
not matter as long as each has an ``index``, its place in its transaction; without one, the rows of a transaction are in
the order of the file.
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
"""What a transaction or a session is called."""
Element = int | str
"""What is written or appended; unique among the writes of its key, unless reads name versions."""
Value = Element | list[Element] | None
"""What is read: the elements of a list, a value, or None where there is nothing."""
Outcome = Literal["committed", "aborted", "unknown"]

WRITES = ("write", "append")


class Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One operation of one transaction."""

    tx: Name
    op: Literal["begin", "read", "write", "append", "scan", "commit", "abort"]
    index: int | None = None
    key: str | None = None
    value: Value | UnsetType = UNSET
    """What was read, written (None: deleted) or appended."""
    version: int | None = None
    """The commit that wrote what was read, 0 for none; of a write that was committed at once, or of a commit, its
    own."""
    low: str | None = None
    high: str | None = None
    """A scan's range: from ``low`` on, up to but without ``high``; None for no limit."""
    values: dict[str, Element | list[Element]] | None = None
    versions: dict[str, int] | None = None
    """What a scan found: values, or versions. A key of the range that is in neither was not there."""
    session: Name | None = None
    turn: int | None = None
    """Whose transaction it is, and which of that session's; said at the beginning."""
    time: float | None = None
    """When it began or ended, by one clock for all sessions."""


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
    """Transactions, in the order of their names.

    >>> from lowtide.audit.history import History
    >>> history = History.of([{"tx": 1, "op": "append", "key": "x", "value": 7}, {"tx": 1, "op": "commit"}])
    >>> [transaction.outcome for transaction in history.transactions]
    ['committed']
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        gathered: dict[Name, list[Row]] = {}
        for row in rows:
            gathered.setdefault(row.tx, []).append(row)
        names = sorted(gathered, key=lambda name: (isinstance(name, str), name))
        self.transactions = [_transaction(name, gathered[name]) for name in names]

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> History:
        """A history of rows that are dictionaries, as those of a data frame."""
        return cls(_converted(rows))

    @classmethod
    def load(cls, *paths: str | Path) -> History:
        """A history from a file of JSON Lines, or from several."""
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
            yield _checked(decode(line))
        except (msgspec.MsgspecError, UnicodeDecodeError, UsageError) as error:
            raise UsageError(f"{where}, line {number}: {error}") from error


def _converted(rows: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    for number, row in enumerate(rows, 1):
        try:
            yield _checked(msgspec.convert(dict(row), Row))
        except (msgspec.MsgspecError, UsageError) as error:
            raise UsageError(f"row {number}: {error}") from error


def _checked(row: Row) -> Row:
    """The row, if its operation has what it needs."""
    op, value = row.op, row.value
    if op in ("read", "write", "append") and row.key is None:
        raise UsageError(f"a {op} names its key")
    if op == "read" and value is UNSET and row.version is None:
        raise UsageError("a read says what it saw: a value, null if there was none, or a version")
    if op == "scan" and row.values is None and row.versions is None:
        raise UsageError("a scan says what it found: values or versions, {} if there was nothing")
    if op == "write" and (value is UNSET or isinstance(value, list)):
        raise UsageError("a write has a value that is a number or a string, null for a delete")
    if op == "append" and (value is UNSET or value is None or isinstance(value, list)):
        raise UsageError("an append has a value that is a number or a string")
    if row.version is not None and row.version < 0:
        raise UsageError("versions are numbers from 0 on")
    return row


def _transaction(name: Name, rows: list[Row]) -> RecordedTransaction:
    transaction = RecordedTransaction(name)
    ended = False
    for row in _in_order(name, rows):
        op = row.op
        if ended:
            raise UsageError(f"transaction {name!r} goes on after its end, with a {op}")
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
