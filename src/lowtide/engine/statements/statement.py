"""Statements: parts of a transaction that read one instant, and write at their end or not at all.

A transaction at SNAPSHOT or above reads one instant anyway, and is used as the statement itself. Below SNAPSHOT, each
statement takes its own snapshot, and the commit is refused if another transaction has changed the keys that the
statement writes since then. Keys that belong together, such as a document and its index entries, must not be partly
overwritten by another write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from lowtide.engine.transaction.guards import Guards
from lowtide.engine.transaction.origin import caller
from lowtide.engine.transaction.registration import Registration
from lowtide.engine.transaction.scans import entries_of, tracked, tracked_chunks
from lowtide.engine.transaction.transaction import EngineTransaction
from lowtide.engine.types import KEYSPACE_PREFIX, Range, Writes
from lowtide.engine.versions.lookups import keys_under, scanned_under
from lowtide.engine.versions.own import OwnWrites


class ReadView(Protocol):
    """Reads of one instant: a transaction, a snapshot or a statement. Keys are full keys. ``time`` is the current time
    of the store's clock, in seconds since the epoch.

    * ``peek`` is ``read_many`` without tracking: a serializable transaction is not validated against it. Use it only if
      the answer does not affect what the transaction does, or is guarded in another way: for rows whose key is a
      function of their content, and for values that are read only for the change feed.
    * ``chunks`` is ``scan`` in lists. When it yields a chunk, it has read all of it.
    * ``keys_under`` returns, for each of many prefixes, the user's keys that begin with it. Each prefix must be longer
      than that of its keyspace. It is equivalent to a scan of each range, but faster for short ranges. The result is
      None for a prefix with more than ``most`` keys.
    * ``about`` estimates the number of keys in a range of one keyspace. It is not tracked either, and ignores the
      transaction's own writes.
    * ``pending`` is what the transaction has written but not committed. The caller must not change it.
    * ``tracked`` says whether reads enter the read set of a serializable transaction.
    """

    @property
    def ts(self) -> int: ...

    def read(self, full_key: bytes) -> bytes | None: ...

    def read_many(self, full_keys: list[bytes]) -> list[bytes | None]: ...

    def peek(self, full_keys: list[bytes]) -> list[bytes | None]: ...

    def scan(self, wanted: Range) -> Iterator[tuple[bytes, bytes]]: ...

    def chunks(self, wanted: Range) -> Iterator[list[tuple[bytes, bytes]]]: ...

    def keys_under(self, prefixes: list[bytes], most: int | None = None) -> list[list[bytes] | None]: ...

    def about(self, wanted: Range) -> int: ...

    @property
    def pending(self) -> Writes: ...

    @property
    def tracked(self) -> bool: ...

    def time(self) -> float: ...


class WriteView(ReadView, Protocol):
    """A read view that a statement can also write to."""

    def apply(
        self,
        writes: Writes,
        relied_on: Iterable[bytes],
        before: Writes | None = None,
        merging: frozenset[bytes] = frozenset(),
    ) -> None: ...

    def rely_on(self, wanted: Range) -> None: ...

    def note_replaced(self, full_keys: set[bytes]) -> None: ...


class Statement:
    """A statement of a transaction below SNAPSHOT, or the read view of a cursor in any transaction. A ``steady`` one
    shows the transaction's own writes as they were when it began. Used by one thread. Its creator closes or drops
    it."""

    __slots__ = ("_own", "_registration", "_steady", "_tx", "ts")

    def __init__(self, tx: EngineTransaction, *, steady: bool = False) -> None:
        self._registration: Registration | None = None
        self._tx = tx
        self._steady = steady
        self._own = tx.own_writes() if steady and tx.writes else None
        self.ts = tx.open_ts()
        if not tx.policy.fixed:
            engine = tx.engine
            opened_by = caller() if steady and engine.origins else None
            self._registration = engine.registry.register((not steady, engine.now(), opened_by))
            self.ts = self._registration.ts

    def read(self, full_key: bytes) -> bytes | None:
        """The value of a full key: the transaction's own writes first, then what was committed."""
        return self.read_many([full_key])[0]

    def read_many(self, full_keys: list[bytes]) -> list[bytes | None]:
        """The values of many full keys."""
        if self._tx.reads is not None:
            self._tx.reads.keys.update(full_keys)
        return self.peek(full_keys)

    def peek(self, full_keys: list[bytes]) -> list[bytes | None]:
        """The same as ``read_many``, but not added to the read set of a serializable transaction; see ``ReadView``."""
        tx = self._tx
        values = tx.engine.reader.get_many(full_keys, self.ts)
        self._open_ts()
        if self._own is not None:
            return self._own.values_over(full_keys, values)
        if self._steady or not tx.writes:
            return values
        writes = tx.writes
        return [writes.get(key, value) for key, value in zip(full_keys, values, strict=True)]

    def scan(self, wanted: Range) -> Iterator[tuple[bytes, bytes]]:
        """The entries of a range of full keys, with the user's keys."""
        tx = self._tx
        entries = entries_of(self._chunks(wanted))
        return entries if tx.reads is None else tracked(entries, wanted, tx.reads)

    def chunks(self, wanted: Range) -> Iterator[list[tuple[bytes, bytes]]]:
        """The same as ``scan``, in lists."""
        tx = self._tx
        chunks = self._chunks(wanted)
        return chunks if tx.reads is None else tracked_chunks(chunks, wanted, tx.reads)

    def _chunks(self, wanted: Range) -> Iterator[list[tuple[bytes, bytes]]]:
        tx = self._tx
        own = tx.own_writes() if tx.writes and not self._steady else self._own
        return self._read_chunks(wanted, own)

    def _read_chunks(self, wanted: Range, own: OwnWrites | None) -> Iterator[list[tuple[bytes, bytes]]]:
        for chunk in self._tx.engine.reader.scan(wanted, self._open_ts, own):
            self._open_ts()
            yield chunk

    def keys_under(self, prefixes: list[bytes], most: int | None = None) -> list[list[bytes] | None]:
        """For each prefix of full keys, the user's keys that begin with it."""
        tx, ts = self._tx, self._open_ts()
        if tx.reads is not None or self._own is not None or (tx.writes and not self._steady):
            return [scanned_under(prefix, self.chunks, most) for prefix in prefixes]
        found = keys_under(tx.engine.reader, prefixes, ts, self.chunks, most)
        self._open_ts()
        return found

    def about(self, wanted: Range) -> int:
        """An estimate of the number of keys in a range of full keys of one keyspace."""
        return self._tx.engine.reader.about(wanted, self._open_ts())

    @property
    def pending(self) -> Writes:
        """What the transaction has written."""
        return self._tx.writes

    @property
    def tracked(self) -> bool:
        """Whether the transaction is serializable."""
        return self._tx.reads is not None

    def time(self) -> float:
        """The time of the store's clock, in seconds since the epoch."""
        return self._tx.engine.time()

    def _open_ts(self) -> int:
        tx = self._tx
        tx.open_ts()
        registration = self._registration
        if registration is not None and (expired := tx.engine.expired.get(registration.token)) is not None:
            raise expired.error()
        return self.ts

    def apply(
        self,
        writes: Writes,
        relied_on: Iterable[bytes],
        before: Writes | None = None,
        merging: frozenset[bytes] = frozenset(),
    ) -> None:
        """Write the result of the statement. At NONE this commits it, unless another commit came first. Writes to
        keyspaces in ``merging`` are not guarded: the last write wins."""
        tx = self._tx
        tx.open_ts()
        guards = self._guarding()
        guarded = [key for key in writes if key[:KEYSPACE_PREFIX] not in merging] if merging else writes
        for full_key in (*relied_on, *guarded):
            guards.add(full_key, self.ts)
        if before is not None and tx.policy.buffered:
            tx.before.update((full_key, value) for full_key, value in before.items() if full_key not in tx.writes)
        try:
            tx.write_many(writes)
        finally:
            if not tx.policy.buffered:
                tx.guards = None
                tx.replaced = None

    def note_replaced(self, full_keys: set[bytes]) -> None:
        """Mark documents as replaced rather than updated, for the change feed."""
        self._tx.note_replaced(full_keys)

    def rely_on(self, wanted: Range) -> None:
        """Make the commit fail if another commit has changed the range. At NONE this is the commit of the next
        ``apply``."""
        self._guarding().add_range(wanted, self.ts)

    def _guarding(self) -> Guards:
        """The transaction's guards. If they have no older registration, they get this statement's. A buffered
        transaction takes the registration over, because it commits later; at NONE the statement keeps it."""
        guards = self._tx.guarding()
        if guards.registration is None:
            guards.registration = self._registration
            if self._tx.policy.buffered:
                self._registration = None
        return guards

    def close(self) -> None:
        """Release the snapshot. A second call does nothing."""
        if self._registration is not None:
            self._registration.release(self._tx.engine.released)
