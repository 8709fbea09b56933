"""The entry points: ``lowtide.open`` and ``lowtide.open_snapshot``."""

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
from lowtide.store.access import PATIENCE
from lowtide.store.store import Store, backend_of
from lowtide.store.transactions import Snapshot
from lowtide.system.disk import is_full


def open_store(path: str | os.PathLike[str], **options: Unpack[OpenOptions]) -> Store:
    """Open the store in the directory ``path``; create it if it does not exist.

    See :class:`lowtide.Options` for the options. Any number of processes on one machine may open the same store, to
    read and to write. The first one owns it, the others join it; when the owner ends, one of them takes over. With
    ``exclusive=True`` only one process may write: a second ``open`` raises StoreLocked. With ``read_only=True`` the
    process can only read. Each transaction sees what was committed when it began.

    >>> import lowtide, tempfile
    >>> with lowtide.open(tempfile.mkdtemp()) as fresh:
    ...     fresh.keyspace("greetings").put(b"hello", b"world")
    """
    return open_within(path, PATIENCE, **options)


def open_within(path: str | os.PathLike[str], patience: float, **options: Unpack[OpenOptions]) -> Store:
    """The same as ``open_store``, but wait up to ``patience`` seconds for an owner that does not listen."""
    if not hasattr(os, "RWF_DSYNC"):
        raise UsageError("Lowtide needs Linux: its log relies on synchronous positioned writes")
    parsed = parse_options(options)
    directory = path_of(path)
    try:
        check_directory(directory)
        if not parsed.read_only:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Store(directory, parsed, patience)
    except IsADirectoryError as error:
        raise CorruptionError(Path(error.filename), "a file of the store is expected here, not a directory") from error
    except (PermissionError, NotADirectoryError) as error:
        raise UsageError(
            f"cannot open a store in {directory}: {error.strerror}; the path must be a writable directory"
        ) from error
    except OSError as error:
        kind = DiskFull if is_full(error) else StoreFailed
        raise kind(f"cannot open {directory}: {error}; nothing is lost: fix the disk and open it again") from error


def follower_of(store: Store) -> Follower:
    """The follower behind a store that is open read-only, with its pins, feed and consumers. For Lowtide's own modules
    that read beside the owner, such as Spark's planners and tasks; users call ``Store``."""
    follower = backend_of(store)
    assert isinstance(follower, Follower)
    return follower


def open_snapshot(path: str | os.PathLike[str], pin: str | Pin | None = None) -> Snapshot:
    """Open a snapshot of the store in ``path``, from any process, whether or not another process owns the store.

    With ``pin`` it reads what that pin keeps, for as long as the pin exists. After that it raises SnapshotExpired; it
    never shows another state. Without ``pin`` it pins the last commit, renews that pin while it is open, and removes it
    when it is closed. The pin of a killed process expires. On a read-only file system only an existing pin can be read,
    and it never expires.

    >>> import lowtide
    >>> pin = store.pin("report", ttl=60)
    >>> with lowtide.open_snapshot(store.path, pin="report") as snapshot:
    ...     snapshot.keyspace("fruit").get(b"apple")
    b'red'
    >>> pin.release()
    """
    return Snapshot(open_pinned(path, pin))
