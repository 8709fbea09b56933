"""The instant of a read: which commit is meant, and the pin that keeps it for every task.

The pin is the DataFrame's own, also where another one is named: it is taken when the DataFrame is loaded, renewed by
the tasks that read, and ends when it was not read for its time to live, or with the driver's JVM.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Iterator
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
StorePath = str | os.PathLike[str]
_LISTED = 10
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
        try:
            pin = _pinned(options, store, ttl, process)
        except SnapshotExpired as error:
            raise SnapshotExpired(
                f"{options.path}: {error}; {_known(store)}. Pin an instant with store.pin(...) to read it later"
            ) from error
        return Instant(pin.name, pin.ts, ttl)


def _pinned(options: Options, store: Store, ttl: float, process: int | None) -> Pin:
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
    return pin


def release(path: StorePath, instant: Instant) -> None:
    """Give the instant up before its time."""
    with contextlib.suppress(Error), open_store(path, read_only=True) as store:
        store.unpin(instant.pin)


@contextlib.contextmanager
def taken(options: Options) -> Iterator[Instant]:
    """An instant that is pinned for the time of a ``with`` block, in this process."""
    instant = take(options, os.getpid())
    try:
        yield instant
    finally:
        release(options.path, instant)


def _new_name() -> str:
    return f"spark {secrets.token_hex(6)}"


def _keyspaces(options: Options, store: Store, at: int | str | Pin | None) -> list[str] | None:
    """The keyspaces that the read needs, as of ``at``."""
    if options.collection is None:
        return None if options.keyspace is None else [options.keyspace]
    with store.snapshot(at) as snapshot:
        return snapshot.collection(options.collection).keyspaces()


def _at(options: Options, store: Store) -> int | str | Pin | None:
    """What the options say about the instant."""
    given = [name for name in _NAMES if name in options]
    if len(given) > 1:
        raise UsageError(f"options {given[0]!r} and {given[1]!r} say the same thing; give one of them")
    if not given:
        return None
    name = given[0]
    value = (options.text(name) or "").strip()
    if name == "asOf" and any(pin.name == value for pin in store.pins()):
        return value
    if name == "versionAsOf" or (name == "asOf" and value.isdecimal()):
        return _holder(options, store, options.number(name, least=0) or 0)
    try:
        moment = parse_moment(name, value)
    except UsageError as error:
        if name == "asOf":
            raise UsageError(
                f"option 'asOf' is the name of a pin, the timestamp of a commit, or an ISO time, not {value!r}; "
                f"{_known(store)}"
            ) from error
        raise
    if moment > time.time():
        raise UsageError(
            f"option {name!r} lies in the future, {_time(moment)}, and there may be commits until then; without it, "
            "the last commit is read"
        )
    return _holder(options, store, _commit_at(store, moment))


def _holder(options: Options, store: Store, ts: int) -> int | Pin:
    """A pin at ``ts`` that holds what is read: there may be others, of other collections."""
    for pin in store.pins():
        if pin.ts == ts:
            with contextlib.suppress(UsageError, SnapshotExpired):
                if pin.keyspaces is None or set(_keyspaces(options, store, pin) or ()) <= set(pin.keyspaces):
                    return pin
    return ts


def _commit_at(store: Store, moment: float) -> int:
    """The last commit at or before a time of day."""
    found = store.commit_at(moment)
    if found is None:
        raise SnapshotExpired(f"which commit was the last one at {_time(moment)} is no longer known: the log is gone")
    return found


def _known(store: Store) -> str:
    """The pinned instants, in words."""
    others = [pin for pin in store.pins() if not pin.name.startswith(f"reader {os.getpid()}-")]  # but for our own
    pins = sorted(others, key=lambda pin: (pin.name.startswith("spark "), -pin.taken))
    listed = ", ".join(f"{pin.name!r} (commit {pin.ts}, taken {_time(pin.taken)})" for pin in pins[:_LISTED])
    more = f" and {len(pins) - _LISTED} more" if len(pins) > _LISTED else ""
    return f"the pins are {listed}{more}" if pins else "there are no pins"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
