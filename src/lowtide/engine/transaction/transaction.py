"""A transaction: a snapshot to read from, a buffer to write to, and a commit.

One thread at a time uses it, not necessarily always the same one. No other transaction sees its writes before the
commit. A rollback discards the buffer and nothing else. A transaction that is dropped unfinished is rolled back.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from sys import getrefcount
from types import TracebackType
from typing import Any, ClassVar, Final, Self

from lowtide.engine.log.frame import encode_one, encode_payload
from lowtide.engine.transaction.callbacks import Callback
from lowtide.engine.transaction.engine import Engine
from lowtide.engine.transaction.guards import Guards
from lowtide.engine.transaction.isolation import Policy
from lowtide.engine.transaction.keyspace import Keyspace
from lowtide.engine.transaction.origin import caller
from lowtide.engine.transaction.read_set import ReadSet
from lowtide.engine.transaction.reads import TransactionReads
from lowtide.engine.transaction.request import Request
from lowtide.engine.transaction.savepoint import MISSING, Savepoint
from lowtide.engine.transaction.yielding import Yielding
from lowtide.engine.types import MAX_COMMIT, Names, Range, Writes, commit_too_large
from lowtide.engine.versions.presence import before_of
from lowtide.errors import ConflictError, UsageError

_NOWHERE: Final[frozenset[bytes]] = frozenset()


def _referred_once() -> int:
    here = object()
    return getrefcount(here)


_REFERRED_ONCE: Final = _referred_once()
"""The result of ``getrefcount`` for an object that only one local variable of this module refers to. It is measured,
because a compiled module counts one less."""


class EngineTransaction(TransactionReads):
    """A transaction over full keys; ``lowtide.Transaction`` holds one.

    Statements, savepoints and retries work on its attributes, all in the transaction's own thread:

    * ``state``: empty while it is open, then how it ended. ``policy``: what its isolation level does.
    * ``writes``: the buffer. ``overlay``: the same, in key order, for scans; None until a scan needs it.
    * ``before``: the values at the snapshot of keys that it writes, as far as statements have read them.
    * ``reads``: what a serializable transaction has read; None at other levels. ``guards``: what its statements rely on
      in addition; None if nothing. Both are read by the leader of the commit group, under the commit lock.
    * ``merging``: the prefixes of keyspaces in which its puts merge with equal ones; see ``validate``.
    * ``replaced``: full keys of documents that were replaced. ``callbacks``: those registered with ``on_commit``.
    * ``innermost``: the innermost open savepoint.
    * ``keep``: a reference to the store, which would be closed if it were dropped while the transaction is open.
    * ``memo``: what kinds of data cache about its snapshot, without its own writes, while it is open.

    ``begin`` creates it. That is faster than an ``__init__``, which would be called from C.
    """

    __slots__ = (
        "_wrote_at_once",
        "before",
        "callbacks",
        "guards",
        "innermost",
        "keep",
        "memo",
        "merging",
        "read_only",
        "replaced",
    )

    recorded: ClassVar[bool] = False
    """Whether it records what it reads; see ``recording``."""
    read_only: bool
    keep: object
    memo: dict[Any, Any]
    before: Writes
    guards: Guards | None
    merging: frozenset[bytes]
    replaced: list[bytes] | None
    callbacks: list[Callback] | None
    innermost: Savepoint | None
    _wrote_at_once: bool

    def keyspace(self, name: str) -> Keyspace:
        """The keyspace ``name``, as this transaction sees it. It exists once something was put into it."""
        return Keyspace(name, self.engine.catalog.prefix_of(name), self.read, self)

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
        """Set or delete many full keys. The transaction owns the dict from now on."""
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

    def apply(
        self,
        writes: Writes,
        relied_on: Iterable[bytes],
        before: Writes | None = None,
        merging: frozenset[bytes] = frozenset(),
    ) -> None:
        """Write the result of a statement, like ``write_many``. The commit fails if another transaction has changed one
        of the full keys in ``relied_on`` since the statement read it. ``before`` has the values that the statement read
        for the keys it writes, so that the commit need not read them again. Puts into keyspaces with a prefix in
        ``merging`` merge with equal puts of other transactions; see ``validate``."""
        if merging:
            self.merging |= merging
        if before is not None:
            own = self.writes
            if own and not own.keys().isdisjoint(before):  # for these it saw the transaction's own writes
                before = {full_key: value for full_key, value in before.items() if full_key not in own}
            self.before.update(before)
        self.write_many(writes)
        for full_key in relied_on:
            guards = self.guards
            if guards is None:
                guards = self.guards = Guards()
            guards.keys.setdefault(full_key, self.ts)

    def apply_one(self, full_key: bytes, value: bytes | None, relied_on: bytes, before: bytes | None) -> None:
        """The same as ``apply``, for one key that is written and one that it relies on."""
        if self.state or self.read_only or not self.policy.buffered:
            self.write(full_key, value)  # refuses it, or commits it at once
            return
        if self.engine.expired:
            self.open_ts()
        writes = self.writes
        if full_key not in writes:
            self.before[full_key] = before
        if self.innermost is not None:
            self.innermost.undo.append((full_key, writes.get(full_key, MISSING)))
        if self.overlay is not None:
            self.overlay.change({full_key: value})
        writes[full_key] = value
        guards = self.guards
        if guards is None:
            guards = self.guards = Guards()
        guards.keys.setdefault(relied_on, self.ts)

    def time(self) -> float:
        """The time of the store's clock, in seconds since the epoch."""
        return self.engine.time()

    def note_replaced(self, full_keys: set[bytes]) -> None:
        """Mark documents as replaced rather than updated, for the change feed."""
        if self.replaced is None:
            self.replaced = []
        self.replaced.extend(full_keys)

    def rely_on(self, wanted: Range) -> None:
        """Make the commit fail if another transaction has changed anything in a range of full keys."""
        self.guarding().add_range(wanted, self.ts)

    def give_way(self, full_keys: set[bytes], before: Writes) -> list[bytes]:
        """Make the commit skip those of these keys that other transactions have changed since the snapshot, instead of
        failing. ``before`` has the old values of all keys that are written. Returns a list that contains the skipped
        keys after the commit."""
        self.guarding().yielding = yielding = Yielding(full_keys, before)
        return yielding.left_out

    def guarding(self) -> Guards:
        if self.guards is None:
            self.guards = Guards()
        return self.guards

    def _write_at_once(self, writes: Writes) -> None:
        """Write at level NONE: commit these writes by themselves. ``commit`` syncs them."""
        self.ts = self._submit(writes, False)
        self._wrote_at_once = True

    def commit(self) -> int:
        """Make all writes durable and visible atomically. Returns the commit's timestamp, or that of the snapshot if
        nothing was written. If it raises, the transaction has ended as well."""
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
        """End a transaction that has nothing to publish. At NONE, its writes are synced to disk."""
        try:
            if self._wrote_at_once and self.engine.durable:
                self.engine.sync()
        finally:
            self.state = "committed"
            self._give_back()
        if self.callbacks is not None:
            callbacks = self.engine.committer.callbacks
            callbacks.line_up(self.ts, self.callbacks)
            callbacks.run()
        return self.ts

    def _submit(self, writes: Writes, durably: bool) -> int:
        """Commit these writes, in the same way for one key that the transaction has read as for any others."""
        engine, registration = self.engine, self._registration
        catalog, seen = engine.catalog, self.ts
        names = catalog.names_to_log(writes) if catalog.unlogged else None
        if registration is not None and len(writes) == 1 and self.latest_key in writes:
            token, special = registration.token, self.callbacks or self.guards or self.replaced or names
            if token and not special and engine.registry.published == seen and not engine.before_images:
                payload = encode_one(engine.time(), writes, self.latest_value is not None)
                ts = engine.committer.commit_at_once(writes, payload, seen, token, durably)
                if ts:
                    registration.token = 0  # see ``_submit_any``
                    return ts
        return self._submit_any(writes, names, durably)

    def _submit_any(self, writes: Writes, names: Names | None, durably: bool) -> int:
        engine, registration = self.engine, self._registration
        token = registration.token if registration is not None else 0
        time = engine.time()
        seen = self.ts if token else engine.registry.published  # before the reads, see Autocommit
        if token and len(writes) == 1 and self.latest_key in writes:
            before = [self.latest_value]
        else:
            before = before_of(engine.reader, writes, seen, engine.before_images, self.before if token else None)
        replaced = frozenset(self.replaced) if self.replaced else None
        payload = encode_payload(time, writes, names, before, engine.before_images, replaced=replaced)
        if len(payload) > MAX_COMMIT:
            raise commit_too_large(payload)
        guards = self.guards
        plain = names is None and self.callbacks is None and (guards is None or (token and guards.yielding is None))
        if plain and seen == engine.registry.published:
            ts = engine.committer.commit_at_once(writes, payload, seen, token, durably)
            if ts:
                if registration is not None:
                    registration.token = 0  # see below
                return ts
        request = Request(
            writes=writes,
            seen=seen,
            time=time,
            payload=payload,
            durably=durably,
            names=names,
            token=token,
            reads=self.reads,
            callbacks=self.callbacks if self.policy.buffered else None,
            guards=guards,
            merging=self.merging,
            replaced=replaced,
            recorded=self if self.recorded else None,
        )
        ts = engine.committer.submit(request)
        if registration is not None and ts == seen + 1:
            # The commit has released it. No other commit came in between, so it held nothing back, and there is nothing
            # to report. In all other cases ``_give_back`` reports it.
            registration.token = 0
        return ts

    def rollback(self) -> None:
        """Discard all writes. At NONE there is nothing to discard: each write was committed by itself.

        After a failed commit it does nothing: the commit has discarded everything.
        """
        if self.state:
            self._give_back()  # what an interrupt may have left
            if self.state == "refused":
                return
            raise self._finished()
        self.state = "rolled back"
        self._give_back()
        if self._wrote_at_once:
            warnings.warn("isolation NONE commits each write at once: this rollback undid nothing", stacklevel=2)

    def _give_back(self) -> None:
        """Release the snapshot, and the registration that guards have below SNAPSHOT. May be called repeatedly."""
        if self.guards is not None and self.guards.registration is not None:
            self.guards.registration.release(self.engine.released)
        registration = self._registration
        if registration is not None:
            registry = self.engine.registry
            if token := registration.token:  # the same as its ``release``, without calls
                registry.live.pop(token, None)  # point: release.live
                registry.details.pop(token, None)
                if registry.serializable or registry.partial or registry.expired:
                    registry.release(token)
                if registry.published != self.ts:  # else nothing was committed since, so it held nothing back
                    self.engine.released(self.ts)
                registration.token = 0
            # No call between these two: an interrupt, and anything it calls, comes before both or after both.
            registration, self._registration = self._registration, None
            if registration is not None and getrefcount(registration) == _REFERRED_ONCE:
                registry.spare.append(registration)

    def savepoint(self) -> Savepoint:
        """A part of the transaction that can be rolled back by itself."""
        if self.state:
            raise self._finished()
        if not self.policy.buffered:
            raise UsageError("isolation NONE commits each write at once, so it has no savepoints")
        return Savepoint(self)

    def on_commit(self, callback: Callback) -> None:
        """Call ``callback(ts)`` after the commit was published, in commit order. It is not called if the commit fails,
        or if the savepoint in which it was registered is rolled back."""
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
            self.state = "committed"
            self._give_back()

    def __repr__(self) -> str:
        return f"<transaction at {self.ts}, {self.policy.level.name}, {self.state or 'open'}>"


def begin(engine: Engine, policy: Policy, read_only: bool) -> EngineTransaction:
    """Begin a transaction at the level of ``policy``."""
    return begin_for(engine, policy, read_only, caller(1) if engine.origins else None, None)


def begin_for(engine: Engine, policy: Policy, read_only: bool, opened_by: Any, keep: object) -> EngineTransaction:
    """Begin a transaction for ``opened_by``, a Caller or None, that refers to ``keep``. Without defaults: a compiled
    function takes longer to find out which arguments it was given. ``opened_by`` is typed as in ``Details``."""
    if engine.closed:
        raise UsageError(engine.closed)
    tx: EngineTransaction = EngineTransaction() if engine.new is None else engine.new()
    tx.engine = engine
    tx.policy = policy
    tx.keep = keep
    tx.state = ""
    tx.writes, tx.before, tx.memo = {}, {}, {}
    tx.innermost = tx.reads = tx.replaced = tx.callbacks = tx.guards = tx.overlay = tx.latest_few = None
    tx.latest_key = None  # and ``latest_value`` is set with it
    tx.merging = _NOWHERE
    tx._wrote_at_once = False
    tx.read_only = read_only = read_only or engine.read_only
    if not policy.fixed:
        tx._registration = None
        if engine.anchor is not None:
            tx.keep = keep, engine.anchor()
        tx.ts = engine.registry.published
        return tx
    if policy.tracks_reads and not read_only:
        tx.reads = ReadSet()
    details = (not read_only, engine.now(), opened_by)
    tx._registration = registration = engine.registry.register(details, tx.reads is not None)
    tx.ts = registration.ts
    return tx
