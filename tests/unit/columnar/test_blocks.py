"""Which blocks a snapshot may use: never one whose rows changed, and every one whose rows did not."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lowtide
from lowtide.columnar import blocks
from lowtide.columnar.blocks import KeyRange, content_of, plan_blocks, stable_cuts
from lowtide.columnar.cache import Cache
from tests.conftest import OpenStore
from tests.unit.engine.base.bases import temporary_directory

SCHEMA = pa.schema([("key", pa.binary()), ("value", pa.binary())])
STORE_ID = b"s" * 16
RANGES: list[KeyRange] = [(b"", b"3"), (b"3", b"6"), (b"6", None)]

Read = tuple[list[tuple[bytes, bytes]], list[KeyRange]]
"""The rows, and the ranges that were not in the cache."""


def store_id(store: lowtide.Store) -> bytes:
    return bytes.fromhex((Path(store.path) / "store.json").read_text().split('"store": "')[1][:32])


def read(
    store: lowtide.Store, snapshot: lowtide.Snapshot, ranges: list[KeyRange] = RANGES, *details: str, name: str = "k"
) -> Read:
    """Read the ranges as tasks do."""
    cache, identity = Cache(Path(store.path)), store_id(store)
    content = content_of(identity, name, SCHEMA, *details)
    rows, made = [], []
    planned = plan_blocks(cache, Path(store.path), identity, snapshot._snapshot, name, ranges=ranges, of=content)
    for block, (low, high) in zip(planned, ranges, strict=True):

        def make(low: bytes = low, high: bytes | None = high) -> Iterator[pa.RecordBatch]:
            made.append((low, high))
            entries = list(snapshot.keyspace(name).scan(low or None, high))
            yield pa.RecordBatch.from_pylist([{"key": key, "value": value} for key, value in entries], schema=SCHEMA)

        for batch in cache.read_or_fill(block, make):
            rows += [(row["key"], row["value"]) for row in batch.to_pylist()]
    return rows, made


def scanned(snapshot: lowtide.Snapshot) -> list[tuple[bytes, bytes]]:
    return list(snapshot.keyspace("k").scan())


def fill(store: lowtide.Store) -> None:
    store.keyspace("k").put_many({b"%d" % number: b"0" for number in range(10)})


def now(store: lowtide.Store) -> Read:
    """Read the last commit at a pin of its own, and see that the rows are right."""
    with lowtide.open_snapshot(store.path) as snapshot:
        found = read(store, snapshot)
        assert found[0] == scanned(snapshot)
        return found


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["put", "delete"]), st.integers(0, 9)),
        st.tuples(st.sampled_from(["other", "checkpoint", "collect", "read", "pin", "compact"]), st.just(0)),
    ),
    max_size=30,
)


@settings(max_examples=40)
@given(STEPS, st.booleans())
def test_no_snapshot_is_ever_shown_rows_of_another_one(steps: list[tuple[str, int]], keep_log: bool) -> None:
    """The last one, that of the owner, and those at pins, which are read again and again while the store goes on."""
    with (
        temporary_directory() as directory,
        lowtide.open(
            directory / "store", durability="relaxed", feed_bytes=1 << 30 if keep_log else 0, segment_bytes=1 << 16
        ) as store,
    ):
        pins: list[tuple[lowtide.Pin, list[tuple[bytes, bytes]]]] = []
        for number, (kind, key) in enumerate(steps):
            if kind == "put":
                store.keyspace("k").put(b"%d" % key, b"%d" % number)
            elif kind == "delete":
                store.keyspace("k").delete(b"%d" % key)
            elif kind == "other":
                store.keyspace("other").put(b"x", bytes(20_000))
            elif kind == "checkpoint":
                store.checkpoint()
            elif kind == "collect":
                store.collect_garbage()
            elif kind == "compact":
                store.compact()
            elif kind == "pin":
                pins.append((store.pin(f"pin {number}", 60), list(store.keyspace("k").scan())))
            else:
                with store.snapshot() as owned:
                    assert read(store, owned)[0] == scanned(owned)
                for pin, rows in pins:
                    with lowtide.open_snapshot(store.path, pin=pin) as pinned:
                        assert read(store, pinned)[0] == rows
        assert now(store)[0] == list(store.keyspace("k").scan())


def test_a_second_read_of_what_has_not_changed_reads_no_rows(store: lowtide.Store) -> None:
    fill(store)
    assert now(store)[1] == RANGES
    assert now(store)[1] == []
    store.keyspace("other").put(b"x", b"y")
    store.checkpoint()
    assert now(store)[1] == []


@pytest.mark.parametrize("change", ["insert", "update", "delete"])
@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_change_costs_the_blocks_of_its_range_only(store: lowtide.Store, change: str, checkpointed: bool) -> None:
    fill(store)
    assert now(store)[1] == RANGES
    if change == "insert":
        store.keyspace("k").put(b"45", b"1")
    elif change == "update":
        store.keyspace("k").put(b"3", b"1")
    else:
        store.keyspace("k").delete(b"5")
    if checkpointed:
        store.checkpoint()
    assert now(store)[1] == [RANGES[1]]
    assert now(store)[1] == []
    store.keyspace("k").put(b"6", b"1")
    store.keyspace("k").put(b"2", b"1")
    assert now(store)[1] == [RANGES[0], RANGES[2]]


def test_two_pins_of_the_same_content_share_their_blocks_and_one_of_before_has_its_own(store: lowtide.Store) -> None:
    fill(store)
    store.checkpoint()
    with lowtide.open_snapshot(store.path, pin=store.pin("before", 60)) as before:
        assert read(store, before)[1] == RANGES
        store.keyspace("k").put(b"0", b"1")
        first = store.pin("first", 60)
        store.keyspace("other").put(b"0", b"1")
        second = store.pin("second", 60)
        assert first.ts < second.ts
        with (
            lowtide.open_snapshot(store.path, pin=first) as one,
            lowtide.open_snapshot(store.path, pin=second) as another,
        ):
            assert read(store, one) == (scanned(one), [RANGES[0]])
            assert read(store, another) == (scanned(one), [])
        assert read(store, before) == (scanned(before), [])
        assert read(store, before) == (scanned(before), [])


def test_without_the_log_a_change_costs_all_blocks(open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store()
    fill(store)
    now(store)
    store.keyspace("k").put(b"0", b"1")
    monkeypatch.setattr(blocks, "_MOST_LOG", 0)
    assert now(store)[1] == RANGES
    monkeypatch.undo()
    small = open_store("small", segment_bytes=1 << 16)
    fill(small)
    now(small)
    small.keyspace("k").put(b"0", b"1")
    for _ in range(20):
        small.keyspace("other").put(b"x", bytes(30_000))
    small.checkpoint()
    assert now(small)[1] == RANGES


def test_other_columns_ranges_and_details_have_other_blocks(store: lowtide.Store) -> None:
    fill(store)
    with lowtide.open_snapshot(store.path) as snapshot:
        assert read(store, snapshot)[1] == RANGES
        assert read(store, snapshot, RANGES, "DROPMALFORMED")[1] == RANGES
        assert read(store, snapshot, [*RANGES[:2], (b"6", b"8")])[1] == [(b"6", b"8")]
        assert read(store, snapshot, name="other")[1] == RANGES
    marked = pa.schema([SCHEMA.field(0).with_metadata({"a": "b"}), SCHEMA.field(1)])
    contents = {content_of(STORE_ID, "k", schema) for schema in (SCHEMA, marked, pa.schema([SCHEMA.field(1)]))}
    contents |= {content_of(b"t" * 16, "k", SCHEMA), content_of(STORE_ID, "l", SCHEMA)}
    assert len(contents) == 5


def test_a_backup_that_is_laid_over_a_store_drops_its_cache(open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store()
    fill(store)
    store.backup(tmp_path / "backup")
    assert not (tmp_path / "backup" / "cache").exists()
    store.keyspace("k").put(b"0", b"lost")
    now(store)
    store.close()
    for part in ("base", "log"):
        shutil.rmtree(Path(store.path) / part)
    shutil.copytree(tmp_path / "backup", store.path, dirs_exist_ok=True)
    with lowtide.open(store.path) as restored:
        restored.keyspace("k").put(b"0", b"again")
        assert now(restored)[1] == RANGES


def test_owner_verify_backup_and_compaction_do_not_mind_the_cache(store: lowtide.Store, tmp_path: Path) -> None:
    fill(store)
    now(store)
    assert store.verify().ok
    store.compact()
    store.backup(tmp_path / "backup")
    store.backup(tmp_path / "backup")
    assert now(store)[1] == []


def cuts(store: lowtide.Store, parts: int = 4) -> list[bytes]:
    with store.snapshot() as snapshot:
        return stable_cuts(Cache(Path(store.path)), store_id(store), snapshot._snapshot, "k", parts)


def test_cuts_stay_while_they_are_about_even(store: lowtide.Store) -> None:
    put = store.keyspace("k").put_many
    put({b"%04d" % number: b"" for number in range(1000)})
    first = cuts(store)
    assert first == [b"0250", b"0500", b"0750"]
    put({b"%04d" % number: b"" for number in range(1000, 1060)})
    assert cuts(store) == first
    assert cuts(store, 2) != first
    put({b"%04d" % number: b"" for number in range(1060, 3000)})
    assert cuts(store) == [b"0750", b"1500", b"2250"]
    with store.snapshot() as snapshot:
        inside = stable_cuts(Cache(Path(store.path)), store_id(store), snapshot._snapshot, "k", 2, (b"1000", b"2000"))
        assert inside == [b"1500"]


def test_cuts_that_cannot_be_read_or_kept_are_made(store: lowtide.Store) -> None:
    store.keyspace("k").put_many({b"%d" % number: b"" for number in range(8)})
    expected = [b"2", b"4", b"6"]
    assert cuts(store) == expected
    (kept,) = Cache(Path(store.path)).directory.glob("*.cuts")
    kept.write_bytes(b"nonsense")
    assert cuts(store) == expected
    shutil.rmtree(Path(store.path) / "cache")
    (Path(store.path) / "cache").write_text("a file")
    assert cuts(store) == expected
