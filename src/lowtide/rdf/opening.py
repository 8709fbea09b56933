"""Finds the store of a graph: what ``Graph.open`` accepts, and stores that several graphs of a process share.

rdflib's users may open a directory many times: each ``Graph("lowtide")`` has its own plugin object, and threads often
have a graph each. A process has a Lowtide store open only once. Plugin objects that open the same directory therefore
share one ``lowtide.Store``, which is closed with the last of them.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

import lowtide
from lowtide.engine import MANIFEST, check_name
from lowtide.errors import UsageError

Configuration: TypeAlias = (
    str | os.PathLike[str] | tuple[str, str] | Mapping[str, Any] | lowtide.Store | lowtide.Snapshot
)
"""What ``open`` accepts: a directory, (directory, name), a mapping with ``path``, ``name`` and options of
``lowtide.open``, an open store, or a snapshot."""

DEFAULT_NAME: Final = "default"
"""The name of the quads in a store, if none is given."""


@dataclass(frozen=True, slots=True)
class QuadsPlace:
    """A configuration, read: where the quads are. Exactly one of ``path`` and ``source`` is given."""

    name: str
    path: Path | None = None
    source: lowtide.Store | lowtide.Snapshot | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def place_of(configuration: object) -> QuadsPlace:
    """Return the place that a configuration means.

    >>> place_of(("library", "books")).name
    'books'
    """
    if isinstance(configuration, lowtide.Store | lowtide.Snapshot):
        return QuadsPlace(DEFAULT_NAME, source=configuration)
    if isinstance(configuration, tuple) and len(configuration) == 2:
        return place_of({"path": configuration[0], "name": configuration[1]})
    if isinstance(configuration, Mapping):
        options = dict(configuration)
        name = options.pop("name", DEFAULT_NAME)
        check_name(name, "quad store")
        path = options.pop("path", None)
        if isinstance(path, lowtide.Store | lowtide.Snapshot):
            if options:
                raise UsageError(f"the store is open already, so {min(options)!r} cannot be set; leave it out")
            return QuadsPlace(name, source=path)
        return QuadsPlace(name, path=_directory(path), options=options)
    return QuadsPlace(DEFAULT_NAME, path=_directory(configuration))


def _directory(path: object) -> Path:
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise UsageError(
            f"{path!r} names no store; give the path of a directory, (path, name), a mapping with the keys 'path' and "
            "'name', or an open lowtide.Store"
        )
    return Path(path).absolute()


def exists(path: Path) -> bool:
    """Whether a directory has a store."""
    return (path / MANIFEST).exists()


def holds_data(store: lowtide.Store) -> bool:
    """Whether a store has quads, collections or keyspaces of users."""
    if store.list_quads() or store.list_collection_names():
        return True
    own = [name for name in store.keyspaces() if not name.startswith(("lowtide/", "quads/"))]
    return any(next(iter(store.keyspace(name).scan()), None) is not None for name in own)


class SharedStore:
    """A store that this process has opened for graphs, and how many of them have not closed it.

    ``users`` is written under ``_lock`` alone. Graphs that are dropped without being closed do not count down; the
    store is closed when nothing refers to it any more.
    """

    __slots__ = ("__weakref__", "_users", "options", "store")

    def __init__(self, store: lowtide.Store, options: Mapping[str, Any]) -> None:
        self.store = store
        self.options = options
        self._users = 0

    def join(self, options: Mapping[str, Any]) -> Self:
        """Count one more user, who must not want other options. Called under ``_lock``."""
        if options and dict(options) != self.options:
            raise UsageError(
                f"{self.store.path} is open in this process with other options ({self.options}); open it with the "
                "same options, or with none to share it as it is"
            )
        self._users += 1
        return self

    def close(self) -> None:
        """Let go of the store; the last user closes it."""
        with _lock:
            self._users -= 1
            if self._users == 0:
                for key, shared in list(_shared.items()):
                    if shared is self:
                        del _shared[key]
                self.store.close()


_lock = threading.Lock()
_shared: weakref.WeakValueDictionary[tuple[int, str], SharedStore] = weakref.WeakValueDictionary()
"""The stores that graphs of this process have open, by process and real path: a forked child must not use those of its
parent. Read and written under ``_lock``."""


def open_shared(path: Path, options: Mapping[str, Any]) -> SharedStore:
    """Open the store in a directory, or share it with the graphs that have it open."""
    key = (os.getpid(), os.path.realpath(path))
    with _lock:
        shared = _shared.get(key)
        if shared is None:
            shared = SharedStore(lowtide.open(path, **options), dict(options))
            _shared[key] = shared
        return shared.join(options)


def is_shared(path: Path) -> bool:
    """Whether a graph of this process has the store open."""
    with _lock:
        return (os.getpid(), os.path.realpath(path)) in _shared
