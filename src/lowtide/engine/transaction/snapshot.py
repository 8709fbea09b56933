"""A snapshot: the store at one instant, read-only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Protocol, Self

from lowtide.engine.base.cuts import of_keys
from lowtide.engine.transaction.engine import Engine
from lowtide.engine.transaction.keyspace import ReadKeyspace, range_within
from lowtide.engine.transaction.origin import Caller, caller
from lowtide.engine.transaction.scans import entries_of
from lowtide.engine.types import KEYSPACE_PREFIX, Range, Writes
from lowtide.engine.versions.counting import count_visible
from lowtide.engine.versions.cutting import estimated_cuts
from lowtide.engine.versions.lookups import keys_under
from lowtide.engine.versions.newest import newest_change
from lowtide.errors import UsageError


class Closing(Protocol):
    """Something that ends with a snapshot. It is closed with the snapshot. The snapshot's destructor, which may run
    anywhere, only asks it to end."""

    def close(self) -> None: ...

    def drop(self) -> None: ...


class EngineSnapshot:
    """The committed state at ``ts``, kept for as long as this is open. ``lowtide.Snapshot`` holds one. Any number of
    threads may read it at the same time. It reads from ``engine``."""

    __slots__ = ("_closed", "_closing", "_registration", "engine", "keep", "keyspaces", "ts")

    def __init__(
        self,
        engine: Engine,
        at: int | None,
        opened_by: Caller | None = None,
        *,
        pinned: Callable[[], bool] = bool,
        keyspaces: tuple[str, ...] | None = None,
        closing: Closing | None = None,
    ) -> None:
        if engine.closed:
            raise UsageError(engine.closed)
        self.engine = engine
        self.keyspaces = keyspaces
        """The keyspaces that can be read; None for all."""
        self.keep: object = None
        """The store: this reference keeps it from being dropped, and closed, while the snapshot is open."""
        self._closing: Closing | None = None
        self._closed = False
        if opened_by is None and engine.origins:
            opened_by = caller()
        details = (False, engine.now(), opened_by)
        registry = engine.registry
        if at is None:
            self._registration = registry.register(details)
        else:
            self._registration = registry.register_at(at, details, pinned, partial=keyspaces is not None)
        self.ts = self._registration.ts
        self._closing = closing  # last: if the snapshot cannot be created, the caller keeps it

    def keyspace(self, name: str) -> ReadKeyspace:
        """The keyspace ``name``, as it was at ``ts``."""
        if self.keyspaces is not None and name not in self.keyspaces:
            held = ", ".join(map(repr, self.keyspaces))
            raise UsageError(f"this snapshot reads a pin of {held} only, not of keyspace {name!r}; pin that one too")
        return ReadKeyspace(name, self.engine.catalog.prefix_of(name), self.read, self)

    def read(self, full_key: bytes) -> bytes | None:
        """The value of a full key at ``ts``."""
        engine = self.engine
        value = engine.reader.get(full_key, self.ts)
        # Checked after the read: if the snapshot was closed or expired meanwhile, its versions may have been collected.
        if engine.expired or self._closed:
            self.open_ts()
        return value

    def read_many(self, full_keys: list[bytes]) -> list[bytes | None]:
        """The values of many full keys at ``ts``."""
        values = self.engine.reader.get_many(full_keys, self.ts)
        self.open_ts()
        return values

    def peek(self, full_keys: list[bytes]) -> list[bytes | None]:
        """The same as ``read_many``: a snapshot does not track reads."""
        return self.read_many(full_keys)

    def scan(self, wanted: Range) -> Iterator[tuple[bytes, bytes]]:
        """The entries of a range of full keys at ``ts``, with the user's keys."""
        return entries_of(self.chunks(wanted))

    def first(self, wanted: Range) -> tuple[bytes, bytes] | None:
        """The first entry of a bounded range of full keys, with the user's key. Faster than a scan."""
        entry = self.engine.reader.first(wanted, self.ts)
        self.open_ts()  # after the read, see ``read``
        return (entry[0][KEYSPACE_PREFIX:], entry[1]) if entry is not None else None

    def few(self, wanted: Range, most: int) -> tuple[list[tuple[bytes, bytes]], bool] | None:
        """About the first ``most`` entries of a range, with full keys, and whether these are all."""
        found = self.engine.reader.beginning(wanted, self.ts, most)
        self.open_ts()  # after the read, see ``read``
        return found

    def chunks(self, wanted: Range) -> Iterator[list[tuple[bytes, bytes]]]:
        """The same as ``scan``, in lists."""
        for chunk in self.engine.reader.scan(wanted, self.open_ts, None):
            self.open_ts()  # after the chunk was read, see ``read``
            yield chunk
        self.open_ts()

    def keys_under(self, prefixes: list[bytes], most: int | None = None) -> list[list[bytes] | None]:
        """For each prefix of full keys, the user's keys that begin with it; see ``ReadView``."""
        found = keys_under(self.engine.reader, prefixes, self.open_ts(), self.chunks, most)
        self.open_ts()  # after the read, see ``read``
        return found

    def about(self, wanted: Range) -> int:
        """An estimate of the number of keys in a range of full keys of one keyspace."""
        return self.engine.reader.about(wanted, self.open_ts())

    @property
    def tracked(self) -> bool:
        """Always false: a snapshot has no read set."""
        return False

    @property
    def pending(self) -> Writes:
        """Always empty: a snapshot is read-only."""
        return {}

    def time(self) -> float:
        """The time of the store's clock, in seconds since the epoch."""
        return self.engine.time()

    def cuts(self, keyspace: str, parts: int, start: bytes | None = None, stop: bytes | None = None) -> list[bytes]:
        """Return keys that split ``start <= key < stop`` of a keyspace into ``parts`` of about equal size, to scan them
        in parallel. The keys ascend, and each is the first of its part: ``parts`` - 1 keys, or fewer if there are few
        keys.

        This takes milliseconds for any number of keys: it does not count them, but estimates from the pages they are
        on.

        >>> with store.snapshot() as snapshot:
        ...     snapshot.cuts("fruit", 3)
        [b'banana', b'blueberry']
        """
        if not isinstance(parts, int) or isinstance(parts, bool) or parts < 1:
            raise UsageError(f"parts must be a whole number of at least 1, not {parts!r}")
        wanted = range_within(self.keyspace(keyspace).prefix, start, stop)
        cuts = estimated_cuts(*self.engine.reader.sources, wanted, self.open_ts(), parts)
        self.open_ts()  # after that was read, see ``read``
        if cuts is None:
            return of_keys([key for key, _ in self.scan(wanted)], parts)
        return [key[KEYSPACE_PREFIX:] for key in cuts]

    def count(self, wanted: Range) -> int:
        """Count the keys in a range of full keys of one keyspace at ``ts``. It uses the headers of the base's pages,
        unless the keyspace changed after ``ts`` and a checkpoint followed: then it reads the keys."""
        count = count_visible(*self.engine.reader.sources, wanted, self.open_ts())
        self.open_ts()  # after that was read, see ``read``
        return count if count is not None else sum(1 for _ in self.scan(wanted))

    def unchanged_since(self, keyspace: str) -> int | None:
        """Return a commit after which the keyspace did not change, up to ``ts``. Anything read from it at that commit,
        or at a snapshot that returns the same commit, is still valid. None if this is not known, usually because the
        keyspace changed after ``ts`` and a checkpoint followed.

        >>> store.keyspace("fruit").put(b"lime", b"green")
        >>> changed = store.stats().last_commit
        >>> store.keyspace("other").put(b"a", b"b")
        >>> with store.snapshot() as snapshot:
        ...     snapshot.unchanged_since("fruit") == changed
        True
        """
        prefix = self.keyspace(keyspace).prefix
        newest = newest_change(*self.engine.reader.sources, prefix, self.open_ts())
        self.open_ts()  # after that was read, see ``read``
        return newest

    def values(self, wanted: Range, size: int) -> Iterator[list[bytes]]:
        """The values of a range of full keys at ``ts``, forwards, in lists of about ``size``."""
        for chunk in self.engine.reader.values(wanted, self.open_ts, size):
            self.open_ts()  # after the chunk was read, see ``read``
            yield chunk
        self.open_ts()

    def open_ts(self) -> int:
        """The timestamp of an open snapshot; raises if it was closed or has expired."""
        token = self._registration.token
        if token and (expired := self.engine.expired.get(token)) is not None:
            raise expired.error()
        if self._closed:
            raise UsageError("this snapshot is closed; take another one")
        return self.ts

    def close(self) -> None:
        """Close the snapshot, so that versions only it sees can be collected. A second call does nothing."""
        self._closed = True  # first: a thread that is reading checks this after it has read
        self._registration.release(self.engine.released)
        if self._closing is not None:
            self._closing.close()
            self._closing = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        closing: Closing | None = getattr(self, "_closing", None)  # an interrupted begin may have set nothing
        if closing is not None:
            closing.drop()

    def __repr__(self) -> str:
        return f"<snapshot at {self.ts}, {'closed' if self._closed else 'open'}>"
