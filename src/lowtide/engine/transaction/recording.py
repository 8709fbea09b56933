"""Transactions that record which versions they read, for the audit.

The result of a read is compared with the versions in the store. So the record shows what was actually read, even if the
engine is wrong; it is not derived from the snapshot. Reads of a transaction's own writes are not recorded.

A transaction only appends to lists. Its ``Entry`` is added before its commit is submitted, and completed afterwards. So
a transaction that saw a commit has its entry after that commit's, and the complete entries up to any point form a
history of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, NamedTuple, Protocol

from lowtide.engine.base.codec import is_tombstone, row_ts, row_value
from lowtide.engine.base.environment import Base
from lowtide.engine.transaction.engine import Commits, Engine
from lowtide.engine.transaction.request import Request
from lowtide.engine.transaction.scans import chunks_of, noted
from lowtide.engine.transaction.transaction import EngineTransaction
from lowtide.engine.types import Range, Writes
from lowtide.engine.versions.chain import versions_of
from lowtide.engine.versions.layers import VersionStore
from lowtide.engine.versions.lookups import scanned_under
from lowtide.engine.versions.visibility import Reader

NOTHING, UNTOLD, UNWRITTEN = 0, -1, -2
"""Used in place of a version: the key was absent; the version cannot be determined; no version has this value."""
WHAT_NOBODY_WROTE = "what no transaction wrote"
"""What is recorded for UNWRITTEN."""
COMMITTED, REFUSED = 1, 2
"""How the transaction of an entry ended; 0 until that is known."""


class SeenRange(NamedTuple):
    """A scan: the part of the range that it read, and the versions that it returned."""

    covered: Range
    found: list[tuple[bytes, int]]


Seen = tuple[bytes, int | str | None] | SeenRange
"""What was read: a full key and its version, or a range. In place of a version, None means that the key was absent, and
a text that no version has the value that was read."""
Entry = list[Any]
"""``[begun, seen, writes, version, ended, fate, merged]`` of one transaction: when it began, what it read (a list of
``Seen``), what it wrote, the timestamp of its commit or None, when it ended, how it ended, and the written keys whose
puts merged with equal ones (see ``validate``) or None. Filled by its thread, ``fate`` last. After that no thread
changes it."""


class Observer(Protocol):
    """Records what transactions read and wrote. ``put`` may be called by any thread, and never waits for another one.
    An entry that is put is not complete yet; see ``Entry``."""

    now: Callable[[], float]

    def put(self, entry: Entry) -> None: ...


def version_of(reader: Reader, full_key: bytes, value: bytes | None, ts: int, *, kept: bool) -> int:
    """Return the version that has this value: the one visible at ``ts``, otherwise the newest before it, otherwise a
    later one.

    ``kept`` says that a snapshot at ``ts`` keeps what it sees. Without one, the version that was read may have been
    overwritten and collected since. Then only the version visible at ``ts`` counts: the read was at that instant, or
    could have been.
    """
    versions, base = reader.sources
    active, frozen, cache = versions.view
    later = UNWRITTEN if kept else UNTOLD
    for layer in (active, frozen) if frozen is not None else (active,):
        for version, other in versions_of(layer.chains.get(full_key)):
            if version > ts:
                later = version if kept and other == value else later
            elif other == value:
                return version
            elif not kept:
                return UNTOLD
    cached = cache.get(full_key)
    if cached is not None and cached[1] == value and cached[0] <= ts:
        return cached[0]
    row = base.row(full_key)
    if row is not None and (None if is_tombstone(row) else row_value(row)) == value:
        if row_ts(row) <= ts:
            return row_ts(row)
        later = row_ts(row) if kept else UNTOLD
    if value is None:
        return NOTHING if base.read_history(full_key, ts) is None and (kept or row is None) else later
    if kept and isinstance(base, Base):
        for version, other in base.history_of(full_key):
            if other == value:
                if version <= ts:
                    return version
                later = version
    return later


class RecordingTransaction(EngineTransaction):
    """A transaction of a recorded store."""

    __slots__ = ("_begun", "_observer", "_seen", "_versions")

    recorded = True
    _begun: float
    _observer: Observer
    _seen: list[Seen]
    _versions: VersionStore

    def read(self, full_key: bytes) -> bytes | None:
        """The same as in any transaction, and recorded."""
        value = EngineTransaction.read(self, full_key)
        if full_key in self.writes:
            return value
        if self._registration is not None:
            # ``version_of`` inlined for the usual case, in which the newest version was read.
            active, frozen, cache = self._versions.view
            found = active.chains.get(full_key)
            if found is None and frozen is None:
                row = cache.get(full_key)
                if row is not None and row[1] is value and row[0] <= self.ts:
                    self._seen.append((full_key, row[0]))
                    return value
            elif found is not None and found[1] is value and found[0] <= self.ts:
                self._seen.append((full_key, found[0]))
                return value
        self.see(full_key, value)
        return value

    def see(self, full_key: bytes, value: bytes | None, ts: int | None = None) -> None:
        """Record a read at the transaction's own instant, or at ``ts``, which a snapshot keeps."""
        self._note(full_key, self._version(full_key, value, ts))

    def _note(self, full_key: bytes, version: int) -> None:
        if version > NOTHING:
            self._seen.append((full_key, version))
        elif version != UNTOLD:
            self._seen.append((full_key, None if version == NOTHING else WHAT_NOBODY_WROTE))

    def _version(self, full_key: bytes, value: bytes | None, ts: int | None) -> int:
        kept = self.policy.fixed or ts is not None
        if ts is None:
            ts = self.ts if kept else self.engine.registry.published
        return version_of(self.engine.reader, full_key, value, ts, kept=kept)

    def read_many(self, full_keys: list[bytes]) -> list[bytes | None]:
        """The same as in any transaction, and recorded."""
        values = EngineTransaction.read_many(self, full_keys)
        for full_key, value in zip(full_keys, values, strict=True):
            if full_key not in self.writes:
                self.see(full_key, value)
        return values

    def scan(self, wanted: Range) -> Iterator[tuple[bytes, bytes]]:
        """The same as in any transaction, and recorded as far as it was read."""
        ts = self.ts if self.policy.fixed else None
        return self.scanned(EngineTransaction.scan(self, wanted), wanted, ts)

    def first(self, wanted: Range) -> tuple[bytes, bytes] | None:
        """The same as in any transaction, and recorded."""
        return next(self.scan(wanted), None)

    def few(self, wanted: Range, most: int) -> None:
        """Return None, so that the caller scans, which records what it reads."""

    def chunks(self, wanted: Range) -> Iterator[list[tuple[bytes, bytes]]]:
        """The same as in any transaction, and recorded as far as it was read."""
        return chunks_of(self.scan(wanted))

    def keys_under(self, prefixes: list[bytes], most: int | None = None) -> list[list[bytes] | None]:
        """The same as in any transaction, and recorded."""
        return [scanned_under(prefix, self.chunks, most) for prefix in prefixes]

    def scanned(
        self, entries: Iterator[tuple[bytes, bytes]], wanted: Range, ts: int | None
    ) -> Iterator[tuple[bytes, bytes]]:
        """The entries of a scan, which is recorded as far as it was read. ``ts`` is the instant that it reads, if it
        reads only one and a snapshot keeps it."""
        own = frozenset(self.writes)

        def note(covered: Range, found: list[tuple[bytes, bytes]]) -> None:
            if not self.state:  # after the transaction has ended, nothing keeps the versions that were read
                self._see_range(covered, found, own, ts)

        return noted(entries, wanted, note)

    def _see_range(
        self, covered: Range, found: list[tuple[bytes, bytes]], own: frozenset[bytes], ts: int | None
    ) -> None:
        """Record a scan. Records only the entries found, if they are of several instants, mixed with own writes, or of
        versions that cannot be determined."""
        versions = [(key, self._version(key, value, ts)) for key, value in found if key not in own]
        told = ts is not None and all(version > NOTHING for _, version in versions)
        if told and not any(covered.covers(key) for key in own):
            self._seen.append(SeenRange(covered, versions))
        else:
            for full_key, version in versions:
                self._note(full_key, version)

    def _commit_nothing(self) -> int:
        ts = EngineTransaction._commit_nothing(self)
        self._note_reads()
        return ts

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        EngineTransaction.__exit__(self, kind, error, trace)
        if self._seen and self.state == "committed":
            self._note_reads()

    def _note_reads(self) -> None:
        """Record a transaction that has written nothing or, at NONE, has recorded each write by itself."""
        seen, self._seen = self._seen, []
        if seen:
            self._observer.put([self._begun, seen, {}, None, self._observer.now(), COMMITTED, None])

    def entry(self, writes: Writes) -> Entry:
        """The entry for a commit; at NONE, for one write."""
        if not self.policy.buffered:
            return [self._begun, (), writes, None, 0.0, 0, None]
        seen, self._seen = self._seen, []
        return [self._begun, seen, writes, None, 0.0, 0, None]


class RecordingCommits:
    """The committer of a recorded store. It also records commits that no ``RecordingTransaction`` makes."""

    def __init__(self, commits: Commits, observer: Observer) -> None:
        self.callbacks = commits.callbacks
        self._commits = commits
        self._now = observer.now
        self._put = observer.put

    def submit(self, request: Request) -> int:
        """Commit, and record the commit."""
        entry = self._entry(request)
        self._put(entry)
        try:
            ts = self._commits.submit(request)
        except BaseException:
            # After an interrupt it may still have been committed: then it has its timestamp.
            self._complete(entry, request, request.ts)
            raise
        if request.guards is None and not request.merged:
            entry[3], entry[4], entry[5] = ts, self._now(), COMMITTED
        else:
            self._complete(entry, request, ts)
        return ts

    def commit_at_once(self, writes: Writes, payload: bytes, seen: int, token: int, durably: bool) -> int:
        """Do nothing: only requests are recorded."""
        return 0

    def exclusive(self) -> AbstractContextManager[None]:
        """Hold the commit lock."""
        return self._commits.exclusive()

    def commit_alone(self, request: Request) -> None:
        """Commit while holding the commit lock, and record the commit."""
        entry = self._entry(request)
        self._put(entry)
        try:
            self._commits.commit_alone(request)
        finally:
            self._complete(entry, request, request.ts)

    def _entry(self, request: Request) -> Entry:
        tx = request.recorded
        return [self._now(), (), request.writes, None, 0.0, 0, None] if tx is None else tx.entry(request.writes)

    def _complete(self, entry: Entry, request: Request, ts: int) -> None:
        if not ts or request.error is not None:
            entry[5] = REFUSED
            return
        if request.guards is not None and request.guards.yielding is not None:
            left_out = set(request.guards.yielding.left_out)
            entry[2] = {key: value for key, value in request.writes.items() if key not in left_out}
        entry[6] = request.merged
        entry[3], entry[4], entry[5] = ts, self._now(), COMMITTED


def record(engine: Engine, observer: Observer) -> None:
    """Record the transactions of an engine from now on."""
    versions, _ = engine.reader.sources
    now = observer.now

    def begun() -> RecordingTransaction:
        tx = RecordingTransaction()
        tx._begun, tx._seen, tx._observer, tx._versions = now(), [], observer, versions
        return tx

    engine.committer, engine.new = RecordingCommits(engine.committer, observer), begun
