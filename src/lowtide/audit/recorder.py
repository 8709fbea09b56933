"""Records what a store's transactions do and see, as the rows of a history.

The recorder uses only the public API. Values are JSON, keys are text. Each write of a key must have a distinct value,
so that the checker knows which write a read saw. ``append`` reads a list and writes it back with one more element.

A row is written before the next operation begins, and a commit's row after it has returned. The history of a killed
process therefore lacks at most the outcome of its last transactions, which the checker infers from later reads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import msgspec

from lowtide.audit.history import Element, History, Name, Row, Value
from lowtide.engine import Isolation
from lowtide.errors import TransientError, UsageError

_encode = msgspec.json.encode


class RecordedReads(Protocol):
    """The part of a keyspace's read API that the recorder uses."""

    def get(self, key: bytes) -> bytes | None: ...

    def scan(self, start: bytes | None = None, stop: bytes | None = None) -> Iterator[tuple[bytes, bytes]]: ...


class RecordedStore(Protocol):
    """A transaction or a snapshot, as the recorder uses it."""

    def keyspace(self, name: str) -> Any: ...


class Beginning(Protocol):
    """A store, as the recorder uses it."""

    def begin(self, isolation: Isolation | str = ..., *, read_only: bool = ...) -> Any: ...


class Recorder:
    """Begins recorded transactions. Rows are kept in memory or appended to a file.

    ``prefix`` makes the names of transactions unique across several recorders whose files are combined.

    >>> from lowtide.audit import Recorder, audit
    >>> recorder = Recorder()
    >>> with recorder.begin(store) as tx:
    ...     tx.put("plum", 1)
    >>> with recorder.begin(store) as tx:
    ...     tx.get("plum")
    1
    >>> audit(recorder.history()).ok
    True
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        keyspace: str = "audit",
        prefix: str = "",
        clock: Callable[[], float] | None = time.monotonic,
    ) -> None:
        self.rows: list[Row] = []
        self.keyspace = keyspace
        self.clock = clock
        self._prefix = prefix
        self._numbers = count(1)
        self._turns: dict[Name, Iterator[int]] = {}
        # Unbuffered, one write per row: lines of threads do not interleave, and a killed process loses none.
        self._file = None if path is None else open(path, "ab", buffering=0)  # noqa: SIM115

    def begin(
        self,
        store: Beginning,
        isolation: Isolation | str = Isolation.SERIALIZABLE,
        *,
        session: Name | None = None,
        read_only: bool = False,
    ) -> Recorded:
        """Begin a transaction of ``store``. The transactions of one session must not overlap."""
        began = self._begin(session, timed=True)
        return Recorded(self, began, store.begin(isolation, read_only=read_only))

    def look(self, snapshot: RecordedStore, *, session: Name | None = None) -> Recorded:
        """Record reads of ``snapshot`` as a transaction without times, since a pin shows the past."""
        return Recorded(self, self._begin(session, timed=False), snapshot)

    def _begin(self, session: Name | None, *, timed: bool) -> Name:
        number = next(self._numbers)
        name: Name = f"{self._prefix}{number}" if self._prefix else number
        turn = None if session is None or not timed else next(self._turns.setdefault(session, count(1)))
        moment = self.clock() if timed and self.clock is not None else None
        self.write(Row(tx=name, op="begin", index=0, session=session, turn=turn, time=moment))
        return name

    def write(self, row: Row) -> None:
        """Record a row."""
        if self._file is None:
            self.rows.append(row)
        else:
            self._file.write(_encode(row) + b"\n")

    def history(self) -> History:
        """Return the history recorded in memory so far."""
        if self._file is not None:
            raise UsageError("this recorder writes to a file; read it with History.load")
        return History(list(self.rows))

    def close(self) -> None:
        """Close the file, if there is one."""
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Recorded:
    """One recorded transaction."""

    def __init__(self, recorder: Recorder, name: Name, source: Any) -> None:
        self.name = name
        self.source = source
        self._recorder = recorder
        self._keyspace = source.keyspace(recorder.keyspace)
        self._at_once = getattr(source, "isolation", None) is Isolation.NONE
        self._indexes = count(1)
        self._ended = False

    def _note(self, **fields: Any) -> None:
        self._recorder.write(Row(tx=self.name, index=next(self._indexes), **fields))

    def _version(self) -> int | None:
        """At NONE each write is a commit of its own."""
        return int(self.source.ts) if self._at_once else None

    def get(self, key: str) -> Value:
        """Read a key."""
        value: Value = _decoded(self._keyspace.get(key.encode()))
        self._note(op="read", key=key, value=value)
        return value

    def put(self, key: str, value: Element) -> None:
        """Write a value that no other transaction writes to this key."""
        self._keyspace.put(key.encode(), _encode(value))
        self._note(op="write", key=key, value=value, version=self._version())

    def delete(self, key: str) -> None:
        """Delete a key. A later read that finds nothing does not show which delete it saw; see docs/audit.md."""
        self._keyspace.delete(key.encode())
        self._note(op="write", key=key, value=None, version=self._version())

    def append(self, key: str, element: Element) -> None:
        """Append an element that no other transaction appends to this key."""
        found = self.get(key) or []
        if not isinstance(found, list):
            raise UsageError(f"{key!r} holds {found!r}, which is not a list")
        self._keyspace.put(key.encode(), _encode([*found, element]))
        self._note(op="append", key=key, value=element, version=self._version())

    def scan(self, low: str | None = None, high: str | None = None) -> dict[str, Value]:
        """Read all keys in ``[low, high)``."""
        entries = self._keyspace.scan(_bytes(low), _bytes(high))
        values = {key.decode(): _decoded(value) for key, value in entries}
        self._note(op="scan", low=low, high=high, values=values)
        return values

    def commit(self) -> None:
        """Commit. A refused commit is recorded as such; after any other failure the outcome is unknown."""
        self._ended = True
        version = None
        try:
            if hasattr(self.source, "commit"):
                version = self.source.commit()
        except TransientError:
            self._end("abort")
            raise
        self._end("commit", None if self._at_once else version)

    def rollback(self) -> None:
        """Roll back. At NONE, writes are already committed."""
        self._ended = True
        if hasattr(self.source, "rollback"):
            self.source.rollback()
        self._end("abort")

    def _end(self, op: str, version: int | None = None) -> None:
        clock = self._recorder.clock
        self._note(op=op, version=version, time=clock() if clock is not None else None)

    def __enter__(self) -> Recorded:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ended:
            return
        if kind is None:
            self.commit()
        else:
            self.rollback()


def _decoded(value: bytes | None) -> Any:
    return None if value is None else msgspec.json.decode(value)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
