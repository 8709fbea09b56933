"""Helpers of the crash tests: fill stores, kill them, and examine what is left."""

from __future__ import annotations

import contextlib
import json
import resource
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, TypeVar

import pytest

import lowtide
from lowtide.engine.recovery.members import Members
from lowtide.options import Options
from lowtide.store import access
from lowtide.store.owned import OwnedStore
from tests.support.patience import PATIENCE
from tests.support.warm import Started, start

SMALL: dict[str, Any] = {
    "segment_bytes": 4096,
    "feed_bytes": 0,
    "map_size": 1 << 20,
    "checkpointer": "thread",
    "sync_interval": 1000,
}
"""Segments that fill quickly, a map that must grow, and nothing that happens by itself."""


Content = dict[str, dict[bytes, bytes]]
Durability = Literal["full", "relaxed"]
_Result = TypeVar("_Result")


def content_of(store: lowtide.Store) -> Content:
    """Everything that is visible, by keyspace; empty ones are left out."""
    with store.snapshot() as snapshot:
        found = {name: dict(snapshot.keyspace(name).scan()) for name in store.keyspaces()}
    return {name: entries for name, entries in found.items() if entries}


def killed(path: Path, copy: Path) -> Path:
    """The directory as kill -9 would leave it at this moment: what the system was given is in the files."""
    shutil.copytree(path, copy)
    return copy


@contextlib.contextmanager
def taken_over(path: Path, **options: Any) -> Iterator[lowtide.Store]:
    """The store, as a joined process has it that takes it over from an owner that was killed."""

    class Taken(OwnedStore):
        def __init__(self, path: Path, options: Options, members: Members) -> None:
            super().__init__(path, options, members, taking_over=True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(access, "OwnedStore", Taken)
        store = lowtide.open(path, **options)
    with store:
        yield store


def reopened(path: Path, **options: Any) -> Content:
    """The content after recovery, which must be the same when it is repeated."""
    settings = {**SMALL, "durability": "relaxed", **options}
    with lowtide.open(path, **settings) as store:
        first, last_commit = content_of(store), store.stats().last_commit
    with lowtide.open(path, **settings) as store:
        assert content_of(store) == first
        assert store.stats().last_commit == last_commit
    return first


def files_of(path: Path) -> dict[str, bytes]:
    """Every file that holds data. The lock files and the table of members only record which processes are present."""
    return {
        str(each.relative_to(path)): each.read_bytes()
        for each in sorted(path.rglob("*"))
        if each.is_file() and each.name not in ("lock", "lock.mdb", "members")
    }


class Model:
    """What a store should hold: the content after each commit, by timestamp."""

    def __init__(self) -> None:
        self.states: list[Content] = [{}]

    @property
    def content(self) -> Content:
        return self.states[-1]

    def after(self, changes: dict[str, dict[bytes, bytes | None]]) -> Content:
        """The content if ``changes`` were committed now."""
        state = {name: dict(entries) for name, entries in self.content.items()}
        for name, entries in changes.items():
            for key, value in entries.items():
                state.setdefault(name, {}).pop(key, None)
                if value is not None:
                    state[name][key] = value
        return {name: entries for name, entries in state.items() if entries}

    def apply(self, changes: dict[str, dict[bytes, bytes | None]]) -> None:
        self.states.append(self.after(changes))


Changes = dict[str, dict[bytes, bytes | None]]


def commit(store: lowtide.Store, changes: Changes) -> int:
    """Commit ``changes`` in one transaction; returns its timestamp."""
    tx = store.begin()
    for name, entries in changes.items():
        keyspace = tx.keyspace(name)
        for key, value in entries.items():
            if value is None:
                keyspace.delete(key)
            else:
                keyspace.put(key, value)
    return tx.commit()


def both(number: int, size: int = 0) -> Changes:
    """A commit that writes the same to two keyspaces, and now and then deletes."""
    key = b"key %d" % (number % 7)
    if number % 5 == 4:
        return {"left": {key: None}, "right": {key: None}}
    value = b"%d." % number + b"x" * size
    return {"left": {key: value}, "right": {key: value}}


def in_time(work: Callable[[], _Result], what: str = "") -> _Result:
    """Run ``work`` in its own thread. A lock that is never released then fails the test instead of hanging it."""
    results: list[_Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive(), f"nobody gives the lock back {what}"
    if errors:
        raise errors[0]
    return results[0]


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for something that another thread or process does."""
    pause = threading.Event()
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        pause.wait(0.001)


@contextlib.contextmanager
def files_limited_to(size: int) -> Iterator[None]:
    """The system itself refuses to let a file grow beyond ``size`` bytes, as a full disk would."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


# Other processes


@contextlib.contextmanager
def child(program: str, *arguments: object) -> Iterator[Started]:
    """A Python process that runs ``program``, with this package to be had; killed at the end if it still lives."""
    process = start(program, *arguments)
    try:
        yield process
    finally:
        process.close()


def lines_of(process: Started) -> Iterator[Any]:
    """What the child prints, a JSON value to a line. A last line that was cut short is left out."""
    for line in process.stdout:
        if line.endswith("\n"):
            yield json.loads(line)


def is_alive(process_id: int) -> bool:
    """Whether a process that need not be a child still runs."""
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
