"""Counts by pages and layers equal those of a scan, whatever was written, deleted, checkpointed and pinned before."""

from __future__ import annotations

from random import Random

import pytest

import lowtide
from lowtide.engine.types import Range, after_prefix
from lowtide.engine.versions import counting
from tests.conftest import OpenStore
from tests.support.parts import parts_of
from tests.unit.engine.base.bases import tombstones_of

LARGE = b"v" * 200


@pytest.fixture
def store(open_store: OpenStore) -> lowtide.Store:
    return open_store(monitor_interval=3600)


def key(number: int) -> bytes:
    return number.to_bytes(4, "big")


def fill(store: lowtide.Store, name: str, numbers: range, value: bytes = LARGE) -> None:
    with store.transaction() as tx:
        for number in numbers:
            tx.keyspace(name).put(key(number), value)


def counts(snapshot: lowtide.Snapshot, name: str, low: bytes = b"", high: bytes | None = None) -> tuple[int, int]:
    """What is counted, and what a scan finds."""
    prefix = snapshot.keyspace(name).prefix
    wanted = Range(prefix + low, after_prefix(prefix) if high is None else prefix + high)
    return snapshot._snapshot.count(wanted), sum(1 for _ in snapshot.keyspace(name).scan(low or None, high))


def by_pages(snapshot: lowtide.Snapshot, name: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """The count, if no row is read for it."""
    prefix = snapshot.keyspace(name).prefix
    with monkeypatch.context() as patch:
        patch.setattr(type(snapshot._snapshot), "scan", lambda *_: pytest.fail("rows were read"))
        return snapshot._snapshot.count(Range(prefix, after_prefix(prefix)))


def test_a_keyspace_between_others_is_counted_without_reading_it(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, size in (("a", 500), ("b", 3_000), ("c", 700)):
        fill(store, name, range(size))
    store.checkpoint()
    with store.snapshot() as snapshot:
        assert [by_pages(snapshot, name, monkeypatch) for name in "abc"] == [500, 3_000, 700]
        for low, high in ((0, 1), (1, 2_999), (1_234, 2_345), (2_999, 5_000), (4_000, 5_000)):
            assert counts(snapshot, "b", key(low), key(high)) == (len(range(low, min(high, 3_000))),) * 2


def test_what_is_above_the_base_counts_and_what_was_deleted_does_not(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, "k", range(1_000))
    store.checkpoint()
    fill(store, "k", range(900, 1_100))
    with store.transaction() as tx:
        for number in (*range(10), *range(1_090, 1_095)):
            tx.keyspace("k").delete(key(number))
    fill(store, "k", range(5))
    with store.snapshot() as snapshot:
        assert by_pages(snapshot, "k", monkeypatch) == 1_100 - 15 + 5


def test_tombstones_do_not_count(store: lowtide.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(store, "k", range(1_000))
    store.checkpoint()
    writer = store.begin()  # a deletion that it may conflict with leaves a tombstone
    with store.transaction() as tx:
        for number in range(100):
            tx.keyspace("k").delete(key(number))
    store.checkpoint()
    fill(store, "k", range(20))
    store.checkpoint()
    assert len(tombstones_of(parts_of(store).base)) >= 80
    with store.snapshot() as snapshot:
        assert by_pages(snapshot, "k", monkeypatch) == 920
    writer.rollback()


def test_an_instant_before_changes_that_the_base_has_is_counted_by_reading(store: lowtide.Store) -> None:
    fill(store, "k", range(1_000))
    store.checkpoint()
    with store.snapshot() as old:
        with store.transaction() as tx:
            for number in range(300):
                tx.keyspace("k").delete(key(number))
        fill(store, "k", range(2_000, 2_050))
        store.checkpoint()
        assert counts(old, "k") == (1_000, 1_000)
        with store.snapshot() as new:
            assert counts(new, "k") == (750, 750)


def test_a_pin_and_a_follower_count_what_they_see(store: lowtide.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(store, "k", range(1_000))
    fill(store, "other", range(1_000))
    store.pin("p")
    with lowtide.open_snapshot(store.path, pin="p") as snapshot:
        assert by_pages(snapshot, "k", monkeypatch) == 1_000
        fill(store, "k", range(2_000, 2_010))
        store.checkpoint()
        assert counts(snapshot, "k") == (1_000, 1_000)
        assert by_pages(snapshot, "other", monkeypatch) == 1_000
    with lowtide.open(store.path, read_only=True) as follower, follower.snapshot() as snapshot:
        assert counts(snapshot, "k") == (1_010, 1_010)
        fill(store, "k", range(3_000, 3_005))
        with follower.snapshot() as later:
            assert counts(later, "k") == (1_015, 1_015)


def test_many_keys_above_the_base_are_counted_by_reading(store: lowtide.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "MOST", 10)
    fill(store, "k", range(1_000))
    store.checkpoint()
    fill(store, "k", range(1_000, 1_010))
    with store.snapshot() as snapshot:
        assert by_pages(snapshot, "k", monkeypatch) == 1_010
    store.keyspace("k").put(key(5_000), b"")
    with store.snapshot() as snapshot:
        assert counts(snapshot, "k") == (1_011, 1_011)


def test_an_empty_and_a_missing_keyspace(store: lowtide.Store) -> None:
    with store.snapshot() as snapshot:
        assert counts(snapshot, "none") == (0, 0)
    fill(store, "k", range(3))
    with store.snapshot() as snapshot:
        assert counts(snapshot, "k") == (3, 3)


@pytest.mark.parametrize("seed", range(6))
def test_any_history_is_counted_as_it_is_scanned(store: lowtide.Store, seed: int) -> None:
    random = Random(seed)
    held: list[lowtide.Snapshot] = []
    for _ in range(40):
        match random.randrange(6):
            case 0:
                start = random.randrange(2_000)
                fill(store, random.choice("ab"), range(start, start + random.randrange(400)), random.randbytes(80))
            case 1 | 2:
                with store.transaction() as tx:
                    for _ in range(random.randrange(60)):
                        tx.keyspace(random.choice("ab")).delete(key(random.randrange(2_000)))
            case 3:
                store.checkpoint()
            case 4:
                held.append(store.snapshot())
            case 5 if held:
                held.pop(random.randrange(len(held))).close()
                store.collect_garbage()
        for snapshot in (*held, now := store.snapshot()):
            low, high = sorted((random.randrange(2_000), random.randrange(2_000)))
            for name in "ab":
                assert len(set(counts(snapshot, name))) == 1
                assert len(set(counts(snapshot, name, key(low), key(high + 1)))) == 1
        now.close()
    for snapshot in held:
        snapshot.close()
