"""The store: an open directory, and the methods that users call."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from lowtide.documents.sql import Parameters, SqlResult
from lowtide.engine.statements.runners import AutocommitStatements
from lowtide.engine.transaction.isolation import SNAPSHOT, Isolation, Policy, policy_of
from lowtide.engine.transaction.keyspace import Keyspace
from lowtide.engine.transaction.origin import caller
from lowtide.engine.transaction.retry import bounds, run
from lowtide.engine.transaction.snapshot import EngineSnapshot
from lowtide.engine.transaction.transaction import EngineTransaction, begin_for
from lowtide.feed.change import Change
from lowtide.feed.consumers import Consumer, ConsumerState
from lowtide.feed.feed import Feed
from lowtide.feed.watch import Watch
from lowtide.observe.metrics import render
from lowtide.observe.stats import Stats
from lowtide.options import Options
from lowtide.sharing.pins.pin import Pin
from lowtide.store.access import PATIENCE, Backend, StoreAccess
from lowtide.store.kinds import Kinds
from lowtide.store.recording import HistoryFile, close_recorded, start_recording
from lowtide.store.transactions import Snapshot, Transaction, transaction_of
from lowtide.store.upkeep import back_up, compact, inspect_base, inspect_key, verify
from lowtide.upkeep.backup import BackupReport
from lowtide.upkeep.compact import CompactReport
from lowtide.upkeep.inspect import BaseReport, KeyReport
from lowtide.upkeep.report import VerifyReport

_Result = TypeVar("_Result")


class Store(Kinds[AutocommitStatements]):
    """An open store, from :func:`open`. Any number of threads may use it.

    A store that is dropped is closed once every collection, transaction and cursor made from it is gone too.
    """

    def __init__(self, path: Path, options: Options, patience: float = PATIENCE) -> None:
        self.path = path
        self._options = options
        self._origins = options.snapshot_origins
        self._access = access = StoreAccess(path, options, patience)
        self._recording: HistoryFile | None = None
        try:
            if options.record is not None:  # only then: a read-only store takes no pin before its first read
                self._recording = start_recording(access.engine, options.record, options.clock)
            self._finalizer = weakref.finalize(self, close_recorded, access, self._recording)
        except BaseException:
            access.close()
            raise

    @property
    def _backend(self) -> Backend:
        return self._access.backend

    # Transactions

    def begin(self, isolation: Isolation | str = "snapshot", read_only: bool = False) -> Transaction:
        """Begin a transaction; end it with ``commit`` or ``rollback``.

        >>> tx = store.begin("serializable")
        >>> tx.keyspace("fruit").get(b"apple")
        b'red'
        >>> tx.rollback()
        """
        policy = SNAPSHOT if isolation == "snapshot" else self._policy(isolation)
        opened_by = caller() if self._origins else None
        return transaction_of(begin_for(self._access.backend.engine, policy, read_only, opened_by, self))

    def transaction(self, isolation: Isolation | str = "snapshot", read_only: bool = False) -> Transaction:
        """A transaction for a ``with`` statement: it commits at the end of the block, and rolls back on an error.

        >>> with store.transaction() as tx:
        ...     tx.keyspace("fruit").put(b"pear", b"green")
        """
        policy = SNAPSHOT if isolation == "snapshot" else self._policy(isolation)
        opened_by = caller() if self._origins else None
        return transaction_of(begin_for(self._access.backend.engine, policy, read_only, opened_by, self))

    def _policy(self, isolation: Isolation | str) -> Policy:
        """The policy of an isolation level. In a read-only store, levels below SNAPSHOT are raised to it."""
        policy = policy_of(isolation)
        return policy if policy.fixed or not self._options.read_only else SNAPSHOT

    def run(
        self,
        fn: Callable[[Transaction], _Result],
        isolation: Isolation | str = "snapshot",
        attempts: int | None = None,
        *,
        timeout: float | None = None,
    ) -> _Result:
        """Run ``fn(tx)`` in a transaction and commit it; on a conflict, retry both.

        ``fn`` may run many times, so it should have no side effects outside the transaction. It is retried for
        ``timeout`` seconds (60 by default), or up to ``attempts`` times if given; then the last error is raised. After
        a few conflicts the retries are fair: callers that want the same keys take turns, and other transactions that
        can be retried give way to them.

        >>> def ripen(tx):
        ...     tx.keyspace("fruit").put(b"banana", b"brown")
        >>> store.run(ripen)
        """
        most, seconds = bounds(attempts, timeout)
        opened_by = caller() if self._origins else None
        policy = SNAPSHOT if isolation == "snapshot" else self._policy(isolation)
        first = [self._backend.engine]  # a retry takes the current one

        def begun() -> EngineTransaction:
            return begin_for(first.pop() if first else self._backend.engine, policy, False, opened_by, self)

        return run(first[0].line, begun, lambda tx: fn(transaction_of(tx)), most, seconds)

    def snapshot(self, at: int | str | Pin | None = None) -> Snapshot:
        """Open a read-only snapshot of the last commit, or of ``at``: a pin, its name, or the timestamp of a commit
        that a pin or a live snapshot keeps. Raises SnapshotExpired if that commit is no longer kept.

        >>> with store.snapshot() as snapshot:
        ...     len(list(snapshot.keyspace("fruit").scan()))
        3
        """
        if at is not None:
            snapshot = self._backend.pinning.snapshot(at)
        else:
            snapshot = EngineSnapshot(self._backend.engine, None, caller() if self._origins else None)
        snapshot.keep = self
        return Snapshot(snapshot)

    # Pins

    def pin(
        self,
        name: str,
        ttl: float = 3600.0,
        *,
        keyspaces: Iterable[str] | None = None,
        at: int | str | Pin | None = None,
        process: int | None = None,
    ) -> Pin:
        """Keep the last commit, or ``at``, for ``ttl`` seconds, under a name that every process can open.

        A pin survives restarts and crashes. Renew it with ``pin.renew``; remove it with ``pin.release``,
        ``store.unpin`` or the end of a ``with`` block. With ``process``, a process id, it is also removed when that
        process ends. With ``keyspaces`` it keeps only those. Taking a pin costs a checkpoint if there were commits
        since the last one; keeping it costs one old version of each key that changes.

        >>> pin = store.pin("nightly", ttl=3600, keyspaces=["fruit"])
        >>> store.unpin("nightly")
        True
        """
        self._backend.check_open()
        return self._backend.pinning.pin(name, ttl, keyspaces=keyspaces, at=at, process=process)

    def renew(self, name: str, ttl: float | None = None) -> Pin:
        """Keep a pin for another ``ttl`` seconds from now, by default its last ``ttl``; see ``Pin.renew``.

        >>> with store.pin("nightly", ttl=60):
        ...     store.renew("nightly", ttl=3600)
        <pin 'nightly' at 1>
        """
        self._backend.check_open()
        return self._backend.pinning.renew(name, ttl)

    def unpin(self, name: str) -> bool:
        """Remove a pin, so that versions only it keeps can be collected. False if there is no pin with this name."""
        self._backend.check_open()
        return self._backend.pinning.unpin(name)

    def pins(self) -> list[Pin]:
        """The live pins of all processes.

        >>> with store.pin("nightly"):
        ...     [pin.name for pin in store.pins()]
        ['nightly']
        """
        self._backend.check_open()
        return self._backend.pinning.pins()

    def keyspace(self, name: str) -> Keyspace:
        """The keyspace ``name``. Each call runs in its own transaction: the fast path for one read or write.

        >>> store.keyspace("fruit").get(b"apple")
        b'red'
        """
        return self._backend.keyspace(name, self)

    def _statements(self) -> AutocommitStatements:
        return AutocommitStatements(self._access, self)

    def _changes(self) -> Feed:
        return self._backend.feed

    def sql(self, query: str, parameters: Parameters = None) -> SqlResult:
        """Run a SQL query in DuckDB over one snapshot of all collections (extra ``sql``). Fields are columns, nested
        objects are structs, arrays are lists.

        >>> _ = store.collection("trees").insert_many([{"_id": "plum", "height": 6}, {"_id": "fir", "height": 40}])
        >>> store.sql("select _id from trees where height > ?", [10]).fetchall()
        [('fir',)]
        """
        with Snapshot(EngineSnapshot(self._backend.engine, None)) as snapshot:
            return snapshot.sql(query, parameters)

    def keyspaces(self) -> list[str]:
        """The names of all keyspaces that have been written to.

        >>> store.keyspaces()
        ['fruit']
        """
        return self._backend.engine.catalog.names()

    # Changes

    def changes(
        self,
        since: int = 0,
        until: int | None = None,
        keyspaces: Iterable[str] | None = None,
        *,
        before: bool = False,
    ) -> Iterator[Change]:
        """The changes that the commits after ``since`` made to each key, in commit order, up to ``until`` or the last.

        It reads the log, which is kept for ``feed_bytes`` and for named consumers. Raises ChangesLost if the log no
        longer has the commits after ``since``. ``before`` adds the values that were replaced; it needs a store that was
        opened with ``before_images=True``.

        >>> [change.key for change in store.changes(keyspaces=["fruit"]) if change.kind == "insert"]
        [b'apple', b'banana', b'blueberry']
        """
        return _keeping(self, self._backend.feed.changes(since, until, keyspaces, before))

    def commit_at(self, time: float) -> int | None:
        """The last commit at or before ``time``, in seconds since the epoch. 0 if nothing was committed by then, None
        if the log no longer reaches back that far.

        >>> import time
        >>> store.commit_at(time.time()) == store.stats().last_commit
        True
        """
        return self._backend.feed.last_before(time)

    def watch(
        self,
        since: int | None = None,
        keyspaces: Iterable[str] | None = None,
        *,
        before: bool = False,
        timeout: float | None = None,
    ) -> Watch:
        """Iterate over the changes after commit ``since``, by default the last one, and wait for further ones without
        polling. The iteration ends when nothing was committed for ``timeout`` seconds, if given, or when any thread
        closes it.

        >>> with store.watch(since=0, timeout=0.1) as changes:
        ...     [change.key for change in changes]
        [b'apple', b'banana', b'blueberry']
        """
        feed = self._backend.feed
        self._backend.check_open()
        start = feed.published() if since is None else feed.check_since(since)
        return Watch(feed, start, keyspaces, before, timeout, keep=self)

    def consumer(self, name: str, since: int | None = None) -> Consumer:
        """The named consumer of the change feed. If it does not exist, it is created at commit ``since``, or at the
        last one. The log keeps what it has not acknowledged, up to ``consumer_bytes`` and ``consumer_age``.

        >>> store.consumer("mirror", since=0).position
        0
        """
        consumer = self._backend.consumers.get(name, since)
        consumer.keep = self
        return consumer

    def consumers(self) -> list[ConsumerState]:
        """The named consumers, their positions, and whether the log no longer has the changes after them.

        >>> mirror = store.consumer("mirror", since=0)
        >>> [(consumer.name, consumer.position, consumer.lost) for consumer in store.consumers()]
        [('mirror', 0, False)]
        """
        self._backend.check_open()
        return self._backend.consumers.all()

    # Maintenance, which also runs in the background

    def checkpoint(self) -> None:
        """Write everything committed so far to the base. Readers and writers continue.

        >>> store.checkpoint()
        >>> store.stats().versions
        0
        """
        self._backend.checkpoint()

    def collect_garbage(self) -> int:
        """Drop every version that no snapshot sees; return how many. This also happens in the background."""
        return self._backend.collect()

    def stats(self) -> Stats:
        """The current statistics of the store. O(superseded versions).

        >>> store.stats().snapshots
        []
        """
        self._backend.check_open()
        return self._backend.stats()

    def metrics(self) -> str:
        """The statistics of ``stats`` in Prometheus' text format, version 0.0.4, ready to answer a scrape.

        >>> print(store.metrics().splitlines()[1])
        # TYPE lowtide_last_commit gauge
        """
        return render(self.stats(), str(self.path))

    def verify(self) -> VerifyReport:
        """Check every invariant of log, base, history and memory. Readers and writers continue; checkpoints wait.
        O(store). Print the report, or read its ``ok`` and ``problems``.

        >>> store.verify().ok
        True
        """
        return verify(self._backend)

    def inspect_key(self, keyspace: str, key: bytes) -> KeyReport:
        """Report the kept versions of a key, where they are, and which snapshots see them. Print the report.

        >>> store.inspect_key("fruit", b"apple").versions[0].end is None
        True
        """
        return inspect_key(self._backend, keyspace, key)

    def inspect_base(self) -> BaseReport:
        """Report the tables of the base, its file, its free pages and its readers. Print the report.

        >>> [table.name for table in store.inspect_base().tables][:2]
        ['rows', 'history']
        """
        return inspect_base(self._backend)

    def backup(self, dest: str | os.PathLike[str], *, progress: Callable[[str], None] | None = None) -> BackupReport:
        """Copy the store to the directory ``dest``, which is then a store itself. Readers, writers and checkpoints
        continue. A second backup to the same directory copies only what is new.

        ``progress`` is called with a description of each step, if this process owns the store. If it raises, the backup
        stops, and ``dest`` holds what it held before or something newer. It must not close the store.

        >>> import tempfile
        >>> store.backup(tempfile.mkdtemp()).base_copied
        True
        """
        return back_up(self._backend, dest, progress)

    def compact(self) -> CompactReport:
        """Return the space of free pages and spare log files to the file system. Readers and writers pause
        briefly; checkpoints wait. Needs room for a second base. Other processes may have the store open.

        >>> report = store.compact()
        >>> report.after <= report.before
        True
        """
        return compact(self._backend)

    def close(self) -> None:
        """Make a last checkpoint and release the directory. Open transactions end. A second call does nothing."""
        close_recorded(self._access, self._recording)
        self._finalizer.detach()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<lowtide store {str(self.path)!r}{', closed' if self._backend.closed else ''}>"


def _keeping(store: Store, changes: Iterator[Change]) -> Iterator[Change]:
    """The changes, with a reference to the store, so that a dropped store is not closed during the iteration."""
    yield from changes


def backend_of(store: Store) -> Backend:
    """The object behind an open store, for parts of Lowtide that need more than users do."""
    return store._backend
