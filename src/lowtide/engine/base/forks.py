"""LMDB environments and fork: a child never touches its parent's environment, but may open the same files again.

py-lmdb refuses to open an environment twice in one process, because LMDB's locks belong to the process: closing one
handle would release the locks of the other. A forked child inherits the parent's handle, so py-lmdb refuses there too,
although there is no need: the child has none of the parent's locks, and never uses the inherited handle. It never
closes that handle either, which would free the parent's slots in the table of readers.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import lmdb

from lowtide.errors import UsageError

_inherited: dict[tuple[int, int], lmdb.Environment] = {}
"""The environments that belong to the parent of this process, by device and inode of their data file."""

_lifting = threading.Lock()


class OpenedEnvironment(Protocol):
    """An object that has an environment open."""

    env: lmdb.Environment
    closed: bool

    @property
    def file(self) -> os.stat_result:
        """Its data file."""

    def abandon(self) -> None:
        """Never touch the environment again: it is the parent's."""


_opened: weakref.WeakSet[OpenedEnvironment] = weakref.WeakSet()


def note_opened(opened: OpenedEnvironment) -> None:
    """Have ``opened`` abandoned in every child that is forked while it is open."""
    _opened.add(opened)


def _abandon_after_fork() -> None:
    for each in list(_opened):
        if not each.closed:
            inherit(each.env, each.file)
            each.abandon()
    _opened.clear()


os.register_at_fork(after_in_child=_abandon_after_fork)


def inherit(env: lmdb.Environment, file: os.stat_result) -> None:
    """Remember, in a forked child, that ``env`` is the parent's."""
    _inherited[file.st_dev, file.st_ino] = env


def open_environment(directory: Path, **settings: Any) -> lmdb.Environment:
    """The same as ``lmdb.open``, but also works in a child of a process that has the environment open."""
    try:
        return lmdb.open(str(directory), **settings)
    except lmdb.Error as error:
        if "already open in this process" not in str(error):
            raise
        if _identity(directory) not in _inherited:
            raise UsageError(f"{directory} is open in this process, but not through Lowtide; close it first") from error
    with _guard_lifted():
        return lmdb.open(str(directory), **settings)


@contextlib.contextmanager
def _guard_lifted() -> Iterator[None]:
    """Let py-lmdb open files that it considers open already."""
    try:
        from lmdb import _envid
    except ImportError as error:
        raise UsageError(
            "this release of py-lmdb cannot open, in a forked child, a file that the parent has open"
        ) from error
    with _lifting:
        keys = _envid.env_keys
        _envid.env_keys = lambda path, subdir: ()
        try:
            yield
        finally:
            _envid.env_keys = keys


def _identity(directory: Path) -> tuple[int, int]:
    status = (directory / "data.mdb").stat()
    return status.st_dev, status.st_ino
