"""The ways in: ``lowtide.open`` and ``lowtide.open_snapshot``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Unpack

from lowtide.engine.recovery.opening import check_directory, path_of
from lowtide.errors import CorruptionError, DiskFull, StoreFailed, UsageError
from lowtide.options import OpenOptions, parse_options
from lowtide.sharing.follower import Follower
from lowtide.sharing.pins.pin import Pin
from lowtide.sharing.pins.snapshot import open_pinned
from lowtide.store.store import Store, backend_of
from lowtide.store.transactions import Snapshot
from lowtide.system.disk import is_full


def open_store(path: str | os.PathLike[str], **options: Unpack[OpenOptions]) -> Store:
    """Open the store in the directory ``path``, making it if it does not exist.

    See :class:`lowtide.Options` for the options. One process owns a store at a time: a second ``open`` raises
    StoreLocked, which says who holds it. With ``read_only=True`` any number of processes can read it beside the owner,
    or when there is none: each transaction sees what was committed when it began.

    >>> import lowtide, tempfile
    >>> with lowtide.open(tempfile.mkdtemp()) as fresh:
    ...     fresh.keyspace("greetings").put(b"hello", b"world")
    """
    if not hasattr(os, "RWF_DSYNC"):
        raise UsageError("Lowtide needs Linux: its log relies on synchronous positioned writes")
    parsed = parse_options(options)
    directory = path_of(path)
    try:
        check_directory(directory)
        if not parsed.read_only:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Store(directory, parsed)
    except IsADirectoryError as error:
        raise CorruptionError(Path(error.filename), "a directory stands where a file of the store should") from error
    except (PermissionError, NotADirectoryError) as error:
        raise UsageError(
            f"cannot open a store in {directory}: {error.strerror}; it must be a writable directory"
        ) from error
    except OSError as error:
        kind = DiskFull if is_full(error) else StoreFailed
        raise kind(f"cannot open {directory}: {error}; nothing is lost: fix the disk, and open it again") from error


def follower_of(store: Store) -> Follower:
    """The follower behind a store that is open read-only: its pins, its feed and its consumers. For Lowtide's own
    modules, which share a store with its owner (Spark's planners and tasks); users call ``Store``."""
    follower = backend_of(store)
    assert isinstance(follower, Follower)
    return follower


def open_snapshot(path: str | os.PathLike[str], pin: str | Pin | None = None) -> Snapshot:
    """A snapshot of the store in ``path`` from any process, while another process owns the store, or when none does.

    With ``pin`` it reads what that pin keeps, for as long as the pin lives: afterwards SnapshotExpired is raised,
    never another state shown. Without, a pin of the last commit is taken for it, renewed while it is open, and
    removed when it is closed; a killed process's runs out by itself. On a read-only file system only a pin that the
    store has can be read, and it never expires.

    >>> import lowtide
    >>> pin = store.pin("report", ttl=60)
    >>> with lowtide.open_snapshot(store.path, pin="report") as snapshot:
    ...     snapshot.keyspace("fruit").get(b"apple")
    b'red'
    >>> pin.release()
    """
    return Snapshot(open_pinned(path, pin))
