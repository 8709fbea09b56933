"""The base: one LMDB environment with a few tables.

    rows        full key -> row (see codec)
    history     two tables, see history
    tombstones  ts full_key -> nothing: the tombstone rows, in the order in which they may be dropped
    keyspaces   name -> prefix of its full keys
    pins        see pins
    consumers   see consumers
    meta        "boundary" -> ts; "store" -> id of the store; "unpinned", see pins; "numbers" -> the last number of a
                keyspace that was reserved for joined processes; "filled", see direct

Who writes: the maintenance thread, recovery, a bulk load (see direct), a helper process and, for pins and consumers
only, any process. LMDB serializes their write transactions. Readers take no lock. An LMDB read transaction lasts for
one lookup or one stretch of a scan, never as long as a snapshot. See lmdb_file for transactions, locks and the growth
of the map.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from struct import error as StructError

import lmdb

from lowtide.engine.base.chunks import keys_among, keys_under, stretch, visible_entries
from lowtide.engine.base.codec import decode_ts, encode_ts, horizon, row_ts
from lowtide.engine.base.consumers import ConsumerTable
from lowtide.engine.base.counting import count_rows
from lowtide.engine.base.forks import note_opened
from lowtide.engine.base.history import HistoryTable, open_index
from lowtide.engine.base.leaf_file import LeafFile, leaf_file
from lowtide.engine.base.lmdb_file import LmdbFile
from lowtide.engine.base.mapping import open_fixed, open_largest
from lowtide.engine.base.names import decode_keyspaces
from lowtide.engine.base.pages import PageFile
from lowtide.engine.base.pin_table import PinTable
from lowtide.engine.base.place import DATA, BasePlace, HeldDirectory, opened_in
from lowtide.engine.base.soundness import check_environment
from lowtide.engine.base.types import TableHandle
from lowtide.engine.base.visible import VisibleRows
from lowtide.errors import CorruptionError, Error

_BOUNDARY = b"boundary"
_NUMBERS = b"numbers"
_STORE = b"store"


class Base(LmdbFile):
    """An open base. Any thread may read; see the module for who writes. A ``fixed`` base is one that no process can
    write to; see media."""

    def __init__(
        self, directory: Path, map_size: int, *, create: bool = False, may_grow: bool = True, fixed: bool = False
    ) -> None:
        self.fixed = fixed
        self.directory = directory
        self.leaves: LeafFile | None = None
        """The pages of the file, if scans read those."""
        self.strays: list[lmdb.Environment] = []
        """Environments that are being opened; changed by the thread that holds ``writing``."""
        if create:
            directory.mkdir(mode=0o700, exist_ok=True)
        env, place = self._opened(map_size, create=create)
        super().__init__(directory, env, place, may_grow=may_grow)
        self.strays.clear()
        try:
            self.open_tables(create)
        except (lmdb.NotFoundError, lmdb.CorruptedError, lmdb.PageNotFoundError) as error:
            env.close()
            raise CorruptionError(directory, f"this is not the base of a Lowtide store: {error}") from error
        except CorruptionError:
            env.close()
            raise
        note_opened(self)
        self._read_leaves()
        self.history_below = self.read_boundary() or 0
        """Snapshots below this may need the history. It is raised *before* the LMDB commit that makes it true: a reader
        that sees that commit sees this, and reading the history needlessly only costs time."""

    def open_tables(self, create: bool) -> None:
        """Open the tables in one write transaction: py-lmdb forgets tables that were opened in a read transaction. The
        table objects of an earlier environment stay, and get new handles: a read that is retried may hold a method of
        one."""
        with self.env.begin(write=True) if not self.fixed else contextlib.nullcontext() as txn:

            def table(name: bytes) -> TableHandle:
                return self.env.open_db(name, txn=txn, create=create)

            self.rows = table(b"rows")
            history, index = table(b"history"), open_index(self.env, txn, create)
            self.tombstones = table(b"tombstones")
            self.keyspaces = table(b"keyspaces")
            pins, consumers = table(b"pins"), table(b"consumers")
            self.meta = table(b"meta")
            self._store = txn.get(_STORE, db=self.meta) if txn is not None else None
        if not hasattr(self, "consumers"):
            self.history = HistoryTable(history, index)
            self.pins = PinTable(pins, self.directory)
            self.consumers = ConsumerTable(consumers, self.directory)
        self.history.rows, self.history.index = history, index
        self.pins.table, self.consumers.table = pins, consumers

    def is_of(self, data: Path) -> bool:
        """Whether this is open on the file ``data``."""
        return os.path.samestat(self.place.file, data.stat())

    @property
    def file(self) -> os.stat_result:
        """The status of the open file, which need not be the file that now has its name."""
        return self.place.file

    def pages(self, txn: lmdb.Transaction[bytes]) -> PageFile:
        """The pages of the file, as the transaction sees them."""
        return PageFile(self.directory / DATA, txn.id(), self.place.file)

    def take_over(self) -> None:
        """Turn a base that was only read into the owner's. From now on only old snapshots need the history."""
        self.history_below = self.read_boundary() or 0

    # Reading

    def counted(self, low: bytes, high: bytes | None, ts: int, keys: list[bytes]) -> tuple[int, set[bytes]] | None:
        """How many keys a range has at ``ts``, and which of ``keys`` are present; see ``counting``."""
        return self.read(lambda txn: count_rows(self, txn, low, high, ts=ts, keys=keys))

    def row(self, full_key: bytes) -> bytes | None:
        """The row of ``full_key``, which may be newer than the reader's snapshot, or a tombstone.

        The LMDB transaction begins after the caller has read the chains. A version that was no longer in them was
        committed to LMDB before it was dropped from them, so it is found here.
        """
        try:
            txn = self._begin(self.rows)
            row = txn.get(full_key)
            txn.abort()
            return row
        except lmdb.Error as error:
            return self._again(error, lambda: self.row(full_key), full_key)

    def first(self, low: bytes, high: bytes, ts: int, reverse: bool) -> tuple[bool, tuple[bytes, bytes] | None]:
        """The first entry with ``low <= key < high`` at ``ts``, or the last one in reverse, in one step, if the first
        row decides it. Returns False if it does not, because it is newer or a tombstone, or because the history may
        have an earlier key: the caller must then scan."""
        try:
            with self._begin(self.rows) as txn:
                cursor = txn.cursor()
                if reverse:
                    found = cursor.prev() if cursor.set_range(high) else cursor.last()
                else:
                    found = cursor.set_range(low)
                entry = cursor.item() if found else None
        except lmdb.Error as error:
            return self._again(error, lambda: self.first(low, high, ts, reverse), low)
        if ts < self.history_below:
            return False, None
        if entry is None or not low <= entry[0] < high:
            return True, None
        return (True, (entry[0], entry[1][8:])) if entry[1] < horizon(ts) else (False, None)

    def rows_of(self, full_keys: list[bytes]) -> dict[bytes, bytes]:
        """The rows of the keys that have one, read in one transaction."""
        return self.read(lambda txn: dict(txn.cursor(self.rows).getmulti(full_keys)))

    def present(self, full_keys: list[bytes], ts: int) -> Collection[bytes] | None:
        """The keys among the ascending ``full_keys`` that have a value at ``ts``, perhaps with others. None if rows
        must be read to answer this, because there are tombstones or the history may have some."""
        try:
            with self._begin() as txn:  # before ``history_below`` is read, see ``chunk``: no row is newer than that
                if ts < self.history_below or txn.stat(self.tombstones)["entries"]:
                    return None
                found = keys_among(txn.cursor(self.rows), full_keys)
        except lmdb.Error as error:
            return self._again(error, lambda: self.present(full_keys, ts), full_keys[0])
        return full_keys if found == full_keys else set(found)

    def read_history(self, full_key: bytes, ts: int) -> bytes | None:
        """The superseded value that ``full_key`` had at ``ts``. This may run in a later LMDB transaction than the one
        that found the row too new or absent: what a live snapshot sees stays in the history."""
        if ts >= self.history_below:
            return None
        try:
            with self._begin() as txn:
                return self.history.lookup(txn, full_key, ts)
        except lmdb.Error as error:
            return self._again(error, lambda: self.read_history(full_key, ts), full_key)

    def has_history(self, ts: int) -> bool:
        """Whether ``read_history`` may find something at ``ts``."""
        return ts < self.history_below

    def history_of(self, full_key: bytes) -> list[tuple[int, bytes]]:
        """All superseded versions of a key that are kept, newest first: the commit that wrote each, and its value."""
        return self.read(lambda txn: self.history.versions(txn, full_key))

    def changed_at(self, full_key: bytes) -> int:
        """The timestamp of the last change of ``full_key`` in the base; 0 if there is none."""
        row = self.row(full_key)
        return row_ts(row) if row is not None else 0

    def chunk(
        self, low: bytes, high: bytes | None, ts: int, limit: int, reverse: bool, strip: int
    ) -> tuple[list[tuple[bytes, bytes]], bytes | None]:
        """The entries of a stretch of keys that are visible at ``ts``, in scan order, and the last key read.

        That key is None when the range is exhausted. ``strip`` bytes are removed from the entries' keys.
        """
        try:
            with self._begin() as txn:  # before ``history_below`` is read, which is raised before a commit
                if ts < self.history_below:
                    return self.at(ts, True).entries(txn, low, high, limit=limit, reverse=reverse, strip=strip)
                if self.leaves is not None and not reverse:
                    return self.leaves.entries(txn, low, high, limit=limit, ts=ts, strip=strip)
                entries, more = stretch(txn, self.rows, low, high, limit=limit, reverse=reverse)
            return visible_entries(entries, horizon(ts), strip), entries[-1][0] if more else None
        except lmdb.Error as error:
            return self._again(error, lambda: self.chunk(low, high, ts, limit=limit, reverse=reverse, strip=strip), low)

    def keys_under(self, prefixes: Sequence[bytes], ts: int, *, most: int, strip: int) -> list[list[bytes] | None]:
        """For each prefix, the keys that begin with it and are visible at ``ts``, without their first ``strip`` bytes.
        None means that the prefix must be scanned: it has ``most`` keys or more, or hidden ones, or the history has
        some."""
        try:
            with self._begin(self.rows) as txn:  # before ``history_below`` is read, see ``chunk``
                if ts < self.history_below:
                    return [None] * len(prefixes)
                return keys_under(txn.cursor(), prefixes, horizon(ts), most=most, strip=strip)
        except lmdb.Error as error:
            return self._again(error, lambda: self.keys_under(prefixes, ts, most=most, strip=strip), b"")

    def values(self, low: bytes, high: bytes | None, ts: int, limit: int) -> tuple[list[bytes], bytes | None]:
        """The same as ``chunk``, but only the values, and only forwards."""
        return self.read(lambda txn: self.at(ts, ts < self.history_below).values(txn, low, high, limit))

    def at(self, ts: int, old: bool) -> VisibleRows:
        """The tables as of ``ts``; ``old`` if that may be below the boundary."""
        return VisibleRows(self.rows, self.history, ts, old, self.leaves)

    def changed_keys(self, low: bytes, high: bytes | None, since: int, limit: int) -> tuple[list[bytes], bytes | None]:
        """The keys of a stretch that changed after ``since``, including deletions, and the last key that was read."""
        try:
            with self._begin(self.rows) as txn:
                entries, more = stretch(txn, self.rows, low, high, limit=limit, reverse=False)
        except lmdb.Error as error:
            return self._again(error, lambda: self.changed_keys(low, high, since, limit), low)
        return [key for key, row in entries if row_ts(row) > since], entries[-1][0] if more else None

    def count_history(self) -> int:
        """How many superseded versions are kept."""
        return self.read(self.history.count)

    def history_sizes(self, after: bytes, limit: int) -> tuple[list[tuple[int, int, bytes, int]], bytes | None]:
        """A stretch of the superseded versions without their values, see ``HistoryTable.sizes``."""
        try:
            with self._begin(buffers=True) as txn:
                return self.history.sizes(txn, after, limit)
        except StructError as error:
            raise CorruptionError(self.directory, f"a row of the history has no interval: {error}") from error
        except lmdb.Error as error:
            return self._again(error, lambda: self.history_sizes(after, limit), b"")

    def read_boundary(self) -> int | None:
        """The commit up to which the base holds the log; None in a base that was never written."""
        return self.read(self.boundary_in)

    def boundary_in(self, txn: lmdb.Transaction[bytes]) -> int | None:
        value = txn.get(_BOUNDARY, db=self.meta)
        return decode_ts(value) if value is not None else None

    # Writing

    def put_boundary(self, txn: lmdb.Transaction[bytes], boundary: int) -> None:
        txn.put(_BOUNDARY, encode_ts(boundary), db=self.meta)

    def store_id(self) -> bytes | None:
        return self.read(lambda txn: txn.get(_STORE, db=self.meta))

    def initialise(self, store_id: bytes) -> None:
        """Initialise an empty base for this store."""

        def change(txn: lmdb.Transaction[bytes]) -> None:
            txn.put(_STORE, store_id, db=self.meta)
            self.put_boundary(txn, 0)

        self.write(change)
        self._store = store_id

    def reserved_number(self) -> int:
        """The last keyspace number that was reserved for joined processes."""
        number = self.read(lambda txn: txn.get(_NUMBERS, db=self.meta))
        return int.from_bytes(number or b"")

    def reserve_numbers(self, upto: int) -> None:
        """Keep later owners from assigning the keyspace numbers up to ``upto``."""
        self.write(lambda txn: txn.put(_NUMBERS, upto.to_bytes(4), db=self.meta))

    def saved_keyspaces(self) -> list[tuple[str, bytes]]:
        """The keyspaces with their prefixes."""
        return self.read(self._keyspaces_in)

    def named_upto(self) -> tuple[int, list[tuple[str, bytes]]]:
        """The boundary, and the keyspaces of the commits up to it."""
        return self.read(lambda txn: (self.boundary_in(txn) or 0, self._keyspaces_in(txn)))

    def _keyspaces_in(self, txn: lmdb.Transaction[bytes]) -> list[tuple[str, bytes]]:
        return decode_keyspaces(self.directory, txn.cursor(self.keyspaces))

    def put_keyspaces(self, txn: lmdb.Transaction[bytes], names: dict[str, bytes]) -> None:
        for name, prefix in names.items():
            txn.put(name.encode(), prefix, db=self.keyspaces)

    def open_again(self, map_size: int) -> None:
        """Reopen environment and tables while readers are kept out."""
        self.leaves = None
        self.env.close()
        self.close_strays()
        self._adopt(*self._opened(map_size))
        self._read_leaves()

    def _adopt(self, env: lmdb.Environment, place: BasePlace) -> None:
        """Continue with ``env``."""
        self.env, self.place = env, place
        self.open_tables(False)
        self.moved = place.moved  # last: from here on, reads look for the next exchange
        self.strays.clear()

    def _follow(self) -> None:
        """Continue with the base that has replaced this one. The caller holds ``writing``. Reads that are interrupted
        are retried, see ``_again``."""
        with self.steady, self.keep_readers_out():
            old = self.env
            self.close_strays()
            try:
                env, place = self._opened(self.map_size)
                if _store_in(env) != self._store:
                    raise Error(f"{self.directory} was replaced by that of another store; close this one and reopen it")
                self.leaves = None
                self._adopt(env, place)
            except BaseException as error:
                if self.env is old:
                    self.close_strays()
                else:
                    self._adopt(self.env, self.place)  # again: environment and tables belong together
                if isinstance(error, lmdb.Error):
                    raise Error(f"LMDB could not follow {self.directory} after a compaction: {error}") from error
                raise
            finally:
                if self.env is not old:
                    old.close()
                    self._read_leaves()

    def _read_leaves(self) -> None:
        """Let scans read the pages of the file that is open now. Readers are kept out, and the environment of an
        earlier file is closed: no transaction of the earlier file may read pages of this one."""
        self.leaves = leaf_file(self.directory / DATA, self.place.file, int(self.env.stat()["psize"]))

    def _opened(self, map_size: int, *, create: bool = False) -> tuple[lmdb.Environment, BasePlace]:
        """Open the environment that is now in the directory."""

        def opened(held: HeldDirectory) -> tuple[lmdb.Environment, BasePlace]:
            directory = self.directory
            self.strays.append(open_fixed(directory) if self.fixed else open_largest(directory, map_size, create))
            env = self.strays[-1]
            if not create:
                check_environment(env, directory, most=0)
            return env, held.place(fixed=self.fixed)

        return opened_in(self.directory, opened, self.close_strays)

    def close_strays(self) -> None:
        """Close environments that were opened but not put to use. py-lmdb would refuse to open the file again for as
        long as the traceback of an interrupt keeps one open."""
        for env in self.strays:
            if env is not getattr(self, "env", None):
                env.close()
        self.strays.clear()


def _store_in(env: lmdb.Environment) -> bytes | None:
    """The id of the store that an environment belongs to."""
    with env.begin(write=True) as txn:  # see ``open_tables``
        return txn.get(_STORE, db=env.open_db(b"meta", txn=txn, create=False))
