"""A backup opens as it is and holds what it says. A repeated backup copies only what is new. A target that is
not a backup of the same store is refused."""

from __future__ import annotations

import shutil
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import lowtide
from lowtide.engine.base.sharing import SharedUse
from lowtide.engine.log.segment import segment_paths
from lowtide.upkeep.verify import verify_files
from tests.support.parts import parts_of
from tests.unit.upkeep.stores import SMALL, Lived, live_in


@pytest.fixture
def lived(tmp_path: Path) -> Iterator[Lived]:
    lived = live_in(tmp_path / "store")
    yield lived
    lived.close()


def restored(backup: Path) -> dict[bytes, bytes]:
    """What a copy of the backup holds, which must be whole."""
    report = verify_files(backup)
    assert report.ok, str(report)
    copy = backup.with_name(backup.name + " restored")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(backup, copy)
    with lowtide.open(copy, **SMALL) as store:
        assert store.verify().ok
        return dict(store.keyspace("fruit").scan())


def test_a_backup_opens_as_it_stands_with_every_commit(lived: Lived, tmp_path: Path) -> None:
    report = lived.store.backup(tmp_path / "backup")
    assert report.reaches == lived.store.stats().last_commit
    assert report.base_copied
    assert f"every commit up to {report.reaches}" in str(report)
    with lowtide.open(tmp_path / "backup", **SMALL) as copy:
        assert dict(copy.keyspace("fruit").scan()) == lived.content()
        assert copy.stats().last_commit == report.reaches
        copy.keyspace("fruit").put(b"goes", b"on")
        assert copy.verify().ok


def test_a_backup_of_an_empty_store_opens(store: lowtide.Store, tmp_path: Path) -> None:
    store.backup(tmp_path / "deep" / "backup")
    assert restored(tmp_path / "deep" / "backup") == {}


def test_a_second_backup_copies_only_what_is_new(tmp_path: Path) -> None:
    with lowtide.open(tmp_path / "store", **SMALL) as store:
        fruit = store.keyspace("fruit")
        for number in range(300):
            fruit.put(b"%d" % number, b"x" * 300)
        store.checkpoint()
        first = store.backup(tmp_path / "backup")
        for number in range(20):
            fruit.put(b"%d" % number, b"y" * 300)
        second = store.backup(tmp_path / "backup")
        assert (first.base_copied, second.base_copied) == (True, False)
        assert second.segments_copied > 1
        assert second.bytes < first.bytes / 4
        third = store.backup(tmp_path / "backup")
        assert (third.segments_copied, third.bytes, third.reaches) == (0, 0, second.reaches)
        assert third.segments_skipped == len(segment_paths(tmp_path / "backup" / "log"))
        fruit.put(b"one", b"more")
        fourth = store.backup(tmp_path / "backup")
        assert fourth.segments_copied == 1
        assert restored(tmp_path / "backup") == dict(fruit.scan())


def test_segments_that_the_source_gave_up_stay_in_the_backup_as_long_as_it_needs_them(tmp_path: Path) -> None:
    """The log of the source still follows on that of the backup, though it does not reach back to its base."""
    with lowtide.open(tmp_path / "store", **SMALL) as store:
        fruit = store.keyspace("fruit")
        for number in range(300):
            fruit.put(b"%d" % number, b"x" * 300)
        store.checkpoint()
        store.backup(tmp_path / "backup")
        for number in range(20):
            fruit.put(b"%d" % number, b"y" * 300)
        store.backup(tmp_path / "backup")
        store.checkpoint()
        assert len(segment_paths(tmp_path / "store" / "log")) < len(segment_paths(tmp_path / "backup" / "log"))
        fruit.put(b"one", b"more")
        report = store.backup(tmp_path / "backup")
        assert (report.base_copied, report.segments_copied) == (False, 1)
        assert restored(tmp_path / "backup") == dict(fruit.scan())


def test_a_segment_that_was_taken_out_of_a_backup_makes_a_new_base_necessary(tmp_path: Path) -> None:
    with lowtide.open(tmp_path / "store", **SMALL) as store:
        fruit = store.keyspace("fruit")
        for number in range(300):
            fruit.put(b"%d" % number, b"x" * 300)
        store.checkpoint()
        store.backup(tmp_path / "backup")
        for number in range(40):
            fruit.put(b"%d" % number, b"y" * 300)
        store.backup(tmp_path / "backup")
        store.checkpoint()
        segment_paths(tmp_path / "backup" / "log")[0].unlink()
        assert store.backup(tmp_path / "backup").base_copied
        assert restored(tmp_path / "backup") == dict(fruit.scan())


def test_a_backup_that_the_log_no_longer_reaches_gets_a_new_base(tmp_path: Path) -> None:
    with lowtide.open(tmp_path / "store", **SMALL) as store:
        fruit = store.keyspace("fruit")
        fruit.put(b"apple", b"red")
        store.backup(tmp_path / "backup")
        for number in range(100):
            fruit.put(b"%d" % number, b"y" * 300)
        store.checkpoint()
        report = store.backup(tmp_path / "backup")
        assert report.base_copied
        assert len(segment_paths(tmp_path / "backup" / "log")) == 1
        assert restored(tmp_path / "backup") == dict(fruit.scan())


def test_a_log_that_is_larger_than_the_base_makes_a_new_base_worth_while(tmp_path: Path) -> None:
    with lowtide.open(tmp_path / "store", **SMALL) as store:
        fruit = store.keyspace("fruit")
        store.backup(tmp_path / "backup")
        for _ in range(400):
            fruit.put(b"apple", b"y" * 300)
        assert store.backup(tmp_path / "backup").base_copied
        assert restored(tmp_path / "backup") == dict(fruit.scan())


def test_a_backup_made_while_others_commit_holds_exactly_the_commits_up_to_the_one_it_names(tmp_path: Path) -> None:
    """Commit n puts the number n under two keys: a backup that reaches n has n under both."""
    with lowtide.open(tmp_path / "store", **{**SMALL, "checkpoint_bytes": 10_000}) as store:
        stop = threading.Event()

        def work() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                with store.transaction() as tx:
                    tx.keyspace("fruit").put(b"left", b"%d" % number)
                    tx.keyspace("fruit").put(b"right", b"%d" % number)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            for _ in range(6):
                report = store.backup(tmp_path / "backup")
                if report.reaches:
                    assert restored(tmp_path / "backup") == {
                        b"left": b"%d" % report.reaches,
                        b"right": b"%d" % report.reaches,
                    }
        finally:
            stop.set()
            thread.join()


def test_a_commit_and_a_checkpoint_go_through_while_a_backup_runs(lived: Lived, tmp_path: Path) -> None:
    """In the very thread that backs up: whatever waited for the backup would wait for ever."""
    done: list[str] = []

    def progress(step: str) -> None:
        lived.store.keyspace("fruit").put(b"during", step.encode())
        lived.store.checkpoint()
        done.append(step)

    report = lived.store.backup(tmp_path / "backup", progress=progress)
    assert "placed base/data.mdb" in done
    assert report.reaches > 0
    restored(tmp_path / "backup")


def test_what_is_in_the_log_but_not_published_stays_behind(lived: Lived, tmp_path: Path) -> None:
    """A log that failed between writing and publishing: the commit was never acknowledged."""
    log = parts_of(lived.store).log
    before = lived.content()
    log.append(log.last_ts + 1, b"unpublished", False)
    log.failure = OSError("the disk is gone")
    report = lived.store.backup(tmp_path / "backup")
    assert report.reaches == log.last_ts - 1
    assert restored(tmp_path / "backup") == before


def test_a_damaged_log_is_not_backed_up(lived: Lived, tmp_path: Path) -> None:
    segment = segment_paths(lived.path / "log")[-1]
    data = bytearray(segment.read_bytes())
    data[100] ^= 1
    with segment.open("r+b") as file:
        file.write(data)
    with pytest.raises(lowtide.CorruptionError, match=r"is damaged.*verify"):
        lived.store.backup(tmp_path / "backup")
    data[100] ^= 1
    with segment.open("r+b") as file:
        file.write(data)


def test_a_pin_and_what_it_sees_come_along(lived: Lived, tmp_path: Path) -> None:
    pin = lived.store.pin("kept", ttl=3600)
    with lived.store.snapshot(at=pin) as snapshot:
        seen = dict(snapshot.keyspace("fruit").scan())
    lived.store.keyspace("fruit").put(b"29", b"changed since")
    lived.store.checkpoint()
    lived.store.backup(tmp_path / "backup")
    with lowtide.open(tmp_path / "backup", **SMALL) as copy, copy.snapshot(at=pin.ts) as snapshot:
        assert dict(snapshot.keyspace("fruit").scan()) == seen
        assert copy.keyspace("fruit").get(b"29") == b"changed since"


def test_files_are_for_their_owner_only(lived: Lived, tmp_path: Path) -> None:
    lived.store.backup(tmp_path / "backup")
    for path in [tmp_path / "backup", *(tmp_path / "backup").rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_nothing_temporary_stays(lived: Lived, tmp_path: Path) -> None:
    lived.store.backup(tmp_path / "backup")
    assert list((tmp_path / "backup").rglob("*.tmp")) == []


def refusal(store: lowtide.Store, path: Path) -> str:
    with pytest.raises(lowtide.UsageError) as caught:
        store.backup(path)
    return str(caught.value)


def test_the_store_itself_is_refused(lived: Lived, tmp_path: Path) -> None:
    assert "is the store itself" in refusal(lived.store, lived.path)
    (tmp_path / "link").symlink_to(lived.path)
    assert "is the store itself" in refusal(lived.store, tmp_path / "link")
    assert "is inside the store" in refusal(lived.store, lived.path / "backup")


def test_strangers_are_refused_and_left_alone(lived: Lived, tmp_path: Path) -> None:
    for name in ("letter.txt", "letter.tmp", "log/notes", "base/notes.tmp"):
        there = tmp_path / name.replace("/", " ") / name
        there.parent.mkdir(parents=True)
        there.write_text("mine")
        assert "which is not part of a backup" in refusal(lived.store, tmp_path / name.replace("/", " "))
        assert there.read_text() == "mine"
    (tmp_path / "file").write_text("mine")
    assert "is a file" in refusal(lived.store, tmp_path / "file")


def test_another_store_and_the_backup_of_another_store_are_refused(lived: Lived, tmp_path: Path) -> None:
    with lowtide.open(tmp_path / "other", **SMALL) as other:
        other.backup(tmp_path / "other backup")
    assert "that was opened as one" in refusal(lived.store, tmp_path / "other")
    assert "backup of another store" in refusal(lived.store, tmp_path / "other backup")


def test_a_backup_that_was_opened_is_a_store_of_its_own(lived: Lived, tmp_path: Path) -> None:
    lived.store.backup(tmp_path / "backup")
    with lowtide.open(tmp_path / "backup", **SMALL) as copy:
        with pytest.raises(lowtide.StoreLocked):
            lived.store.backup(tmp_path / "backup")
        assert copy.verify().ok
    assert "that was opened as one" in refusal(lived.store, tmp_path / "backup")


def test_a_source_that_went_back_in_time_is_refused(tmp_path: Path) -> None:
    """Restored from an older backup, it has other commits under the same numbers."""
    with lowtide.open(tmp_path / "store", **SMALL) as store:
        store.keyspace("fruit").put(b"apple", b"red")
        store.backup(tmp_path / "old")
        store.keyspace("fruit").put(b"apple", b"green")
        store.backup(tmp_path / "new")
    shutil.copytree(tmp_path / "old", tmp_path / "again")
    with lowtide.open(tmp_path / "again", **SMALL) as store:
        assert "has commits that this store never had" in refusal(store, tmp_path / "new")
        for number in range(50):
            store.keyspace("fruit").put(b"%d" % number, b"x" * 300)
        assert "has commits that this store never had" in refusal(store, tmp_path / "new")
    assert restored(tmp_path / "new") == {b"apple": b"green"}


def test_a_closed_store_is_not_backed_up(store: lowtide.Store, tmp_path: Path) -> None:
    store.close()
    with pytest.raises(lowtide.UsageError, match="closed"):
        store.backup(tmp_path / "backup")


def test_nothing_is_backed_up_that_a_power_loss_could_take_from_the_source(lived: Lived, tmp_path: Path) -> None:
    """Else the source would go another way than its backup, under the same numbers."""
    log = parts_of(lived.store).log
    assert log.durable_ts < log.last_ts
    assert lived.store.backup(tmp_path / "backup").reaches <= log.durable_ts


def test_the_base_of_a_backup_that_somebody_reads_is_not_exchanged(lived: Lived, tmp_path: Path) -> None:
    lived.store.backup(tmp_path / "backup")
    for number in range(100):
        lived.store.keyspace("fruit").put(b"%d" % number, b"x" * 500)
    with SharedUse(tmp_path / "backup" / "base"):
        assert "other processes are reading" in refusal(lived.store, tmp_path / "backup")
    assert lived.store.backup(tmp_path / "backup").base_copied
    assert restored(tmp_path / "backup") == lived.content()
