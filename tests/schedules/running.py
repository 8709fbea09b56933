"""Runs a program under a schedule, and records what every worker saw."""

from __future__ import annotations

import contextlib
import gc
import os
import tempfile
import warnings
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import lowtide
from lowtide import Isolation
from lowtide.engine.log.frame import Commit
from lowtide.engine.transaction.keyspace import Keyspace, ReadKeyspace
from tests.schedules.program import KEYS, Append, Delete, Direct, Get, Job, Op, Program, Put, Savepoint, Scan, Tx, View
from tests.schedules.world import MAX_AGE, World, examine
from tests.support.attack import FULL
from tests.support.choices import Choices
from tests.support.locks import scheduled_locks
from tests.support.points import PointsOfCode
from tests.support.scheduler import ENGINE, Scheduler, Trace

KEYSPACE = "k"
OLD = b"z"
"""A key that is put after the old snapshot was taken, together with all others, and by no worker."""

_VERIFIED = 5
"""The files of a store are verified at the end of one schedule in so many."""

Value = bytes | None
Content = dict[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Seen:
    """What a read showed: a value, or the entries of a scan. ``since`` and ``until`` are the last published commits
    just before and just after it, ``own`` what its transaction had written by then."""

    op: Get | Scan
    found: Value | tuple[tuple[bytes, bytes], ...]
    since: int
    until: int
    own: dict[bytes, Value]


@dataclass(eq=False)
class Deed:
    """What one transaction, snapshot or single operation did. ``begun`` and ``ended`` are the last published commits
    when it was about to begin, and when it had ended; ``drawn`` the last one when its begin had returned."""

    worker: str
    level: Isolation | None
    """None for an operation on the store's own keyspace."""
    begun: int
    drawn: int = 0
    ended: int = 0
    ts: int = 0
    """The snapshot it read from, of a level that has one."""
    seen: list[Seen] = field(default_factory=list)
    writes: dict[bytes, Value] = field(default_factory=dict)
    outcome: str = "open"
    """"committed", "rolled back", "conflict", "expired", "closed" or "open"."""
    commit: int = 0
    conflict: lowtide.ConflictError | None = None
    read_only: bool = False

    @property
    def fixed(self) -> bool:
        return self.level in (Isolation.SNAPSHOT, Isolation.SERIALIZABLE)


@dataclass
class Run:
    """A schedule that was run, and what the store says about it afterwards."""

    program: Program
    trace: Trace
    deeds: list[Deed]
    first: int
    """The last commit before the workers began."""
    before: Content
    commits: list[Commit]
    published: int
    content: Content
    problems: list[str]
    """The problems of the store after all workers ended."""


@dataclass
class Outcome:
    """The outcome of a schedule: a run that can be checked, or an error that no program should raise."""

    trace: Trace
    run: Run | None
    error: BaseException | None = None


class Laboratory:
    """Runs programs under schedules. A store is used for so many ``uses``, since opening one takes longer than a
    schedule, and examining a long log does, too. Stores are in memory where the system has a file system there. With
    ``short_scans`` a scan reads one entry at a time, and one deleted key is worth a gap.

    To verify the files takes as long as to run a schedule, and what is wrong with them stays. So they are verified at
    the end of one schedule in five and of the last one of a store; of each one if the laboratory is ``thorough``, as it
    is in the full attack, and while a fault of the files is repeated."""

    def __init__(self, *, points: PointsOfCode = ENGINE, uses: int = 20, short_scans: bool = False) -> None:
        self._points = points
        self._uses = uses
        self._short_scans = short_scans
        self._world: World | None = None
        self._locks = contextlib.ExitStack()
        self.thorough = FULL
        self.schedules = 0

    def __enter__(self) -> Laboratory:
        self._locks.enter_context(scheduled_locks())
        self._locks.enter_context(on_one_core())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.discard()
        self._locks.close()

    def discard(self) -> None:
        """Drop the store: the next schedule begins with a new one."""
        if self._world is not None:
            self._world.close()
            self._world = None

    def _fresh(self) -> World:
        if self._world is None or self._world.uses >= self._uses:
            self.discard()
            self._world = World(Path(tempfile.mkdtemp(prefix="schedules-")))
        self._world.uses += 1
        self._world.parts.versions.gaps.forget()
        if self._short_scans:
            self._world.parts.reader.first_chunk = self._world.parts.reader.least_run = 1
        return self._world

    def run(self, program: Program, choices: Choices, stops: Collection[str] | None = None) -> Outcome:
        """Run ``program`` with the turn changing at ``stops`` only, or at every point."""
        self.schedules += 1
        world = self._fresh()
        verified = self.thorough or world.uses % _VERIFIED == 0 or world.uses >= self._uses
        running = _Running(world, program, choices, stops, self._points, verified=verified)
        try:
            with _undisturbed():
                return Outcome(running.scheduler.trace, running.run())
        except (Exception, AssertionError) as error:
            self.discard()
            return Outcome(running.scheduler.trace, None, error)


@contextlib.contextmanager
def on_one_core() -> Iterator[None]:
    """Run on one core. Only one thread at a time has a turn, and handing over to another core takes longer than most
    turns."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(cores)[os.getpid() % len(cores)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Disable cyclic collection: it would run destructors at arbitrary points."""
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a rollback at NONE says that it undoes nothing
            yield
    finally:
        gc.enable()


class _Running:
    """One run of one program."""

    def __init__(
        self,
        world: World,
        program: Program,
        choices: Choices,
        stops: Collection[str] | None,
        points: PointsOfCode,
        *,
        verified: bool,
    ) -> None:
        self._world = world
        self._verified = verified
        self._store = world.store
        self._parts = world.parts
        self._program = program
        self.scheduler = Scheduler(choices, stops=stops, points=points)
        self._deeds: list[Deed] = []
        self._written = 0

    def run(self) -> Run:
        before, first = self._set_up()
        watching, watched = None, before
        if self._program.watched:
            watching = self._store.snapshot()
            before = {key: b"third %s" % key for key in (*before, OLD)}
            self._commit(before)
            first += 1
        for name, worker in zip(self._program.names, self._program.workers, strict=True):
            self.scheduler.add(name, lambda name=name, worker=worker: self._work(name, worker))  # type: ignore[misc]
        self.scheduler.run()
        problems: list[str] = []
        if watching is not None and not self._program.has("close") and not self._program.has("expire"):
            old = dict(watching.keyspace(KEYSPACE).scan())
            if old != watched:
                problems.append(f"the old snapshot of commit {watching.ts} shows {old}")
        if watching is not None:
            watching.close()
            del watching
        if self._program.has("close"):
            self._world.reopen()
        for pin in self._world.store.pins():
            pin.release()  # its worker was refused before it could
        published = self._world.parts.registry.published
        content = dict(self._world.store.keyspace(KEYSPACE).scan())
        commits = self._world.commits(first, published)
        problems += examine(self._world.parts, verified=self._verified)
        return Run(
            self._program, self.scheduler.trace, self._deeds, first, before, commits, published, content, problems
        )

    def _set_up(self) -> tuple[Content, int]:
        """Bring the store to the program's initial state, whatever the last program did: everything in the base, and
        nothing in memory or history; or written again, in chains."""
        content = {key: b"first %s" % key for key in sorted(self._program.present)}
        self._commit({key: content.get(key) for key in (*KEYS, OLD)})
        self._store.checkpoint()
        self._store.collect_garbage()
        self._parts.collector._patience = 0
        self._parts.versions.view[2].clear()  # what an earlier schedule has read must not shorten this one
        self._world.clock.now = 1000.0
        if not self._program.checkpointed:
            content = {key: b"second %s" % key for key in content}
            self._commit({**content, OLD: None})
        return content, self._published

    def _commit(self, writes: Mapping[bytes, Value]) -> None:
        with self._store.transaction() as tx:
            for key, value in writes.items():
                self._put(key, value, tx.keyspace(KEYSPACE))

    # What workers do

    def _point(self, name: str) -> None:
        self.scheduler.point(name)

    def _is_closed(self, error: lowtide.UsageError) -> bool:
        return self._program.has("close") and bool(self._store._backend.closed) and str(error) == "the store is closed"

    @property
    def _published(self) -> int:
        return self._parts.registry.published

    def _work(self, name: str, worker: Tx | Direct | View | Job) -> None:
        if isinstance(worker, Tx):
            self._transaction(name, worker)
        elif isinstance(worker, Direct):
            for index, op in enumerate(worker.ops):
                if index:
                    self._point(str(op))
                with self._deed(name, None) as deed:
                    self._do(op, self._store.keyspace(KEYSPACE), deed)
                    deed.outcome = "committed"
        elif isinstance(worker, View):
            self._view(name, worker)
        else:
            self._job(worker.kind)

    @contextlib.contextmanager
    def _deed(self, name: str, level: Isolation | None) -> Iterator[Deed]:
        """Notes how it ends; only what the documentation allows ends it quietly."""
        deed = Deed(name, level, self._published)
        self._deeds.append(deed)
        try:
            yield deed
        except lowtide.ConflictError as error:
            deed.outcome, deed.conflict = "conflict", error.with_traceback(None)  # which would keep the transaction
        except lowtide.SnapshotExpired:
            if not self._program.has("expire"):
                raise
            deed.outcome = "expired"
        except lowtide.UsageError as error:
            if not self._is_closed(error):
                raise
            deed.outcome = "closed"
        finally:
            deed.ended = self._published

    def _transaction(self, name: str, worker: Tx) -> None:
        with self._deed(name, worker.level) as deed:
            deed.read_only = worker.read_only
            tx = self._store.begin(worker.level, worker.read_only)
            deed.drawn, deed.ts = self._published, tx.ts
            keyspace = tx.keyspace(KEYSPACE)
            for op in worker.ops:
                if worker.level is Isolation.NONE or not isinstance(op, Put | Delete):
                    self._point(str(op))  # no other worker can see a write to the transaction's buffer
                self._do(op, keyspace, deed, tx)
            self._point(worker.end)
            if worker.end == "commit":
                deed.commit = tx.commit()
                deed.outcome = "committed"
            else:
                deed.outcome = "rolled back"
                if worker.end == "rollback":
                    tx.rollback()
                else:
                    del keyspace, tx

    def _view(self, name: str, worker: View) -> None:
        with self._deed(name, Isolation.SNAPSHOT) as deed:
            deed.read_only = True
            pin = self._store.pin(name) if worker.pinned else None
            with self._store.snapshot(pin) as snapshot:
                deed.drawn, deed.ts = self._published, snapshot.ts
                for op in worker.ops:
                    self._point(str(op))
                    self._do(op, snapshot.keyspace(KEYSPACE), deed)
            if pin is not None:
                self._point("unpin")
                self._store.unpin(name)
            deed.outcome = "committed"

    def _do(self, op: Op, keyspace: Keyspace | ReadKeyspace, deed: Deed, tx: lowtide.Transaction | None = None) -> None:
        if isinstance(op, Get | Scan):
            self._read(op, keyspace, deed)
            return
        assert isinstance(keyspace, Keyspace)
        if isinstance(op, Savepoint):
            assert tx is not None
            kept = dict(deed.writes)
            with tx.savepoint() as savepoint:
                for each in op.inside:
                    self._do(each, keyspace, deed, tx)
                if op.undone:
                    savepoint.rollback()
                    deed.writes = kept
        elif isinstance(op, Delete):
            self._write(op.key, None, keyspace, deed)
        else:
            self._written += 1
            value = b"%d" % self._written
            if isinstance(op, Append):
                found = self._read(Get(op.key), keyspace, deed)
                assert found is None or isinstance(found, bytes)
                value = (found or b"") + b"+" + value
            self._write(op.key, value, keyspace, deed)

    def _read(self, op: Get | Scan, keyspace: ReadKeyspace, deed: Deed) -> Any:
        since, own = self._published, {} if deed.level is Isolation.NONE else dict(deed.writes)
        if isinstance(op, Get):
            found: Any = keyspace.get(op.key)
        else:
            found = tuple(keyspace.scan(op.start, op.stop, reverse=op.reverse))
        deed.seen.append(Seen(op, found, since, self._published, own))
        return found

    def _write(self, key: bytes, value: Value, keyspace: Keyspace, deed: Deed) -> None:
        if deed.level is Isolation.NONE:  # a commit of its own
            with self._deed(deed.worker, None) as own:
                own.writes[key] = value
                self._put(key, value, keyspace)
                own.outcome = "committed"
            if own.outcome != "committed":
                raise lowtide.UsageError("the store is closed")
            return
        if deed.level is None:
            deed.writes[key] = value
            self._put(key, value, keyspace)
        else:
            self._put(key, value, keyspace)
            deed.writes[key] = value

    def _put(self, key: bytes, value: Value, keyspace: Keyspace) -> None:
        if value is None:
            keyspace.delete(key)
        else:
            keyspace.put(key, value)

    def _job(self, kind: str) -> None:
        try:
            if kind == "checkpoint":
                self._store.checkpoint()
            elif kind == "collect":
                self._store.collect_garbage()
            elif kind == "maintain":
                self._parts.collector.wanted = True
                self._parts._maintain()
            elif kind == "expire":
                self._world.clock.advance(MAX_AGE)
                self._parts.monitor.tick()
            else:
                self._store.close()
        except lowtide.UsageError as error:
            if not self._is_closed(error):
                raise
