"""The base: one LMDB environment with a few tables.

    rows        full key -> row (see codec)
    history     two tables, see history
    tombstones  ts full_key -> nothing: the tombstone rows, in the order in which they may go
    keyspaces   name -> prefix of its full keys
    pins        see pins
    consumers   see consumers
    meta        "boundary" -> ts; "store" -> id of the store; "unpinned", see pins

Who writes: one write transaction at a time, begun by the maintenance thread, by recovery, by a helper process, or, for
pins and consumers only, by any process; LMDB itself keeps them apart. Readers take no lock. An LMDB read transaction
lives for one lookup or one stretch of a scan, never as long as a snapshot. Growing the map ends the read transactions
that happen to run: they begin again, see ``_again``. So does exchanging the file, see exchange.

``writing`` is held by whoever writes, over LMDB's own lock, so that nobody here writes to a file that is being
exchanged or closed. ``steady`` is held by whoever needs map and environment as they are for long, a copy or an
examination, and taken first by whoever would change them; readers never wait for it.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import error as StructError
from typing import Any, NoReturn, TypeVar

import lmdb

from lowtide.engine.base.chunks import stretch
from lowtide.engine.base.codec import decode_ts, encode_ts, row_ts
from lowtide.engine.base.consumers import ConsumerTable
from lowtide.engine.base.counting import count_rows
from lowtide.engine.base.forks import note_opened
from lowtide.engine.base.history import HistoryTable, open_index
from lowtide.engine.base.mapping import ask_for_room, open_fixed, open_largest, too_many_readers
from lowtide.engine.base.names import decode_keyspaces
from lowtide.engine.base.pins import PinTable
from lowtide.engine.base.soundness import DAMAGED, Soundness, check_environment
from lowtide.engine.base.visible import VisibleRows
from lowtide.engine.types import check_key
from lowtide.errors import CorruptionError, DiskFull, Error, UsageError

_BOUNDARY = b"boundary"
_STORE = b"store"
_GROWING = (lmdb.Error, lmdb.InvalidParameterError, lmdb.BadTxnError)
"""What py-lmdb raises in a read that ``set_mapsize`` cut short, or that began while it ran."""
_Result = TypeVar("_Result")


class Base:
    """An open base. Any thread may read; see the module for who writes. No process can write a ``fixed`` one: media."""

    def __init__(
        self, directory: Path, map_size: int, *, create: bool = False, may_grow: bool = True, fixed: bool = False
    ) -> None:
        self.directory = directory
        self._may_grow = may_grow
        self.fixed = fixed
        self.env = open_fixed(directory) if fixed else open_largest(directory, map_size, create)
        try:
            if not create:
                check_environment(self.env, directory, most=0)
            self.open_tables(create)
        except (lmdb.NotFoundError, lmdb.CorruptedError, lmdb.PageNotFoundError) as error:
            self.env.close()
            raise CorruptionError(directory, f"this is not the base of a Lowtide store: {error}") from error
        except CorruptionError:
            self.env.close()
            raise
        self.closed = False
        self.soundness = Soundness(directory)
        self.abandoned = False
        """Whether this is a forked child's copy of its parent's base."""
        note_opened(self)
        self.writing = threading.Lock()
        self.steady = threading.RLock()
        self._growing = threading.RLock()
        self._begin: Callable[..., lmdb.Transaction[Any]] = self.env.begin
        self.history_below = self.read_boundary() or 0
        """Snapshots below this may need the history. It is raised *before* the LMDB commit that makes it true: whoever
        sees that commit sees this, and an early look into the history costs time only."""

    def open_tables(self, create: bool) -> None:
        """Open the tables in one write transaction: py-lmdb forgets what is opened in a read transaction of ours."""
        self._file = (self.directory / "data.mdb").stat()
        with self.env.begin(write=True) if not self.fixed else contextlib.nullcontext() as txn:

            def table(name: bytes) -> lmdb._Database:
                return self.env.open_db(name, txn=txn, create=create)

            self.rows = table(b"rows")
            self.history = HistoryTable(table(b"history"), open_index(self.env, txn, create))
            self.tombstones = table(b"tombstones")
            self.keyspaces = table(b"keyspaces")
            self.pins = PinTable(table(b"pins"), self.directory)
            self.consumers = ConsumerTable(table(b"consumers"), self.directory)
            self.meta = table(b"meta")

    def is_of(self, data: Path) -> bool:
        """Whether ``data`` is the very file that this is open on."""
        return os.path.samestat(self._file, data.stat())

    def take_over(self) -> None:
        """From a base that is only read to the owner's: only what is old needs the history."""
        self.history_below = self.read_boundary() or 0

    # Reading

    def read(self, look: Callable[[lmdb.Transaction[bytes]], _Result]) -> _Result:
        """What ``look`` finds in one read transaction. It may run again if growing the map cuts it short."""
        try:
            with self._begin() as txn:
                return look(txn)
        except lmdb.Error as error:
            return self._again(error, lambda: self.read(look), b"")

    def counted(self, low: bytes, high: bytes | None, ts: int, keys: list[bytes]) -> tuple[int, set[bytes]] | None:
        """How many keys of a range there are at ``ts``, and which of ``keys``; see ``counting``."""
        return self.read(lambda txn: count_rows(self, txn, low, high, ts, keys))

    def row(self, full_key: bytes) -> bytes | None:
        """The row of ``full_key``, which may be newer than the reader's snapshot, or a tombstone.

        Begun after the caller looked into the chains: what those no longer had was in an LMDB commit that
        preceded its dropping, so it is seen here.
        """
        try:
            txn = self._begin(self.rows)
            row = txn.get(full_key)
            txn.abort()
            return row
        except lmdb.Error as error:
            return self._again(error, lambda: self.row(full_key), full_key)

    def rows_of(self, full_keys: list[bytes]) -> dict[bytes, bytes]:
        """The rows of those of the keys that have one, in one transaction."""
        return self.read(lambda txn: dict(txn.cursor(self.rows).getmulti(full_keys)))

    def read_history(self, full_key: bytes, ts: int) -> bytes | None:
        """The value that ``full_key`` had at ``ts``, if it is superseded. A later LMDB transaction than the one that
        found the row too new, or absent, will do: what a live snapshot sees stays in the history."""
        if ts >= self.history_below:
            return None
        try:
            with self._begin() as txn:
                return self.history.lookup(txn, full_key, ts)
        except lmdb.Error as error:
            return self._again(error, lambda: self.read_history(full_key, ts), full_key)

    def changed_at(self, full_key: bytes) -> int:
        """The timestamp of the last change of ``full_key`` that the base knows of; 0 if none."""
        row = self.row(full_key)
        return row_ts(row) if row is not None else 0

    def chunk(
        self, low: bytes, high: bytes | None, ts: int, limit: int, reverse: bool, strip: int
    ) -> tuple[list[tuple[bytes, bytes]], bytes | None]:
        """What is visible at ``ts`` of a stretch of keys: entries in scan order, and the last key that was looked at.

        That key is None when the range is exhausted. ``strip`` bytes are taken off the entries' keys.
        """
        try:
            with self._begin(self.rows) as txn:  # before a look at ``history_below``, which is raised before a commit
                return self.at(ts, ts < self.history_below).entries(txn, low, high, limit, reverse, strip)
        except lmdb.Error as error:
            return self._again(error, lambda: self.chunk(low, high, ts, limit, reverse, strip), low)

    def values(self, low: bytes, high: bytes | None, ts: int, limit: int) -> tuple[list[bytes], bytes | None]:
        """As ``chunk``, the values alone, forwards."""
        return self.read(lambda txn: self.at(ts, ts < self.history_below).values(txn, low, high, limit))

    def at(self, ts: int, old: bool) -> VisibleRows:
        """The tables, seen at ``ts``; ``old`` if that may lie below the boundary."""
        return VisibleRows(self.rows, self.history, ts, old)

    def changed_keys(self, low: bytes, high: bytes | None, since: int, limit: int) -> tuple[list[bytes], bytes | None]:
        """The keys of a stretch that changed after ``since``, deletions included, and the last key looked at."""
        try:
            with self._begin(self.rows) as txn:
                entries, more = stretch(txn, self.rows, low, high, limit, False)
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

    def _again(self, error: lmdb.Error, attempt: Callable[[], _Result], full_key: bytes) -> _Result:
        """Repeat a read that growing the map interrupted, once the growing is over."""
        if self.closed:
            raise UsageError("the store is closed") from error
        if isinstance(error, lmdb.BadValsizeError):
            check_key(full_key)
        if isinstance(error, lmdb.ReadersFullError) and self.clear_dead_readers():
            return attempt()
        if isinstance(error, lmdb.ReadersFullError):
            raise too_many_readers() from error
        if isinstance(error, DAMAGED):
            raise self.soundness.met(error) from error
        if isinstance(error, lmdb.MapResizedError):
            self.sync_map_size()
        elif type(error) not in _GROWING:
            raise Error(f"LMDB could not read {self.directory}: {error}") from error
        with self._growing:
            try:
                self.env.info()
            except lmdb.Error as gone:
                raise Error(f"LMDB gave up {self.directory}: {gone}; close the store and open it again") from gone
            return attempt()

    def check_pages(self) -> None:
        """Raise CorruptionError if any page is damaged, however large the file is. 50 microseconds a page."""
        with self.steady:
            self.soundness.check(self.env)

    # Writing

    def put_boundary(self, txn: lmdb.Transaction[bytes], boundary: int) -> None:
        txn.put(_BOUNDARY, encode_ts(boundary), db=self.meta)

    def store_id(self) -> bytes | None:
        return self.read(lambda txn: txn.get(_STORE, db=self.meta))

    def initialise(self, store_id: bytes) -> None:
        """Make a new base this store's own, with nothing in it."""

        def change(txn: lmdb.Transaction[bytes]) -> None:
            txn.put(_STORE, store_id, db=self.meta)
            self.put_boundary(txn, 0)

        self.write(change)

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

    def write(self, change: Callable[[lmdb.Transaction[bytes]], _Result], *, refuses: bool = False) -> _Result:
        """Run ``change`` in a write transaction and commit it, growing the map as often as that takes.

        A helper process must not grow the map under its owner: there MapFullError goes to the caller. One that
        ``refuses`` raises an error of ours only before it has written anything: the empty transaction is then
        committed, which waits for nobody, as an abort might.
        """
        if self.abandoned:
            self._refuse()  # before the lock, which a thread of the parent may have held
        with self.writing:
            return self._write(change, refuses)

    def _write(self, change: Callable[[lmdb.Transaction[bytes]], _Result], refuses: bool) -> _Result:
        while True:
            try:
                txn = self.env.begin(write=True)
            except lmdb.MapResizedError:
                self._set_map_size(0)
                continue
            except lmdb.Error as error:
                if self.closed:
                    raise UsageError("the store is closed") from error
                raise Error(f"LMDB could not write {self.directory}: {error}") from error
            try:
                result = change(txn)
                txn.commit()  # point: base.commit
                return result  # point: base.committed
            except lmdb.MapFullError:
                self._abort(txn)
                if not self._may_grow:
                    raise
                self._set_map_size(self.map_size * 2)
            except lmdb.DiskError as error:
                self._abort(txn)
                raise DiskFull(f"no room in {self.directory}: {error}; nothing was changed, make room") from error
            except (*DAMAGED, lmdb.BadTxnError) as error:
                self._abort(txn)
                raise self.soundness.met(error) from error
            except lmdb.Error as error:
                self._abort(txn)
                raise Error(f"LMDB could not write {self.directory}: {error}") from error
            except Error:
                if refuses:
                    txn.commit()
                else:
                    self._abort(txn)
                raise
            except BaseException:
                self._abort(txn)
                raise

    def _abort(self, txn: lmdb.Transaction[bytes]) -> None:
        """Abort a write transaction. py-lmdb waits for an instant in which no thread is inside LMDB; under many readers
        there is none, so new ones are kept out meanwhile."""
        with self.keep_readers_out():
            txn.abort()

    @contextlib.contextmanager
    def keep_readers_out(self) -> Iterator[None]:
        with self._growing:
            self._begin = self._begin_later
            try:
                yield
            finally:
                self._begin = self.env.begin

    def _begin_later(self, *arguments: Any, **named: Any) -> lmdb.Transaction[Any]:
        with self._growing:
            return self.env.begin(*arguments, **named)

    def grow(self) -> None:
        """Double the map. Other threads' reads that are cut short by it begin again."""
        with self.writing:
            self._set_map_size(self.map_size * 2)

    def _set_map_size(self, size: int) -> None:
        """Set the map's size, 0 for that of another process. The caller holds ``writing``: LMDB refuses it while this
        process writes."""
        with self.steady, self._growing:
            ask_for_room(self.directory, size - self.map_size)
            self.env.set_mapsize(size)

    def open_again(self, map_size: int) -> None:
        """Open environment and tables anew, with readers kept out. The objects that stand for tables stay the same,
        with new handles in them: a read that begins again may have a method of one in its hands."""
        history, pins, consumers = self.history, self.pins, self.consumers
        self.env.close()
        self.env = open_largest(self.directory, map_size, False)
        self.open_tables(False)
        history.rows, history.index = self.history.rows, self.history.index
        pins.table, consumers.table = self.pins.table, self.consumers.table
        self.history, self.pins, self.consumers = history, pins, consumers

    @property
    def map_size(self) -> int:
        return int(self.env.info()["map_size"])

    def sync_map_size(self) -> None:
        """Take over a map size that another process set."""
        with self.writing:
            self._set_map_size(0)

    # Upkeep

    @contextlib.contextmanager
    def reading_long(self) -> Iterator[lmdb.Transaction[bytes]]:
        """An LMDB read transaction that may take its time: nothing cuts it short. Others read and write meanwhile, but
        LMDB reuses no page that it sees."""
        with self.steady, self.env.begin() as txn:
            yield txn

    def clear_dead_readers(self) -> int:
        """Free the reader slots of processes that died."""
        with self._growing:  # not while the environment is being exchanged
            return int(self.env.reader_check())

    def abandon(self) -> None:
        """In a forked child: never touch the environment, which belongs to the parent."""
        self.closed = self.abandoned = True
        self._begin = self._refuse

    def _refuse(self, *arguments: object, **named: object) -> NoReturn:
        raise UsageError("this store was opened before a fork; use it in the parent")

    def close(self) -> None:
        if self.abandoned:
            return  # closing would free the parent's slots in the table of readers
        with self.writing, self.steady:  # LMDB must not be closed under a write: py-lmdb would never return
            self.closed = True
            self.env.close()  # point: close.base
