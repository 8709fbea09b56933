"""The lock of a store: errors name its holder, and only the lock itself decides (K7)."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import threading
from pathlib import Path

import pytest

import lowtide
from lowtide.engine.recovery.ownership import Ownership
from tests.support.descriptors import open_below


def test_a_second_owner_is_refused_and_told_who_the_first_is(tmp_path: Path) -> None:
    owner = Ownership(tmp_path / "lock")
    with pytest.raises(lowtide.StoreLocked, match="this process") as caught:
        Ownership(tmp_path / "lock")
    assert str(tmp_path) in str(caught.value)
    assert "since" in caught.value.holder
    owner.release()
    Ownership(tmp_path / "lock").release()


def test_what_a_dead_owner_left_in_the_file_is_not_honoured(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.write_text(json.dumps({"pid": 1, "host": "elsewhere", "program": "init", "since": "ever"}))
    owner = Ownership(lock)
    assert json.loads(lock.read_text())["pid"] == os.getpid()
    owner.release()
    assert lock.read_text() == ""


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"pid": 1}', "\x00\xff"])
def test_a_holder_that_cannot_be_read_is_still_a_holder(tmp_path: Path, text: str) -> None:
    lock = tmp_path / "lock"
    owner = Ownership(lock)
    lock.write_text(text)
    with pytest.raises(lowtide.StoreLocked, match="held by an unknown process"):
        Ownership(lock)
    owner.release()


def test_a_refused_owner_leaves_no_descriptor_and_no_trace(tmp_path: Path) -> None:
    owner = Ownership(tmp_path / "lock")
    held = (tmp_path / "lock").read_bytes()
    before = open_below(tmp_path)
    for _ in range(5):
        with pytest.raises(lowtide.StoreLocked):
            Ownership(tmp_path / "lock")
    assert open_below(tmp_path) == before
    assert (tmp_path / "lock").read_bytes() == held
    owner.release()


def test_a_lock_that_outlives_its_dead_owner_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    """A process that the owner was just starting when it was killed has a copy of the lock until it runs."""
    lock = tmp_path / "lock"
    dead = subprocess.Popen(["true"])
    dead.wait()
    holder = {"pid": dead.pid, "host": socket.gethostname(), "program": "gone", "since": "a moment"}
    lock.write_text(json.dumps(holder))
    copy = lock.open("rb")
    fcntl.flock(copy, fcntl.LOCK_EX)
    timer = threading.Timer(0.05, copy.close)
    timer.start()
    Ownership(lock).release()
    timer.join()
