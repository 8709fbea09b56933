"""The reads of a transaction: its own writes first, then the committed state at its snapshot."""

from __future__ import annotations

from collections.abc import Iterator

from lowtide.engine.transaction.engine import Engine
from lowtide.engine.transaction.isolation import Policy
from lowtide.engine.transaction.origin import caller
from lowtide.engine.transaction.read_set import ReadSet
from lowtide.engine.transaction.registration import Registration
from lowtide.engine.transaction.scans import entries_of, scan_latest, tracked, tracked_chunks
from lowtide.engine.types import KEYSPACE_PREFIX, Range, Writes
from lowtide.engine.versions.lookups import keys_under, scanned_under
from lowtide.engine.versions.own import Overlay, OwnWrites
from lowtide.errors import UsageError


class TransactionReads:
    """The reads of a transaction; see ``EngineTransaction`` for its attributes. Used by one thread at a time."""

    __slots__ = (
        "_registration",
        "engine",
        "latest_few",
        "latest_key",
        "latest_value",
        "overlay",
        "policy",
        "reads",
        "state",
        "ts",
        "writes",
    )

    engine: Engine
    policy: Policy
    ts: int
    """The commit that this transaction reads from; below SNAPSHOT, the last one when it began."""
    state: str
    writes: Writes
    overlay: Overlay | None
    reads: ReadSet | None
    latest_few: tuple[Range, int, tuple[list[tuple[bytes, bytes]], bool]] | None
    """The last arguments of ``few`` and its result, which stays correct because the transaction reads one instant. It
    is often asked for again, because a program reads what it then changes."""
    latest_key: bytes | None
    latest_value: bytes | None
    """The last key that was read from the snapshot, and its value there. A commit of that key alone need not read it
    again."""
    _registration: Registration | None
    """The registration of its snapshot while it is open; None below SNAPSHOT. If an interrupt keeps the transaction
    from releasing it, the registration releases itself when the transaction is dropped."""

    def read(self, full_key: bytes) -> bytes | None:
        """The value of a full key: the transaction's own writes first, then the committed state."""
        if self.state:
            raise self._finished()
        writes, engine = self.writes, self.engine
        if writes and full_key in writes:
            value = writes[full_key]
        elif self._registration is not None:
            if self.reads is not None:
                self.reads.keys.add(full_key)
            value = engine.reader.get(full_key, self.ts)
            self.latest_key, self.latest_value = full_key, value
        else:
            return engine.reader.get_latest(full_key)
        if engine.expired:  # checked after the read: the versions of a snapshot that expired meanwhile may be gone
            self.open_ts()
        return value

    def read_many(self, full_keys: list[bytes]) -> list[bytes | None]:
        """The values of many full keys, each the same as ``read`` returns. Only for a transaction that reads one
        instant."""
        if self.reads is not None:
            self.reads.keys.update(full_keys)
        return self.peek(full_keys)

    def peek(self, full_keys: list[bytes]) -> list[bytes | None]:
        """The same as ``read_many``, but not added to the read set of a serializable transaction; see ``ReadView``."""
        if self.state:
            raise self._finished()
        values = self.engine.reader.get_many(full_keys, self.ts)
        self.open_ts()
        writes = self.writes
        if not writes or writes.keys().isdisjoint(full_keys):
            return values
        return [writes.get(key, value) for key, value in zip(full_keys, values, strict=True)]

    def scan(self, wanted: Range) -> Iterator[tuple[bytes, bytes]]:
        """The entries of a range of full keys, with the user's keys."""
        if self.state:
            raise self._finished()
        own = self.own_writes() if self.writes else None
        if self.policy.fixed:
            entries = entries_of(self._chunks(wanted, own))
            return entries if self.reads is None else tracked(entries, wanted, self.reads)
        opened_by = caller(1) if self.engine.origins else None
        one_snapshot = self.policy.scan_snapshot
        return scan_latest(
            self.engine, wanted, own=own, one_snapshot=one_snapshot, opened_by=opened_by, check=self.open_ts
        )

    def first(self, wanted: Range) -> tuple[bytes, bytes] | None:
        """The first entry of a bounded range of full keys, with the user's key. Faster than a scan. Only for a
        transaction that reads one instant."""
        if self.state:
            raise self._finished()
        if self.reads is not None or (self.writes and self._touches(wanted)):
            return next(self.scan(wanted), None)
        entry = self.engine.reader.first(wanted, self.ts)
        if self.engine.expired:  # after the read, see ``read``
            self.open_ts()
        return (entry[0][KEYSPACE_PREFIX:], entry[1]) if entry is not None else None

    def few(self, wanted: Range, most: int) -> tuple[list[tuple[bytes, bytes]], bool] | None:
        """About the first ``most`` entries of a range, with full keys, and whether these are all. Only for a
        transaction that reads one instant. None if the range must be scanned, because it contains own writes or reads
        are tracked."""
        if self.state:
            raise self._finished()
        if self.reads is not None or (self.writes and self._touches(wanted)):
            return None
        known = self.latest_few
        if known is not None and known[0] == wanted and known[1] == most:
            found = known[2]
        else:
            found = self.engine.reader.beginning(wanted, self.ts, most)
            self.latest_few = (wanted, most, found)
        if self.engine.expired:  # after the read, see ``read``
            self.open_ts()
        return found

    def chunks(self, wanted: Range) -> Iterator[list[tuple[bytes, bytes]]]:
        """The same as ``scan``, in lists. Only for a transaction that reads one instant."""
        if self.state:
            raise self._finished()
        chunks = self._chunks(wanted, self.own_writes() if self.writes else None)
        return chunks if self.reads is None else tracked_chunks(chunks, wanted, self.reads)

    def keys_under(self, prefixes: list[bytes], most: int | None = None) -> list[list[bytes] | None]:
        """For each prefix of full keys, the user's keys that begin with it; see ``ReadView``. Only for a transaction
        that reads one instant."""
        ts = self.open_ts()
        if self.reads is not None or self.writes:
            return [scanned_under(prefix, self.chunks, most) for prefix in prefixes]
        found = keys_under(self.engine.reader, prefixes, ts, self.chunks, most)
        self.open_ts()  # after the read, see ``read``
        return found

    def about(self, wanted: Range) -> int:
        """An estimate of the number of keys in a range of full keys of one keyspace."""
        return self.engine.reader.about(wanted, self.open_ts())

    @property
    def tracked(self) -> bool:
        """Whether the transaction is serializable, so that its reads are recorded."""
        return self.reads is not None

    @property
    def pending(self) -> Writes:
        """The uncommitted writes of the transaction."""
        return self.writes

    def _touches(self, wanted: Range) -> bool:
        """Whether there may be own writes in a range."""
        if self.overlay is None:
            self.overlay = Overlay()
        return self.overlay.touches(self.writes, wanted, self.policy.fixed)

    def own_writes(self) -> OwnWrites:
        """The transaction's own writes as they are now, for a scan."""
        if self.overlay is None:
            self.overlay = Overlay()
        return self.overlay.view(self.writes, self.policy.fixed)

    def _chunks(self, wanted: Range, own: OwnWrites | None) -> Iterator[list[tuple[bytes, bytes]]]:
        for chunk in self.engine.reader.scan(wanted, self.open_ts, own):
            self.open_ts()  # after the chunk was read, see ``read``
            yield chunk
        self.open_ts()

    def open_ts(self) -> int:
        """The timestamp, for a scan that continues. Raises if the transaction has ended or its snapshot has expired,
        because what it sees is then no longer kept. Below SNAPSHOT there is no timestamp, and nothing that could
        expire."""
        if self.state:
            raise self._finished()
        registration = self._registration
        if registration is not None and (expired := self.engine.expired.get(registration.token)) is not None:
            raise expired.error()
        return self.ts

    def _finished(self) -> UsageError:
        return UsageError(f"this transaction was {self.state} and cannot be used any more; begin another one")
