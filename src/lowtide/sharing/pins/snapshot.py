"""Snapshots at pins, for processes that do not own the store: ``lowtide.open_snapshot``."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable
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
from lowtide.system.threads import join

logger = logging.getLogger("lowtide")


def snapshot_at(
    base: Base,
    options: Options,
    name: str,
    row: PinRow,
    closing: Closing | None = None,
    *,
    time: Callable[[], float] | None = None,
) -> EngineSnapshot:
    """Open a snapshot that reads at the pin ``name``, and ends with it. ``time`` is the clock by which the pin expires,
    by default that of the options."""
    registry = Registry(row.ts)
    renewed_here = isinstance(closing, Renewer)
    pinned = PinnedBase(base, name, row, None if renewed_here else time or options.clock.time)
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
            f"{directory} is on a read-only file system, where no pin can be taken: name an existing pin, "
            "open_snapshot(path, pin=...), or copy the store to a writable place"
        )
    if pin is None:
        try:
            refresh(directory, options, checkpoint=True)
        except OSError as error:
            raise (not_writable(directory, error) or error) from error
    held = contextlib.ExitStack()
    closing: Renewer | Borrowed | None = None
    try:
        base = borrow(directory / "base", options.map_size)
        held.callback(give_back, base)
        time = float if base.fixed else options.clock.time  # always 0 where nothing can be collected: pins never expire
        leases = Leases(base, time)
        if pin is None:
            name = f"snapshot {os.getpid()}-{os.urandom(4).hex()}"
            row = leases.take(name, generation.LEASE, where="open_snapshot")
            held.callback(_remove, leases, name, row, directory)
            closing = Renewer(lambda: leases.renew(name, row.id), held.close)
            closing.start()
        else:
            name = pin.name if isinstance(pin, Pin) else pin
            row = leases.find(name, pin.id if isinstance(pin, Pin) else None)
            closing = Borrowed(held)
        return snapshot_at(base, options, name, row, closing, time=time)
    except BaseException:
        if closing is not None:
            closing.close()
        held.close()
        raise


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
    """The name of the live pin of the user with this token; None if there is none."""
    base = borrow(Path(path).absolute() / "base", Options(read_only=True).map_size)
    try:
        time = Options().clock.time
        found = ((name, row) for name, row in Leases(base, time).all() if row.has_user(token))
        return next((name for name, row in found if row.expires > time()), None)
    finally:
        give_back(base)


class Borrowed:
    """The base that a snapshot at another process's pin has borrowed, and returns once."""

    def __init__(self, held: contextlib.ExitStack) -> None:
        self._held = held

    def close(self) -> None:
        self._held.close()

    drop = close


class Renewer:
    """A thread that calls ``renew`` three times per lease, until it is closed or the lease is lost, and ``at_end`` when
    it is closed.

    ``at_end`` runs in that thread, so ``drop`` may be called anywhere, even in destructors: it takes no lock and does
    not wait. In a forked child there is no such thread, and nothing is done: the lease is the parent's.
    """

    def __init__(self, renew: Callable[[], object], at_end: Callable[[], object] = bool) -> None:
        self._renew = renew
        self._at_end = at_end
        self._process = os.getpid()
        self._stop: SimpleQueue[None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="lowtide-renewer", daemon=True)

    def start(self) -> None:
        """Start the thread. The constructor does not: the caller first makes sure that it will be closed."""
        self._thread.start()

    def _run(self) -> None:
        lost = False
        while not self._stopped(None if lost else generation.LEASE / 3):
            try:
                self._renew()
            except (SnapshotExpired, UsageError):
                lost = True  # reads raise an error that says why
            except Exception as error:
                logger.warning("a lease could not be renewed; it will be retried: %s", error)
        self._at_end()

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
        join(self._thread)
