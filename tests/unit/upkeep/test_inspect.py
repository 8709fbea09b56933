"""The inspection of a store as text."""

from __future__ import annotations

from pathlib import Path

import pytest

import lowtide
from lowtide.engine.log.segment import segment_paths
from lowtide.upkeep.inspect import inspect_base_files, inspect_segment
from tests.unit.upkeep.stores import SMALL, live_in


def test_the_versions_of_a_key_are_told_newest_first_with_those_who_see_them(store: lowtide.Store) -> None:
    fruit = store.keyspace("fruit")
    fruit.put(b"apple", b"red")
    old = store.snapshot()
    fruit.put(b"apple", b"nobody sees this")
    fruit.delete(b"apple")
    fruit.put(b"apple", b"green")
    store.checkpoint()
    pin = store.pin("report", ttl=60)
    fruit.put(b"apple", b"yellow")
    newer = store.snapshot()
    fruit.delete(b"apple")
    found = [
        (each.where, each.begin, each.end, each.deleted, each.size)
        for each in store.inspect_key("fruit", b"apple").versions
    ]
    assert found == [
        ("memory", 6, None, True, 0),
        ("memory", 5, 6, False, 6),
        ("base", 4, 5, False, 5),
        ("history", 1, 4, False, 3),  # no snapshot saw the versions in between
    ]
    text = str(store.inspect_key("fruit", b"apple"))
    assert "key b'apple' of keyspace 'fruit': 4 versions" in text
    assert f"commit 4, superseded by commit 5: 5 bytes, in base; seen by the pin 'report' at {pin.ts}" in text
    assert f"in history; seen by the snapshot at 1 ({__file__}:" in text
    assert "commit 6, newest: deletion, in memory" in text
    old.close()
    newer.close()


def test_a_tombstone_in_the_base_is_told_as_a_deletion(tmp_path: Path) -> None:
    lived = live_in(tmp_path / "store")
    versions = lived.store.inspect_key("fruit", b"10").versions
    assert [(each.where, each.deleted) for each in versions] == [("base", True), ("history", False)]
    lived.close()


def test_a_key_without_versions_and_a_keyspace_that_does_not_exist(store: lowtide.Store) -> None:
    store.keyspace("fruit").put(b"apple", b"red")
    assert store.inspect_key("fruit", b"pear").versions == ()
    with pytest.raises(lowtide.UsageError, match="no keyspace 'nuts'; there are fruit"):
        store.inspect_key("nuts", b"pear")


def test_a_segment_is_told_with_its_frames_and_why_it_ends(tmp_path: Path) -> None:
    store = lowtide.open(tmp_path / "store", **{**SMALL, "segment_bytes": 1 << 16})
    store.keyspace("fruit").put(b"apple", b"red")
    with store.transaction() as tx:
        tx.keyspace("fruit").put(b"pear", b"green")
        tx.keyspace("fruit").delete(b"apple")
    path = segment_paths(tmp_path / "store" / "log")[0]
    report = inspect_segment(path)
    assert (report.sequence, report.first_ts, report.size) == (1, 1, 1 << 16)
    assert [(frame.ts, frame.keys, frame.value_bytes) for frame in report.frames] == [(1, 1, 3), (2, 2, 5)]
    assert report.ends_because == "nothing but zeros follows"
    assert "commits 1 to 2" in str(report)
    store.close()
    assert inspect_segment(path).frames[-1].marker
    assert "marker, all up to commit 2 is on disk" in str(inspect_segment(path))


@pytest.mark.parametrize(
    ("change", "because"),
    [
        (lambda data, end: data[:end], "the file is full"),
        (lambda data, end: data[: end - 3] + bytes(100), "the next frame was cut short"),
        (lambda data, end: data[:end] + b"older" + bytes(100), "what the file held before"),
        (lambda data, end: data[:150] + b"\xff" + data[151:], "is damaged, though commit 3 stands behind it"),
    ],
)
def test_why_a_segment_ends(tmp_path: Path, change: object, because: str) -> None:
    store = lowtide.open(tmp_path / "store", **{**SMALL, "segment_bytes": 1 << 16})
    for _ in range(3):
        store.keyspace("fruit").put(b"apple", b"red")
    path = segment_paths(tmp_path / "store" / "log")[0]
    report = inspect_segment(path)
    assert callable(change)
    damaged = tmp_path / "0000000001.log"
    damaged.write_bytes(change(path.read_bytes(), report.end))
    store.close()
    assert because in str(inspect_segment(damaged))


def test_what_is_no_segment_is_refused(tmp_path: Path) -> None:
    (tmp_path / "0000000001.log").write_bytes(b"something else" * 10)
    with pytest.raises(lowtide.CorruptionError, match="not a log segment"):
        inspect_segment(tmp_path / "0000000001.log")


def test_the_base_is_told_table_by_table(tmp_path: Path) -> None:
    lived = live_in(tmp_path / "store")
    report = lived.store.inspect_base()
    entries = {table.name: table.entries for table in report.tables}
    assert (entries["rows"], entries["tombstones"], entries["pins"], entries["keyspaces"]) == (30, 10, 1, 1)
    assert entries["history"] == entries["history-index"] == lived.store.stats().history
    assert report.boundary == lived.store.stats().boundary
    assert 0 <= report.free_pages < report.pages
    assert len(report.readers) >= 1
    assert "rows" in str(report)
    assert f"up to commit {report.boundary}" in str(report)
    lived.close()
    closed = inspect_base_files(tmp_path / "store")
    assert closed.readers == ()
    assert closed.boundary > report.boundary
