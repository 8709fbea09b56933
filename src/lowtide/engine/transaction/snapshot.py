"""A snapshot: the store at one instant, read-only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Protocol, Self

from lowtide.engine.base.cuts import of_keys
from lowtide.engine.transaction.engine import Engine
from lowtide.engine.transaction.keyspace import ReadKeyspace, range_within
from lowtide.engine.transaction.origin import Caller, caller
from lowtide.engine.types import KEYSPACE_PREFIX, Range
from lowtide.engine.versions.counting import count_visible
from lowtide.engine.versions.cutting import estimated_cuts
from lowtide.engine.versions.newest import newest_change
from lowtide.errors import UsageError


class Closing(Protocol):
    """What goes with a snapshot: closed with it, or, in its destructor, which may run anywhere, only told to go."""

    def close(self) -> None: ...

    def drop(self) -> None: ...


class EngineSnapshot:
    """The committed state at ``ts``, kept for as long as this is open; ``lowtide.Snapshot`` holds one. Any number of
    threads may read it at once. ``engine`` is what it reads from."""

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
        """The store, which must not be closed under this because it was dropped."""
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
        self._closing = closing  # last: of a snapshot that could not be made it is the caller's

    def keyspace(self, name: str) -> ReadKeyspace:
        """The keyspace ``name``, as it was at ``ts``."""
        if self.keyspaces is not None and name not in self.keyspaces:
            held = ", ".join(map(repr, self.keyspaces))
            raise UsageError(f"this snapshot is at a pin of {held} only, not of keyspace {name!r}; pin that one, too")
        return ReadKeyspace(self, name, self.engine.catalog.prefix_of(name))

    def read(self, full_key: bytes) -> bytes | None:
        """The value of a full key at ``ts``."""
        engine = self.engine
        value = engine.reader.get(full_key, self.ts)
        # Looked at after the read: what is closed or expired meanwhile may have been collected under it.
        if engine.expired or self._closed:
            self.open_ts()
        return value

    def read_many(self, full_keys: list[bytes]) -> list[bytes | None]:
        """The values of many full keys at ``ts``."""
        values = self.engine.reader.get_many(full_keys, self.ts)
        self.open_ts()
        return values

    def scan(self, wanted: Range) -> Iterator[tuple[bytes, bytes]]:
        """The entries of a range of full keys at ``ts``, with the user's keys."""
        for chunk in self.engine.reader.scan(wanted, self.open_ts, None):
            self.open_ts()  # after the chunk was read, see ``read``
            yield from chunk
        self.open_ts()

    def cuts(self, keyspace: str, parts: int, start: bytes | None = None, stop: bytes | None = None) -> list[bytes]:
        """Keys that cut ``start <= key < stop`` of a keyspace into ``parts`` with about as many keys each, to scan them
        one beside the other: at most ``parts`` - 1, ascending, each the first key of a part. Fewer if there are too few
        keys.

        It takes milliseconds, however many keys there are: they are not counted, but estimated from the pages that they
        lie on.

        >>> with store.snapshot() as snapshot:
        ...     snapshot.cuts("fruit", 3)
        [b'banana', b'blueberry']
        """
        if not isinstance(parts, int) or isinstance(parts, bool) or parts < 1:
            raise UsageError(f"a range is cut into a whole number of parts, 1 or more, not {parts!r}")
        wanted = range_within(self.keyspace(keyspace).prefix, start, stop)
        cuts = estimated_cuts(*self.engine.reader.sources, wanted, self.open_ts(), parts)
        self.open_ts()  # after that was read, see ``read``
        if cuts is None:
            return of_keys([key for key, _ in self.scan(wanted)], parts)
        return [key[KEYSPACE_PREFIX:] for key in cuts]

    def count(self, wanted: Range) -> int:
        """How many keys there are in a range of full keys of one keyspace at ``ts``. By the headers of the base's
        pages, unless the keyspace was changed after ``ts`` and a checkpoint has passed: then they are read."""
        count = count_visible(*self.engine.reader.sources, wanted, self.open_ts())
        self.open_ts()  # after that was read, see ``read``
        return count if count is not None else sum(1 for _ in self.scan(wanted))

    def unchanged_since(self, keyspace: str) -> int | None:
        """A commit after which the keyspace did not change, up to ``ts``: what was read there of it at that commit, or
        at any later one for which this says the same, is still right. None if it is not known, above all if the
        keyspace was changed after ``ts`` and a checkpoint has passed.

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
        """Let go of what only this snapshot sees. Harmless when repeated."""
        self._closed = True  # first: a thread that reads meanwhile looks at it after it has read
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
