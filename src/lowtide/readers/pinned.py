"""Snapshots at pins, for processes that do not own the store: ``lowtide.open_snapshot``."""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
from collections.abc import Callable
from pathlib import Path

from lowtide.base.borrowing import borrow, give_back
from lowtide.base.environment import Base
from lowtide.base.pins import PinRow
from lowtide.errors import Error
from lowtide.options import Options
from lowtide.pins.leases import Leases
from lowtide.pins.pin import Pin
from lowtide.pins.reading import PinnedBase
from lowtide.readers.fresh import check_store, refresh, tell_of_pins
from lowtide.readers.generation import LEASE, read_only_engine
from lowtide.transaction.catalog import Catalog
from lowtide.transaction.registry import Registry
from lowtide.transaction.snapshot import Snapshot
from lowtide.versions.layers import VersionStore
from lowtide.versions.visibility import Reader


def snapshot_at(
    base: Base, options: Options, name: str, row: PinRow, depth: int, closing: Callable[[], None] | None = None
) -> Snapshot:
    """A snapshot that reads at the pin ``name`` and at nothing else: when the pin ends, so does it."""
    registry = Registry(row.ts)
    pinned = PinnedBase(base, name, row, options.clock.time)
    reader = Reader(VersionStore(row.ts), pinned, registry, 0)
    catalog = Catalog(base.saved_keyspaces(), fixed=True)
    engine = read_only_engine(options, catalog, registry, reader)
    snapshot = Snapshot(engine, row.ts, depth + 1, closing=closing)
    snapshot.keyspaces = row.keyspaces
    return snapshot


def open_snapshot(path: str | os.PathLike[str], pin: str | Pin | None = None) -> Snapshot:
    """A snapshot of the store in ``path`` from any process, while another one owns the store, or when nobody does.

    With ``pin`` it reads what that pin keeps, for as long as the pin lives: afterwards SnapshotExpired is raised,
    never another state shown. Without, a pin of the last commit is taken for it, renewed while it is open, and
    removed when it is closed; a killed process's runs out by itself.

    >>> import lowtide
    >>> pin = store.pin("report", ttl=60)
    >>> with lowtide.open_snapshot(store.path, pin="report") as snapshot:
    ...     snapshot.keyspace("fruit").get(b"apple")
    b'red'
    >>> pin.release()
    """
    directory, options = Path(path).absolute(), Options(read_only=True)
    check_store(directory, options)
    if pin is None:
        refresh(directory, options, checkpoint=True)
    with contextlib.ExitStack() as undo:
        base = borrow(directory / "base", options.map_size)
        undo.callback(give_back, base)
        leases = Leases(base, options.clock.time)
        if pin is None:
            name = f"snapshot {os.getpid()}-{secrets.token_hex(4)}"
            row = leases.take(name, LEASE, where="open_snapshot")
            undo.callback(_remove, leases, name, row, directory)
            undo.callback(Renewer(lambda: leases.renew(name, row.id)).close)
        elif isinstance(pin, Pin):
            name, row = pin.name, leases.find(pin.name, pin.id)
        else:
            name, row = pin, leases.find(pin)
        held = undo.pop_all()
    try:
        return snapshot_at(base, options, name, row, 2, held.close)
    except BaseException:
        held.close()
        raise


def _remove(leases: Leases, name: str, row: PinRow, path: Path) -> None:
    with contextlib.suppress(Error):  # after a fork it is the parent's; and it runs out by itself
        leases.remove(name, row.id)
        tell_of_pins(path)


class Renewer:
    """A thread that renews leases, again and again, until it is closed or they are lost."""

    def __init__(self, renew: Callable[[], object], interval: float = LEASE / 3) -> None:
        self._renew = renew
        self._interval = interval
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lowtide-renewer", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            try:
                self._renew()
            except Error:
                return  # whoever reads is told why

    def close(self) -> None:
        self._stop.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()
