"""A transaction: a snapshot to read from, a buffer to write to, and a commit.

One thread at a time uses it, not necessarily always the same one. No other transaction sees its writes before the
commit. A rollback discards the buffer and nothing else. A transaction that is dropped unfinished is rolled back.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Final, Self

from lowtide.engine.log.frame import encode_payload
from lowtide.engine.transaction.callbacks import Callback
from lowtide.engine.transaction.engine import Engine
from lowtide.engine.transaction.guards import Guards
from lowtide.engine.transaction.isolation import Isolation, Policy
from lowtide.engine.transaction.keyspace import Keyspace
from lowtide.engine.transaction.origin import Caller, caller
from lowtide.engine.transaction.read_set import ReadSet
from lowtide.engine.transaction.registry import Registration
from lowtide.engine.transaction.request import Request
from lowtide.engine.transaction.savepoint import MISSING, Savepoint
from lowtide.engine.transaction.scans import scan_latest, tracked
from lowtide.engine.transaction.yielding import Yielding
from lowtide.engine.types import MAX_COMMIT, Range, Writes, commit_too_large
from lowtide.engine.versions.own import Overlay, OwnWrites
from lowtide.errors import ConflictError, UsageError

_OPEN: Final = ""


class EngineTransaction:
    """A transaction over full keys; ``lowtide.Transaction`` holds one.

    Statements, savepoints and retries work on its attributes, all in the transaction's own thread:

    * ``state``: empty while it is open, then how it ended. ``policy``: what its isolation level does.
    * ``writes``: the buffer. ``overlay``: the same, in key order, for scans; None until a scan needs it.
    * ``before``: the values at the snapshot of keys that it writes, as far as statements have read them.
    * ``reads``: what a serializable transaction has read; None at other levels. ``guards``: what its statements rely
      on besides; None if nothing. Both are read by the leader of the commit group, under the commit lock.
    * ``replaced``: full keys of documents that were replaced. ``callbacks``: what ``on_commit`` was given.
    * ``innermost``: the open savepoint that is inside all others.
    """

    __slots__ = (
        "_registration",
        "_wrote_at_once",
        "before",
        "callbacks",
        "engine",
        "guards",
        "innermost",
        "keep",
        "overlay",
        "policy",
        "read_only",
        "reads",
        "replaced",
        "state",
        "ts",
        "writes",
    )

    def __init__(self, engine: Engine, policy: Policy, read_only: bool, opened_by: Caller | None = None) -> None:
        if engine.closed:
            raise UsageError(engine.closed)
        self.engine = engine
        self._registration: Registration | None = None
        """What it reads at; None below SNAPSHOT. It stays until the transaction is dropped, and then gives itself back
        if an interrupt has kept the transaction from doing so."""
        self.policy = policy
        self.state = _OPEN
        self.writes: Writes = {}
        self.innermost: Savepoint | None = None
        self.reads: ReadSet | None = None
        self.replaced: list[bytes] = []
        self.before: Writes = {}
        self.callbacks: list[Callback] | None = None
        self.guards: Guards | None = None
        self.overlay: Overlay | None = None
        self._wrote_at_once = False
        self.keep: object = None
        """The store, which must not be closed under this because it was dropped."""
        if engine.read_only:
            read_only = True
        self.read_only = read_only
        registry = engine.registry
        if not policy.fixed:
            self.ts = registry.published
            """The commit that this transaction reads from; below SNAPSHOT, the last one when it began."""
            return
        if policy.tracks_reads and not read_only:
            self.reads = ReadSet()
        if opened_by is None and engine.origins:
            opened_by = caller()
        details = (not read_only, engine.now(), opened_by)
        self._registration = registration = registry.register(details, self.reads is not None)
        self.ts = registration.ts

    @property
    def isolation(self) -> Isolation:
        """The level that this transaction was begun at."""
        return self.policy.level

    # Reading and writing, by full key

    def keyspace(self, name: str) -> Keyspace:
        """The keyspace ``name``, as this transaction sees it. It exists once something was put into it."""
        return Keyspace(self, name, self.engine.catalog.prefix_of(name))

    def read(self, full_key: bytes) -> bytes | None:
        """The value of a full key: own writes first, then what is committed."""
        if self.state:
            raise self._finished()
        writes, engine = self.writes, self.engine
        if writes and full_key in writes:
            value = writes[full_key]
        elif self._registration is not None:
            if self.reads is not None:
                self.reads.keys.add(full_key)
            value = engine.reader.get(full_key, self.ts)
        else:
            return engine.reader.get_latest(full_key)
        if engine.expired:  # looked at after the read: what is expired meanwhile may have been collected under it
            self.open_ts()
        return value

    def read_many(self, full_keys: list[bytes]) -> list[bytes | None]:
        """The values of many full keys, each as ``read`` gives it, of a transaction that reads one instant."""
        if self.state:
            raise self._finished()
        if self.reads is not None:
            self.reads.keys.update(full_keys)
        values = self.engine.reader.get_many(full_keys, self.ts)
        self.open_ts()
        writes = self.writes
        if not writes:
            return values
        return [writes.get(key, value) for key, value in zip(full_keys, values, strict=True)]

    def write(self, full_key: bytes, value: bytes | None) -> None:
        """Set or, with None, delete a full key."""
        if self.state or self.read_only:
            raise self._finished() if self.state else UsageError("this transaction is read-only")
        if not self.policy.buffered:
            self._write_at_once({full_key: value})
            return
        if self.engine.expired:
            self.open_ts()
        if self.innermost is not None:
            self.innermost.undo.append((full_key, self.writes.get(full_key, MISSING)))
        if self.overlay is not None:
            self.overlay.change({full_key: value})
        self.writes[full_key] = value

    def write_many(self, writes: Writes) -> None:
        """Set or delete many full keys; the dict is the transaction's from now on."""
        if self.state or self.read_only:
            raise self._finished() if self.state else UsageError("this transaction is read-only")
        if not self.policy.buffered:
            self._write_at_once(writes)
            return
        if self.engine.expired:
            self.open_ts()
        if self.innermost is not None:
            before = self.writes.get
            self.innermost.undo.extend([(full_key, before(full_key, MISSING)) for full_key in writes])
        if self.overlay is not None:
            self.overlay.change(writes)
        if self.writes:
            self.writes.update(writes)
        else:
            self.writes = writes

    def apply(self, writes: Writes, relied_on: Iterable[bytes], before: Writes | None = None) -> None:
        """Write the result of a statement, as ``write_many`` does. The commit fails if another transaction has changed
        one of the full keys in ``relied_on`` since the statement read it. ``before`` has the values that the statement
        read of the keys it writes, so that the commit need not read them again."""
        if before is not None:
            own = self.writes
            if own:  # what the statement saw of these are the transaction's own writes
                before = {full_key: value for full_key, value in before.items() if full_key not in own}
            self.before.update(before)
        self.write_many(writes)
        for full_key in relied_on:
            self.guarding().add(full_key, self.ts)

    def note_replaced(self, full_keys: set[bytes]) -> None:
        """Let the change feed say that the documents with these full keys were replaced, not updated."""
        self.replaced.extend(full_keys)

    def rely_on(self, wanted: Range) -> None:
        """Let the commit fail if another transaction has changed anything in a range of full keys."""
        self.guarding().add_range(wanted, self.ts)

    def give_way(self, full_keys: set[bytes], before: Writes) -> list[bytes]:
        """Let the commit skip those of these keys that other transactions have changed since the snapshot, instead of
        failing. ``before`` has the old values of all keys that are written. Returns a list that has the skipped keys
        after the commit."""
        self.guarding().yielding = yielding = Yielding(full_keys, before)
        return yielding.left_out

    def guarding(self) -> Guards:
        if self.guards is None:
            self.guards = Guards()
        return self.guards

    def _write_at_once(self, writes: Writes) -> None:
        """The way of NONE: a commit of its own, whose sync is left to ``commit``."""
        self.ts = self._submit(writes, False)
        self._wrote_at_once = True

    def scan(self, wanted: Range) -> Iterator[tuple[bytes, bytes]]:
        """The entries of a range of full keys, with the user's keys."""
        if self.state:
            raise self._finished()
        own = self.own_writes() if self.writes else None
        if self.policy.fixed:
            entries = self._scan_snapshot(wanted, own)
            return entries if self.reads is None else tracked(entries, wanted, self.reads)
        opened_by = caller() if self.engine.origins else None
        return scan_latest(self.engine, wanted, own, self.policy.scan_snapshot, opened_by, self.open_ts)

    def own_writes(self) -> OwnWrites:
        """The own writes as they are now, for a scan."""
        if self.overlay is None:
            self.overlay = Overlay()
        return self.overlay.view(self.writes, self.policy.fixed)

    def _scan_snapshot(self, wanted: Range, own: OwnWrites | None) -> Iterator[tuple[bytes, bytes]]:
        for chunk in self.engine.reader.scan(wanted, self.open_ts, own):
            self.open_ts()  # after the chunk was read, see ``read``
            yield from chunk
        self.open_ts()

    def open_ts(self) -> int:
        """The timestamp, for a scan that goes on: once the transaction has ended or its snapshot was expired, what
        it sees is no longer kept. Below SNAPSHOT it has none, and nothing that could expire."""
        if self.state:
            raise self._finished()
        registration = self._registration
        if registration is not None and (expired := self.engine.expired.get(registration.token)) is not None:
            raise expired.error()
        return self.ts

    # Ending

    def commit(self) -> int:
        """Make everything durable and visible at once; returns the commit's timestamp.

        Raises ConflictError if another transaction committed first. Whatever it raises, the transaction has ended.
        A transaction that wrote nothing returns the timestamp that it read at.
        """
        if self.state:
            raise self._finished()
        writes = self.writes
        if not writes:
            return self._commit_nothing()
        self.state = "refused"
        try:
            ts = self._submit(writes, self.engine.durable)
        except ConflictError as error:
            raise self.engine.explained(error, self) from None
        finally:
            self._give_back()
        self.state = "committed"
        return ts

    def _commit_nothing(self) -> int:
        """The end of a transaction that has nothing to publish; at NONE, what it wrote is brought to disk."""
        try:
            if self._wrote_at_once and self.engine.durable:
                self.engine.sync()
        finally:
            self._end("committed")
        if self.callbacks is not None:
            callbacks = self.engine.committer.callbacks
            callbacks.line_up(self.ts, self.callbacks)
            callbacks.run()
        return self.ts

    def _submit(self, writes: Writes, durably: bool) -> int:
        engine, registration = self.engine, self._registration
        token = registration.token if registration is not None else 0
        names = engine.catalog.names_to_log(writes) if engine.catalog.unlogged else None
        time = engine.time()
        seen = self.ts if token else engine.registry.published  # before the look, see Autocommit
        if token and self.before.keys() >= writes.keys():
            before = [self.before[full_key] for full_key in writes]
        else:
            before = engine.reader.get_many(writes, seen)
        replaced = frozenset(self.replaced) if self.replaced else None
        payload = encode_payload(time, writes, names, before, engine.before_images, replaced)
        if len(payload) > MAX_COMMIT:
            raise commit_too_large(payload)
        callbacks = self.callbacks if self.policy.buffered else None
        request = Request(
            writes,
            seen=seen,
            time=time,
            payload=payload,
            durably=durably,
            names=names,
            token=token,
            reads=self.reads,
            callbacks=callbacks,
            guards=self.guards,
            replaced=replaced,
        )
        ts = engine.committer.submit(request)
        if registration is not None and ts == seen + 1:
            # The commit has released it. No other one came meanwhile, so it held nothing back, and there is nothing to
            # tell; in all other cases ``_give_back`` does that.
            registration.token = 0
        return ts

    def rollback(self) -> None:
        """Discard what was written. At NONE there is nothing to discard: writes were committed one by one.

        After a commit that failed it does nothing: the commit has discarded everything.
        """
        if self.state:
            self._give_back()  # what an interrupt may have left
            if self.state == "refused":
                return
            raise self._finished()
        self._end("rolled back")
        if self._wrote_at_once:
            warnings.warn("isolation NONE commits each write at once: this rollback undid nothing", stacklevel=2)

    def _end(self, how: str) -> None:
        self.state = how
        self._give_back()

    def _give_back(self) -> None:
        """Give the snapshot back, and the registration that guards have below SNAPSHOT. Harmless when repeated."""
        if self.guards is not None and self.guards.registration is not None:
            self.guards.registration.release(self.engine.released)
        registration = self._registration
        if registration is not None and (token := registration.token):  # as its ``release`` does, without calls
            registry = self.engine.registry
            registry.release(token)
            if registry.published != self.ts:  # else no other one has committed since, so it held nothing back
                self.engine.released(self.ts)
            registration.token = 0

    def _finished(self) -> UsageError:
        return UsageError(f"this transaction was {self.state} and cannot be used any more; begin another one")

    def savepoint(self) -> Savepoint:
        """A part of the transaction that is undone on its own if it fails."""
        if self.state:
            raise self._finished()
        if not self.policy.buffered:
            raise UsageError("isolation NONE commits each write at once, so it has no savepoints")
        return Savepoint(self)

    def on_commit(self, callback: Callback) -> None:
        """Call ``callback(ts)`` after the commit was published, in commit order; not at all if it fails, or if the
        savepoint that this is called in is rolled back.

        >>> with store.transaction() as tx:
        ...     tx.keyspace("fruit").put(b"fig", b"green")
        ...     tx.on_commit(lambda ts: print("it is committed"))
        it is committed
        """
        if self.state:
            raise self._finished()
        self.callbacks = [*(self.callbacks or ()), callback]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.state:
            self._give_back()  # what an interrupt may have left
        elif kind is not None:
            self.rollback()
        elif self.writes or self.callbacks is not None or self._wrote_at_once:
            self.commit()
        else:
            self._end("committed")

    def __repr__(self) -> str:
        return f"<transaction at {self.ts}, {self.isolation.name}, {self.state or 'open'}>"
