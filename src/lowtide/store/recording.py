"""Records what a store's transactions read and wrote, as rows of a history in a directory of JSON Lines files.

Each opening writes a separate file. Keys are named ``opening:keyspace/key``, so the recording after a crash is a
history of its own, which begins with the state at the opening. A transaction only appends an entry to a list. A
separate thread writes the entries later, one row each, many rows per call.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import msgspec

from lowtide.engine.transaction.engine import Engine
from lowtide.engine.transaction.recording import COMMITTED, REFUSED, Entry, SeenRange, record
from lowtide.engine.types import KEYSPACE_PREFIX
from lowtide.errors import UsageError
from lowtide.system.clock import Clock
from lowtide.system.threads import join

logger = logging.getLogger("lowtide")

_SPAN = 10**12
"""Transactions of one opening at most; their names are numbers."""
_KEYS = 100_000
"""Keys whose text is kept."""
_BLOCK = 256
"""Entries that are written at once, as soon as this many are waiting. More of them would make Python's garbage
collector traverse the whole heap."""
_WAIT = 0.1
"""Seconds for which entries are gathered, if they are fewer."""
_encode_lines = msgspec.json.Encoder().encode_lines


class WholeTransaction(msgspec.Struct, tag_field="op", tag="transaction", omit_defaults=True, gc=False):
    """A row of the file; see docs/audit.md."""

    tx: int
    begun: float
    time: float
    version: int | None = None
    reads: list[tuple[Any, ...]] | None = None
    writes: list[str] | None = None
    deletes: list[str] | None = None
    merges: list[str] | None = None


class HistoryFile:
    """The file of one opening.

    Any thread puts entries into ``_entries``, and only appends. They are written in that order, up to the first one
    that is not complete, by one thread at a time, which holds ``_writing``: the thread of this file, or one that finds
    many waiting. It alone takes entries out, from the beginning.
    """

    def __init__(
        self, directory: str | os.PathLike[str], name_of: Callable[[bytes], str], clock: Callable[[], float]
    ) -> None:
        self.now = clock
        self._name_of = name_of
        self._prefixes: dict[bytes, str] = {}
        self._keys: dict[bytes, str] = {}
        self._opening, self._file = _new_file(Path(directory))
        self._process = os.getpid()
        self._name = self._opening * _SPAN
        self._entries: list[Entry] = []
        self._writing = threading.Lock()
        self._awake = threading.Event()
        self._ending = threading.Event()
        self._failed = False
        self._thread = threading.Thread(target=self._run, name="lowtide-recorder", daemon=True)
        self._thread.start()

    def put(self, entry: Entry) -> None:
        """Take an entry, to be written once it is complete. Where many are waiting, this thread writes them down."""
        entries = self._entries
        entries.append(entry)
        if len(entries) == 1:
            self._awake.set()
        elif len(entries) >= _BLOCK and self._writing.acquire(blocking=False):
            try:
                self._write_block()
            finally:
                self._writing.release()

    def flush(self) -> None:
        """Write all entries down up to the first that is not complete."""
        with self._writing:
            while self._write_block():
                pass

    def close(self) -> None:
        """Write the rest, and close the file. Harmless when repeated, and in the thread of this file, too, where the
        cyclic collector may find a dropped store: then that thread does it later."""
        if self._process == os.getpid():  # in a fork, the entries are the parent's, and so is the thread
            self._ending.set()
            self._awake.set()
            join(self._thread)

    def _run(self) -> None:
        try:
            while not self._ending.is_set():
                self._awake.wait()
                self._ending.wait(_WAIT)
                self._awake.clear()  # before the look at the entries, see ``put``
                self.flush()
                if self._entries:
                    self._awake.set()
            self.flush()
        finally:
            with self._writing:
                os.close(self._file)
                self._file = -1

    def _write_block(self) -> bool:
        """Write a block of entries; whether there may be more to write."""
        block = self._entries[:_BLOCK]
        rows: list[WholeTransaction] = []
        done = 0
        try:
            for done, entry in enumerate(block, 1):
                fate = entry[5]
                if fate == COMMITTED:
                    rows.append(self._row(entry))
                elif fate != REFUSED:
                    done -= 1
                    break
            if rows and not self._failed and self._file >= 0:
                _write_all(self._file, _encode_lines(rows))
        except OSError:
            # A history with missing entries would show anomalies that did not happen, so it ends here.
            self._failed = True
            logger.exception("the recording of transactions has failed, and ends here; the store goes on without it")
        del self._entries[:done]
        return done == _BLOCK

    def _row(self, entry: Entry) -> WholeTransaction:
        begun, seen, writes, version, ended, _, merged = entry
        self._name = name = self._name + 1
        keys = self._keys
        deletes = merges = None
        if merged:
            merges = [self._key(full_key) for full_key in writes if full_key in merged]
            writes = {full_key: value for full_key, value in writes.items() if full_key not in merged}
        try:
            reads = [(keys[full_key], saw) for full_key, saw in seen]
            written = [keys[full_key] for full_key in writes]
            if None in writes.values():
                deletes = [keys[full_key] for full_key, value in writes.items() if value is None]
                written = [keys[full_key] for full_key, value in writes.items() if value is not None]
        except KeyError:  # a new key, or a scan
            key = self._key
            reads = [self._scan(each) if isinstance(each, SeenRange) else (key(each[0]), each[1]) for each in seen]
            written = [key(full_key) for full_key, value in writes.items() if value is not None]
            deletes = [key(full_key) for full_key, value in writes.items() if value is None]
        return WholeTransaction(
            name,
            begun,
            ended,
            version,
            reads=reads or None,
            writes=written or None,
            deletes=deletes or None,
            merges=merges,
        )

    def _scan(self, seen: SeenRange) -> tuple[Any, ...]:
        low, high = seen.covered.low, seen.covered.high
        keyspace = low[:KEYSPACE_PREFIX]
        if high is not None and high[:KEYSPACE_PREFIX] == keyspace:
            end = self._key(high)
        else:
            end = self._prefix(keyspace)[:-1] + "0"  # "0" comes next after "/"
        return self._key(low), end, {self._key(full_key): version for full_key, version in seen.found}

    def _key(self, full_key: bytes) -> str:
        """A full key as text that sorts as it does, within its keyspace."""
        known = self._keys.get(full_key)
        if known is None:
            known = self._prefix(full_key[:KEYSPACE_PREFIX]) + full_key[KEYSPACE_PREFIX:].decode("latin-1")
            if len(self._keys) >= _KEYS:
                self._keys.clear()
            self._keys[full_key] = known
        return known

    def _prefix(self, keyspace: bytes) -> str:
        found = self._prefixes.get(keyspace)
        if found is None:
            found = self._prefixes[keyspace] = f"{self._opening}:{quote(self._name_of(keyspace), safe='')}/"
        return found


def start_recording(engine: Engine, directory: str | os.PathLike[str], clock: Clock) -> HistoryFile:
    """Record the transactions of an engine in a new file of ``directory``."""
    file = HistoryFile(directory, engine.catalog.name_of, clock.monotonic)
    record(engine, file)
    return file


class Closable(Protocol):
    """What is behind a store."""

    def close(self) -> None: ...


def close_recorded(backend: Closable, recording: HistoryFile | None) -> None:
    """Close the objects behind a store that is closed or was dropped."""
    try:
        backend.close()
    finally:
        if recording is not None:
            recording.close()


def _write_all(file: int, block: bytes) -> None:
    while block:
        block = block[os.write(file, block) :]


def _new_file(directory: Path) -> tuple[int, int]:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for number in count(1 + len(list(directory.glob("*.jsonl")))):
            try:
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL
                return number, os.open(directory / f"{number:06}.jsonl", flags, 0o600)
            except FileExistsError:
                continue
    except OSError as error:
        raise UsageError(f"cannot record to {directory}: {error}; it must be a writable directory") from error
    raise AssertionError
