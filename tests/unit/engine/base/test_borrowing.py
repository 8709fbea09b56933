"""One base per process and directory, shared by its readers and its owner."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest

from lowtide.engine.base import borrowing
from lowtide.engine.base.borrowing import borrow, give_back, loan_of
from lowtide.engine.base.environment import Base
from lowtide.engine.base.sharing import sole_use
from lowtide.errors import CorruptionError, UsageError
from tests.support.descriptors import open_below
from tests.unit.engine.base.bases import STORE_ID, temporary_directory

SIZE = 1 << 24


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory with a base that is not open."""
    with temporary_directory() as path:
        base = Base(path, SIZE, create=True)
        base.initialise(STORE_ID)
        base.close()
        yield path
        assert all(base.closed for base in borrowing._uses), "the test gave everything back"


def is_shared(directory: Path) -> bool:
    """Whether this process keeps an owner elsewhere from exchanging the file."""
    try:
        with sole_use(directory):
            return False
    except UsageError:
        return True


def test_readers_and_owner_share_one_environment_which_the_last_one_closes(directory: Path) -> None:
    first = borrow(directory, SIZE)
    owner = borrow(directory, SIZE, owner=True)
    second = borrow(directory, SIZE)
    assert first is owner is second
    give_back(first)
    give_back(owner, owner=loan_of(owner))
    assert not second.closed
    assert second.store_id() == STORE_ID
    give_back(second)
    assert second.closed


def test_another_name_of_the_directory_is_the_same_base(directory: Path) -> None:
    link = directory.with_name(directory.name + "-link")
    link.symlink_to(directory)
    try:
        first, second = borrow(directory, SIZE), borrow(link, SIZE)
        assert first is second
        give_back(first)
        give_back(second)
    finally:
        link.unlink()


def test_the_file_is_held_while_there_are_readers_and_no_owner_here(directory: Path) -> None:
    reader = borrow(directory, SIZE)
    assert is_shared(directory)
    owner = borrow(directory, SIZE, owner=True)
    assert not is_shared(directory), "the owner exchanges the file for its own readers, too"
    give_back(owner, owner=loan_of(owner))
    assert is_shared(directory)
    give_back(reader)
    assert not is_shared(directory)


def test_a_directory_without_a_base_is_refused_and_leaves_no_lock_behind(directory: Path) -> None:
    (directory / "data.mdb").rename(directory / "elsewhere")
    before = open_below(directory)
    for _ in range(3):
        with pytest.raises(CorruptionError):
            borrow(directory, SIZE)
    assert not is_shared(directory)
    assert open_below(directory) == before


def test_a_base_that_was_closed_by_somebody_is_opened_anew(directory: Path) -> None:
    first = borrow(directory, SIZE)
    first.close()
    second = borrow(directory, SIZE)
    assert second is not first
    assert second.store_id() == STORE_ID
    give_back(second)
    assert second.closed


def test_a_full_map_grows_under_a_reader_that_takes_a_pin(directory: Path) -> None:
    """With a map as small as the owner chose, a pin's row may be what no longer fits."""
    base = borrow(directory, 1 << 17)

    def fill(txn: lmdb.Transaction[bytes]) -> None:
        for number in range(40):
            txn.put(b"%d" % number, bytes(8000), db=base.rows)

    base.write(fill)
    assert base.map_size > 1 << 17
    give_back(base)


def test_a_directory_that_is_missing_is_told_as_a_missing_base(directory: Path) -> None:
    with pytest.raises(CorruptionError, match="the base is missing"):
        borrow(directory / "nowhere", SIZE)
    assert not (directory / "nowhere").exists()


def test_an_owner_that_gives_back_late_does_not_take_the_base_from_the_next(tmp_path: Path) -> None:
    """Its close was interrupted, and is repeated when another one has opened the store."""
    Base(tmp_path, SIZE, create=True).close()
    first = borrow(tmp_path, SIZE, owner=True)
    interrupted = loan_of(first)
    second = borrow(tmp_path, SIZE, owner=True)
    assert second is first
    give_back(first, owner=interrupted)
    assert not second.closed
    give_back(second, owner=loan_of(second))
    assert second.closed
