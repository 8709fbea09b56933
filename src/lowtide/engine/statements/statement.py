"""A statement: a part of a transaction that reads one instant, and writes at its end or not at all.

A transaction at SNAPSHOT or above is at one instant anyway, and serves as the statement itself. Below, each statement
takes its own snapshot, and the commit is refused if another transaction has changed what it writes since then. Keys
that belong together, such as a document and its index entries, must not be partly overwritten by another write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from lowtide.engine.transaction.guards import Guards
from lowtide.engine.transaction.origin import caller
from lowtide.engine.transaction.registry import Registration
from lowtide.engine.transaction.scans import tracked
from lowtide.engine.transaction.transaction import EngineTransaction
from lowtide.engine.types import Range, Writes
from lowtide.engine.versions.own import OwnWrites


class ReadView(Protocol):
    """What reads of one instant come from: a transaction, a snapshot or a statement; keys are full keys."""

    @property
    def ts(self) -> int: ...

    def read(self, full_key: bytes) -> bytes | None: ...

    def read_many(self, full_keys: list[bytes]) -> list[bytes | None]: ...

    def scan(self, wanted: Range) -> Iterator[tuple[bytes, bytes]]: ...


class WriteView(ReadView, Protocol):
    """What a statement writes to, besides."""

    def apply(self, writes: Writes, relied_on: Iterable[bytes], before: Writes | None = None) -> None: ...

    def rely_on(self, wanted: Range) -> None: ...

    def note_replaced(self, full_keys: set[bytes]) -> None: ...


class Statement:
    """One statement of a transaction below SNAPSHOT, or a cursor's reading of any transaction: one that is ``steady``
    sees the transaction's own writes as they were when it began. Used by one thread; closed by the code that made it,
    or dropped."""

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
        tx = self._tx
        if tx.reads is not None:
            tx.reads.keys.update(full_keys)
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
        own = tx.own_writes() if tx.writes and not self._steady else self._own
        entries = self._scan(wanted, own)
        return entries if tx.reads is None else tracked(entries, wanted, tx.reads)

    def _scan(self, wanted: Range, own: OwnWrites | None) -> Iterator[tuple[bytes, bytes]]:
        for chunk in self._tx.engine.reader.scan(wanted, self._open_ts, own):
            self._open_ts()
            yield from chunk

    def _open_ts(self) -> int:
        tx = self._tx
        tx.open_ts()
        registration = self._registration
        if registration is not None and (expired := tx.engine.expired.get(registration.token)) is not None:
            raise expired.error()
        return self.ts

    def apply(self, writes: Writes, relied_on: Iterable[bytes], before: Writes | None = None) -> None:
        """Write the result of the statement; at NONE, commit it, unless another commit came first."""
        tx = self._tx
        tx.open_ts()
        guards = self._guarding()
        for full_key in (*relied_on, *writes):
            guards.add(full_key, self.ts)
        if before is not None and tx.policy.buffered:
            tx.before.update((full_key, value) for full_key, value in before.items() if full_key not in tx.writes)
        try:
            tx.write_many(writes)
        finally:
            if not tx.policy.buffered:
                tx.guards = None
                tx.replaced = []

    def note_replaced(self, full_keys: set[bytes]) -> None:
        """Let the change feed say that documents were replaced, not updated."""
        self._tx.note_replaced(full_keys)

    def rely_on(self, wanted: Range) -> None:
        """Let the commit, at NONE that of the next ``apply``, fail if another one has changed the range."""
        self._guarding().add_range(wanted, self.ts)

    def _guarding(self) -> Guards:
        """The transaction's guards, with this statement's registration if they have none that is older. Those of a
        transaction that commits later take it over; at NONE it stays the statement's."""
        guards = self._tx.guarding()
        if guards.registration is None:
            guards.registration = self._registration
            if self._tx.policy.buffered:
                self._registration = None
        return guards

    def close(self) -> None:
        """Let go of the snapshot. Harmless when repeated."""
        if self._registration is not None:
            self._registration.release(self._tx.engine.released)


def statement_of(tx: EngineTransaction) -> EngineTransaction | Statement:
    """What a statement of ``tx`` reads from and writes to."""
    return tx if tx.policy.fixed else Statement(tx)
