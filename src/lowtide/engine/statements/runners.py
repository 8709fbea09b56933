"""Where statements run: in a transaction, at a snapshot, or each in a transaction of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from lowtide.engine.statements.alone import NotDone, run_alone
from lowtide.engine.statements.recording import RecordingStatement
from lowtide.engine.statements.statement import ReadView, Statement, WriteView
from lowtide.engine.transaction.engine import Engine
from lowtide.engine.transaction.isolation import SNAPSHOT
from lowtide.engine.transaction.recording import RecordingTransaction
from lowtide.engine.transaction.retry import Retry, run
from lowtide.engine.transaction.snapshot import EngineSnapshot
from lowtide.engine.transaction.transaction import EngineTransaction, begin
from lowtide.errors import TransientError, UsageError
from lowtide.system.clock import SYSTEM_CLOCK

_Result = TypeVar("_Result")
_MOST_WAITING: Final = 800_000
"""The number of versions that a load may leave to the next checkpoint before it waits for the running one. The running
one has at most as many, plus a batch, so this bounds the memory of a load: about 200 bytes per version of a
statement."""
_LOOKS: Final = 6_000
_LOOK_EVERY: Final = 0.01
PrefixOf = Callable[[str], bytes]
"""Returns the prefix of a keyspace's full keys, by its name."""


Instant = EngineTransaction | EngineSnapshot
"""A view that reads one instant."""


class Statements(Protocol):
    """Runs statements. A ``HeldRead`` belongs to a cursor, and is closed when the cursor ends."""

    def read(self, work: Callable[[ReadView, PrefixOf], _Result]) -> _Result:
        """Call ``work``, which reads one instant, and return its result."""

    def write(self, work: Callable[[WriteView, PrefixOf], _Result], attempts: int = 0) -> _Result:
        """Call ``work``, which reads one instant and writes, and return its result. If each statement is its own
        transaction, retries up to ``attempts`` times on conflict (0: no limit), so ``work`` must have no side
        effects."""

    def hold(self) -> HeldRead:
        """Return one instant to read from until it is closed."""

    def run(self, work: Callable[[Statements], _Result]) -> _Result:
        """Call ``work`` with a runner whose statements all belong to one transaction."""

    def instant(self) -> Instant | None:
        """The transaction or snapshot itself, if it reads one instant of the whole store, so that reads can use it
        directly. None otherwise."""

    def writable(self) -> EngineTransaction | None:
        """The transaction itself, if it reads one instant and can be written to. None otherwise."""

    def keyspaces(self) -> list[str]:
        """The keyspaces that have ever been written to, including by this transaction, if they can be read here."""

    def holds(self, keyspace: str) -> bool:
        """Whether a keyspace can be read: a pin may be limited to some keyspaces."""

    @property
    def caches(self) -> dict[Any, Any]:
        """What kinds of data cache for as long as the store is open."""


class HeldRead(Protocol):
    """A read view that stays open."""

    reading: ReadView
    prefix_of: PrefixOf

    def close(self) -> None: ...


class _HeldRead:
    """A read view, and the function that closes it. ``keep`` is an object that is kept alive with it."""

    __slots__ = ("_close", "_keep", "prefix_of", "reading")

    def __init__(
        self, reading: ReadView, prefix_of: PrefixOf, close: Callable[[], None] | None, keep: object = None
    ) -> None:
        self.reading = reading
        self._keep = keep
        self.prefix_of = prefix_of
        self._close = close

    def close(self) -> None:
        if self._close is not None:
            self._close()


class TransactionStatements:
    """Runs statements in a transaction that its owner ends. At NONE each statement is a commit of its own, and is
    retried."""

    __slots__ = ("_tx",)

    def __init__(self, tx: EngineTransaction) -> None:
        self._tx = tx

    def read(self, work: Callable[[ReadView, PrefixOf], _Result]) -> _Result:
        return self._run(work)

    def write(self, work: Callable[[WriteView, PrefixOf], _Result], attempts: int = 0) -> _Result:
        tx = self._tx
        if tx.read_only:
            raise UsageError("this transaction is read-only")
        if tx.policy.buffered:
            return self._run(work)
        retry = Retry(tx.engine.line, tx.engine.now(), attempts or None)
        while True:
            try:
                return self._run(work)
            except TransientError as error:
                retry.failed(error)

    def _run(self, work: Callable[[WriteView, PrefixOf], _Result]) -> _Result:
        tx = self._tx
        statement = statement_of(tx)
        try:
            return work(statement, tx.engine.catalog.prefix_of)
        finally:
            if isinstance(statement, Statement):
                statement.close()

    def instant(self) -> EngineTransaction | None:
        tx = self._tx
        return tx if tx.policy.fixed else None

    def writable(self) -> EngineTransaction | None:
        tx = self._tx
        return tx if tx.policy.fixed and not tx.read_only else None

    def keyspaces(self) -> list[str]:
        return list(self._tx.engine.catalog.prefixes)

    def holds(self, keyspace: str) -> bool:
        return True

    @property
    def caches(self) -> dict[Any, Any]:
        return self._tx.engine.caches

    def hold(self) -> HeldRead:
        statement = _statement(self._tx, steady=True)
        return _HeldRead(statement, self._tx.engine.catalog.prefix_of, statement.close)

    def run(self, work: Callable[[Statements], _Result]) -> _Result:
        return work(self)


class SnapshotStatements:
    """Runs statements at a snapshot that its owner closes."""

    __slots__ = ("_snapshot",)

    def __init__(self, snapshot: EngineSnapshot) -> None:
        self._snapshot = snapshot

    def read(self, work: Callable[[ReadView, PrefixOf], _Result]) -> _Result:
        return work(self._snapshot, self._prefix_of)

    def _prefix_of(self, name: str) -> bytes:
        """The prefix of a keyspace. Raises an error if the snapshot does not hold it."""
        return self._snapshot.keyspace(name).prefix

    def write(self, work: Callable[[WriteView, PrefixOf], _Result], attempts: int = 0) -> _Result:
        raise UsageError("a snapshot is read-only; write in a transaction")

    def instant(self) -> EngineSnapshot | None:
        return self._snapshot if self._snapshot.keyspaces is None else None

    def writable(self) -> None:
        return None

    def keyspaces(self) -> list[str]:
        held = self._snapshot.keyspaces
        return list(self._snapshot.engine.catalog.prefixes if held is None else held)

    def holds(self, keyspace: str) -> bool:
        held = self._snapshot.keyspaces
        return held is None or keyspace in held

    @property
    def caches(self) -> dict[Any, Any]:
        return self._snapshot.engine.caches

    def hold(self) -> HeldRead:
        return _HeldRead(self._snapshot, self._prefix_of, None)

    def run(self, work: Callable[[Statements], _Result]) -> _Result:
        return work(self)


class HasEngine(Protocol):
    """An open store, whose engine may be replaced by another one."""

    @property
    def engine(self) -> Engine: ...


class AutocommitStatements:
    """Runs each statement in a transaction of its own, and retries it on conflict. ``keep`` is the store, which must
    not be closed while this is in use."""

    __slots__ = ("_keep", "_store")

    def __init__(self, store: HasEngine, keep: object = None) -> None:
        self._store = store
        self._keep = keep

    @property
    def engine(self) -> Engine:
        """The store's current engine, for reads without a snapshot."""
        return self._store.engine

    def instant(self) -> None:
        return None

    def writable(self) -> None:
        return None

    def keyspaces(self) -> list[str]:
        return list(self._store.engine.catalog.prefixes)

    def holds(self, keyspace: str) -> bool:
        return True

    def read(self, work: Callable[[ReadView, PrefixOf], _Result]) -> _Result:
        engine = self._store.engine
        if engine.new is not None:  # a recorded store: only transactions note their reads
            with begin(engine, SNAPSHOT, True) as tx:
                return work(tx, engine.catalog.prefix_of)
        with EngineSnapshot(engine, None) as snapshot:
            return work(snapshot, engine.catalog.prefix_of)

    def write(self, work: Callable[[WriteView, PrefixOf], _Result], attempts: int = 0) -> _Result:
        return self.transact(work, attempts)

    def transact(self, work: Callable[[EngineTransaction, PrefixOf], _Result], attempts: int = 0) -> _Result:
        """The same as ``write``, for work that needs the transaction itself."""
        engine = self._store.engine
        if engine.read_only:
            raise UsageError(engine.closed or "the store was opened read-only")
        return run(
            engine.line,
            lambda: _begun(self._store.engine),
            lambda tx: work(tx, tx.engine.catalog.prefix_of),
            attempts or None,
        )

    def alone(self, work: Callable[..., _Result], given: tuple[Any, ...], *, repeatable: bool = False) -> _Result:
        """The same as ``transact``, for ``work`` that is called with a view and the arguments ``given``, and writes
        once, at its end. Runs without a transaction if possible. ``repeatable`` says that it reads and writes few
        keys."""
        engine = self._store.engine
        if engine.lone and engine.new is None and not (engine.read_only or engine.closed or engine.line.places):
            done = run_alone(engine, work, given, repeatable=repeatable)
            if not isinstance(done, NotDone):
                return done
        return self.transact(lambda tx, _: work(tx, *given))

    @property
    def caches(self) -> dict[Any, Any]:
        return self._store.engine.caches

    def hold(self) -> HeldRead:
        engine = self._store.engine
        if engine.new is not None:
            tx = begin(engine, SNAPSHOT, True)
            return _HeldRead(tx, engine.catalog.prefix_of, lambda: _ended(tx), self._keep)
        snapshot = EngineSnapshot(engine, None)
        return _HeldRead(snapshot, engine.catalog.prefix_of, snapshot.close, self._keep)

    def give_way(self) -> None:
        """Wait while a checkpoint runs and ``_MOST_WAITING`` or more versions have been committed since it began. Waits
        for at most about a minute, because the checkpoint may have failed; the background then retries it."""
        versions, _ = self._store.engine.reader.sources
        for _ in range(_LOOKS):
            if versions.frozen is None or versions.active.versions < _MOST_WAITING:
                return
            SYSTEM_CLOCK.sleep(_LOOK_EVERY)

    def run(self, work: Callable[[Statements], _Result]) -> _Result:
        line = self._store.engine.line
        return run(line, lambda: _begun(self._store.engine), lambda tx: work(TransactionStatements(tx)))


def statement_of(tx: EngineTransaction) -> EngineTransaction | Statement:
    """The view that a statement of ``tx`` reads from and writes to."""
    return tx if tx.policy.fixed else _statement(tx)


def _statement(tx: EngineTransaction, *, steady: bool = False) -> Statement:
    """A statement of ``tx``. It notes its reads if the transaction does."""
    if isinstance(tx, RecordingTransaction):
        return RecordingStatement(tx, steady=steady)
    return Statement(tx, steady=steady)


def _ended(tx: EngineTransaction) -> None:
    if not tx.state:
        tx.commit()


def _begun(engine: Engine) -> EngineTransaction:
    """Begin a transaction for one statement, or for a few that belong together."""
    return begin(engine, SNAPSHOT, False)
