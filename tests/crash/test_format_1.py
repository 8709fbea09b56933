"""A store that version 0.1.0 wrote: the first process that opens it brings it to format 2, and nothing is lost.

The files are written here byte by byte, not by Lowtide: what it writes today must not change what it can read.
"""

from __future__ import annotations

import json
import stat
from pathlib import Path
from struct import pack
from zlib import crc32

import lmdb
import msgspec
import pytest

import lowtide
from lowtide.engine.base.environment import Base
from tests.crash.stores import Content, content_of, files_of
from tests.processes.children import children

STORE = bytes(range(16))
FRUIT, TOOLS = b"\x00\x00\x00\x01", b"\x00\x00\x00\x02"

Writes = dict[bytes, bytes | None]

COMMITS: list[tuple[Writes, dict[str, bytes] | None]] = [
    ({FRUIT + b"apple": b"red", FRUIT + b"fig": b"blue"}, {"fruit": FRUIT}),
    ({FRUIT + b"apple": b"green"}, None),
    ({FRUIT + b"fig": None, FRUIT + b"never": None}, None),
    ({TOOLS + b"saw": b"sharp"}, {"tools": TOOLS}),
    ({FRUIT + b"pear": b"yellow", FRUIT + b"apple": None}, None),
    ({TOOLS + b"saw": b"blunt", FRUIT + b"quince": b"ripe"}, None),
]
"""What was committed: writes, and the names of new keyspaces."""

LAST = len(COMMITS)
CONTENT: Content = {"fruit": {b"pear": b"yellow", b"quince": b"ripe"}, "tools": {b"saw": b"blunt"}}

SHOWN = [
    (1, "fruit", b"apple", "update", b"red"),
    (1, "fruit", b"fig", "update", b"blue"),
    (2, "fruit", b"apple", "update", b"green"),
    (3, "fruit", b"fig", "delete", None),
    (3, "fruit", b"never", "delete", None),
    (4, "tools", b"saw", "update", b"sharp"),
    (5, "fruit", b"pear", "update", b"yellow"),
    (5, "fruit", b"apple", "delete", None),
    (6, "tools", b"saw", "update", b"blunt"),
    (6, "fruit", b"quince", "update", b"ripe"),
]
"""The changes: inserts cannot be told from updates, nor deletions from those of nothing."""


def write_store(path: Path, *, boundary: int, first: int = 1, closed: bool = False) -> None:
    """A store with all COMMITS: the base has those up to ``boundary``, and the log those from ``first`` on.
    ``closed`` appends the marker of a clean close."""
    path.mkdir(mode=0o700)
    for name in ("base", "log"):
        (path / name).mkdir(mode=0o700)
    _write_base(path / "base", boundary)
    (path / "log" / "0000000003.log").write_bytes(_segment(3, first, closed))
    (path / "store.json").write_text(json.dumps({"format": 1, "store": STORE.hex()}))
    (path / "lock").write_bytes(b"")


def _write_base(directory: Path, boundary: int) -> None:
    rows: dict[bytes, tuple[int, bytes]] = {}
    names: dict[str, bytes] = {}
    for ts, (writes, new) in enumerate(COMMITS[:boundary], 1):
        names.update(new or {})
        for key, value in writes.items():
            rows.pop(key, None)
            if value is not None:
                rows[key] = ts, value
    environment = lmdb.open(str(directory), map_size=1 << 20, max_dbs=16, mode=0o600)
    tables = {
        name: environment.open_db(name, dupsort=name == b"history-index", dupfixed=name == b"history-index")
        for name in (b"rows", b"history", b"history-index", b"tombstones", b"keyspaces", b"meta")
    }
    with environment.begin(write=True) as txn:
        for key, (ts, value) in rows.items():
            txn.put(key, pack(">Q", ts) + value, db=tables[b"rows"])
        for name, prefix in names.items():
            txn.put(name.encode(), prefix, db=tables[b"keyspaces"])
        txn.put(b"store", STORE, db=tables[b"meta"])
        txn.put(b"boundary", pack(">Q", boundary), db=tables[b"meta"])
        if boundary >= 3:
            # A snapshot at commit 1 was open, and a writer, when the owner was killed.
            interval = pack(">QQ", 2, 1)
            txn.put(interval + FRUIT + b"apple", b"red", db=tables[b"history"])
            txn.put(FRUIT + b"apple", interval, db=tables[b"history-index"])
            txn.put(FRUIT + b"fig", pack(">Q", 3 | 1 << 63), db=tables[b"rows"])
            txn.put(pack(">Q", 3) + FRUIT + b"fig", b"", db=tables[b"tombstones"])
    environment.close()


def _segment(sequence: int, first: int, closed: bool) -> bytes:
    salt = crc = 0x5EED
    header = pack("<8sII16sQQ", b"LOWTIDE\x00", 1, salt, STORE, sequence, first)
    data = (header + pack("<I", crc32(header))).ljust(64, b"\x00")
    payloads = [
        (ts, msgspec.msgpack.encode((1000.0 + ts, writes, names)))
        for ts, (writes, names) in enumerate(COMMITS, 1)
        if ts >= first
    ]
    if closed:
        payloads.append((LAST, b""))
    for ts, payload in payloads:
        body = pack("<IIQQ", len(payload), crc, ts, ts if not payload else ts - 1) + payload
        crc = crc32(body, salt)
        data += pack("<4sI", b"LtC1", crc) + body
    return data.ljust(8192, b"\x00")


def shown(store: lowtide.Store, since: int = 0) -> list[tuple[int, str, bytes, str, bytes | None]]:
    return [
        (change.ts, change.keyspace, change.key, change.kind, change.value) for change in store.changes(since=since)
    ]


def format_of(path: Path) -> int:
    return int(json.loads((path / "store.json").read_text())["format"])


@pytest.mark.parametrize("boundary", range(LAST + 1))
@pytest.mark.parametrize("closed", [False, True])
def test_it_is_opened_and_brought_to_format_2_with_all_its_content(tmp_path: Path, boundary: int, closed: bool) -> None:
    path = tmp_path / "store"
    write_store(path, boundary=boundary, closed=closed)
    for _ in range(2):
        with lowtide.open(path, durability="relaxed") as store:
            assert format_of(path) == 2
            assert content_of(store) == CONTENT
            assert store.stats().last_commit == LAST
            assert store.keyspaces() == ["fruit", "tools"]
            assert store.stats().history == 0
            assert (store.pins(), store.consumers()) == ([], [])
            assert store.verify().ok, str(store.verify())
            assert stat.S_IMODE((path / "store.json").stat().st_mode) == 0o600


def test_its_changes_are_shown_as_updates_and_later_ones_as_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / "store"
    write_store(path, boundary=2)
    with lowtide.open(path, durability="relaxed") as store:
        assert shown(store) == SHOWN
        assert [change.time for change in store.changes(until=2)] == [1001.0, 1001.0, 1002.0]
        consumer = store.consumer("mirror", since=3)
        store.keyspace("fruit").put(b"quince", b"rotten")
        store.keyspace("fruit").put(b"apple", b"red")
        store.keyspace("fruit").delete(b"apple")
        later = [
            (7, "fruit", b"quince", "update", b"rotten"),
            (8, "fruit", b"apple", "insert", b"red"),
            (9, "fruit", b"apple", "delete", None),
        ]
        assert shown(store) == SHOWN + later
    with lowtide.open(path, durability="relaxed") as store:
        consumer = store.consumer("mirror")
        assert [change.ts for change in consumer.changes()] == [4, 5, 5, 6, 6, 7, 8, 9]
        assert shown(store, 3)[-3:] == later


def test_the_values_that_its_commits_replaced_cannot_be_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "store"
    write_store(path, boundary=2)
    with lowtide.open(path, durability="relaxed", before_images=True) as store:
        with pytest.raises(lowtide.UsageError, match="commit 1 was logged without the values"):
            list(store.changes(before=True))
        store.keyspace("fruit").put(b"quince", b"rotten")
        assert [change.before for change in store.changes(since=LAST, before=True)] == [b"ripe"]


def test_what_its_log_no_longer_has_is_lost_to_the_feed_and_to_nobody_else(tmp_path: Path) -> None:
    path = tmp_path / "store"
    write_store(path, boundary=4, first=4)
    with lowtide.open(path, durability="relaxed") as store:
        assert content_of(store) == CONTENT
        assert shown(store, 3) == [change for change in SHOWN if change[0] > 3]
        with pytest.raises(lowtide.ChangesLost):
            shown(store, 2)


def test_pins_can_be_taken_in_it_at_once(tmp_path: Path) -> None:
    path = tmp_path / "store"
    write_store(path, boundary=2)
    with lowtide.open(path, durability="relaxed") as store:
        assert store.pin("p").ts == LAST
        store.keyspace("fruit").put(b"pear", b"brown")
        with lowtide.open_snapshot(path, pin="p") as snapshot:
            assert dict(snapshot.keyspace("fruit").scan()) == CONTENT["fruit"]


@pytest.mark.parametrize("boundary", [0, 2, LAST])
def test_a_store_that_is_only_read_may_be_the_first_to_touch_it(tmp_path: Path, boundary: int) -> None:
    path = tmp_path / "store"
    write_store(path, boundary=boundary)
    with lowtide.open(path, read_only=True) as store:
        assert content_of(store) == CONTENT
        assert shown(store) == SHOWN
        assert format_of(path) == 2
        assert store.pin("p").ts == LAST
    with lowtide.open(path, durability="relaxed") as store:
        assert content_of(store) == CONTENT
        assert [pin.name for pin in store.pins()] == ["p"]


@pytest.mark.parametrize("boundary", [0, 2, LAST])
def test_a_snapshot_may_be_the_first_to_touch_it(tmp_path: Path, boundary: int) -> None:
    path = tmp_path / "store"
    write_store(path, boundary=boundary)
    with pytest.raises(lowtide.SnapshotExpired):
        lowtide.open_snapshot(path, pin="p")
    with lowtide.open_snapshot(path) as snapshot:
        assert snapshot.ts == LAST
        assert {name: dict(snapshot.keyspace(name).scan()) for name in CONTENT} == CONTENT
    assert format_of(path) == 2


def test_several_readers_may_be_the_first_at_once(tmp_path: Path) -> None:
    path = tmp_path / "store"
    commands = ["follow", "snapshot", "follow"]
    with children(path, len(commands)) as readers:
        write_store(path, boundary=2)
        for each, command in zip(readers, commands, strict=True):
            each.tell(command)
        for each in readers:
            each.told()
        assert format_of(path) == 2
        assert readers[0].latest() == readers[2].latest() == (LAST, {})  # they show a keyspace that it does not have
    with lowtide.open(path, durability="relaxed") as store:
        assert content_of(store) == CONTENT


def test_an_upgrade_that_was_cut_short_is_finished(tmp_path: Path) -> None:
    """The base has its new tables, and the manifest does not say so yet."""
    path = tmp_path / "store"
    write_store(path, boundary=2)
    Base(path / "base", 1 << 20, create=True).close()
    (path / "store.json.tmp").write_text("{")
    assert format_of(path) == 1
    with lowtide.open(path, durability="relaxed") as store:
        assert content_of(store) == CONTENT
        assert shown(store) == SHOWN
    assert format_of(path) == 2


def test_a_damaged_one_is_refused_and_nothing_is_changed_in_its_log(tmp_path: Path) -> None:
    path = tmp_path / "store"
    write_store(path, boundary=0)
    segment = path / "log" / "0000000003.log"
    data = bytearray(segment.read_bytes())
    data[data.index(b"green")] ^= 1
    segment.write_bytes(data)
    before = files_of(path / "log")
    with pytest.raises(lowtide.CorruptionError):
        lowtide.open(path)
    assert files_of(path / "log") == before
    assert format_of(path) == 1
