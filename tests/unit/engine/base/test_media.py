"""If no process can write to the medium, a pin is read without a lock. If only this process cannot, the reader gets an
error that says why (P4)."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

import lowtide
from lowtide.engine.base import media
from lowtide.engine.base.media import is_read_only, says_read_only
from tests.support.clocks import ManualClock

MOUNTS = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
90 27 8:1 / /media/disc ro,relatime shared:1 - ext4 /dev/sda1 ro,errors=remount-ro
91 27 8:2 / /backup ro,relatime - ext4 /dev/sdb1 rw,errors=remount-ro
a line that is cut short
"""


@pytest.mark.parametrize(("device", "fixed"), [((8, 1), True), ((8, 2), False), ((0, 21), False), ((9, 9), False)])
def test_a_mount_that_is_read_only_is_not_a_file_system_that_is(device: tuple[int, int], fixed: bool) -> None:
    assert says_read_only(MOUNTS, *device) is fixed


def test_a_place_that_can_be_written_or_does_not_exist_is_not_read_only(tmp_path: Path) -> None:
    assert not is_read_only(tmp_path)
    assert not is_read_only(tmp_path / "nowhere")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with two pins. One of them expired long ago."""
    with lowtide.open(tmp_path / "store", clock=ManualClock(), monitor_interval=3600) as store:
        store.keyspace("k").put(b"a", b"1")
        store.pin("p", ttl=60)
        store.keyspace("k").put(b"a", b"2")
        store.checkpoint()
    return tmp_path / "store"


def refuse_to_write(monkeypatch: pytest.MonkeyPatch, path: Path, number: int = errno.EROFS) -> None:
    """Let no file below ``path`` be opened for writing, as a read-only file system does."""
    opened = os.open

    def open_to_read(name: str | Path, flags: int, *arguments: int, **named: int) -> int:
        if str(name).startswith(str(path)) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(number, os.strerror(number), str(name))
        return opened(name, flags, *arguments, **named)

    monkeypatch.setattr(os, "open", open_to_read)


def content_of(path: Path) -> dict[str, tuple[int, bytes]]:
    return {str(each): (each.stat().st_mtime_ns, each.read_bytes()) for each in path.rglob("*") if each.is_file()}


def test_a_pin_on_a_read_only_file_system_is_read_and_nothing_is_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = content_of(path)
    monkeypatch.setattr(media, "says_read_only", lambda *_: True)
    monkeypatch.setattr(os, "ST_RDONLY", 0xFFFF)
    refuse_to_write(monkeypatch, path)
    for _ in range(2):
        with lowtide.open_snapshot(path, pin="p") as snapshot:
            assert snapshot.keyspace("k").get(b"a") == b"1", "nothing goes there, so the pin is good for ever"
            assert list(snapshot.keyspace("k").scan()) == [(b"a", b"1")]
    with pytest.raises(lowtide.SnapshotExpired, match="does not exist"):
        lowtide.open_snapshot(path, pin="another")
    with pytest.raises(lowtide.UsageError, match=r"read-only file system.*pin=\.\.\."):
        lowtide.open_snapshot(path)
    assert content_of(path) == before


@pytest.mark.parametrize("pin", ["p", None])
@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_where_another_process_may_write_the_reader_is_told_what_to_do(
    path: Path, monkeypatch: pytest.MonkeyPatch, pin: str | None, number: int
) -> None:
    refuse_to_write(monkeypatch, path, number)
    with pytest.raises(lowtide.Error, match=r"cannot write to .*read a backup"):
        lowtide.open_snapshot(path, pin=pin)
