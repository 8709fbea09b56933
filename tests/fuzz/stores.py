"""A small store to damage, and every operation that a store offers."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lowtide
from lowtide.errors import Error
from lowtide.upkeep.verify import verify_files
from tests.crash.stores import SMALL, Content, content_of
from tests.unit.engine.base.bases import temporary_directory

QUIET: dict[str, Any] = {**SMALL, "durability": "relaxed", "monitor_interval": 1000}
MEMORY = 16 << 20
"""What an open store takes, whatever is in it: a store is more than a decoder."""


def make(path: Path) -> list[Content]:
    """A store with rows, a history, a pin, a consumer, and commits in several segments above its boundary; the content
    after each of its commits. It is left as a killed process leaves it."""
    source = path.with_name("source")
    states: list[Content] = [{}]
    with lowtide.open(source, **QUIET) as store:
        for number in range(6):
            with store.transaction() as tx:
                tx.keyspace("fruit").put(b"key %d" % (number % 4), b"%d" % number * 40)
                if number == 3:
                    tx.keyspace("nut").put(b"hazel", b"brown")
                    tx.keyspace("fruit").delete(b"key 1")
            states.append(content_of(store))
            if number == 2:
                store.pin("nightly", ttl=1e9)
                store.consumer("mirror", since=2)
            if number == 3:
                store.checkpoint()
        for number in range(3):
            store.keyspace("fruit").put(b"large", bytes([65 + number]) * 2500)
            states.append(content_of(store))
        shutil.copytree(source, path)
    shutil.rmtree(source)
    return states


@contextlib.contextmanager
def copy_of(template: Path) -> Iterator[Path]:
    """A copy to damage."""
    with temporary_directory() as directory:
        shutil.copytree(template, directory / "store")
        yield directory / "store"


def attempt(ask: Callable[[], object]) -> Error | None:
    """Ask; an error of ours is an answer."""
    try:
        ask()
    except Error as error:
        return error
    return None


def ask_everything(path: Path) -> tuple[Content | None, Error | None]:
    """Have the store in ``path`` do all that it can. The content that it showed, if it opened, and why it did not."""
    attempt(lambda: str(verify_files(path)))
    attempt(lambda: _read_at_the_pin(path))
    try:
        store = lowtide.open(path, **QUIET)
    except Error as error:
        return None, error
    found: list[Content] = []
    try:
        attempt(lambda: found.append(content_of(store)))
        for ask in (
            store.pins,
            store.consumers,
            store.stats,
            store.metrics,
            lambda: [change.kind for change in store.changes(0)],
            lambda: [change.kind for change in store.changes(6)],
            lambda: store.keyspace("fruit").put(b"new", b"value"),
            lambda: store.keyspace("brand new").put(b"new", b"value"),
            lambda: store.keyspace("fruit").delete(b"key 2"),
            lambda: store.consumer("mirror").remove(),
            store.checkpoint,
            store.collect_garbage,
            lambda: str(store.verify()),
            lambda: str(store.inspect_key("fruit", b"key 2")),
            lambda: str(store.inspect_base()),
            lambda: store.snapshot("nightly").close(),
            lambda: store.unpin("nightly"),
            lambda: content_of(store),
            store.collect_garbage,
        ):
            attempt(ask)
    finally:
        attempt(store.close)
    return (found[0] if found else None), None


def _read_at_the_pin(path: Path) -> None:
    with lowtide.open_snapshot(path, pin="nightly") as snapshot:
        for name in ("fruit", "nut"):
            list(snapshot.keyspace(name).scan())
            snapshot.keyspace(name).get(b"key 1")
