"""A keyspace as a transaction, a snapshot or the store shows it: an ordered map of bytes to bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Protocol

import msgspec

from lowtide.engine.types import Range, Writes, after_prefix, bad_key, check_key, check_value
from lowtide.errors import UsageError

_BYTES: Final = frozenset((bytes,))


class KeyspaceReads(Protocol):
    """Where a keyspace reads from; keys are full keys."""

    def read(self, full_key: bytes) -> bytes | None: ...

    def scan(self, wanted: Range) -> Iterator[tuple[bytes, bytes]]: ...


class KeyspaceWrites(KeyspaceReads, Protocol):
    """Where a keyspace reads from and writes to."""

    def write(self, full_key: bytes, value: bytes | None) -> None: ...

    def write_many(self, writes: Writes) -> None: ...


def range_within(
    keyspace: bytes, start: bytes | None, stop: bytes | None, *, prefix: bytes | None = None, reverse: bool = False
) -> Range:
    """The range of full keys that a scan with these arguments reads. ``keyspace`` is the prefix of its full keys."""
    for name, value in (("start", start), ("stop", stop), ("prefix", prefix)):
        if value is not None and not isinstance(value, bytes):
            raise UsageError(f"{name} must be bytes, not {type(value).__name__}: {value!r}")
    low, high = keyspace + (start or b""), keyspace + stop if stop is not None else after_prefix(keyspace)
    if prefix is not None:
        low = max(low, keyspace + prefix)
        end = after_prefix(keyspace + prefix)
        high = end if high is None else min(high, end) if end is not None else high
    return Range(low, high if high is None else max(low, high), reverse)


class ReadKeyspace(msgspec.Struct, eq=False):
    """A keyspace that can be read. ``prefix`` starts all of its full keys; ``_read`` is the source's method.

    It is a Struct because every small transaction creates one, which takes half as long as with an ``__init__``.

    >>> with store.snapshot() as snapshot:
    ...     snapshot.keyspace("fruit").get(b"apple")
    b'red'
    """

    name: str
    prefix: bytes
    _read: Callable[[bytes], bytes | None]
    _source: KeyspaceReads

    def get(self, key: bytes) -> bytes | None:
        """The value of ``key``, or None. O(log n).

        >>> store.keyspace("fruit").get(b"apple")
        b'red'
        """
        try:
            return self._read(self.prefix + key)
        except TypeError:
            if isinstance(key, bytes | bytearray | memoryview):
                raise
            raise bad_key(key) from None
        except UsageError:
            moved = getattr(self._source, "moved", None)  # Autocommit has it
            if moved is None or (source := moved(self.prefix)) is None:
                raise
            value: bytes | None = source.read(self.prefix + key)
            return value

    def scan(
        self,
        start: bytes | None = None,
        stop: bytes | None = None,
        *,
        prefix: bytes | None = None,
        reverse: bool = False,
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the entries with ``start <= key < stop`` in key order, or in reverse. Entries are read as you
        iterate.

        ``prefix`` limits the scan to keys that start with it. The transaction may write while it scans; the scan shows
        its writes as they were when the scan began.

        >>> list(store.keyspace("fruit").scan(prefix=b"b"))
        [(b'banana', b'yellow'), (b'blueberry', b'blue')]
        >>> list(store.keyspace("fruit").scan(stop=b"b", reverse=True))
        [(b'apple', b'red')]
        """
        return self._source.scan(range_within(self.prefix, start, stop, prefix=prefix, reverse=reverse))

    def __repr__(self) -> str:
        return f"<keyspace {self.name!r}>"


class Keyspace(ReadKeyspace):
    """A keyspace that can be read and written.

    >>> with store.transaction() as tx:
    ...     tx.keyspace("fruit").put(b"cherry", b"dark red")
    """

    _source: KeyspaceWrites

    def put(self, key: bytes, value: bytes) -> None:
        """Set ``key`` to ``value``, whether it exists or not.

        >>> store.keyspace("fruit").put(b"lime", b"green")
        """
        try:
            full_key = self.prefix + key
        except TypeError:
            raise bad_key(key) from None
        if len(full_key) > 256 or type(value) is not bytes or len(value) > 65536:
            check_key(full_key)
            value = check_value(value)
        self._source.write(full_key, value)

    def put_many(self, entries: Mapping[bytes, bytes] | Iterable[tuple[bytes, bytes]]) -> None:
        """Set many keys at once, from a mapping or from pairs: all of them, or none if one is invalid. Faster than
        calling ``put`` for each.

        >>> store.keyspace("fruit").put_many({b"lime": b"green", b"plum": b"purple"})
        """
        prefix, pairs = self.prefix, entries.items() if isinstance(entries, Mapping) else list(entries)
        try:
            writes: Writes = {prefix + key: value for key, value in pairs}
        except (TypeError, ValueError):
            for entry in pairs:
                _check_pair(entry)  # raises a clearer error if this entry is the cause
            raise
        values = writes.values()
        if not _BYTES.issuperset(map(type, values)) or max(map(len, filter(None, values)), default=0) > 65536:
            writes = {full_key: check_value(value) for full_key, value in writes.items()}
        if max(map(len, writes), default=0) > 256:
            for full_key in writes:
                check_key(full_key)
        if writes:
            self._source.write_many(writes)

    def delete(self, key: bytes) -> None:
        """Remove ``key``. Does nothing if it does not exist.

        >>> store.keyspace("fruit").delete(b"lime")
        """
        try:
            full_key = self.prefix + key
        except TypeError:
            raise bad_key(key) from None
        check_key(full_key)
        self._source.write(full_key, None)


def _check_pair(entry: object) -> None:
    """Raise a UsageError that says what is wrong with an entry."""
    if not isinstance(entry, tuple | list) or len(entry) != 2:
        raise UsageError(f"put_many takes a mapping or pairs of key and value, not {entry!r}")
    if not isinstance(entry[0], bytes):
        raise bad_key(entry[0])
