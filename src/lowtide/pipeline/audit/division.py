"""The first step of the audit: rows of a history to headers, shares and scans.

The rows of a transaction mostly stand together. Such a run is divided where it is read, without a shuffle. What is
not whole there is brought together by the name of its transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from lowtide.audit.history import Name, Row, expanded, recorded
from lowtide.errors import UsageError
from lowtide.pipeline.audit.batches import (
    ERROR,
    HEADER,
    LINES,
    SCAN,
    SHARE,
    Batches,
    TaskOutput,
    by,
    each,
    pausing_collector,
)
from lowtide.pipeline.audit.records import RangeRead, TransactionHeader, label, packed
from lowtide.pipeline.audit.rows import in_file_order, row_of
from lowtide.pipeline.audit.sketch import traits_of
from lowtide.pipeline.audit.transactions import divided, position

_Line = tuple[str, int, int, int]
"""The text of a row, and where it was: the file, the block of it, and a number that grows."""
_Lines = list[_Line]
_pack_lines = msgspec.msgpack.Encoder().encode
_unpack_lines = msgspec.msgpack.Decoder(_Lines).decode


@pausing_collector
def divide_runs(batches: Batches) -> Batches:
    """Rows of a history as they are in their files: runs that are whole to headers, shares and scans; the others to
    ``LINES`` with the name of their transaction."""
    output = TaskOutput()
    run: list[tuple[Row, _Line]] = []
    for line in each(batches, "line file block number"):
        try:
            row = row_of(line[0])
        except UsageError as error:
            output.add(ERROR, name=str(error))
            continue
        if row is None:
            continue
        if run and run[-1][0].tx != row.tx:
            _put_run(output, run)
            run = []
            yield from output.full()
        run.append((row, line))
    if run:
        _put_run(output, run)
    yield from output.rest()


def _put_run(output: TaskOutput, run: list[tuple[Row, _Line]]) -> None:
    rows = [row for row, _ in run]
    name = rows[0].tx
    if not _is_whole(rows):
        output.add(LINES, name=label(name), payload=_pack_lines([line for _, line in run]))
        return
    try:
        _put_transaction(output, name, rows)
    except UsageError as error:
        output.add(ERROR, name=str(error))


def _is_whole(rows: list[Row]) -> bool:
    """Whether these can be all rows of a transaction: nothing is missing before them, and it ends with them."""
    last = rows[-1].op
    if last == "transaction":
        return len(rows) == 1
    if last != "commit" and last != "abort":
        return False
    if rows[0].index is None:
        return rows[0].op == "begin"
    return all(row.index == number for number, row in enumerate(rows))


@pausing_collector
def divide_lines(batches: Batches) -> Batches:
    """``LINES``, sorted by the name of their transaction, to headers, shares and scans."""
    output = TaskOutput()
    for _, payloads in by("name", batches, "payload"):
        yield from _divide(output, (line for (payload,) in payloads for line in _unpack_lines(payload)))
    yield from output.rest()


@pausing_collector
def divide(batches: Batches) -> Batches:
    """Rows of a history, sorted by the text of their transaction, to headers, shares and scans."""
    output = TaskOutput()
    for _, lines in by("tx", batches, "line file block number"):
        yield from _divide(output, lines)
    yield from output.rest()


def _divide(output: TaskOutput, lines: Iterable[_Line]) -> Batches:
    try:
        for name, rows in _by_name(lines):
            _put_transaction(output, name, rows)
    except UsageError as error:
        output.add(ERROR, name=str(error))
    yield from output.full()


def _by_name(lines: Iterable[_Line]) -> Iterator[tuple[Name, list[Row]]]:
    """Transactions whose names are written alike: 1 and "1" are two."""
    numbered: dict[Name, list[tuple[Row, int, int, int]]] = {}
    for line, file, block, number in lines:
        row = row_of(line)
        if row is not None:
            numbered.setdefault(row.tx, []).append((row, file, block, number))
    return ((name, in_file_order(rows)) for name, rows in numbered.items())


def _put_transaction(output: TaskOutput, name: Name, rows: list[Row]) -> None:
    if any(row.op == "transaction" for row in rows):
        rows = [part for row in rows for part in ((row,) if row.op != "transaction" else expanded(row))]
    header, shares, scans = divided(recorded(name, rows))
    facts, text = header.facts, label(name)
    by_time, by_version, by_name = position(facts, "time"), position(facts, "version"), position(facts, "name")
    _put_header(output, header, text, (by_time, by_version, by_name))
    for key, share in shares.items():
        traits, seen = traits_of(key, share)
        output.add(
            SHARE,
            name=text,
            key=key,
            at=by_time,
            other_at=by_version,
            begin=by_name,
            kind=facts.outcome,
            number=seen,
            size=traits,
            payload=packed(share),
        )
    for scan in scans:
        _put_scan(output, scan, text, (by_time, by_version, by_name))


_Positions = tuple[float | None, float | None, float | None]
"""By time, by version, by name."""


def _put_header(output: TaskOutput, header: TransactionHeader, text: str, positions: _Positions) -> None:
    facts = header.facts
    output.add(
        HEADER,
        name=text,
        key=None if header.session is None or header.turn is None else label(header.session),
        at=positions[0],
        other_at=positions[1],
        begin=positions[2],
        end=None if facts.begun is None or facts.ended is None else facts.ended,
        kind=facts.outcome,
        number=header.turn,
        size=header.operations,
        payload=packed(header),
    )


def _put_scan(output: TaskOutput, scan: RangeRead, text: str, positions: _Positions) -> None:
    output.add(
        SCAN,
        name=text,
        key=scan.low or "",
        high=scan.high,
        at=positions[0],
        other_at=positions[1],
        begin=positions[2],
        kind=scan.facts.outcome,
        payload=packed(scan),
    )
