"""Compaction frees space beside readers and writers. For other processes see tests/processes/test_compaction.py."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

import lowtide
from lowtide.engine.base import exchange
from lowtide.engine.base.place import set_mark
from lowtide.engine.base.sharing import SharedUse
from lowtide.upkeep.compact import compact
from tests.conftest import OpenStore
from tests.support.parts import parts_of
from tests.unit.upkeep.stores import SMALL, live_in


def fill_and_empty(store: lowtide.Store, keys: int = 2000) -> None:
    with store.transaction() as tx:
        for number in range(keys):
            tx.keyspace("fruit").put(b"%05d" % number, b"x" * 200)
    store.checkpoint()
    with store.transaction() as tx:
        for number in range(10, keys):
            tx.keyspace("fruit").delete(b"%05d" % number)
    store.checkpoint()


def test_the_space_of_what_was_deleted_goes_back_to_the_file_system(store: lowtide.Store) -> None:
    fill_and_empty(store)
    data = store.path / "base" / "data.mdb"
    before = data.stat().st_size
    report = store.compact()
    assert (report.before, report.after) == (before, data.stat().st_size)
    assert report.after < before / 4
    assert report.freed == report.before - report.after + report.spares
    assert f"gave {report.freed} bytes back" in str(report)
    assert len(list(store.keyspace("fruit").scan())) == 10
    assert not (store.path / "base.tmp").exists()


def test_everything_works_on_in_the_new_file_and_after_a_restart(tmp_path: Path) -> None:
    lived = live_in(tmp_path / "store")
    first = lived.holders[0]
    assert isinstance(first, lowtide.Snapshot)
    seen = dict(first.keyspace("fruit").scan())
    lived.store.compact()
    assert dict(first.keyspace("fruit").scan()) == seen
    lived.store.keyspace("fruit").put(b"new", b"one")
    lived.store.checkpoint()
    content = lived.content()
    assert lived.store.verify().ok
    assert [pin.name for pin in lived.store.pins()] == ["report"]
    lived.close()
    with lowtide.open(tmp_path / "store", **SMALL) as store:
        assert dict(store.keyspace("fruit").scan()) == content


def test_spare_log_files_are_removed(open_store: OpenStore) -> None:
    store = open_store(**SMALL)
    for number in range(200):
        store.keyspace("fruit").put(b"%d" % number, b"x" * 200)
    store.checkpoint()
    assert list((store.path / "log").glob("spare-*"))
    report = store.compact()
    assert report.spares > 0
    assert list((store.path / "log").glob("spare-*")) == []
    for number in range(200):
        store.keyspace("fruit").put(b"%d" % number, b"y" * 200)
    assert store.verify().ok


def test_readers_and_writers_go_on_while_the_file_is_exchanged(open_store: OpenStore) -> None:
    store = open_store(**{**SMALL, "cache_rows": 1})
    fill_and_empty(store, 500)
    fruit = store.keyspace("fruit")
    stop = threading.Event()
    failed: list[BaseException] = []

    def read() -> None:
        try:
            while not stop.is_set():
                assert fruit.get(b"00003") == b"x" * 200
                assert fruit.get(b"00400") is None
                assert len(list(fruit.scan(b"0", b"1"))) == 10
                assert store.stats().boundary > 0
                parts_of(store).base.clear_dead_readers()
        except BaseException as error:
            failed.append(error)

    def write() -> None:
        try:
            number = 0
            while not stop.is_set():
                number += 1
                fruit.put(b"z%d" % (number % 50), b"%d" % number)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=each) for each in (read, read, write)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            store.compact()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert failed == []
    assert store.verify().ok


def test_a_commit_goes_through_while_the_copy_is_made(store: lowtide.Store) -> None:
    """In the thread that compacts, which would otherwise wait for itself."""
    fruit = store.keyspace("fruit")
    fruit.put(b"apple", b"red")
    seen: list[str] = []

    def step(name: str) -> None:
        seen.append(name)
        if name != "renamed":
            fruit.put(b"apple", name.encode())
            assert fruit.get(b"apple") == name.encode()

    compact(store._backend.running, step)
    assert seen == ["copied", "renamed", "reopened"]
    store.checkpoint()
    assert fruit.get(b"apple") == b"reopened"


READER = """
import sys
from pathlib import Path
from lowtide.engine.base.sharing import SharedUse
with SharedUse(Path(sys.argv[1])):
    print("reading", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def cannot_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system on which two directories cannot exchange their names."""
    monkeypatch.setattr(exchange, "_exchanged", lambda first, second: False)


@pytest.mark.usefixtures("cannot_exchange")
def test_another_process_that_reads_prevents_it_until_it_ends(store: lowtide.Store) -> None:
    fill_and_empty(store)
    base = store.path / "base"
    size = (base / "data.mdb").stat().st_size
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, str(base)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert reader.stdout is not None
    assert reader.stdout.readline() == "reading\n"
    with pytest.raises(lowtide.UsageError, match="other processes are reading"):
        store.compact()
    assert (base / "data.mdb").stat().st_size == size
    reader.kill()
    reader.communicate()
    assert store.compact().after < size


@pytest.mark.usefixtures("cannot_exchange")
def test_one_that_comes_while_the_copy_is_made_prevents_it_too(store: lowtide.Store) -> None:
    fill_and_empty(store)
    held: list[SharedUse] = []

    def step(name: str) -> None:
        held.append(SharedUse(store.path / "base"))

    with pytest.raises(lowtide.UsageError, match="other processes are reading"):
        compact(store._backend.running, step)
    assert len(held) == 1
    held[0].close()
    held[0].close()
    assert not (store.path / "base.tmp").exists()
    assert len(list(store.keyspace("fruit").scan())) == 10
    assert store.compact().freed > 0


def test_what_another_process_wrote_while_the_copy_was_made_is_not_lost(store: lowtide.Store) -> None:
    base = parts_of(store).base
    copies: list[str] = []

    def step(name: str) -> None:
        if name == "copied" and not copies:
            # As another process does it: past this process's lock, with LMDB's only.
            with base.env.begin(write=True) as txn:
                txn.put(b"written", b"meanwhile", db=base.meta)
        copies.append(name)

    compact(store._backend.running, step)
    assert copies == ["copied", "copied", "renamed", "reopened"]
    assert base.read(lambda txn: txn.get(b"written", db=base.meta)) == b"meanwhile"


def test_one_that_writes_all_the_time_waits_for_the_last_copy(store: lowtide.Store) -> None:
    base = parts_of(store).base
    steps: list[str] = []

    def step(name: str) -> None:
        steps.append(name)
        if name == "copied":
            with base.env.begin(write=True) as txn:
                txn.put(b"written", b"%d" % len(steps), db=base.meta)

    compact(store._backend.running, step)
    assert steps == ["copied", "copied", "copied again", "renamed", "reopened"]
    assert base.read(lambda txn: txn.get(b"written", db=base.meta)) == b"2"
    assert store.verify().ok


def test_a_closed_store_is_not_compacted(store: lowtide.Store) -> None:
    store.close()
    with pytest.raises(lowtide.UsageError, match="closed"):
        store.compact()


@pytest.mark.parametrize("name", ["base/data.mdb.tmp", "base.tmp/data.mdb"])
def test_a_copy_that_was_never_finished_is_removed_at_opening(tmp_path: Path, name: str) -> None:
    lowtide.open(tmp_path / "store", **SMALL).close()
    stray = tmp_path / "store" / name
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(b"half")
    lowtide.open(tmp_path / "store", **SMALL).close()
    assert not stray.exists()
    assert not (tmp_path / "store" / "base.tmp").exists()


def test_a_base_that_is_a_link_stays_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with lowtide.open(path, **SMALL) as store:
        fill_and_empty(store)
    (path / "base").rename(tmp_path / "elsewhere")
    (path / "base").symlink_to(tmp_path / "elsewhere")
    with lowtide.open(path, **SMALL) as store:
        before = (tmp_path / "elsewhere" / "data.mdb").stat().st_size
        store.compact()
        assert (path / "base").is_symlink()
        assert (tmp_path / "elsewhere" / "data.mdb").stat().st_size < before
        assert sorted(each.name for each in tmp_path.iterdir()) == ["elsewhere", "store"]
        assert len(list(store.keyspace("fruit").scan())) == 10


def test_the_files_keep_their_rights(store: lowtide.Store) -> None:
    base = store.path / "base"
    base.chmod(0o750)
    store.compact()
    assert {each.name: each.stat().st_mode & 0o7777 for each in (base, *base.iterdir())} == {
        "base": 0o750,
        "data.mdb": 0o600,
        "lock.mdb": 0o600,
        "readers.lock": 0o600,
    }


def test_a_base_that_was_put_back_by_hand_is_not_taken_for_an_old_one(tmp_path: Path) -> None:
    with lowtide.open(tmp_path / "store", **SMALL) as store:
        store.keyspace("fruit").put(b"apple", b"red")
    set_mark(tmp_path / "store" / "base", moved=True)
    with lowtide.open(tmp_path / "store", **SMALL) as store:
        assert store.keyspace("fruit").get(b"apple") == b"red"
        assert (tmp_path / "store" / "base" / "readers.lock").read_bytes() == bytes(8)
