"""All tables of a base in one LMDB read transaction, for upkeep. The base may be open, or a file.

A file that no process writes is opened read-only and without LMDB's lock file, so no file is created beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lmdb

from lowtide.engine.base.codec import decode_ts
from lowtide.engine.base.consumers import ConsumerTable
from lowtide.engine.base.environment import Base
from lowtide.engine.base.history import HistoryTable
from lowtide.engine.base.mapping import missing_bytes
from lowtide.engine.base.pin_table import PinTable
from lowtide.engine.base.types import TableHandle, Txn
from lowtide.errors import CorruptionError, UsageError

_TABLES = ("rows", "history", "history-index", "tombstones", "keyspaces", "meta")
_SINCE_FORMAT_2 = ("pins", "consumers")


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of a base, and one LMDB read transaction to read them in, so that they do not change."""

    directory: Path
    env: lmdb.Environment
    txn: Txn
    rows: TableHandle
    history: HistoryTable
    tombstones: TableHandle
    keyspaces: TableHandle
    meta: TableHandle
    pins: PinTable | None
    consumers: ConsumerTable | None
    """None in a base of format 1, which has neither."""

    def meta_value(self, name: bytes) -> bytes | None:
        return self.txn.get(name, db=self.meta)

    @property
    def boundary(self) -> int:
        """The boundary; 0 if the base has lost it."""
        value = self.meta_value(b"boundary")
        return decode_ts(value) if value is not None else 0

    @property
    def store_id(self) -> bytes | None:
        return self.meta_value(b"store")

    def names(self) -> dict[bytes, str]:
        """The keyspaces, prefix to name."""
        return {prefix: name.decode(errors="replace") for name, prefix in self.txn.cursor(self.keyspaces)}

    def named(self) -> dict[str, TableHandle]:
        """The tables by their names in file-format.md."""
        found = {
            "rows": self.rows,
            "history": self.history.rows,
            "history-index": self.history.index,
            "tombstones": self.tombstones,
            "keyspaces": self.keyspaces,
            "meta": self.meta,
        }
        if self.pins is not None:
            found["pins"] = self.pins.table
        if self.consumers is not None:
            found["consumers"] = self.consumers.table
        return found


@contextmanager
def open_tables(base: Base) -> Iterator[Tables]:
    """The tables of an open base. Reads and writes continue."""
    with base.reading_long() as txn:
        yield Tables(
            directory=base.directory,
            env=base.env,
            txn=txn,
            rows=base.rows,
            history=base.history,
            tombstones=base.tombstones,
            keyspaces=base.keyspaces,
            meta=base.meta,
            pins=base.pins,
            consumers=base.consumers,
        )


@contextmanager
def read_tables(data: Path) -> Iterator[Tables]:
    """The tables in the file ``data`` of a base that no process writes to. Creates no lock file."""
    if not data.is_file() or not data.stat().st_size:
        raise CorruptionError(data, "the base is missing; what was committed before the last checkpoint is lost")
    try:
        env = lmdb.open(str(data), subdir=False, readonly=True, lock=False, create=False, max_dbs=16)
    except lmdb.Error as error:
        if "already open" in str(error):
            raise UsageError(f"{data} is open in this process; close it first") from error
        raise CorruptionError(data, f"this is not an LMDB file that can be opened: {error}") from error
    try:
        if short := missing_bytes(env, data):
            raise CorruptionError(data, f"the last {short} bytes are missing; if it was truncated, restore a backup")
        tables = {name: _open_table(env, name) for name in (*_TABLES, *_SINCE_FORMAT_2)}
        missing = [name for name in _TABLES if tables[name] is None]
        if missing:
            raise CorruptionError(data, f"this is not the base of a Lowtide store: it has no table {missing[0]!r}")
        rows, history, index, tombstones, keyspaces, meta, pins, consumers = tables.values()
        with env.begin() as txn:
            yield Tables(
                directory=data.parent,
                env=env,
                txn=txn,
                rows=rows,
                history=HistoryTable(history, index),
                tombstones=tombstones,
                keyspaces=keyspaces,
                meta=meta,
                pins=PinTable(pins, data.parent) if pins is not None else None,
                consumers=ConsumerTable(consumers, data.parent) if consumers is not None else None,
            )
    finally:
        env.close()


def _open_table(env: lmdb.Environment, name: str) -> Any:
    dupes = name == "history-index"
    try:
        return env.open_db(name.encode(), create=False, dupsort=dupes)
    except lmdb.NotFoundError:
        return None
