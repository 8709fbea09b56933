"""Checks the base: rows, tombstones and history, against each other and against the boundary."""

from __future__ import annotations

import msgspec

from lowtide.engine.base.codec import decode_ts, encode_ts, is_tombstone, row_ts
from lowtide.engine.base.consumers import ConsumerRow
from lowtide.engine.base.direct import FILLED
from lowtide.engine.base.history import Interval, decode_interval
from lowtide.engine.base.pin_table import PinRow
from lowtide.engine.base.tables import Tables
from lowtide.engine.garbage.living import Living
from lowtide.engine.types import KEYSPACE_PREFIX
from lowtide.system.messages import UNDECODABLE
from lowtide.upkeep.report import Examination

_TS = 8
_INTERVAL = 16


def named(names: dict[bytes, str], full_key: bytes) -> str:
    """Describe a key."""
    keyspace = names.get(full_key[:KEYSPACE_PREFIX], f"number {full_key[:KEYSPACE_PREFIX].hex()}")
    return f"keyspace {keyspace!r}, key {full_key[KEYSPACE_PREFIX:]!r}"


def check_meta(tables: Tables, store_id: bytes, check: Examination) -> None:
    """Check the base's identity, its boundary, and that keyspace numbers are unique."""
    check.examined += 2
    if tables.store_id != store_id:
        check.problem("the base belongs to another store", tables.directory)
    value = tables.meta_value(b"boundary")
    if value is None or len(value) != _TS:
        check.problem("the base has lost its boundary, so it is unknown what it holds", tables.directory)
    seen: dict[bytes, bytes] = {}
    for name, prefix in tables.txn.cursor(tables.keyspaces):
        check.examined += 1
        where = f"{tables.directory}, keyspace {name!r}"
        if len(prefix) != KEYSPACE_PREFIX or not any(prefix):
            check.problem(f"its number is {prefix!r}", where)
        elif seen.setdefault(prefix, name) != name:
            check.problem(f"it has the number of keyspace {seen[prefix]!r}", where)


def check_rows(tables: Tables, names: dict[bytes, str], rows: Examination, tombstones: Examination) -> None:
    """Check every row, and every tombstone row against the table of tombstones."""
    boundary, first = tables.boundary, _first_ts(tables)
    for key, row in tables.txn.cursor(tables.rows):
        rows.examined += 1
        ts = row_ts(row)
        if key[:KEYSPACE_PREFIX] not in names:
            rows.problem("the row is in a keyspace that has no name", named(names, key))
        if len(row) < _TS:
            rows.problem(f"the row has {len(row)} bytes, no timestamp", named(names, key))
            continue
        if not first <= ts <= boundary or (is_tombstone(row) and not ts):
            rows.problem(f"the row is of commit {ts}, but the base ends at {boundary}", named(names, key))
        if is_tombstone(row):
            tombstones.examined += 1
            if len(row) != _TS:
                tombstones.problem("the tombstone has a value", named(names, key))
            if tables.txn.get(encode_ts(ts) + key, db=tables.tombstones) is None:
                tombstones.problem(
                    f"the tombstone of commit {ts} is not in the table of tombstones, so it is never removed",
                    named(names, key),
                )


def _first_ts(tables: Tables) -> int:
    """The smallest timestamp that a row may have: 0 once a bulk load has put rows into the base."""
    return 0 if tables.meta_value(FILLED) is not None else 1


def check_tombstones(tables: Tables, names: dict[bytes, str], check: Examination) -> None:
    """Check every entry of the table against the rows. An entry whose key has changed, or has no row, is garbage."""
    waiting = 0
    for entry in tables.txn.cursor(tables.tombstones).iternext(keys=True, values=False):
        check.examined += 1
        ts, key = decode_ts(entry), entry[_TS:]
        row = tables.txn.get(key, db=tables.rows)
        if not 0 < ts <= tables.boundary:
            check.problem(f"an entry is of commit {ts}, but the base ends at {tables.boundary}", named(names, key))
        elif row is not None and (row_ts(row) < ts or (row_ts(row) == ts and not is_tombstone(row))):
            check.problem(f"deleted by commit {ts}, but the row of commit {row_ts(row)} is there", named(names, key))
        elif row is None or row_ts(row) != ts:
            waiting += 1
    if waiting:
        check.note(f"{waiting} entries have no tombstone any more and wait for the sweep")


def check_history(
    tables: Tables, names: dict[bytes, str], pairs: Examination, intervals: Examination, living: Living
) -> None:
    """Check the rows and the index of the history against each other, and each key's intervals against its row."""
    unseen = _check_history_rows(tables, names, pairs, living)
    if unseen:
        intervals.note(f"{unseen} versions are no longer seen by any snapshot and wait for the sweep")
    before: Interval | None = None
    first = _first_ts(tables)
    for key, value in tables.txn.cursor(tables.history.index):
        pairs.examined += 1
        intervals.examined += 1
        where = named(names, key)
        if len(value) != _INTERVAL:
            pairs.problem(f"an entry of the history's index has {len(value)} bytes", where)
            continue
        each = Interval(decode_ts(value[_TS:]), decode_ts(value), key)
        words = f"the version of commits {each.begin} to {each.end}"
        if tables.txn.get(each.row_key, db=tables.history.rows) is None:
            pairs.problem(f"{words} is in the history's index only", where)
        if not first <= each.begin < each.end <= tables.boundary:
            intervals.problem(f"{words} is not possible: the base ends at {tables.boundary}", where)
        if before is not None and before.full_key == key and each.begin < before.end:
            intervals.problem(f"{words} overlaps the one of commits {before.begin} to {before.end}", where)
        row = tables.txn.get(key, db=tables.rows)
        if row is not None and len(row) >= _TS and row_ts(row) < each.end:
            intervals.problem(f"{words} ends after its key's row, of commit {row_ts(row)}, began", where)
        before = each


def _check_history_rows(tables: Tables, names: dict[bytes, str], pairs: Examination, living: Living) -> int:
    """Check that every row of the history has an index entry. Returns the number of rows that no snapshot sees."""
    index = tables.txn.cursor(tables.history.index)
    unseen = 0
    for row_key in tables.txn.cursor(tables.history.rows).iternext(keys=True, values=False):
        pairs.examined += 1
        each = decode_interval(row_key)
        words = f"the version of commits {each.begin} to {each.end}"
        if each.full_key[:KEYSPACE_PREFIX] not in names:
            pairs.problem(f"{words} is in a keyspace that has no name", named(names, each.full_key))
        if not index.set_key_dup(each.full_key, each.index_value):
            pairs.problem(f"{words} is not in the history's index", named(names, each.full_key))
        unseen += not living.of(each.full_key).needs(each.begin, each.end)
    return unseen


def check_pins(tables: Tables, names: dict[bytes, str], check: Examination) -> list[PinRow]:
    """Check that every pin is at or below the boundary and its keyspaces exist. Returns the readable pins."""
    found = []
    for name, data in tables.txn.cursor(tables.pins.table) if tables.pins is not None else ():
        check.examined += 1
        where = f"pin {name.decode(errors='replace')!r}"
        try:
            row = msgspec.msgpack.decode(data, type=PinRow)
        except UNDECODABLE as error:
            check.problem(f"it cannot be decoded: {error}", where)
            continue
        found.append(row)
        if not 0 <= row.ts <= tables.boundary:
            check.problem(f"it is at commit {row.ts}, but the base ends at {tables.boundary}", where)
        for prefix in row.prefixes or ():
            if prefix not in names:
                check.problem(f"it holds the keyspace with the number {prefix.hex()}, which has no name", where)
    return found


def check_consumers(tables: Tables, last_commit: int, check: Examination) -> None:
    """Check that no consumer of the change feed has acknowledged a commit that does not exist."""
    for name, data in tables.txn.cursor(tables.consumers.table) if tables.consumers is not None else ():
        check.examined += 1
        where = f"consumer {name.decode(errors='replace')!r}"
        try:
            row = msgspec.msgpack.decode(data, type=ConsumerRow)
        except UNDECODABLE as error:
            check.problem(f"it cannot be decoded: {error}", where)
            continue
        if not 0 <= row.position <= last_commit:
            check.problem(f"it has acknowledged commit {row.position}, but {last_commit} is the last one", where)
