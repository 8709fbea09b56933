"""A store: an open directory, and what a user does with it."""

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
from lowtide.engine.transaction.origin import Caller, caller
from lowtide.engine.transaction.retry import bounds, run
from lowtide.engine.transaction.snapshot import EngineSnapshot
from lowtide.engine.transaction.transaction import EngineTransaction
from lowtide.feed.change import Change
from lowtide.feed.consumers import Consumer, ConsumerState
from lowtide.feed.feed import Feed
from lowtide.feed.watch import Watch
from lowtide.observe.metrics import render
from lowtide.observe.stats import Stats
from lowtide.options import Options
from lowtide.sharing.follower import Follower
from lowtide.sharing.pins.pin import Pin
from lowtide.store.kinds import Kinds
from lowtide.store.owned import OwnedStore
from lowtide.store.transactions import Snapshot, Transaction
from lowtide.upkeep.backup import BackupReport, back_up
from lowtide.upkeep.compact import CompactReport, compact
from lowtide.upkeep.inspect import BaseReport, KeyReport, inspect_base, inspect_key
from lowtide.upkeep.report import VerifyReport
from lowtide.upkeep.verify import verify_store

_Result = TypeVar("_Result")


class Store(Kinds):
    """An open store; made by :func:`open`. Any number of threads may use it.

    One that is dropped is closed, once nothing is left that was made by it: no collection, transaction or cursor.
    """

    def __init__(self, path: Path, options: Options) -> None:
        self.path = path
        self._options = options
        self._origins = options.snapshot_origins
        self._backend = backend = Follower(path, options) if options.read_only else OwnedStore(path, options)
        try:
            self._finalizer = weakref.finalize(self, _close, backend)
        except BaseException:
            backend.close()
            raise

    # Transactions

    def begin(self, isolation: Isolation | str = "snapshot", read_only: bool = False) -> Transaction:
        """Begin a transaction; end it with ``commit`` or ``rollback``.

        >>> tx = store.begin("serializable")
        >>> tx.keyspace("fruit").get(b"apple")
        b'red'
        >>> tx.rollback()
        """
        return Transaction(self._begin(isolation, read_only, caller() if self._origins else None))

    def transaction(self, isolation: Isolation | str = "snapshot", read_only: bool = False) -> Transaction:
        """A transaction for a ``with`` statement: it commits at the end, and rolls back on an error.

        >>> with store.transaction() as tx:
        ...     tx.keyspace("fruit").put(b"pear", b"green")
        """
        return Transaction(self._begin(isolation, read_only, caller() if self._origins else None))

    def _begin(self, isolation: Isolation | str, read_only: bool, opened_by: Caller | None) -> EngineTransaction:
        policy = SNAPSHOT if isolation == "snapshot" else self._policy(isolation)
        tx = EngineTransaction(self._backend.engine, policy, read_only, opened_by)
        tx.keep = self
        return tx

    def _policy(self, isolation: Isolation | str) -> Policy:
        """The policy of a level. Of a store that is only read, each transaction is one snapshot at least."""
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
        """Run ``fn(tx)`` in a transaction and commit it; retry both when another transaction committed first.

        ``fn`` may run many times, so it should do nothing that cannot be repeated. It is tried for ``timeout`` seconds,
        by default 60, or ``attempts`` times if that is given; then the last error is raised. After a few failures the
        retries are fair: callers that want the same keys go one after another, and others that can be retried give way
        to them.

        >>> def ripen(tx):
        ...     tx.keyspace("fruit").put(b"banana", b"brown")
        >>> store.run(ripen)
        """
        most, seconds = bounds(attempts, timeout)
        opened_by = caller() if self._origins else None
        begin, work = lambda: self._begin(isolation, False, opened_by), lambda tx: fn(Transaction(tx))
        return run(self._backend.engine.line, begin, work, most, seconds)

    def snapshot(self, at: int | str | Pin | None = None) -> Snapshot:
        """The state of the last commit, or of ``at``, read-only: a pin, its name, or the timestamp of a commit that a
        pin or a live snapshot holds. Raises SnapshotExpired if nothing holds it.

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

        A pin survives restarts and crashes; it is renewed with ``pin.renew``, and removed with ``pin.release``,
        ``store.unpin`` or the end of a ``with`` block; also when the process with the number ``process``, if one is
        given, has ended. With ``keyspaces`` it holds back only what these need. It costs a checkpoint if something was
        committed since the last one, and later one old version of each key that changes.

        >>> pin = store.pin("nightly", ttl=3600, keyspaces=["fruit"])
        >>> store.unpin("nightly")
        True
        """
        self._backend.check_open()
        return self._backend.pinning.pin(name, ttl, keyspaces=keyspaces, at=at, process=process)

    def renew(self, name: str, ttl: float | None = None) -> Pin:
        """Let a pin live for ``ttl`` seconds from now, or for as long as was asked for last; see ``Pin.renew``.

        >>> with store.pin("nightly", ttl=60):
        ...     store.renew("nightly", ttl=3600)
        <pin 'nightly' at 1>
        """
        self._backend.check_open()
        return self._backend.pinning.renew(name, ttl)

    def unpin(self, name: str) -> bool:
        """Remove a pin, so that what only it sees can go; false if there is none of this name."""
        self._backend.check_open()
        return self._backend.pinning.unpin(name)

    def pins(self) -> list[Pin]:
        """The pins that are alive, whichever process took them.

        >>> with store.pin("nightly"):
        ...     [pin.name for pin in store.pins()]
        ['nightly']
        """
        self._backend.check_open()
        return self._backend.pinning.pins()

    def keyspace(self, name: str) -> Keyspace:
        """The keyspace ``name``, where each call is a transaction of its own: the fast path for one read or write.

        >>> store.keyspace("fruit").get(b"apple")
        b'red'
        """
        return self._backend.keyspace(name, self)

    def _statements(self) -> AutocommitStatements:
        return AutocommitStatements(self._backend, self)

    def _changes(self) -> Feed:
        return self._backend.feed

    def sql(self, query: str, parameters: Parameters = None) -> SqlResult:
        """Run a SQL query by DuckDB over the collections as they are now, all of the same instant (extra ``sql``).
        Fields are columns; nested objects are structs, arrays lists.

        >>> _ = store.collection("trees").insert_many([{"_id": "plum", "height": 6}, {"_id": "fir", "height": 40}])
        >>> store.sql("select _id from trees where height > ?", [10]).fetchall()
        [('fir',)]
        """
        with Snapshot(EngineSnapshot(self._backend.engine, None)) as snapshot:
            return snapshot.sql(query, parameters)

    def keyspaces(self) -> list[str]:
        """The names of the keyspaces that were ever written to.

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
        """What the commits after ``since`` up to ``until``, or the last one, did to each key, in commit order.

        It reads the log, which is kept for ``feed_bytes`` and for named consumers; ChangesLost says that ``since`` lies
        before what is kept. ``before`` asks for the values that were replaced; the store must have been opened with
        ``before_images=True`` for that.

        >>> [change.key for change in store.changes(keyspaces=["fruit"]) if change.kind == "insert"]
        [b'apple', b'banana', b'blueberry']
        """
        return _keeping(self, self._backend.feed.changes(since, until, keyspaces, before))

    def commit_at(self, time: float) -> int | None:
        """The last commit at or before a time of day, in seconds since the epoch; 0 if there was none by then, None if
        the log no longer tells.

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
        """The changes after commit ``since``, by default after the last one, and further ones as they are committed:
        the iteration waits for them, without polling. It ends when nothing was committed for ``timeout`` seconds, if
        that is given, or when it is closed, from any thread.

        >>> with store.watch(since=0, timeout=0.1) as changes:
        ...     [change.key for change in changes]
        [b'apple', b'banana', b'blueberry']
        """
        feed = self._backend.feed
        self._backend.check_open()
        start = feed.published() if since is None else feed.check_since(since)
        return Watch(feed, start, keyspaces, before, timeout, self)

    def consumer(self, name: str, since: int | None = None) -> Consumer:
        """The named consumer of the change feed, made at commit ``since``, or at the last one, if it does not exist.
        The log keeps what it has not acknowledged, up to ``consumer_bytes`` and ``consumer_age``.

        >>> store.consumer("mirror", since=0).position
        0
        """
        consumer = self._backend.consumers.get(name, since)
        consumer.keep = self
        return consumer

    def consumers(self) -> list[ConsumerState]:
        """The named consumers, how far they have come, and whether they lost their place.

        >>> mirror = store.consumer("mirror", since=0)
        >>> [(consumer.name, consumer.position, consumer.lost) for consumer in store.consumers()]
        [('mirror', 0, False)]
        """
        self._backend.check_open()
        return self._backend.consumers.all()

    # Upkeep, which the background does by itself

    def checkpoint(self) -> None:
        """Bring everything committed so far to the base. Readers and writers go on meanwhile.

        >>> store.checkpoint()
        >>> store.stats().versions
        0
        """
        self._backend.checkpoint()

    def collect_garbage(self) -> int:
        """Drop every version that no snapshot sees; returns how many went. The background does it by itself."""
        return self._backend.collect()

    def stats(self) -> Stats:
        """The store's figures now. O(superseded versions).

        >>> store.stats().snapshots
        []
        """
        self._backend.check_open()
        return self._backend.stats()

    def metrics(self) -> str:
        """The figures of ``stats`` in Prometheus' text format, version 0.0.4, for a service to answer a scrape with.

        >>> print(store.metrics().splitlines()[1])
        # TYPE lowtide_last_commit gauge
        """
        return render(self.stats(), str(self.path))

    def verify(self) -> VerifyReport:
        """Examine every invariant of log, base, history and memory. Readers and writers go on meanwhile; checkpoints
        wait. O(store). Print the report, or ask for ``ok`` and ``problems``.

        >>> store.verify().ok
        True
        """
        return verify_store(self._backend.running)

    def inspect_key(self, keyspace: str, key: bytes) -> KeyReport:
        """The versions of a key that are kept, where they are, and which snapshots see them. Print the report.

        >>> store.inspect_key("fruit", b"apple").versions[0].end is None
        True
        """
        return inspect_key(self._backend.running, keyspace, key)

    def inspect_base(self) -> BaseReport:
        """The tables of the base, its file, its free pages and its readers. Print the report.

        >>> [table.name for table in store.inspect_base().tables][:2]
        ['rows', 'history']
        """
        return inspect_base(self._backend.running)

    def backup(self, dest: str | os.PathLike[str], *, progress: Callable[[str], None] | None = None) -> BackupReport:
        """Copy the store to the directory ``dest``, which is then a store itself. Readers, writers and
        checkpoints go on. Repeated into the same directory, it copies only what is new.

        ``progress`` is told each step in words; if it raises, the backup ends there, and ``dest`` holds what it held
        before or something newer. It must not close the store.

        >>> import tempfile
        >>> store.backup(tempfile.mkdtemp()).base_copied
        True
        """
        return back_up(self._backend.running, dest, progress)

    def compact(self) -> CompactReport:
        """Give the space of free pages and spare log files back to the file system. Readers and writers go on, but for
        an instant; checkpoints wait. Needs room for a second base. UsageError if another process reads the store.

        >>> report = store.compact()
        >>> report.after <= report.before
        True
        """
        return compact(self._backend.running)

    def close(self) -> None:
        """Make a last checkpoint and give the directory back. Open transactions end; harmless when repeated."""
        self._backend.close()
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
    """The changes, and the store with them: it must not be closed under them because it was dropped."""
    yield from changes


def backend_of(store: Store) -> OwnedStore | Follower:
    """What is behind an open store, for parts of Lowtide that need more than a user does."""
    return store._backend


def _close(backend: OwnedStore | Follower) -> None:
    """Close what a dropped store leaves behind."""
    backend.close()
