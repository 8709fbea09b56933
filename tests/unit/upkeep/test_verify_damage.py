"""Each invariant that is broken alone is found by the check that is named after it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import lmdb
import msgspec
import pytest

from lowtide.engine.base.codec import encode_row, encode_tombstone, encode_ts
from lowtide.engine.base.consumers import ConsumerRow
from lowtide.engine.base.history import Interval
from lowtide.engine.base.pin_table import PinRow
from lowtide.engine.log.frame import encode_frame
from lowtide.engine.log.segment import scan_segment, segment_paths
from lowtide.engine.versions.sorted_keys import SortedKeys
from lowtide.upkeep.verify import verify_files
from tests.support.parts import parts_of
from tests.unit.upkeep.stores import Lived, base_of, live_in, unsound

FRUIT = b"\x00\x00\x00\x01"
Txn: TypeAlias = "lmdb.Transaction[bytes]"
ROWS, TOMBSTONES = "base: rows", "base: tombstones"
PAIRS, INTERVALS = "history: rows and index", "history: intervals"
HEADERS, FRAMES = "log: headers and order of the segments", "log: checksums and timestamps of the frames"
CONTENT, REACH = "log: content of the commits", "log: from the boundary to the last commit"
COUNTERS, ORDER = "memory: counters", "memory: order of the chains"
BASE_AND_LOG, MEMORY_AND_LOG = "base and log agree", "memory and log agree"
META, PINS, CONSUMERS = "base: identity, boundary and keyspaces", "pins", "consumers of the change feed"


@pytest.fixture
def lived(tmp_path: Path) -> Iterator[Lived]:
    lived = live_in(tmp_path / "store")
    assert lived.store.verify().ok
    yield lived
    parts_of(lived.store)._last_checkpoint = lambda: None  # type: ignore[method-assign]
    lived.close()


def put_row(key: bytes, row: bytes) -> Callable[[Any, Txn], object]:
    return lambda base, txn: txn.put(key, row, db=base.rows)


def put_history(begin: int, end: int, key: bytes) -> Callable[[Any, Txn], object]:
    return lambda base, txn: base.history.add(txn, [(Interval(begin, end, key), b"value")])


def put_pin(ts: int) -> Callable[[Any, Txn], object]:
    row = PinRow(b"identity", ts, 0.0, 0.0, 1e9, None, None, "a test")
    return lambda base, txn: base.pins.put(txn, "stray", row)


def first(txn: Txn, table: Any) -> bytes:
    cursor = txn.cursor(table)
    assert cursor.first()
    return cursor.key()


def delete_tombstone_entry(base: Any, txn: Txn) -> None:
    txn.delete(first(txn, base.tombstones), db=base.tombstones)


def delete_history_row(base: Any, txn: Txn) -> None:
    txn.delete(first(txn, base.history.rows), db=base.history.rows)


def delete_history_entry(base: Any, txn: Txn) -> None:
    each = next(base.history.intervals(txn))
    txn.delete(each.full_key, each.index_value, db=base.history.index)


LATE = 1_000_000
BASE_DAMAGE: dict[str, tuple[Callable[[Any, Txn], object], set[str], str]] = {
    "a row of no keyspace": (put_row(b"\x00\x00\x00\x09k", encode_row(1, b"v")), {ROWS}, "no name"),
    "a row above the boundary": (put_row(FRUIT + b"new", encode_row(LATE, b"v")), {ROWS}, "the base ends at"),
    "a row without timestamp": (put_row(FRUIT + b"new", b"abc"), {ROWS}, "no timestamp"),
    "a tombstone with a value": (
        lambda base, txn: put_row(FRUIT + b"10", encode_tombstone(31) + b"v")(base, txn),
        {TOMBSTONES},
        "has a value",
    ),
    "a tombstone that is not in its table": (delete_tombstone_entry, {TOMBSTONES}, "not in the table"),
    "a tombstone entry above the boundary": (
        lambda base, txn: txn.put(encode_ts(LATE) + FRUIT + b"20", b"", db=base.tombstones),
        {TOMBSTONES},
        "an entry is of commit",
    ),
    "a tombstone entry whose row is older": (
        lambda base, txn: txn.put(encode_ts(41) + FRUIT + b"20", b"", db=base.tombstones),
        {TOMBSTONES},
        "deleted by commit 41",
    ),
    "a history row without entry": (delete_history_entry, {PAIRS}, "not in the history's index"),
    "a history entry without row": (delete_history_row, {PAIRS}, "in the history's index only"),
    "an interval that ends before it begins": (put_history(9, 8, FRUIT + b"gone"), {INTERVALS}, "is not possible"),
    "an interval above the boundary": (put_history(9, LATE, FRUIT + b"gone"), {INTERVALS}, "is not possible"),
    "intervals that overlap": (put_history(5, 20, FRUIT + b"10"), {INTERVALS}, "overlaps"),
    "an interval that ends after the row began": (put_history(30, 41, FRUIT + b"20"), {INTERVALS}, "ends after"),
    "a history row of no keyspace": (put_history(1, 2, b"\x00\x00\x00\x09k"), {PAIRS}, "no name"),
    "a pin above the boundary": (put_pin(LATE), {PINS}, "it is at commit"),
    "a pin that cannot be decoded": (
        lambda base, txn: txn.put(b"stray", b"\xc1", db=base.pins.table),
        {PINS},
        "cannot be decoded",
    ),
    "a consumer ahead of everything": (
        lambda base, txn: base.consumers.put(txn, "stray", ConsumerRow(LATE, 0.0)),
        {CONSUMERS},
        "has acknowledged",
    ),
    "two keyspaces with one number": (
        lambda base, txn: txn.put(b"vegetables", FRUIT, db=base.keyspaces),
        {META},
        "it has the number of keyspace",
    ),
    "a boundary that is not the one in memory": (
        lambda base, txn: base.put_boundary(txn, 42),
        {META},
        "in memory it is",
    ),
    "the identity of another store": (
        lambda base, txn: txn.put(b"store", b"another", db=base.meta),
        {META},
        "belongs to another store",
    ),
    "a value that the log does not know": (
        put_row(FRUIT + b"29", encode_row(41, b"after the boundary")),
        {BASE_AND_LOG},
        "another value than commit 41",
    ),
    "a row that the log knows as newer": (
        put_row(FRUIT + b"29", encode_row(30, b"before the boundary")),
        {BASE_AND_LOG, INTERVALS},
        "commit 41 changed it last",
    ),
    "a row that only the log knows": (
        lambda base, txn: txn.delete(FRUIT + b"29", db=base.rows),
        {BASE_AND_LOG},
        "the base does not have it",
    ),
}


@pytest.mark.parametrize("damage", BASE_DAMAGE)
def test_damage_to_the_base_is_named(lived: Lived, damage: str) -> None:
    change, expected, words = BASE_DAMAGE[damage]
    base = base_of(lived)
    base.write(lambda txn: change(base, txn))
    report = lived.store.verify()
    assert unsound(report) == expected, str(report)
    assert words in str(report)


def active(lived: Lived) -> Any:
    return parts_of(lived.store).versions.active


def set_chain(lived: Lived, key: bytes, chain: Any) -> None:
    """Replace a chain, with the counters kept right."""
    layer = active(lived)
    layer.chains[FRUIT + key] = chain
    layer.recount()


def miscount(lived: Lived) -> None:
    active(lived).versions += 1


def miscount_bytes(lived: Lived) -> None:
    active(lived).bytes -= 1


def forget_order(lived: Lived) -> None:
    keys = active(lived).keys
    ordered = keys.between(FRUIT, None, 1000, False)
    ordered.remove(FRUIT + b"last")
    keys._parts[FRUIT].ordered = SortedKeys(ordered)


def forget_held(lived: Lived) -> None:
    active(lived).held.clear()


def turn_round(lived: Lived) -> None:
    ts, value, (older_ts, older, rest) = active(lived).chains[FRUIT + b"03"]
    set_chain(lived, b"03", (older_ts, older, (ts, value, rest)))


def keep_below_the_boundary(lived: Lived) -> None:
    ts, value, _ = active(lived).chains[FRUIT + b"last"]
    set_chain(lived, b"last", (ts, value, (1, b"old", None)))


def publish_too_early(lived: Lived) -> None:
    set_chain(lived, b"last", (LATE, b"one", None))


def change_value(lived: Lived) -> None:
    ts, _, older = active(lived).chains[FRUIT + b"last"]
    set_chain(lived, b"last", (ts, b"two", older))


def lose_key(lived: Lived) -> None:
    del active(lived).chains[FRUIT + b"last"]
    active(lived).recount()


def lose_newest(lived: Lived) -> None:
    set_chain(lived, b"03", active(lived).chains[FRUIT + b"03"][2])


def of_no_keyspace(lived: Lived) -> None:
    layer = active(lived)
    layer.chains[b"\x00\x00\x00\x09k"] = layer.chains[FRUIT + b"last"]
    layer.keys.add(b"\x00\x00\x00\x09k")
    layer.recount()


MEMORY_DAMAGE: dict[Callable[[Lived], None], tuple[set[str], str]] = {
    miscount: ({COUNTERS}, "versions but counts"),
    miscount_bytes: ({COUNTERS}, "bytes but counts"),
    forget_order: ({COUNTERS}, "scans miss them"),
    forget_held: ({ORDER}, "the collector does not know of"),
    turn_round: ({ORDER, MEMORY_AND_LOG}, "not newest first"),
    keep_below_the_boundary: ({ORDER, MEMORY_AND_LOG}, "and earlier belong below"),
    publish_too_early: ({ORDER, MEMORY_AND_LOG}, "the last possible one is"),
    change_value: ({MEMORY_AND_LOG}, "memory has another value"),
    lose_key: ({MEMORY_AND_LOG}, "it is not in memory"),
    lose_newest: ({MEMORY_AND_LOG}, "changed it last, but memory has"),
    of_no_keyspace: ({ORDER, MEMORY_AND_LOG}, "in a keyspace that has no name"),
}


@pytest.mark.parametrize("damage", MEMORY_DAMAGE, ids=lambda damage: str(damage.__name__))
def test_damage_to_the_memory_is_named(lived: Lived, damage: Callable[[Lived], None]) -> None:
    damage(lived)
    expected, words = MEMORY_DAMAGE[damage]
    report = lived.store.verify()
    assert unsound(report) == expected, str(report)
    assert words in str(report)


def segments_of(store: Path) -> list[Path]:
    return segment_paths(store / "log")


def flip(path: Path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))


def rewrite_last_commit(store: Path, payload: Callable[[bytes], bytes]) -> None:
    """Another payload of the same length, with a checksum that is right."""
    path = segments_of(store)[-1]
    scan = scan_segment(path, path.read_bytes())
    frame = scan.frames[-1]
    assert scan.header is not None
    changed = payload(frame.payload)
    assert len(changed) == len(frame.payload)
    data, _ = encode_frame(frame.ts, frame.durable, frame.previous, scan.header.salt, changed)
    with path.open("r+b") as file:
        file.seek(frame.offset)
        file.write(data)


def damage_manifest(store: Path) -> None:
    manifest = json.loads((store / "store.json").read_text())
    (store / "store.json").write_text(json.dumps({**manifest, "store": "00" * 16}))


def damage_header(store: Path) -> None:
    flip(segments_of(store)[-1], 20)


def damage_frame(store: Path) -> None:
    flip(segments_of(store)[-1], 64 + 40)


def damage_full_segment(store: Path) -> None:
    flip(segments_of(store)[-2], 64 + 40)


def lose_segment(store: Path) -> None:
    segments_of(store)[-2].unlink()


def garble_commit(store: Path) -> None:
    rewrite_last_commit(store, lambda payload: b"\xc1" * len(payload))


def write_elsewhere(store: Path) -> None:
    rewrite_last_commit(store, lambda payload: payload.replace(FRUIT, b"\x00\x00\x00\x09"))


LOG_DAMAGE: dict[Callable[[Path], None], tuple[set[str], str]] = {
    damage_manifest: ({"manifest"}, "belongs to another store"),
    damage_header: ({HEADERS, REACH, MEMORY_AND_LOG}, "the header is damaged"),
    damage_frame: ({FRAMES, REACH, MEMORY_AND_LOG}, "does not match its checksum"),
    damage_full_segment: ({FRAMES, MEMORY_AND_LOG}, "does not match its checksum"),
    lose_segment: ({HEADERS, FRAMES, MEMORY_AND_LOG}, "cannot be read"),
    garble_commit: ({CONTENT, MEMORY_AND_LOG}, "cannot be decoded"),
    write_elsewhere: ({CONTENT, MEMORY_AND_LOG}, "in a keyspace that has no name"),
}


@pytest.mark.parametrize("damage", LOG_DAMAGE, ids=lambda damage: str(damage.__name__))
def test_damage_to_the_log_of_an_open_store_is_named(lived: Lived, damage: Callable[[Path], None]) -> None:
    assert len(segments_of(lived.path)) >= 3
    damage(lived.path)
    expected, words = LOG_DAMAGE[damage]
    report = lived.store.verify()
    assert expected <= unsound(report), str(report)
    assert unsound(report) <= expected | {BASE_AND_LOG}, str(report)
    assert words in str(report)


def left_by_a_kill(lived: Lived, tmp_path: Path) -> Path:
    return Path(shutil.copytree(lived.path, tmp_path / "left"))


@pytest.mark.parametrize("damage", [damage_frame, damage_full_segment, lose_segment, damage_header, garble_commit])
def test_damage_to_files_that_nobody_owns_is_named(
    lived: Lived, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """With relaxed durability nothing says that the last segment was on disk, so its damage is a torn end."""
    left = left_by_a_kill(lived, tmp_path)
    assert verify_files(left).ok
    damage(left)
    report = verify_files(left)
    assert report.ok == (damage is damage_frame), str(report)


def test_a_log_that_begins_after_the_boundary_is_named(lived: Lived, tmp_path: Path) -> None:
    left = left_by_a_kill(lived, tmp_path)
    paths = segment_paths(left / "log")
    for path in paths[:-1]:
        path.unlink()
    report = verify_files(left)
    assert REACH in unsound(report)
    assert "are neither in the base nor in the log" in str(report)


def test_a_log_without_segments_and_a_missing_base_are_named(lived: Lived, tmp_path: Path) -> None:
    left = left_by_a_kill(lived, tmp_path)
    for path in segment_paths(left / "log"):
        path.unlink()
    assert "no segment at all" in str(verify_files(left))
    (left / "base" / "data.mdb").unlink()
    assert "the base is missing" in str(verify_files(left))
    (left / "store.json").write_text("{}")
    assert unsound(verify_files(left)) == {"manifest"}


def test_garbage_that_waits_for_the_sweep_is_a_note(lived: Lived) -> None:
    base = base_of(lived)
    base.write(lambda txn: put_history(1, 2, FRUIT + b"gone")(base, txn))
    base.write(lambda txn: txn.put(encode_ts(1) + FRUIT + b"gone", b"", db=base.tombstones))
    report = lived.store.verify()
    assert report.ok
    assert "1 versions are no longer seen by any snapshot and wait for the sweep" in str(report)
    assert "1 entries have no tombstone any more and wait for the sweep" in str(report)


def test_a_pin_that_holds_an_unknown_keyspace_is_named(lived: Lived) -> None:
    base = base_of(lived)
    row = PinRow(b"identity", 1, 0.0, 0.0, 1e9, ("nuts",), (b"\x00\x00\x00\x09",), "a test")
    base.write(lambda txn: txn.put(b"stray", msgspec.msgpack.encode(row), db=base.pins.table))
    report = lived.store.verify()
    assert unsound(report) == {PINS}
    assert "which has no name" in str(report)


def test_a_commit_that_tells_another_past_than_the_log_is_named(lived: Lived) -> None:
    lived.store.keyspace("fruit").put(b"last", b"two")
    rewrite_last_commit(lived.path, lambda payload: payload.replace(b"\xc4\x01\x01", b"\xc4\x01\x00"))
    report = lived.store.verify()
    assert unsound(report) == {"log: what commits say was there before"}
    assert "but it says otherwise" in str(report)


def test_a_commit_that_tells_another_value_before_it_than_the_log_is_named(tmp_path: Path) -> None:
    lived = live_in(tmp_path / "images", before_images=True)
    lived.store.keyspace("fruit").put(b"last", b"two")
    assert lived.store.verify().ok
    rewrite_last_commit(lived.path, lambda payload: payload.replace(b"one", b"0ne"))
    report = lived.store.verify()
    assert unsound(report) == {"log: what commits say was there before"}
    assert "before it is not the one of commit" in str(report)
    lived.close()
