"""An open LMDB file: its transactions, the growth of its map, and the check of its pages.

Growing the map ends the read transactions that are running, and so does an exchange of the file (see exchange). Such
reads are repeated: see ``_again``. If another process has exchanged the base, this process continues with the new one
(see place).

Locks, in the order in which they are taken:

    writing     held by each write of this process, outside of LMDB's own lock, so that no thread writes to a file that
                is being exchanged or closed
    steady      held for as long as map and environment must not change (a copy, an examination), and by the thread
                that changes them; readers never wait for it
    _growing    held while the environment cannot begin read transactions; reads that were cut short wait for it
"""

from __future__ import annotations

import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import lmdb

from lowtide.engine.base.mapping import ask_for_room, too_many_readers
from lowtide.engine.base.place import DATA, NEVER, BasePlace
from lowtide.engine.base.soundness import DAMAGED, Soundness
from lowtide.engine.types import check_key
from lowtide.errors import DiskFull, Error, UsageError

_GROWING = (lmdb.Error, lmdb.InvalidParameterError, lmdb.BadTxnError)
"""The errors of py-lmdb in a read that ``set_mapsize`` interrupted, or that began while it ran."""
_Result = TypeVar("_Result")


class LmdbFile(ABC):
    """An open environment. Any thread may read; one writes at a time."""

    def __init__(self, directory: Path, env: lmdb.Environment, place: BasePlace, *, may_grow: bool) -> None:
        self.directory = directory
        self.env = env
        self.place = place
        self.moved = place.moved
        self.owned = False
        """Whether this process owns the store: then no other process exchanges the base."""
        self._may_grow = may_grow
        self.closed = False
        self.soundness = Soundness(directory)
        self.abandoned = False
        """Whether this is a forked child's copy of its parent's environment."""
        self.writing = threading.Lock()
        self.steady = threading.RLock()
        self._growing = threading.RLock()
        self._begin: Callable[..., lmdb.Transaction[Any]] = env.begin
        self._writer = 0
        """The thread that writes, under ``writing``. It need not follow: no exchange happens while it writes."""
        self._repeating = 0
        """The thread that repeats a read, under ``_growing``. It must not wait for ``writing``, so it does not follow:
        its read began before the exchange."""

    # Reading

    def read(self, look: Callable[[lmdb.Transaction[bytes]], _Result]) -> _Result:
        """Call ``look`` in one read transaction, and return its result. It may be called again if the map grows."""
        if self.moved[0]:
            self.follow()
        try:
            with self._begin() as txn:
                return look(txn)
        except lmdb.Error as error:
            return self._again(error, lambda: self.read(look), b"")

    def state(self) -> tuple[object, int]:
        """A value that is another one after each LMDB commit of any process, and after an exchange of the file."""
        return self.read(lambda txn: (self.env, txn.id()))

    def _again(self, error: lmdb.Error, attempt: Callable[[], _Result], full_key: bytes) -> _Result:
        """Repeat a read that the growth of the map interrupted, once the map has grown."""
        while True:
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
                if self._repeating == threading.get_ident():
                    raise error  # to the loop that repeats this read, which releases ``_growing`` first
                self.sync_map_size()
            elif type(error) not in _GROWING:
                raise Error(f"LMDB could not read {self.directory}: {error}") from error
            try:
                return self._repeated(attempt)
            except lmdb.MapResizedError as grown:  # another process has grown the map again
                error = grown

    def _repeated(self, attempt: Callable[[], _Result]) -> _Result:
        """Repeat a read while the map does not change."""
        with self._growing:
            try:
                self.env.info()
            except lmdb.Error as gone:
                raise Error(f"LMDB has closed {self.directory}: {gone}; close the store and open it again") from gone
            before, self._repeating = self._repeating, threading.get_ident()
            try:
                return attempt()
            finally:
                self._repeating = before

    # Writing

    def write(self, change: Callable[[lmdb.Transaction[bytes]], _Result], *, refuses: bool = False) -> _Result:
        """Run ``change`` in a write transaction and commit it; grow the map as often as needed.

        A helper process must not grow its owner's map: there the caller gets MapFullError. With ``refuses``, ``change``
        raises Lowtide's errors only before it has written anything. The empty transaction is then committed, because a
        commit never waits, whereas an abort might.
        """
        if self.abandoned:
            self._refuse()  # before the lock, which a thread of the parent may have held
        with self.writing:
            self._writer = threading.get_ident()
            try:
                return self._write(change, refuses)
            finally:
                self._writer = 0

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
            if self._was_exchanged():
                txn.commit()  # it is empty
                if not self._may_grow:
                    raise Error(f"{self.directory} was compacted by another owner of the store")
                self._follow()
                continue
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
                raise DiskFull(f"no space in {self.directory}: {error}; nothing was changed: free space") from error
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

    @contextlib.contextmanager
    def other_writers_out(self) -> Iterator[Callable[[], None]]:
        """Keep all processes from writing, by LMDB's writer lock, until the block ends or calls the function that it is
        given. The environment must not be closed before that. The caller holds ``writing``."""
        held: list[lmdb.Transaction[bytes]] = []

        def release() -> None:
            with contextlib.suppress(lmdb.Error):  # after an interrupt the environment may have been reopened
                while held:
                    held.pop().commit()  # it is empty

        try:
            while not held:
                try:
                    held.append(self.env.begin(write=True))
                except lmdb.MapResizedError:
                    self._set_map_size(0)
            yield release
        finally:
            release()

    def follow(self) -> None:
        """Continue with the base that has replaced this one, if another process has compacted it."""
        if threading.get_ident() in (self._writer, self._repeating) or not self._was_exchanged():
            return
        with self.writing:
            if self._was_exchanged():  # another thread may have followed it
                self._follow()

    def _was_exchanged(self) -> bool:
        return not (self.owned or self.closed or self.place.is_named(self.directory / DATA))

    @abstractmethod
    def _follow(self) -> None:
        """The same as ``follow``, for a caller that holds ``writing``."""

    def _abort(self, txn: lmdb.Transaction[bytes]) -> None:
        """Abort a write transaction. py-lmdb waits for a moment in which no thread is inside LMDB. With many readers
        there may be none, so new readers are kept out meanwhile."""
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
        """Double the map. Reads of other threads that this interrupts are retried."""
        with self.writing:
            self._set_map_size(self.map_size * 2)

    def _set_map_size(self, size: int) -> None:
        """Set the map's size; 0 adopts the size that another process set. The caller holds ``writing``: LMDB refuses
        this while this process writes."""
        with self.steady, self._growing:
            ask_for_room(self.directory, size - self.map_size)
            self.env.set_mapsize(size)

    @property
    def map_size(self) -> int:
        return int(self.env.info()["map_size"])

    def sync_map_size(self) -> None:
        """Adopt a map size that another process set."""
        with self.writing:
            self._set_map_size(0)

    # Upkeep

    def check_pages(self) -> None:
        """Raise CorruptionError if any page is damaged, whatever the size of the file. 50 microseconds per page."""
        self.examine(self.soundness.check)

    def examine_once(self) -> None:
        """Look for damage and record it, unless this process has examined the base in the background before."""
        self.examine(self.soundness.examine_once)

    def examine(self, examine: Callable[[lmdb.Environment], None]) -> None:
        """Run ``examine`` while neither map nor file change. It may run again if another process has grown the map."""
        while True:
            try:
                with self.steady:
                    return examine(self.env)
            except lmdb.MapResizedError:
                self.sync_map_size()  # without ``steady``, which is taken after ``writing``
            except lmdb.ReadersFullError as error:
                if not self.clear_dead_readers():
                    raise too_many_readers() from error
            except lmdb.Error as error:
                if self.closed:
                    raise UsageError("the store is closed") from error
                raise Error(f"LMDB could not read {self.directory}: {error}") from error

    @contextlib.contextmanager
    def reading_long(self) -> Iterator[lmdb.Transaction[bytes]]:
        """A long LMDB read transaction that nothing interrupts. Reads and writes continue, but LMDB reuses no page that
        it sees."""
        with self.steady, self.env.begin() as txn:
            yield txn

    def clear_dead_readers(self) -> int:
        """Free the reader slots of processes that died."""
        with self._growing:  # not while the environment is being exchanged
            return int(self.env.reader_check())

    def abandon(self) -> None:
        """Never touch the environment again, in a forked child: it belongs to the parent."""
        self.closed = self.abandoned = True
        self._unmap()
        self._begin = self._refuse

    def _refuse(self, *arguments: object, **named: object) -> NoReturn:
        raise UsageError("this store was opened before a fork; use it in the parent")

    def close(self) -> None:
        if self.abandoned:
            return  # closing would free the parent's slots in the table of readers
        with self.writing, self.steady:  # LMDB must not be closed during a write: py-lmdb would never return
            self.closed = True
            self._unmap()
            self.env.close()  # point: close.base

    def _unmap(self) -> None:
        """Drop the mark. Its map is closed when the last reader has read it."""
        self.moved = self.place.moved = NEVER
