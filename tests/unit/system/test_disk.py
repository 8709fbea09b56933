"""The real implementation of the disk interface (P2)."""

from __future__ import annotations

import contextlib
import errno
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from lowtide.system.disk import RealDisk, is_full
from tests.support.descriptors import open_below


@contextlib.contextmanager
def files_limited_to(size: int) -> Iterator[None]:
    """The system itself refuses to let a file grow beyond ``size`` bytes, as a full disk would."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size", [0, 1, 4096, (1 << 20) + 5])
def test_a_new_file_is_made_of_zeros(tmp_path: Path, size: int) -> None:
    file = RealDisk().create(tmp_path / "new", size)
    assert file.size == size
    assert (tmp_path / "new").read_bytes() == bytes(size)
    file.close()


def test_a_new_file_has_its_blocks(tmp_path: Path) -> None:
    """A file with holes would ask for room at a time when a commit can no longer be refused."""
    RealDisk().create(tmp_path / "new", 1 << 20).close()
    assert (tmp_path / "new").stat().st_blocks * 512 >= 1 << 20


def test_only_the_owner_may_read_a_new_file(tmp_path: Path) -> None:
    RealDisk().create(tmp_path / "new", 10).close()
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o600


def test_an_existing_file_is_never_overwritten_by_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "new").write_bytes(b"content")
    with pytest.raises(FileExistsError):
        RealDisk().create(tmp_path / "new", 10)
    assert (tmp_path / "new").read_bytes() == b"content"


def test_a_file_for_which_there_is_no_room_leaves_nothing_behind(tmp_path: Path) -> None:
    with files_limited_to(8192), pytest.raises(OSError, match="File too large") as caught:
        RealDisk().create(tmp_path / "new", 1 << 20)
    assert is_full(caught.value)
    assert list(tmp_path.iterdir()) == []
    assert open_below(tmp_path) == []


def test_writes_of_either_kind_are_seen_by_whoever_reads_the_file(tmp_path: Path) -> None:
    file = RealDisk().create(tmp_path / "new", 100)
    file.write(10, b"mapped")
    file.write_durably(20, b"durable")
    content = (tmp_path / "new").read_bytes()
    assert content[10:16] == b"mapped"
    assert content[20:27] == b"durable"
    assert file.read(10, 17) == content[10:27]
    file.sync()
    file.close()
    again = RealDisk().open(tmp_path / "new")
    assert (again.size, again.read(0, 100)) == (100, content)
    again.close()


def test_a_write_beyond_the_end_is_refused(tmp_path: Path) -> None:
    file = RealDisk().create(tmp_path / "new", 10)
    with pytest.raises(OSError, match="preallocated") as caught:
        file.write(5, b"123456")
    assert caught.value.errno == errno.EFBIG
    assert (tmp_path / "new").read_bytes() == bytes(10)
    file.close()


def test_an_empty_file_can_be_opened_and_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    file = RealDisk().open(tmp_path / "empty")
    assert (file.size, file.read(0, 10)) == (0, b"")
    with pytest.raises(OSError, match="preallocated"):
        file.write(0, b"x")
    file.close()


def test_names_change_and_go(tmp_path: Path) -> None:
    disk = RealDisk()
    disk.create(tmp_path / "a", 1).close()
    disk.rename(tmp_path / "a", tmp_path / "b")
    disk.sync_directory(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["b"]
    disk.remove(tmp_path / "b")
    disk.remove(tmp_path / "b")
    assert list(tmp_path.iterdir()) == []


def test_want_of_room_is_told_from_a_broken_disk() -> None:
    assert all(is_full(OSError(number, "")) for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
    assert not any(is_full(OSError(number, "")) for number in (errno.EIO, errno.EROFS, errno.EBADF))
