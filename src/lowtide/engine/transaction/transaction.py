"""A transaction: a snapshot to read from, a buffer to write to, and a commit.

Used by one thread at a time, though not always the same one. Nothing that it writes is seen by anyone before its
commit, and a rollback discards the buffer and nothing else. One that is dropped unfinished is rolled back.
"""

from __future__ import annotations

import sys
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
from lowtide.engine.transaction.read_set import ReadSet
from lowtide.engine.transaction.registry import Details, Registration
from lowtide.engine.transaction.request import Request
from lowtide.engine.transaction.savepoint import MISSING, Savepoint
from lowtide.engine.transaction.scans import scan_latest, tracked
from lowtide.engine.transaction.yielding import Yielding
from lowtide.engine.types import MAX_COMMIT, Range, Writes, commit_too_large
from lowtide.engine.versions.own import Overlay, OwnWrites
from lowtide.errors import ConflictError, UsageError

_OPEN: Final = ""


class EngineTransaction:
    """One transaction, of keyspaces. Users have it as ``lowtide.Transaction``, with collections."""

    __slots__ = (
        "_before",
        "_callbacks",
        "_engine",
        "_guards",
        "_overlay",
        "_policy",
        "_reads",
        "_registration",
        "_replaced",
        "_savepoint",
        "_state",
        "_writes",
        "_wrote_at_once",
        "keep",
        "read_only",
        "ts",
    )

    def __init__(self, engine: Engine, policy: Policy, read_only: bool, depth: int = 1) -> None:
        if engine.closed:
            raise UsageError(engine.closed)
        self._engine = engine
        self._registration: Registration | None = None
        """What it reads at; None below SNAPSHOT. It stays until the transaction is dropped, and then gives itself back
        if an interrupt has kept the transaction from doing so."""
        self._policy = policy
        self._state = _OPEN
        self._writes: Writes = {}
        self._savepoint: Savepoint | None = None
        self._reads: ReadSet | None = None
        self._replaced: list[bytes] = []
        self._before: Writes = {}
        self._callbacks: list[Callback] | None = None
        self._guards: Guards | None = None
        self._overlay: Overlay | None = None
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
            self._reads = ReadSet()
        details: Details
        if engine.origins:
            frame = sys._getframe(depth)
            details = (not read_only, engine.now(), frame.f_code, frame.f_lasti)
        else:
            details = (not read_only, engine.now(), None, 0)
        self._registration = registration = registry.register(details, self._reads is not None)
        self.ts = registration.ts

    @property
    def isolation(self) -> Isolation:
        """The level that this transaction was begun at."""
        return self._policy.level

    # Reading and writing, by full key

    def keyspace(self, name: str) -> Keyspace:
        """The keyspace ``name``, as this transaction sees it. It exists once something was put into it."""
        return Keyspace(self, name, self._engine.catalog.prefix_of(name))

    def read(self, full_key: bytes) -> bytes | None:
        """The value of a full key: own writes first, then what is committed."""
        if self._state:
            raise self._finished()
        writes, engine = self._writes, self._engine
        if writes and full_key in writes:
            value = writes[full_key]
        elif self._registration is not None:
            if self._reads is not None:
                self._reads.keys.add(full_key)
            value = engine.reader.get(full_key, self.ts)
        else:
            return engine.reader.get_latest(full_key)
        if engine.expired:  # looked at after the read: what is expired meanwhile may have been collected under it
            self._open_ts()
        return value

    def read_many(self, full_keys: list[bytes]) -> list[bytes | None]:
        """The values of many full keys, each as ``read`` gives it, of a transaction that reads one instant."""
        if self._state:
            raise self._finished()
        if self._reads is not None:
            self._reads.keys.update(full_keys)
        values = self._engine.reader.get_many(full_keys, self.ts)
        self._open_ts()
        writes = self._writes
        if not writes:
            return values
        return [writes.get(key, value) for key, value in zip(full_keys, values, strict=True)]

    def write(self, full_key: bytes, value: bytes | None) -> None:
        """Set or, with None, delete a full key."""
        if self._state or self.read_only:
            raise self._finished() if self._state else UsageError("this transaction is read-only")
        if not self._policy.buffered:
            self._write_at_once({full_key: value})
            return
        if self._engine.expired:
            self._open_ts()
        if self._savepoint is not None:
            self._savepoint.undo.append((full_key, self._writes.get(full_key, MISSING)))
        if self._overlay is not None:
            self._overlay.change({full_key: value})
        self._writes[full_key] = value

    def write_many(self, writes: Writes) -> None:
        """Set or delete many full keys; the dict is the transaction's from now on."""
        if self._state or self.read_only:
            raise self._finished() if self._state else UsageError("this transaction is read-only")
        if not self._policy.buffered:
            self._write_at_once(writes)
            return
        if self._engine.expired:
            self._open_ts()
        if self._savepoint is not None:
            before = self._writes.get
            self._savepoint.undo.extend([(full_key, before(full_key, MISSING)) for full_key in writes])
        if self._overlay is not None:
            self._overlay.change(writes)
        if self._writes:
            self._writes.update(writes)
        else:
            self._writes = writes

    def apply(self, writes: Writes, relied_on: Iterable[bytes], before: Writes | None = None) -> None:
        """Write what a statement came to, as ``write_many`` does. The commit fails if somebody has changed one of the
        full keys in ``relied_on`` since the statement saw it. ``before`` is what the statement knows to have been
        there, so that the commit need not look again."""
        if before is not None:
            own = self._writes
            if own:  # what the statement saw of these are the transaction's own writes
                before = {full_key: value for full_key, value in before.items() if full_key not in own}
            self._before.update(before)
        self.write_many(writes)
        for full_key in relied_on:
            self._guarding().add(full_key, self.ts)

    def note_replaced(self, full_keys: set[bytes]) -> None:
        """Let the change feed say that the documents with these full keys were replaced, not updated."""
        self._replaced.extend(full_keys)

    def rely_on(self, wanted: Range) -> None:
        """Let the commit fail if somebody has changed anything in a range of full keys."""
        self._guarding().add_range(wanted, self.ts)

    def give_way(self, full_keys: set[bytes], before: Writes) -> list[bytes]:
        """Let the commit leave out those of these keys that others have changed since the snapshot, and not fail for
        them. ``before`` is what was there of all that is written. Returns a list that has them after the commit."""
        self._guarding().yielding = yielding = Yielding(full_keys, before)
        return yielding.left_out

    def _guarding(self) -> Guards:
        if self._guards is None:
            self._guards = Guards()
        return self._guards

    def _write_at_once(self, writes: Writes) -> None:
        """The way of NONE: a commit of its own, whose sync is left to ``commit``."""
        self.ts = self._submit(writes, False)
        self._wrote_at_once = True

    def scan(self, wanted: Range) -> Iterator[tuple[bytes, bytes]]:
        """The entries of a range of full keys, with the user's keys."""
        if self._state:
            raise self._finished()
        own = self._own() if self._writes else None
        if self._policy.fixed:
            entries = self._scan_snapshot(wanted, own)
            return entries if self._reads is None else tracked(entries, wanted, self._reads)
        frame = sys._getframe(2)
        one_snapshot = self._policy.scan_snapshot
        return scan_latest(self._engine, wanted, own, one_snapshot, frame.f_code, frame.f_lasti, self._open_ts)

    def _own(self) -> OwnWrites:
        """The own writes as they are now, for a scan."""
        if self._overlay is None:
            self._overlay = Overlay()
        return self._overlay.view(self._writes, self._policy.fixed)

    def _scan_snapshot(self, wanted: Range, own: OwnWrites | None) -> Iterator[tuple[bytes, bytes]]:
        for chunk in self._engine.reader.scan(wanted, self._open_ts, own):
            self._open_ts()  # after the chunk was read, see ``read``
            yield from chunk
        self._open_ts()

    def _open_ts(self) -> int:
        """The timestamp, for a scan that goes on: once the transaction has ended or its snapshot was expired, what
        it sees is no longer kept. Below SNAPSHOT it has none, and nothing that could expire."""
        if self._state:
            raise self._finished()
        registration = self._registration
        if registration is not None and (expired := self._engine.expired.get(registration.token)) is not None:
            raise expired.error()
        return self.ts

    # Ending

    def commit(self) -> int:
        """Make everything durable and visible at once; returns the commit's timestamp.

        Raises ConflictError if another transaction committed first. Whatever it raises, the transaction has ended.
        A transaction that wrote nothing returns the timestamp that it read at.
        """
        if self._state:
            raise self._finished()
        writes = self._writes
        if not writes:
            return self._commit_nothing()
        self._state = "refused"
        try:
            ts = self._submit(writes, self._engine.durable)
        except ConflictError as error:
            raise self._engine.explained(error, self) from None
        finally:
            self._give_back()
        self._state = "committed"
        return ts

    def _commit_nothing(self) -> int:
        """The end of a transaction that has nothing to publish; at NONE, what it wrote is brought to disk."""
        try:
            if self._wrote_at_once and self._engine.durable:
                self._engine.sync()
        finally:
            self._end("committed")
        if self._callbacks is not None:
            callbacks = self._engine.committer.callbacks
            callbacks.line_up(self.ts, self._callbacks)
            callbacks.run()
        return self.ts

    def _submit(self, writes: Writes, durably: bool) -> int:
        engine, registration = self._engine, self._registration
        token = registration.token if registration is not None else 0
        names = engine.catalog.names_to_log(writes) if engine.catalog.unlogged else None
        time = engine.time()
        seen = self.ts if token else engine.registry.published  # before the look, see Autocommit
        if token and self._before.keys() >= writes.keys():
            before = [self._before[full_key] for full_key in writes]
        else:
            before = engine.reader.get_many(writes, seen)
        replaced = frozenset(self._replaced) if self._replaced else None
        payload = encode_payload(time, writes, names, before, engine.before_images, replaced)
        if len(payload) > MAX_COMMIT:
            raise commit_too_large(payload)
        callbacks = self._callbacks if self._policy.buffered else None
        request = Request(
            writes, seen, time, payload, durably, names, token, self._reads, callbacks, self._guards, replaced
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
        if self._state:
            self._give_back()  # what an interrupt may have left
            if self._state == "refused":
                return
            raise self._finished()
        self._end("rolled back")
        if self._wrote_at_once:
            warnings.warn("isolation NONE commits each write at once: this rollback undid nothing", stacklevel=2)

    def _end(self, how: str) -> None:
        self._state = how
        self._give_back()

    def _give_back(self) -> None:
        """Give the snapshot back, and the registration that guards have below SNAPSHOT. Harmless when repeated."""
        if self._guards is not None and self._guards.registration is not None:
            self._guards.registration.release(self._engine.released)
        registration = self._registration
        if registration is not None and (token := registration.token):  # as its ``release`` does, without calls
            registry = self._engine.registry
            registry.release(token)
            if registry.published != self.ts:  # else no other one has committed since, so it held nothing back
                self._engine.released(self.ts)
            registration.token = 0

    def _finished(self) -> UsageError:
        return UsageError(f"this transaction was {self._state} and cannot be used any more; begin another one")

    def savepoint(self) -> Savepoint:
        """A part of the transaction that is undone on its own if it fails.

        >>> with store.transaction() as tx:
        ...     fruit = tx.keyspace("fruit")
        ...     try:
        ...         with tx.savepoint():
        ...             fruit.put(b"apple", b"rotten")
        ...             raise ValueError
        ...     except ValueError:
        ...         fruit.get(b"apple")
        b'red'
        """
        if self._state:
            raise self._finished()
        if not self._policy.buffered:
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
        if self._state:
            raise self._finished()
        self._callbacks = [*(self._callbacks or ()), callback]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._state:
            self._give_back()  # what an interrupt may have left
        elif kind is not None:
            self.rollback()
        elif self._writes or self._callbacks is not None or self._wrote_at_once:
            self.commit()
        else:
            self._end("committed")

    def __repr__(self) -> str:
        return f"<transaction at {self.ts}, {self.isolation.name}, {self._state or 'open'}>"
