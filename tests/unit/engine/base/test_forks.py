"""A forked child never touches its parent's environment, and may open the same files itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from lowtide.engine.base.borrowing import borrow, give_back
from lowtide.engine.base.environment import Base
from lowtide.errors import UsageError
from tests.unit.engine.base.bases import STORE_ID, new_base

SIZE = 1 << 24


def in_child(work: Callable[[], object]) -> str:
    """What ``work`` returns, or raises, in a forked child that ends without ceremony."""
    receiving, sending = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(receiving)
        try:
            told = repr(work())
        except BaseException as error:
            told = repr(error)
        os.write(sending, told.encode())
        os._exit(0)
    os.close(sending)
    with open(receiving) as stream:
        told = stream.read()
    assert os.waitpid(process, 0)[1] == 0, "the child died"
    return told


def test_py_lmdb_still_has_the_private_name_that_reopening_in_a_child_needs() -> None:
    """``forks`` replaces ``lmdb._envid.env_keys`` briefly; pyproject.toml bounds py-lmdb's version for it."""
    try:
        from lmdb import _envid
    except ImportError:
        pytest.fail(f"py-lmdb {lmdb.__version__} has no lmdb._envid: revise engine/base/forks.py")
    assert callable(getattr(_envid, "env_keys", None)), (
        f"py-lmdb {lmdb.__version__} has no lmdb._envid.env_keys: revise engine/base/forks.py"
    )


def slots(base: Base) -> list[str]:
    return [line.split()[0] for line in base.env.readers().splitlines()[1:]]


def test_the_parent_s_base_can_neither_be_read_nor_written_in_the_child() -> None:
    with new_base() as base:
        assert "fork" in in_child(base.store_id)
        assert "fork" in in_child(lambda: base.write(lambda txn: base.put_boundary(txn, 99)))
        assert base.read_boundary() == 0


def test_a_child_is_refused_even_if_the_parent_was_writing_when_it_forked() -> None:
    """The lock that keeps writers apart is then held by a thread that the child does not have."""
    with new_base() as base, base.writing:
        assert "fork" in in_child(lambda: base.write(lambda txn: base.put_boundary(txn, 99)))


def test_a_child_that_closes_the_parent_s_base_takes_nothing_from_it() -> None:
    """The slots in LMDB's table of readers are the parent's; freed by a child, they are no good to either."""
    with new_base() as base:
        assert base.store_id() == STORE_ID  # so that this thread has a slot
        assert slots(base) == [str(os.getpid())]
        in_child(base.close)
        in_child(lambda: give_back(base))
        in_child(lambda: give_back(base, owner=1))
        assert slots(base) == [str(os.getpid())]
        assert base.store_id() == STORE_ID
        base.write(lambda txn: base.put_boundary(txn, 7))
        assert base.read_boundary() == 7


def test_a_child_opens_the_same_files_for_itself() -> None:
    with new_base() as base:
        base.read_boundary()

        def read_and_write() -> object:
            own = borrow(base.directory, SIZE)
            own.write(lambda txn: own.put_boundary(txn, (own.boundary_in(txn) or 0) + 1))
            found = own.read_boundary()
            give_back(own)
            return found

        assert [in_child(read_and_write), in_child(read_and_write)] == ["1", "2"]
        assert base.read_boundary() == 2
        assert slots(base) == [str(os.getpid())]


def test_a_grandchild_opens_them_too() -> None:
    with new_base() as base:

        def child() -> object:
            own = borrow(base.directory, SIZE)
            own.read_boundary()
            try:
                return in_child(lambda: borrow(base.directory, SIZE).store_id())
            finally:
                assert own.store_id() == STORE_ID
                give_back(own)

        assert repr(STORE_ID) in in_child(child)
        assert base.store_id() == STORE_ID


def test_what_others_opened_in_this_process_is_refused_in_words(tmp_path: Path) -> None:
    base = Base(tmp_path, SIZE, create=True)
    base.close()
    with lmdb.open(str(tmp_path), max_dbs=16), pytest.raises(UsageError, match="not through Lowtide"):
        Base(tmp_path, SIZE)
