"""The pin of a load: resolves the commit to read and pins it for all tasks.

All loads of one driver at one commit share a pin, even if ``asOf`` names another pin of that commit. The pin is taken
when a DataFrame is loaded and renewed by the tasks that read. It ends when it has not been read for its time to live,
when the driver's JVM exits, or when the last load that shares it is released. A load as of the pin of a ``pinned``
block shares that pin. When the block ends, the loads keep the pin under another name.
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
from lowtide.spark.archives import archive_hint
from lowtide.spark.options import ORIGIN, SparkOptions, parse_moment
from lowtide.spark.origin import owner_of
from lowtide.store.opening import follower_of, open_store
from lowtide.store.store import Store
from lowtide.system.identity import ancestor, identify

BLOCK = "spark job "
"""Name prefix of the pins of ``pinned`` blocks."""
TTL = 3600.0
"""Seconds that the snapshot of a DataFrame is kept after the last read."""
StorePath = str | os.PathLike[str]
_LISTED = 10
_NAMES = ("asOf", "versionAsOf", "timestampAsOf")


@dataclass(frozen=True)
class LoadPin:
    """The pin of a load, as sent to its tasks.

    ``name`` is the pin's name when the load was planned. ``load`` is the token that identifies the load in the pin.
    """

    name: str
    ts: int
    ttl: float
    load: str

    def open(self, path: Path) -> EngineSnapshot:
        """Open a snapshot at the pin, which was renamed if its ``pinned`` block has ended."""
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
    """Pin the commit that the options name, for the lifetime of a process, by default the driver's JVM.

    The store's owner is not blocked. A ``load`` that is planned again gets the same commit.
    """
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
            advice = _archive(options) or "Pin an instant with store.pin(...) to read it later"
            raise SnapshotExpired(f"{options.path}: {error}; {_known(store)}. {advice}") from error
        return LoadPin(pin.name, pin.ts, ttl, token)


def _pinned(
    options: SparkOptions, store: Store, at: At | None, share: Callable[[list[str] | None, At | None], Pin]
) -> Pin:
    """Share a pin of the data that the options select. ``share`` takes the keyspaces and the commit."""
    last = at if at is not None and at == store.stats().last_commit else None
    if last is not None:
        at = None  # no other pin needs to hold the last commit
    keyspaces = _keyspaces(options, store, at)
    pin = share(keyspaces, at)
    if keyspaces is not None and at is None and not set(_keyspaces(options, store, pin) or ()) <= set(keyspaces):
        pin = share(None, None)  # the collection got another index or another name in between
    if last not in (None, pin.ts):
        raise SnapshotExpired(f"the state as of commit {last} is no longer kept: commit {pin.ts} came in between")
    return pin


def release(path: StorePath, pin: LoadPin) -> None:
    """Release the pin of a load before it expires."""
    with contextlib.suppress(Error):
        leave(path, [pin.load])


def leave(path: StorePath, loads: Iterable[str]) -> int:
    """Release the shares of loads in pins of the store. Returns the number of pins removed."""
    with open_store(path, read_only=True) as store:
        return sum(follower_of(store).pinning.leave(load) for load in loads)


@contextlib.contextmanager
def taken(options: SparkOptions) -> Iterator[LoadPin]:
    """A pin held for the duration of a ``with`` block, in this process."""
    pin = take(options, os.getpid())
    try:
        yield pin
    finally:
        release(options.path, pin)


def new_name() -> str:
    """A name for a pin of loads."""
    return f"spark {secrets.token_hex(6)}"


def _keyspaces(options: SparkOptions, store: Store, at: int | str | Pin | None) -> list[str] | None:
    """Return the keyspaces that the read needs, as of ``at``."""
    if options.quads is not None:
        from lowtide.spark.statements import keyspaces_of  # needs rdflib

        return keyspaces_of(options.quads)
    if options.collection is None:
        return None if options.keyspace is None else [options.keyspace]
    with store.snapshot(at) as snapshot:
        return snapshot.collection(options.collection).keyspaces()


def _at(options: SparkOptions, store: Store) -> int | str | Pin | None:
    """Return the commit that the options name. None for the last one."""
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
                f"option 'asOf' must be the name of a pin, the timestamp of a commit, or an ISO time, not {value!r}; "
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
    """Return a pin at ``ts`` that covers the keyspaces to read. Other pins at ``ts`` may cover other collections."""
    for pin in store.pins():
        if pin.ts == ts:
            with contextlib.suppress(UsageError, SnapshotExpired):
                if pin.keyspaces is None or set(_keyspaces(options, store, pin) or ()) <= set(pin.keyspaces):
                    return pin
    return ts


def _commit_at(store: Store, moment: float) -> int:
    """Return the last commit at or before a point in time."""
    found = store.commit_at(moment)
    if found is None:
        raise SnapshotExpired(f"the last commit at {_time(moment)} is unknown: that part of the log has been removed")
    return found


def _archive(options: SparkOptions) -> str | None:
    """Name the archive that has the instant that the options name."""
    given = next((options.text(name) or "" for name in _NAMES if name in options), "").strip()
    at = int(given) if given.isdecimal() else given
    if options.quads is not None:
        return archive_hint(options.path, f"quads/{options.quads}", at, f"quads={options.quads!r}")
    if options.keyspace is not None:
        return archive_hint(options.path, f"keyspaces/{options.keyspace}", at, f"keyspace={options.keyspace!r}")
    return archive_hint(options.path, f"collections/{options.collection}", at, repr(options.collection))


def _known(store: Store) -> str:
    """Describe the store's pins for an error message."""
    others = [pin for pin in store.pins() if not pin.name.startswith(f"reader {os.getpid()}-")]  # not our own
    pins = sorted(others, key=lambda pin: (pin.name.startswith("spark "), -pin.taken))
    listed = ", ".join(f"{pin.name!r} (commit {pin.ts}, taken {_time(pin.taken)})" for pin in pins[:_LISTED])
    more = f" and {len(pins) - _LISTED} more" if len(pins) > _LISTED else ""
    return f"the pins are {listed}{more}" if pins else "there are no pins"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
