"""Snapshots at pins, for processes that do not own the store: ``lowtide.open_snapshot``."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue

from lowtide.engine.base.borrowing import borrow, give_back
from lowtide.engine.base.environment import Base
from lowtide.engine.base.leases import Leases
from lowtide.engine.base.media import is_read_only, not_writable
from lowtide.engine.base.pin_table import PinRow
from lowtide.engine.base.pinned import PinnedBase
from lowtide.engine.transaction.catalog import Catalog
from lowtide.engine.transaction.registry import Registry
from lowtide.engine.transaction.snapshot import Closing, EngineSnapshot
from lowtide.engine.versions.layers import VersionStore
from lowtide.engine.versions.visibility import Reader
from lowtide.errors import Error, SnapshotExpired, UsageError
from lowtide.options import Options
from lowtide.sharing import generation
from lowtide.sharing.generation import read_only_engine
from lowtide.sharing.pins.pin import Pin
from lowtide.sharing.takeover import check_store, refresh, tell_of_pins
from lowtide.system.clock import SystemClock

logger = logging.getLogger("lowtide")


def snapshot_at(base: Base, options: Options, name: str, row: PinRow, closing: Closing | None = None) -> EngineSnapshot:
    """Open a snapshot that reads at the pin ``name``, and ends with it."""
    registry = Registry(row.ts)
    renewed_here = isinstance(closing, Renewer)
    pinned = PinnedBase(base, name, row, None if renewed_here else options.clock.time)
    reader = Reader(VersionStore(row.ts), pinned, registry, 0)
    catalog = Catalog(base.saved_keyspaces(), fixed=True)
    engine = read_only_engine(options, catalog, registry, reader)
    return EngineSnapshot(engine, row.ts, keyspaces=row.keyspaces, closing=closing)


def open_pinned(path: str | os.PathLike[str], pin: str | Pin | None = None) -> EngineSnapshot:
    """The engine's snapshot behind ``lowtide.open_snapshot``."""
    directory, options = Path(path).absolute(), Options(read_only=True)
    check_store(directory, options)
    if pin is None and is_read_only(directory):
        raise UsageError(
            f"{directory} is on a read-only file system, where no pin can be taken: name one that the store has, "
            "open_snapshot(path, pin=...), or copy the store to a writable place"
        )
    if pin is None:
        try:
            refresh(directory, options, checkpoint=True)
        except OSError as error:
            raise (not_writable(directory, error) or error) from error
    with contextlib.ExitStack() as undo:
        base = borrow(directory / "base", options.map_size)
        undo.callback(give_back, base)
        if base.fixed:  # nothing that a pin there keeps can go any more
            options = replace(options, clock=_Still())
        leases = Leases(base, options.clock.time)
        closing: Renewer | Borrowed
        if pin is None:
            name = f"snapshot {os.getpid()}-{os.urandom(4).hex()}"
            row = leases.take(name, generation.LEASE, where="open_snapshot")
            undo.callback(_remove, leases, name, row, directory)
            closing = Renewer(lambda: leases.renew(name, row.id))
            closing.at_end = undo.pop_all().close
        else:
            name = pin.name if isinstance(pin, Pin) else pin
            row = leases.find(name, pin.id if isinstance(pin, Pin) else None)
            closing = Borrowed(base)
            undo.pop_all()
    try:
        return snapshot_at(base, options, name, row, closing)
    except BaseException:
        closing.close()
        raise


class _Still(SystemClock):
    """A clock that stands still, for a store on a read-only file system: no pin expires there."""

    def __init__(self) -> None:
        super().__init__()
        self.time = float


def _remove(leases: Leases, name: str, row: PinRow, path: Path) -> None:
    with contextlib.suppress(Error):  # it expires by itself
        leases.remove(name, row.id)
        tell_of_pins(path)


def renew_pin(path: str | os.PathLike[str], name: str) -> None:
    """Renew a pin from any process, unless it was renewed within the last quarter of its ttl."""
    base = borrow(Path(path).absolute() / "base", Options(read_only=True).map_size)
    try:
        time = Options().clock.time
        leases = Leases(base, time)
        row = leases.find(name)
        if time() - row.renewed > row.ttl / 4:
            leases.renew(name, row.id)
    finally:
        give_back(base)


def name_of_pin(path: str | os.PathLike[str], token: str) -> str | None:
    """The name of the live pin that the user of a token has a part in; None if there is none."""
    base = borrow(Path(path).absolute() / "base", Options(read_only=True).map_size)
    try:
        time = Options().clock.time
        found = ((name, row) for name, row in Leases(base, time).all() if row.has_user(token))
        return next((name for name, row in found if row.expires > time()), None)
    finally:
        give_back(base)


class Borrowed:
    """The borrowed base of a snapshot at another process's pin; given back once."""

    def __init__(self, base: Base) -> None:
        self._base: Base | None = base

    def close(self) -> None:
        base, self._base = self._base, None
        if base is not None:
            give_back(base)

    drop = close


class Renewer:
    """A thread that calls ``renew`` three times in a lease, until it is closed or the lease is lost, and ``at_end``
    when it is closed.

    What it ends with runs in that thread, so ``drop`` may be called anywhere, in destructors too: it takes no lock and
    does not wait. In a forked child there is no such thread, and nothing is done: the lease is the parent's.
    """

    def __init__(self, renew: Callable[[], object], at_end: Callable[[], object] = bool) -> None:
        self._renew = renew
        self.at_end = at_end
        self._process = os.getpid()
        self._stop: SimpleQueue[None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="lowtide-renewer", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        lost = False
        while not self._stopped(None if lost else generation.LEASE / 3):
            try:
                self._renew()
            except (SnapshotExpired, UsageError):
                lost = True  # reads raise an error that says why
            except Exception as error:
                logger.warning("a lease could not be renewed, and will be tried again: %s", error)
        self.at_end()

    def _stopped(self, timeout: float | None) -> bool:
        try:
            self._stop.get(timeout=timeout)
            return True
        except Empty:
            return False

    def drop(self) -> None:
        self._stop.put(None)

    def close(self) -> None:
        if os.getpid() != self._process:
            return
        self.drop()
        if threading.current_thread() is not self._thread:
            self._thread.join()
