"""A base that was replaced by another in its directory: readers and writers follow, and never mix files of the two."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import lmdb
import pytest

from lowtide.engine.base import environment, exchange, leaf_file
from lowtide.engine.base.borrowing import borrow, give_back, loan_of
from lowtide.engine.base.environment import Base
from lowtide.engine.base.exchange import copy_of, put_in_place, settle, write_copy
from lowtide.engine.base.leases import Leases
from lowtide.engine.base.mapping import open_largest
from lowtide.engine.base.pages import Unreadable
from lowtide.engine.base.place import BasePlace, HeldDirectory, set_mark
from lowtide.errors import CorruptionError, DiskFull, Error
from tests.support.patience import PATIENCE

SIZE = 1 << 24


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "base"
    path.mkdir()
    base = Base(path, SIZE, create=True)
    base.initialise(b"the store")
    base.close()
    return path


def compacted_elsewhere(directory: Path, *, marked: bool = True, kept: str = "") -> None:
    """Exchange the base as another process does it: past the locks of this one."""
    copy = directory.with_name("copy")
    copy.mkdir()
    shutil.copy(directory / "data.mdb", copy / "data.mdb")
    (copy / "readers.lock").write_bytes(bytes(8))
    assert exchange._exchanged(copy, directory)
    if marked:
        set_mark(copy, moved=True)
    if kept:
        copy.rename(directory.with_name(kept))
    else:
        shutil.rmtree(copy)


def put(base: Base, key: bytes, value: bytes) -> None:
    base.write(lambda txn: txn.put(key, value, db=base.meta))


def got(base: Base, key: bytes) -> bytes | None:
    return base.read(lambda txn: txn.get(key, db=base.meta))


@pytest.mark.parametrize("marked", [True, False])
def test_a_write_goes_to_the_base_that_has_the_name(directory: Path, marked: bool) -> None:
    base = Base(directory, SIZE)
    put(base, b"before", b"1")
    compacted_elsewhere(directory, marked=marked)
    put(base, b"after", b"2")
    base.close()
    again = Base(directory, SIZE)
    assert (got(again, b"before"), got(again, b"after")) == (b"1", b"2")
    again.close()


def test_a_read_follows_the_mark_and_sees_what_was_written_since(directory: Path) -> None:
    base = Base(directory, SIZE)
    leases = Leases(base, lambda: 0.0)
    compacted_elsewhere(directory)
    other = lmdb.open(str(directory), max_dbs=16)
    with other.begin(write=True) as txn:
        txn.put(b"since", b"1", db=other.open_db(b"meta", txn=txn, create=False))
    other.close()
    assert got(base, b"since") == b"1"
    assert base.is_of(directory / "data.mdb")
    assert leases.take("pin", 1.0).ts == 0
    base.close()


def test_tables_and_pages_go_with_the_environment(directory: Path) -> None:
    base = Base(directory, SIZE)
    pins, history = base.pins, base.history
    compacted_elsewhere(directory)
    assert Leases(base, lambda: 0.0).all() == []
    assert (base.pins, base.history) == (pins, history)
    with base.env.begin() as txn, base.pages(txn):
        pass
    base.close()


def test_pages_of_a_base_are_read_in_no_transaction_of_the_one_before(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a transaction gives the root of its own table, and would find other pages under that number. So pages are
    read again when the environment before is closed, which ends its transactions."""
    monkeypatch.setattr(leaf_file, "PAYS", True)
    base = Base(directory, SIZE)
    before, pages = base.env, base.leaves
    adopt = Base._adopt

    def adopted(self: Base, env: lmdb.Environment, place: BasePlace) -> None:
        adopt(self, env, place)
        assert before.info(), "the environment before is still open"
        assert self.leaves is None

    def opened(*given: Any) -> leaf_file.LeafFile | None:
        with pytest.raises(lmdb.Error):
            before.info()
        return leaf_file.leaf_file(*given)

    monkeypatch.setattr(Base, "_adopt", adopted)
    monkeypatch.setattr(environment, "leaf_file", opened)
    compacted_elsewhere(directory)
    assert got(base, b"store") == b"the store"
    assert base.leaves is not None
    assert base.leaves is not pages
    assert base.leaves.is_of(base.file)
    base.close()


def test_pages_of_another_file_are_not_read(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may exchange the base between its opening and that of its pages."""
    monkeypatch.setattr(leaf_file, "PAYS", True)
    data, file = directory / "data.mdb", (directory / "data.mdb").stat()
    assert leaf_file.leaf_file(data, file, 4096) is not None
    compacted_elsewhere(directory)
    assert leaf_file.leaf_file(data, file, 4096) is None


def test_no_table_object_exists_for_a_moment_only(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read may take a method of it, and repeat that after the next exchange, when nothing gives it a new handle."""
    base = Base(directory, SIZE)

    def made(*_: object) -> None:
        raise AssertionError("another table object")

    for name in ("PinTable", "ConsumerTable", "HistoryTable"):
        monkeypatch.setattr(environment, name, made)
    taken = base.pins.all
    for _ in range(2):
        compacted_elsewhere(directory)
        assert base.read(taken) == []
    base.close()


def test_a_read_that_is_repeated_waits_for_no_writer(directory: Path) -> None:
    """That writer may be the one that follows to the new base, and waits for this read."""
    base = Base(directory, SIZE)
    compacted_elsewhere(directory)
    found: list[bytes | None] = []

    def repeat() -> None:
        found.append(base._again(lmdb.Error("cut short"), lambda: got(base, b"store"), b""))

    with base.writing:
        thread = threading.Thread(target=repeat, daemon=True)
        thread.start()
        thread.join(PATIENCE)
        assert found == [b"the store"]
    assert got(base, b"store") == b"the store"
    assert base.is_of(directory / "data.mdb")
    base.close()


def test_pages_of_another_file_are_refused(directory: Path) -> None:
    base = Base(directory, SIZE)
    with base.env.begin() as txn:
        compacted_elsewhere(directory)
        with pytest.raises(Unreadable, match="compacted"):
            base.pages(txn)
    base.close()


def test_the_base_of_another_store_is_not_followed(directory: Path) -> None:
    base = Base(directory, SIZE)
    other = directory.with_name("other")
    other.mkdir()
    made = Base(other, SIZE, create=True)
    made.initialise(b"another store")
    made.close()
    directory.rename(directory.with_name("gone"))
    other.rename(directory)
    for _ in range(2):
        with pytest.raises(Error, match="another store"):
            put(base, b"key", b"value")
    assert got(base, b"store") == b"the store"
    base.close()


def test_a_base_that_was_removed_goes_on(directory: Path) -> None:
    base = Base(directory, SIZE)
    shutil.rmtree(directory)
    put(base, b"key", b"value")
    assert got(base, b"key") == b"value"
    base.close()


def test_a_process_that_takes_the_store_over_follows_before_it_owns(directory: Path) -> None:
    reader = borrow(directory, SIZE)
    compacted_elsewhere(directory, marked=False)
    owner = borrow(directory, SIZE, owner=True)
    assert owner is reader
    assert owner.owned
    assert owner.is_of(directory / "data.mdb")
    give_back(owner, owner=loan_of(owner))
    assert not reader.owned
    give_back(reader)
    assert reader.closed


def test_the_files_of_two_directories_are_never_opened_together(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchanges = [True, True]
    opened = open_largest
    environments: list[lmdb.Environment] = []

    def open_late(path: Path, size: int, create: bool) -> lmdb.Environment:
        env = opened(path, size, create)
        environments.append(env)
        if exchanges:
            compacted_elsewhere(directory, kept=f"old {len(exchanges)}")
            exchanges.pop()
        return env

    monkeypatch.setattr(environment, "open_largest", open_late)
    base = Base(directory, SIZE)
    assert base.env is environments[-1]
    assert len(environments) == 3
    for each in environments[:-1]:
        with pytest.raises(lmdb.Error):
            each.info()
    assert base.is_of(directory / "data.mdb")
    base.close()


def test_an_error_while_the_directory_is_exchanged_is_not_the_last_word(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def check(env: lmdb.Environment, path: Path, *, most: int | None) -> None:
        calls.append(1)
        if len(calls) == 1:
            compacted_elsewhere(directory)
            raise CorruptionError(path, "the meta pages are those of another file")

    monkeypatch.setattr(environment, "check_environment", check)
    base = Base(directory, SIZE)
    assert len(calls) == 2
    base.close()
    monkeypatch.setattr(
        environment, "check_environment", lambda *_, **__: (_ for _ in ()).throw(CorruptionError(directory, "damaged"))
    )
    with pytest.raises(CorruptionError, match="damaged"):
        Base(directory, SIZE)


def test_without_room_for_a_mark_names_are_compared(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (directory / "readers.lock").unlink(missing_ok=True)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    base = Base(directory, SIZE)
    assert got(base, b"store") == b"the store"
    with pytest.raises(DiskFull):
        write_copy(base)
    monkeypatch.undo()
    compacted_elsewhere(directory)
    assert got(base, b"store") == b"the store"
    assert base.is_of(directory / "data.mdb")
    base.close()


def test_an_interrupt_while_it_follows_leaves_a_base_that_works(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = Base(directory, SIZE)
    for interrupted in ("open_tables", "_store_in"):
        compacted_elsewhere(directory)

        def interrupt(*_: object) -> None:
            monkeypatch.undo()
            raise KeyboardInterrupt

        target: object = base if interrupted == "open_tables" else environment
        monkeypatch.setattr(target, interrupted, interrupt)
        with pytest.raises(KeyboardInterrupt):
            got(base, b"store")
        assert got(base, b"store") == b"the store"
        assert base.is_of(directory / "data.mdb")
        put(base, b"key", interrupted.encode())
        assert got(base, b"key") == interrupted.encode()
    base.close()


def test_threads_read_and_write_while_the_base_is_exchanged_again_and_again(directory: Path) -> None:
    base = Base(directory, SIZE)
    leases = Leases(base, lambda: 0.0)
    failed: list[BaseException] = []
    done = threading.Event()

    def read() -> None:
        try:
            while not done.is_set():
                assert got(base, b"store") == b"the store"
                leases.all()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for each in threads:
        each.start()
    try:
        for number in range(50):
            put(base, b"number", b"%d" % number)
            compacted_elsewhere(directory, marked=number % 2 == 0)
            put(base, b"number", got(base, b"number") + b"!" if number % 2 == 0 else b"%d!" % number)  # type: ignore[operator]
            assert got(base, b"number") == b"%d!" % number
    finally:
        done.set()
        for each in threads:
            each.join(PATIENCE)
    assert failed == []
    base.close()


def test_the_next_owner_finishes_an_exchange(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, reader = Base(directory, SIZE), HeldDirectory(directory)
    old = reader.place(fixed=False)
    owner.owned = True
    monkeypatch.setattr(exchange, "set_mark", lambda *_, **__: None)  # killed before
    with owner.writing, owner.other_writers_out() as release:
        write_copy(owner)
        exchange.reopen(owner, lambda: put_in_place(owner, release, lambda _: None))
    owner.close()
    assert old.moved[0] == 0
    assert copy_of(directory).exists()
    monkeypatch.undo()
    settle(directory)
    assert old.moved[0] == 1
    assert not copy_of(directory).exists()
    reader.__exit__(None, None, None)


def test_a_mark_that_appears_while_the_old_base_is_removed_is_removed_too(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that holds the old directory, and is about to open the base in it, makes its mark there."""
    old, rmdir = copy_of(directory), os.rmdir
    old.mkdir()
    late = [old / "readers.lock"] * 3

    def removed(*given: Any, **named: Any) -> None:
        if late:
            late.pop().touch()
        rmdir(*given, **named)

    monkeypatch.setattr(os, "rmdir", removed)
    settle(directory)
    assert not old.exists()
    assert not late
