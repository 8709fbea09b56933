"""The model of power loss itself: a model that loses too little would prove nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lowtide.system.disk import RealDisk
from tests.crash.power import SECTOR, Crash, crashes
from tests.support.disks import DirectorySynced, Event, RecordingDisk

OLD, NEW, NEWER = b"old".ljust(SECTOR, b"."), b"new".ljust(SECTOR, b"."), b"newer".ljust(SECTOR, b".")


def recorder(tmp_path: Path) -> RecordingDisk:
    return RecordingDisk(tmp_path / "no base")


def contents(trace: Sequence[Event], name: str = "file") -> set[bytes]:
    """What the file may hold in the states after the last note."""
    found = [crash for crash in crashes(trace) if crash.notes]
    return {crash.log[name] for crash in found if name in crash.log}


def test_a_synced_write_is_in_every_state(tmp_path: Path) -> None:
    disk = recorder(tmp_path)
    file = disk.create(tmp_path / "file", SECTOR)
    disk.sync_directory(tmp_path)
    file.write(0, OLD)
    file.sync()
    disk.note("synced")
    assert contents(disk.trace) == {OLD}
    file.write_durably(0, NEW)
    disk.note("written durably")
    assert contents(disk.trace) == {OLD, NEW}
    assert {crash.log["file"] for crash in crashes(disk.trace) if len(crash.notes) == 2} == {NEW}


def test_an_unsynced_sector_may_hold_any_content_since_its_sync(tmp_path: Path) -> None:
    disk = recorder(tmp_path)
    file = disk.create(tmp_path / "file", SECTOR)
    disk.sync_directory(tmp_path)
    file.write_durably(0, OLD)
    file.write(0, NEW)
    file.write(0, NEWER)
    disk.note("unsynced")
    assert contents(disk.trace) == {OLD, NEW, NEWER}


def test_unsynced_writes_to_different_sectors_arrive_in_any_combination(tmp_path: Path) -> None:
    disk = recorder(tmp_path)
    file = disk.create(tmp_path / "file", 3 * SECTOR)
    disk.sync_directory(tmp_path)
    for sector in range(3):
        file.write(sector * SECTOR, NEW)
    disk.note("unsynced")
    blank = bytes(SECTOR)
    parts = [(first, second, third) for first in (blank, NEW) for second in (blank, NEW) for third in (blank, NEW)]
    assert contents(disk.trace) == {b"".join(each) for each in parts}


def test_a_write_is_torn_between_its_sectors_and_never_inside_one(tmp_path: Path) -> None:
    disk = recorder(tmp_path)
    file = disk.create(tmp_path / "file", 3 * SECTOR)
    disk.sync_directory(tmp_path)
    file.write_durably(0, OLD * 3)
    disk.note("begin")
    file.write(0, NEW * 3)
    found = contents(disk.trace)
    assert {OLD * 3, NEW + OLD * 2, NEW * 2 + OLD, NEW * 3, OLD + NEW * 2, NEW + bytes(2 * SECTOR)} <= found
    for content in found:
        for sector in range(3):
            assert content[sector * SECTOR : (sector + 1) * SECTOR] in (OLD, NEW, bytes(SECTOR))


def test_a_durable_write_is_torn_until_it_has_returned(tmp_path: Path) -> None:
    disk = recorder(tmp_path)
    file = disk.create(tmp_path / "file", 2 * SECTOR)
    disk.sync_directory(tmp_path)
    disk.note("begin")
    file.write_durably(0, NEW * 2)
    assert NEW + bytes(SECTOR) in contents(disk.trace)


def test_a_durable_write_does_not_sync_what_lies_beside_it(tmp_path: Path) -> None:
    disk = recorder(tmp_path)
    file = disk.create(tmp_path / "file", 2 * SECTOR)
    disk.sync_directory(tmp_path)
    file.write(0, NEW)
    file.write_durably(SECTOR, NEW)
    disk.note("synced half")
    assert contents(disk.trace) == {bytes(SECTOR) + NEW, NEW * 2}


def names(trace: Sequence[Event], since: str) -> set[frozenset[str]]:
    return {frozenset(crash.log) for crash in crashes(trace) if since in crash.notes}


def test_names_are_certain_once_the_directory_was_synced(tmp_path: Path) -> None:
    disk = recorder(tmp_path)
    disk.create(tmp_path / "a", 1)
    disk.note("made")
    assert names(disk.trace, "made") == {frozenset(), frozenset("a")}
    disk.sync_directory(tmp_path)
    disk.note("synced")
    assert names(disk.trace, "synced") == {frozenset("a")}
    disk.rename(tmp_path / "a", tmp_path / "b")
    disk.note("renamed")
    assert names(disk.trace, "renamed") == {frozenset("a"), frozenset("b")}
    disk.sync_directory(tmp_path)
    disk.remove(tmp_path / "b")
    disk.note("removed")
    assert names(disk.trace, "removed") == {frozenset("b"), frozenset()}


def test_a_file_keeps_its_content_under_whichever_name_it_has(tmp_path: Path) -> None:
    disk = recorder(tmp_path)
    file = disk.create(tmp_path / "a", SECTOR)
    disk.sync_directory(tmp_path)
    disk.rename(tmp_path / "a", tmp_path / "b")
    file.write_durably(0, NEW)
    disk.note("written")
    states = [crash.log for crash in crashes(disk.trace) if crash.notes]
    assert {"a": NEW} in states
    assert {"b": NEW} in states


def test_a_state_is_made_of_real_files(tmp_path: Path) -> None:
    crash = Crash({"0000000001.log": b"log"}, b"base", (), "")
    crash.materialise(tmp_path / "store", b"manifest")
    assert (tmp_path / "store" / "log" / "0000000001.log").read_bytes() == b"log"
    assert (tmp_path / "store" / "base" / "data.mdb").read_bytes() == b"base"
    assert (tmp_path / "store" / "store.json").read_bytes() == b"manifest"


def test_a_recording_disk_does_what_the_real_one_does(tmp_path: Path) -> None:
    disk = recorder(tmp_path)
    file = disk.create(tmp_path / "a", 10)
    file.write(0, b"12345")
    file.write_durably(5, b"67890")
    file.sync()
    disk.rename(tmp_path / "a", tmp_path / "b")
    disk.sync_directory(tmp_path)
    assert file.read(0, 10) == (tmp_path / "b").read_bytes() == b"1234567890"
    file.close()
    reopened = disk.open(tmp_path / "b")
    assert (reopened.size, reopened.read(3, 3)) == (10, b"456")
    reopened.close()
    disk.remove(tmp_path / "b")
    assert not (tmp_path / "b").exists()
    assert disk.trace.count(DirectorySynced()) == 1


def test_a_file_that_is_older_than_the_trace_is_taken_as_synced(tmp_path: Path) -> None:
    file = RealDisk().create(tmp_path / "a", SECTOR)
    file.write(0, OLD)
    file.close()
    disk = recorder(tmp_path)
    disk.open(tmp_path / "a").close()
    disk.note("known")
    assert contents(disk.trace, "a") == {OLD}
