"""Named consumers: the log is kept for them within the caps, and they get an error if it was not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide.engine.log.segment import scan_segment, segment_paths
from tests.conftest import OpenStore
from tests.support.clocks import ManualClock
from tests.support.parts import parts_of
from tests.support.patience import PATIENCE
from tests.unit.feed.stores import SHORT, fill, kept_from, stamps


def test_a_consumer_begins_at_the_last_commit_or_where_it_is_told(store: lowtide.Store) -> None:
    fill(store, 3)
    assert store.consumer("new").position == 3
    assert store.consumer("all", since=0).position == 0
    assert stamps(store.consumer("all").changes()) == [1, 2, 3]
    assert store.consumer("all", since=2).position == 0, "it exists already, and stays where it is"


def test_what_is_acknowledged_is_not_shown_again(store: lowtide.Store) -> None:
    fill(store, 4)
    consumer = store.consumer("mirror", since=0)
    consumer.ack(2)
    assert (consumer.position, stamps(consumer.changes())) == (2, [3, 4])
    assert stamps(consumer.changes(until=3)) == [3]
    assert stamps(consumer.watch(timeout=0)) == [3, 4]
    assert consumer.position == 2, "only an ack moves it"


def test_an_ack_never_goes_back(store: lowtide.Store) -> None:
    fill(store, 4)
    consumer = store.consumer("mirror", since=0)
    consumer.ack(3)
    consumer.ack(1)
    assert consumer.position == 3
    consumer.ack(3)
    assert consumer.position == 3


@pytest.mark.parametrize("place", [-1, 5, True, 1.0, None, "3"])
def test_a_place_that_is_no_commit_is_refused(store: lowtide.Store, place: Any) -> None:
    fill(store, 4)
    consumer = store.consumer("mirror", since=1)
    with pytest.raises(lowtide.UsageError, match="from 0 to 4"):
        consumer.ack(place)
    if place is not None:
        with pytest.raises(lowtide.UsageError, match="from 0 to 4"):
            consumer.reset(place)
        with pytest.raises(lowtide.UsageError, match="from 0 to 4"):
            store.consumer("other", since=place)
    assert consumer.position == 1
    assert [each.name for each in store.consumers()] == ["mirror"]


@pytest.mark.parametrize("name", ["", "x" * 201, "é" * 101, b"bytes", None, 3, "\ud800"])
def test_what_is_no_name_is_refused(store: lowtide.Store, name: Any) -> None:
    with pytest.raises(lowtide.UsageError, match="a consumer"):
        store.consumer(name)
    assert store.consumers() == []


@pytest.mark.parametrize("name", ["x" * 200, "é" * 100, "with space/and\x00zero"])
def test_any_other_string_is_a_name(store: lowtide.Store, name: str) -> None:
    store.consumer(name)
    assert [each.name for each in store.consumers()] == [name]


def test_the_log_stays_for_the_slowest_consumer_and_goes_when_it_has_acknowledged(open_store: OpenStore) -> None:
    store = open_store(**SHORT)
    slow, fast = store.consumer("slow", since=0), store.consumer("fast", since=0)
    last = fill(store, 200)
    fast.ack(last)
    store.checkpoint()
    assert stamps(slow.changes()) == list(range(1, last + 1))
    slow.ack(100)
    store.checkpoint()
    assert 1 < kept_from(store) <= 101
    assert stamps(slow.changes()) == list(range(101, last + 1))
    slow.ack(last)
    store.checkpoint()
    assert kept_from(store) > 150


def test_removing_a_consumer_frees_the_log_at_the_next_checkpoint(open_store: OpenStore) -> None:
    store = open_store(**SHORT)
    consumer = store.consumer("mirror", since=0)
    last = fill(store, 200)
    store.checkpoint()
    assert kept_from(store) == 1
    kept = store.stats().log_bytes
    assert consumer.remove() is True
    assert consumer.remove() is False
    assert store.consumers() == []
    store.checkpoint()
    assert kept_from(store) > 150
    assert store.stats().log_bytes < kept / 4
    for use in (
        lambda: consumer.position,
        consumer.changes,
        consumer.watch,
        lambda: consumer.ack(last),
        consumer.reset,
    ):
        message = r"consumer 'mirror' no longer exists; create a new one with store\.consumer"
        with pytest.raises(lowtide.UsageError, match=message):
            use()


def lost_by_bytes(store: lowtide.Store, clock: ManualClock) -> None:
    fill(store, 400)
    store.checkpoint()


def lost_by_age(store: lowtide.Store, clock: ManualClock) -> None:
    fill(store, 60)
    clock.advance(101)
    fill(store, 60)
    store.checkpoint()


@pytest.mark.parametrize("lose", [lost_by_bytes, lost_by_age])
def test_a_consumer_past_its_cap_is_told_and_never_skips(
    open_store: OpenStore, lose: Callable[[lowtide.Store, ManualClock], None]
) -> None:
    clock = ManualClock()
    store = open_store(**SHORT, clock=clock, consumer_bytes=30_000, consumer_age=100.0)
    consumer = store.consumer("mirror", since=0)
    fill(store, 60)
    store.checkpoint()
    assert [(each.position, each.lost) for each in store.consumers()] == [(0, False)]
    assert kept_from(store) == 1
    lose(store, clock)
    kept, last = kept_from(store), store.stats().last_commit
    assert 1 < kept <= last
    assert store.stats().log_bytes <= 30_000 + 4096
    assert [(each.position, each.lost) for each in store.consumers()] == [(0, True)]
    for look in (consumer.changes, lambda: next(consumer.watch(timeout=0))):
        for _ in range(2):
            with pytest.raises(lowtide.ChangesLost) as caught:
                look()
            assert (caught.value.since, caught.value.kept) == (0, kept)
    assert consumer.position == 0
    consumer.reset()
    assert consumer.position == last
    assert [each.lost for each in store.consumers()] == [False]
    fill(store, 1)
    assert stamps(consumer.changes()) == [last + 1]


def test_a_reset_goes_back_to_what_is_kept_and_no_further(open_store: OpenStore) -> None:
    store = open_store(**SHORT)
    consumer = store.consumer("mirror", since=0)
    last = fill(store, 200)
    consumer.ack(last)
    store.checkpoint()
    kept = kept_from(store)
    with pytest.raises(lowtide.ChangesLost) as caught:
        consumer.reset(kept - 2)
    assert (caught.value.since, caught.value.kept) == (kept - 2, kept)
    assert consumer.position == last, "what failed changed nothing"
    consumer.reset(kept - 1)
    assert stamps(consumer.changes()) == list(range(kept, last + 1))
    with pytest.raises(lowtide.ChangesLost):
        store.consumer("other", since=0)
    assert [each.name for each in store.consumers()] == ["mirror"]


def test_one_that_lost_its_place_keeps_nothing_any_more(open_store: OpenStore) -> None:
    """What it needs is gone, and it will get an error. Keeping the rest for it would fill the disk for nothing."""
    store = open_store(**SHORT, consumer_bytes=30_000)
    store.consumer("forgotten", since=0)
    fill(store, 400)
    store.checkpoint()
    assert [each.lost for each in store.consumers()] == [True]
    fill(store, 400)
    store.checkpoint()
    assert store.stats().log_bytes < 2 * 4096
    slow = store.consumer("slow")
    since = fill(store, 60) - 60
    store.checkpoint()
    assert stamps(slow.changes()) == list(range(since + 1, since + 61)), "another one is kept for"


@pytest.mark.parametrize("how", ["closed", "killed"])
def test_consumers_and_what_is_kept_for_them_survive(open_store: OpenStore, tmp_path: Path, how: str) -> None:
    store = open_store(**SHORT)
    slow, fast = store.consumer("slow", since=0), store.consumer("fast", since=0)
    last = fill(store, 200)
    store.checkpoint()
    fast.ack(last)
    slow.ack(70)
    before = store.consumers()
    name = "store"
    if how == "closed":
        store.close()
    else:
        name = "killed"
        shutil.copytree(store.path, tmp_path / name)
    for _ in range(2):
        again = open_store(name, **SHORT)
        assert again.consumers() == before
        assert stamps(again.consumer("slow").changes()) == list(range(71, last + 1))
        assert kept_from(again) > 50
        again.close()


def test_an_ack_is_in_the_files_when_it_returns(open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store()
    fill(store, 5)
    consumer = store.consumer("mirror", since=0)
    for ts in (1, 4):
        consumer.ack(ts)
        copy = f"after {ts}"
        shutil.copytree(store.path, tmp_path / copy)
        assert [each.position for each in open_store(copy).consumers()] == [ts]


def test_a_consumer_ahead_of_a_log_that_lost_its_end_is_shown_what_is_committed_instead(
    open_store: OpenStore, tmp_path: Path
) -> None:
    """With relaxed durability a power loss may take commits that a consumer has seen and acknowledged. Others get their
    timestamps; it must not take those for seen."""
    store = open_store(**SHORT)
    store.consumer("mirror", since=0)
    fill(store, 3)
    parts_of(store).log.sync()
    fill(store, 3)
    store.consumer("mirror").ack(6)
    shutil.copytree(store.path, tmp_path / "lost")
    (path,) = segment_paths(tmp_path / "lost" / "log")
    data = path.read_bytes()
    end = scan_segment(path, data).frames[2].end
    path.write_bytes(data[:end].ljust(len(data), b"\x00"))
    again = open_store("lost", **SHORT)
    assert again.stats().last_commit == 3
    assert [each.position for each in again.consumers()] == [3]
    fill(again, 2)
    assert stamps(again.consumer("mirror").changes()) == [4, 5]
    assert again.verify().ok


def test_a_closed_store_refuses_its_consumers(open_store: OpenStore) -> None:
    owner = open_store()
    fill(owner, 2)
    reader = open_store(read_only=True)
    for store in (reader, owner):
        consumer = store.consumer("mirror", since=0)
        store.close()
        for use in (
            lambda consumer=consumer: consumer.position,
            consumer.changes,
            consumer.watch,
            lambda consumer=consumer: consumer.ack(1),
            consumer.reset,
            consumer.remove,
        ):
            with pytest.raises(lowtide.UsageError, match="the store is closed"):
                use()


def test_two_who_use_one_name_move_one_place(open_store: OpenStore) -> None:
    owner = open_store()
    fill(owner, 5)
    reader = open_store(read_only=True)
    here, there = owner.consumer("mirror", since=0), reader.consumer("mirror", since=2)
    assert there.position == 0
    there.ack(3)
    assert here.position == 3
    here.ack(2)
    assert there.position == 3
    here.remove()
    with pytest.raises(lowtide.UsageError, match="consumer 'mirror' no longer exists"):
        there.ack(4)


def test_an_ack_that_is_refused_waits_for_nobody_who_reads_the_base_for_long(store: lowtide.Store) -> None:
    """verify holds ``steady`` for minutes; an ack that waited for it would keep every writer of the base out."""
    fill(store, 1)
    consumer = store.consumer("mirror", since=0)
    consumer.remove()

    def outcome() -> type[BaseException]:
        with pytest.raises(lowtide.Error) as caught:
            consumer.ack(1)
        return caught.type

    with ThreadPoolExecutor(1) as pool, parts_of(store).base.steady:
        assert pool.submit(outcome).result(PATIENCE) is lowtide.UsageError
