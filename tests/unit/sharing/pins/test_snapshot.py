"""``lowtide.open_snapshot``: what it refuses, and what it leaves behind when something fails."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pytest

import lowtide
from lowtide.engine.base import borrowing
from tests.conftest import OpenStore


@pytest.fixture
def path(open_store: OpenStore) -> Path:
    """A store that is not open, with a pin."""
    store = open_store()
    store.keyspace("k").put(b"x", b"1")
    store.pin("p", ttl=1000)
    store.close()
    return store.path


def uses(path: Path) -> list[int]:
    """The readers of the bases below ``path`` that this process has open."""
    return [
        each.readers for base, each in borrowing._uses.items() if path in base.directory.parents and not base.closed
    ]


def test_a_renewing_thread_that_cannot_be_started_leaves_no_pin_and_no_open_base(
    path: Path, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "lowtide-renewer":
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            lowtide.open_snapshot(path)
        with pytest.raises(RuntimeError):
            lowtide.open(path, read_only=True)
    assert uses(path) == []
    assert [pin.name for pin in open_store().pins()] == ["p"]


def test_a_forked_child_closes_what_it_inherited_without_touching_the_store(path: Path) -> None:
    """Not even its files: they may be gone, or locked by a compaction."""
    with lowtide.open_snapshot(path, pin="p") as snapshot:
        away = path.rename(path.with_name("away"))
        child = os.fork()
        if child == 0:
            try:
                snapshot.close()
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        away.rename(path)
        assert snapshot.keyspace("k").get(b"x") == b"1"
        assert uses(path) == [1]
    assert uses(path) == []


def test_a_backup_is_not_made_a_store_by_a_look_into_it(open_store: OpenStore, tmp_path: Path) -> None:
    store, backup = open_store(), tmp_path / "backup"
    store.keyspace("k").put(b"x", b"1")
    store.backup(backup)
    before = sorted(backup.rglob("*"))
    for look in (lambda: lowtide.open_snapshot(backup), lambda: lowtide.open(backup, read_only=True)):
        with pytest.raises(lowtide.UsageError, match="is a backup"):
            look()
    assert sorted(backup.rglob("*")) == before
    store.keyspace("k").put(b"x", b"2")
    store.backup(backup)  # goes on where it was
    with lowtide.open(backup) as restored:
        assert restored.keyspace("k").get(b"x") == b"2"


def test_a_store_whose_base_is_missing_is_told_so(path: Path) -> None:
    shutil.rmtree(path / "base")
    with pytest.raises(lowtide.CorruptionError, match="the base is missing"):
        lowtide.open_snapshot(path, pin="p")
    with pytest.raises(lowtide.CorruptionError, match="the base is missing"):
        lowtide.open_snapshot(path)
    with pytest.raises(lowtide.CorruptionError, match="the base is missing"):
        lowtide.open(path, read_only=True)
    assert not (path / "base").exists()
