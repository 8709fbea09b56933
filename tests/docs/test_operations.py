"""Promises of docs/operations.md without another test: directories, signals, closing, copies, modes (K7, P2)."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import lowtide
from lowtide.engine.log.syncer import Syncer
from lowtide.engine.log.writer import LogWriter
from lowtide.system.disk import RealDisk
from tests.conftest import OpenStore
from tests.support.parts import parts_of
from tests.support.patience import PATIENCE
from tests.support.schedule import Schedule


def run(program: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


# The directory


def test_files_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with lowtide.open(tmp_path / "a" / "store") as store:
            store.keyspace("k").put(b"k", b"v")
            store.checkpoint()
    finally:
        os.umask(before)
    modes = {path: path.stat().st_mode & 0o777 for path in (tmp_path / "a" / "store").rglob("*")}
    assert len(modes) >= 6
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert (tmp_path / "a" / "store").stat().st_mode & 0o777 == 0o700


def test_an_existing_directory_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store").chmod(0o750)
    lowtide.open(tmp_path / "store").close()
    assert (tmp_path / "store").stat().st_mode & 0o777 == 0o750


def test_a_relative_path_survives_a_change_of_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Daemons change to the root directory after they opened their files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with lowtide.open("store", durability="relaxed", checkpointer="process", segment_bytes=4096) as store:
        monkeypatch.chdir(tmp_path / "elsewhere")
        for number in range(100):
            store.keyspace("k").put(b"%d" % number, bytes(200))
        store.checkpoint()
        assert store.stats().checkpoint_failures == 0
    with lowtide.open(tmp_path / "store") as store:
        assert len(list(store.keyspace("k").scan())) == 100
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_closed_store_can_be_copied(tmp_path: Path, open_store: OpenStore) -> None:
    store = open_store("original")
    for number in range(100):
        store.keyspace("k").put(b"%d" % number, b"v")
    expected = list(store.keyspace("k").scan())
    store.close()
    shutil.copytree(tmp_path / "original", tmp_path / "copy")
    assert list(open_store("copy").keyspace("k").scan()) == expected


# Ending


def test_a_store_that_is_open_at_exit_is_closed(tmp_path: Path) -> None:
    program = "import lowtide, sys; store = lowtide.open(sys.argv[1]); store.keyspace('k').put(b'k', b'v')"
    assert run(program, tmp_path / "store").returncode == 0
    # The owner's name is taken out of the lock file by a close, and by nothing else.
    assert (tmp_path / "store" / "lock").read_bytes() == b""


def test_a_store_outlives_sigterm_without_a_close(tmp_path: Path) -> None:
    program = (
        "import lowtide, os, signal, sys; store = lowtide.open(sys.argv[1]); store.keyspace('k').put(b'k', b'v');"
        "os.kill(os.getpid(), signal.SIGTERM); signal.pause()"
    )
    assert run(program, tmp_path / "store").returncode == -signal.SIGTERM
    assert (tmp_path / "store" / "lock").read_bytes() != b""
    with lowtide.open(tmp_path / "store") as store:
        assert store.keyspace("k").get(b"k") == b"v"


def test_a_close_that_comes_while_the_sync_thread_is_at_work_does_not_hang(tmp_path: Path) -> None:
    class Late(LogWriter):
        def sync(self) -> None:
            syncer._wishes.put(False)  # as close() does
            super().sync()

    log = Late(RealDisk(), tmp_path, bytes(16), 4096)
    syncer = Syncer(log, 0.001)
    syncer.start()
    syncer.tell()
    syncer._thread.join(PATIENCE)
    assert not syncer._thread.is_alive()
    log.close()


# Commits


HANDLER_COMMITS = """
import os, signal, sys, lowtide

store = lowtide.open(sys.argv[1])
keyspace = store.keyspace("k")
system = os.pwritev

def handle(*_):
    try:
        keyspace.put(b"handler", b"")
    except lowtide.UsageError as error:
        print(error)

def interrupted(*arguments):
    os.pwritev = system
    os.kill(os.getpid(), signal.SIGUSR1)
    return system(*arguments)

signal.signal(signal.SIGUSR1, handle)
os.pwritev = interrupted
if sys.argv[2] == "transaction":
    with store.transaction() as tx:
        tx.keyspace("k").put(b"outer", b"")
else:
    keyspace.put(b"outer", b"")
print([key for key, _ in keyspace.scan()])
"""


@pytest.mark.parametrize("way", ["fast path", "transaction"])
def test_a_commit_inside_a_commit_of_the_same_thread_is_refused(tmp_path: Path, way: str) -> None:
    """A signal comes during the write to the log, and its handler commits. It must not wait for what waits for it; in
    a process of its own, since it would wait for ever."""
    refusal, content = run(HANDLER_COMMITS, tmp_path / "store", way).stdout.splitlines()
    assert "a commit inside a commit" in refusal
    assert content == "[b'outer']"


def test_a_commit_beside_one_who_holds_the_lock_is_not_taken_for_one_inside_a_commit(store: lowtide.Store) -> None:
    """A snapshot that ends holds the commit lock for a moment, to collect; the thread that led last waits for it."""
    keyspace = store.keyspace("k")
    keyspace.put(b"k", b"1")
    reader = store.snapshot()
    committed, go_on = threading.Event(), threading.Event()
    outcomes: list[lowtide.Error | None] = []

    def commit_twice() -> None:
        keyspace.put(b"k", b"2")
        committed.set()
        go_on.wait(PATIENCE)
        try:
            keyspace.put(b"k", b"3")
            outcomes.append(None)
        except lowtide.Error as error:
            outcomes.append(error)

    thread = threading.Thread(target=commit_twice, daemon=True)
    thread.start()
    assert committed.wait(PATIENCE)
    with Schedule() as schedule:
        closing = schedule.start(reader.close, "collect.sampled").arrive()
        go_on.set()
        queue = parts_of(store).committer._queue
        while thread.is_alive() and not (queue and queue[0].gate is not None):
            thread.join(0.001)  # until it has been refused, or waits for its turn
        closing.finish()
    thread.join(PATIENCE)
    assert outcomes == [None]
    assert keyspace.get(b"k") == b"3"


def test_a_write_that_the_system_takes_in_parts_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux takes 2 GiB with one call at most; two values of 1 GiB in one commit are more than that."""
    whole, most = os.pwritev, 1000

    def in_parts(descriptor: int, buffers: list[bytes], offset: int, flags: int = 0) -> int:
        return whole(descriptor, [memoryview(buffers[0])[:most]], offset, flags)

    with lowtide.open(tmp_path / "store") as store:
        monkeypatch.setattr(os, "pwritev", in_parts)
        store.keyspace("k").put(b"long", bytes(2500))
        store.keyspace("k").put(b"short", b"v")
        assert store.stats().failure is None
        shutil.copytree(tmp_path / "store", tmp_path / "killed")
    with lowtide.open(tmp_path / "killed") as store:
        assert [len(value) for _, value in store.keyspace("k").scan()] == [2500, 1]


def test_a_write_of_which_nothing_is_taken_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with lowtide.open(tmp_path / "store") as store:
        monkeypatch.setattr(os, "pwritev", lambda *_: 0)
        with pytest.raises(lowtide.StoreFailed, match=os.strerror(errno.EIO) + "|wrote 0"):
            store.keyspace("k").put(b"k", b"v")
        monkeypatch.undo()
        assert store.keyspace("k").get(b"k") is None


# One owner


def test_a_read_only_store_refuses_writes_and_leaves_them_to_an_owner(open_store: OpenStore, tmp_path: Path) -> None:
    with open_store() as store:
        store.keyspace("k").put(b"k", b"v")
    with open_store(read_only=True) as store:
        assert store.keyspace("k").get(b"k") == b"v"
        with pytest.raises(lowtide.UsageError, match="read-only"):
            store.keyspace("k").put(b"k", b"w")
        with store.transaction() as tx, pytest.raises(lowtide.UsageError, match="read-only"):
            tx.keyspace("k").delete(b"k")
        with lowtide.open(tmp_path / "store") as owner:
            owner.keyspace("k").put(b"k", b"w")
            assert store.keyspace("k").get(b"k") == b"w"
