"""The pin of a load: which commit a read means, and the pin that keeps it for every task.

All loads of one driver at one commit share a pin, also if ``asOf`` names another pin of that commit. It is taken when a
DataFrame is loaded, and renewed by the tasks that read. It ends when it was not read for its time to live, when the
driver's JVM ends, or when the last load that shares it is released. A load as of the pin of a ``pinned`` block shares
that pin; when the block ends, the pin is left to the loads, under another name.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from lowtide.engine import EngineSnapshot
from lowtide.errors import Error, SnapshotExpired, UsageError
from lowtide.sharing.pins.pin import Pin
from lowtide.sharing.pins.pins import At
from lowtide.sharing.pins.snapshot import name_of_pin, open_pinned
from lowtide.spark.options import ORIGIN, SparkOptions, parse_moment
from lowtide.spark.origin import owner_of
from lowtide.store.opening import follower_of, open_store
from lowtide.store.store import Store
from lowtide.system.identity import ancestor, identify

BLOCK = "spark job "
"""How the pins of ``pinned`` blocks are named."""
TTL = 3600.0
"""Seconds for which the snapshot of a DataFrame is kept after it was last read."""
StorePath = str | os.PathLike[str]
_LISTED = 10
_NAMES = ("asOf", "versionAsOf", "timestampAsOf")


@dataclass(frozen=True)
class LoadPin:
    """The pin of a load, as sent to its tasks. ``name`` is the pin's name when the load was planned, ``load`` the token
    by which the pin knows the load."""

    name: str
    ts: int
    ttl: float
    load: str

    def open(self, path: Path) -> EngineSnapshot:
        """A snapshot at the pin. The pin was renamed if a ``pinned`` block ended and left it to its loads."""
        try:
            return open_pinned(path, pin=self.name)
        except SnapshotExpired:
            name = self.current_name(path)
            if name is None:
                raise
            return open_pinned(path, pin=name)

    def current_name(self, path: Path) -> str | None:
        """The pin's current name; None if the pin is gone."""
        return name_of_pin(path, self.load)


def new_load() -> str:
    """A token for a load."""
    return f"load-{secrets.token_hex(8)}"


def take(options: SparkOptions, process: int | None = None, load: str | None = None) -> LoadPin:
    """Pin the commit that the options name, for the lifetime of a process, by default the driver's JVM. The store's
    owner, this or another process, is not blocked. A ``load`` that is planned again gets the commit that it had."""
    driver = ancestor("java") if process is None else identify(process)
    token = load or new_load()
    ttl = options.seconds("pinTtl", TTL)
    with open_store(options.path, read_only=True) as store:
        pinning = follower_of(store).pinning
        known = pinning.pin_of(token)
        if known is not None:
            return LoadPin(known.name, known.ts, ttl, token)
        try:
            at = _at(options, store)
            user = token, owner_of(driver, options.text(ORIGIN))
            if isinstance(at, str) and at.startswith(BLOCK):
                pin = pinning.join(at, user, ttl)
            else:
                pin = _pinned(
                    options,
                    store,
                    at,
                    lambda names, on: pinning.share(user, new_name(), ttl, keyspaces=names, at=on, process=driver),
                )
        except BaseException as error:
            pinning.leave(token)
            if not isinstance(error, SnapshotExpired):
                raise
            raise SnapshotExpired(
                f"{options.path}: {error}; {_known(store)}. Pin an instant with store.pin(...) to read it later"
            ) from error
        return LoadPin(pin.name, pin.ts, ttl, token)


def _pinned(
    options: SparkOptions, store: Store, at: At | None, share: Callable[[list[str] | None, At | None], Pin]
) -> Pin:
    """A share in a pin of what the options ask for. ``share`` takes the keyspaces and the commit."""
    last = at if at is not None and at == store.stats().last_commit else None
    if last is not None:
        at = None  # the last commit needs no other pin to hold it
    keyspaces = _keyspaces(options, store, at)
    pin = share(keyspaces, at)
    if keyspaces is not None and at is None and not set(_keyspaces(options, store, pin) or ()) <= set(keyspaces):
        pin = share(None, None)  # the collection got another index, or another name, in between
    if last not in (None, pin.ts):
        raise SnapshotExpired(f"the state as of commit {last} is no longer kept: commit {pin.ts} came in between")
    return pin


def release(path: StorePath, pin: LoadPin) -> None:
    """Release the pin of a load before it expires."""
    with contextlib.suppress(Error):
        leave(path, [pin.load])


def leave(path: StorePath, loads: Iterable[str]) -> int:
    """Release the shares that loads have in pins of the store. Returns how many pins were removed."""
    with open_store(path, read_only=True) as store:
        return sum(follower_of(store).pinning.leave(load) for load in loads)


@contextlib.contextmanager
def taken(options: SparkOptions) -> Iterator[LoadPin]:
    """A pin that lives for a ``with`` block, in this process."""
    pin = take(options, os.getpid())
    try:
        yield pin
    finally:
        release(options.path, pin)


def new_name() -> str:
    """A name for a pin of loads."""
    return f"spark {secrets.token_hex(6)}"


def _keyspaces(options: SparkOptions, store: Store, at: int | str | Pin | None) -> list[str] | None:
    """The keyspaces that the read needs, at ``at``."""
    if options.collection is None:
        return None if options.keyspace is None else [options.keyspace]
    with store.snapshot(at) as snapshot:
        return snapshot.collection(options.collection).keyspaces()


def _at(options: SparkOptions, store: Store) -> int | str | Pin | None:
    """The commit that the options name; None for the last one."""
    given = [name for name in _NAMES if name in options]
    if len(given) > 1:
        raise UsageError(f"options {given[0]!r} and {given[1]!r} mean the same; give one of them")
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


def _holder(options: SparkOptions, store: Store, ts: int) -> int | Pin:
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
    """The pins of the store, for an error message."""
    others = [pin for pin in store.pins() if not pin.name.startswith(f"reader {os.getpid()}-")]  # not our own
    pins = sorted(others, key=lambda pin: (pin.name.startswith("spark "), -pin.taken))
    listed = ", ".join(f"{pin.name!r} (commit {pin.ts}, taken {_time(pin.taken)})" for pin in pins[:_LISTED])
    more = f" and {len(pins) - _LISTED} more" if len(pins) > _LISTED else ""
    return f"the pins are {listed}{more}" if pins else "there are no pins"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
