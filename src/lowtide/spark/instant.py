"""The instant of a read: which commit is meant, and the pin that keeps it for every task.

The pin is the DataFrame's own, also where another one is named: it is taken when the DataFrame is loaded, renewed by
the tasks that read, and ends when it was not read for its time to live, or with the driver's JVM.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from lowtide.entry import open_store
from lowtide.errors import Error, SnapshotExpired, UsageError
from lowtide.identity import ancestor
from lowtide.pins.pin import Pin
from lowtide.spark.options import Options, parse_moment
from lowtide.store import Store

TTL = 3600.0
"""Seconds for which the snapshot of a DataFrame is kept after it was last read."""
_NAMES = ("asOf", "versionAsOf", "timestampAsOf")


@dataclass(frozen=True)
class Instant:
    """A pinned commit, as tasks are told of it."""

    pin: str
    ts: int
    ttl: float


def take(options: Options, process: int | None = None) -> Instant:
    """Pin what is asked for, for the time of a process, by default the driver's JVM. The owner of the store, this or
    another process, goes on meanwhile."""
    if process is None:
        driver = ancestor("java")
        process = None if driver is None else driver.pid
    ttl = options.seconds("pinTtl", TTL)
    with open_store(options.path, read_only=True) as store:
        at = _at(options, store)
        last = at if at is not None and at == store.stats().last_commit else None
        if last is not None:
            at = None  # nobody needs to hold it
        keyspaces = _keyspaces(options, store, at)
        pin = store.pin(_new_name(), ttl, keyspaces=keyspaces, at=at, process=process)
        if keyspaces is not None and at is None and not set(_keyspaces(options, store, pin) or ()) <= set(keyspaces):
            pin.release()  # the collection got another index, or another name, in between
            pin = store.pin(_new_name(), ttl, process=process)
        if last not in (None, pin.ts):
            pin.release()
            raise SnapshotExpired(f"the state as of commit {last} is no longer kept: commit {pin.ts} came in between")
        return Instant(pin.name, pin.ts, ttl)


@contextmanager
def taken(options: Options) -> Iterator[Instant]:
    """An instant that is pinned for the time of a ``with`` block, in this process."""
    instant = take(options, os.getpid())
    try:
        yield instant
    finally:
        with open_store(options.path, read_only=True) as store:
            store.unpin(instant.pin)


def _new_name() -> str:
    return f"spark {secrets.token_hex(6)}"


def _keyspaces(options: Options, store: Store, at: int | str | Pin | None) -> list[str] | None:
    """The keyspaces that the read needs, as of ``at``."""
    if options.collection is None:
        return None if options.keyspace is None else [options.keyspace]
    with store.snapshot(at) as snapshot:
        return snapshot.collection(options.collection).keyspaces()


def _at(options: Options, store: Store) -> int | str | None:
    """What the options say about the instant."""
    given = [name for name in _NAMES if name in options]
    if len(given) > 1:
        raise UsageError(f"options {given[0]!r} and {given[1]!r} say the same thing; give one of them")
    if not given:
        return None
    name = given[0]
    value = (options.text(name) or "").strip()
    if name == "versionAsOf":
        return options.number(name, least=0)
    if name == "asOf":
        if any(pin.name == value for pin in store.pins()):
            return value
        if value.isdecimal():
            return int(value)
    try:
        moment = parse_moment(name, value)
    except UsageError as error:
        if name == "asOf":
            raise UsageError(
                f"option 'asOf' is the name of a pin, the timestamp of a commit, or an ISO time, not {value!r}; "
                f"{_known(store)}"
            ) from error
        raise
    return _commit_at(store, moment)


def _commit_at(store: Store, moment: float) -> int:
    """The last commit at or before a time of day."""
    found = store.commit_at(moment)
    if found is None:
        raise SnapshotExpired(f"which commit was the last one at {_time(moment)} is no longer known: the log is gone")
    return found


def _known(store: Store) -> str:
    """The pinned instants, in words."""
    pins = ", ".join(f"{pin.name!r} (commit {pin.ts}, taken {_time(pin.taken)})" for pin in store.pins())
    return f"the pins are {pins}" if pins else "there are no pins"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def explained(options: Options, error: SnapshotExpired) -> Error:
    """Why the asked-for instant cannot be read, and which ones can."""
    with open_store(options.path, read_only=True) as store:
        known = _known(store)
    return SnapshotExpired(f"{options.path}: {error}; {known}. Pin an instant with store.pin(...) to read it later")
