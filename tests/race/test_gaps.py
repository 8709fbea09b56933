"""A put is never hidden by a gap, wherever it happens while a scan records one (I3, K1). See ``gap_map``."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

import lowtide
from tests.support.parts import parts_of
from tests.support.schedule import Schedule

COUNT = 200


@pytest.fixture(params=[False, True], ids=["layer", "base"])
def deleted(request: pytest.FixtureRequest, store: lowtide.Store) -> lowtide.Store:
    """A store whose keyspace ``k`` has nothing but deleted keys, in memory or in the base, and one behind them."""
    keyspace = store.keyspace("k")
    keyspace.put_many({b"%04d" % number: b"" for number in range(COUNT)})
    keyspace.put(b"last", b"")
    if request.param:
        store.checkpoint()
    with store.transaction() as tx:
        for number in range(COUNT):
            tx.keyspace("k").delete(b"%04d" % number)
    return store


def keys(store: lowtide.Store, reverse: bool = False) -> list[bytes]:
    found = [key for key, _ in store.keyspace("k").scan(reverse=reverse)]
    assert found == sorted(found, reverse=reverse)
    return sorted(found)


PLACES = ("scan.watch", "scan.keys", "scan.base", "scan.chains", "gaps.note", "gaps.noted")


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("key", [b"0150", b"0150x"], ids=["deleted before", "new"])
@pytest.mark.parametrize("place", PLACES)
def test_a_put_that_comes_while_a_scan_notes_is_seen_by_all_who_begin_later(
    deleted: lowtide.Store, place: str, key: bytes, reverse: bool
) -> None:
    """The scan is in the middle of the run of deleted keys, and does not see the put itself."""
    if reverse:
        deleted.keyspace("k").delete(b"last")
        deleted.keyspace("k").put(b"0", b"")
    other = b"0" if reverse else b"last"
    with Schedule() as schedule:
        stops = ("scan.watch", place) if place.startswith("scan.") and place != "scan.watch" else (place,)
        scan = schedule.start(lambda: keys(deleted, reverse), *stops).arrive()
        if len(stops) > 1:
            scan.resume()
            scan.arrive()
        deleted.keyspace("k").put(key, b"")
        expected = sorted([other, key])
        assert keys(deleted, reverse) == expected
        assert scan.finish() in ([other], expected)
        for back in (False, True):
            assert keys(deleted, back) == expected


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("key", [b"0003", b"0196"])
def test_a_put_behind_a_scan_that_goes_on_is_cut_out_of_what_it_notes(
    deleted: lowtide.Store, key: bytes, reverse: bool
) -> None:
    """The scan has come past the one of the keys, and will come to the other."""
    deleted.keyspace("k").delete(b"last")
    with Schedule() as schedule:
        scan = schedule.start(lambda: keys(deleted, reverse), "scan.watch", "scan.keys", "scan.keys").arrive()
        for _ in range(2):
            scan.resume()
            scan.arrive()
        deleted.keyspace("k").put(key, b"")
        assert scan.finish() == []
        assert parts_of(deleted).versions.gaps.of
        assert keys(deleted, reverse) == [key]


def test_a_put_that_is_published_while_a_scan_notes_is_seen(deleted: lowtide.Store) -> None:
    """The other way round: the publisher has its versions on the chains, and stands before the gaps."""
    with Schedule() as schedule:
        put = schedule.start(lambda: deleted.keyspace("k").put(b"0150", b""), "publish.gaps").arrive()
        assert keys(deleted) == [b"last"], "it is not published yet"
        assert keys(deleted) == [b"last"]
        put.finish()
        assert keys(deleted) == [b"0150", b"last"]


def test_a_put_that_has_told_those_who_watch_is_cut_out_by_them(deleted: lowtide.Store) -> None:
    with Schedule() as schedule:
        scan = schedule.start(lambda: keys(deleted), "gaps.note").arrive()
        put = schedule.start(lambda: deleted.keyspace("k").put(b"0150", b""), "gaps.cut").arrive()
        assert scan.finish() == [b"last"]
        put.finish()
        assert keys(deleted) == [b"0150", b"last"]


@pytest.mark.parametrize("place", PLACES)
def test_a_checkpoint_that_passes_while_a_scan_notes_hides_no_put(deleted: lowtide.Store, place: str) -> None:
    """What was put after the scan's snapshot is no longer in a layer when the scan looks at the boundary."""
    with Schedule() as schedule:
        scan = schedule.start(lambda: keys(deleted), place).arrive()
        deleted.keyspace("k").put(b"0150", b"")
        deleted.checkpoint()
        assert scan.finish() in ([b"last"], [b"0150", b"last"])
        assert keys(deleted) == [b"0150", b"last"]
        assert keys(deleted, True) == [b"0150", b"last"]


def test_an_old_snapshot_does_not_note_what_was_put_and_checkpointed_after_it(store: lowtide.Store) -> None:
    """The base has tombstones, for a writer that began before the deletions, and among them a row that is newer than
    the snapshot."""
    store.keyspace("k").put_many({b"%04d" % number: b"" for number in range(COUNT)})
    writer = store.begin()
    with store.transaction() as tx:
        for number in range(COUNT):
            tx.keyspace("k").delete(b"%04d" % number)
    with store.snapshot() as old:
        store.keyspace("k").put(b"0150", b"")
        store.checkpoint()
        for reverse in (False, True):
            assert list(old.keyspace("k").scan(reverse=reverse)) == []
            assert keys(store, reverse) == [b"0150"]
    writer.rollback()


def test_a_gap_is_not_used_by_a_snapshot_from_before_the_deletions(store: lowtide.Store) -> None:
    keyspace = store.keyspace("k")
    keyspace.put_many({b"%04d" % number: b"" for number in range(COUNT)})
    with store.snapshot() as old:
        keyspace.put(b"last", b"")
        with store.transaction() as tx:
            for number in range(COUNT):
                tx.keyspace("k").delete(b"%04d" % number)
        assert keys(store) == [b"last"]
        assert parts_of(store).versions.gaps.of, "a gap was noted"
        for reverse in (False, True):
            assert len(list(old.keyspace("k").scan(reverse=reverse))) == COUNT


def test_what_was_put_and_deleted_after_an_old_snapshot_is_seen_by_those_in_between(deleted: lowtide.Store) -> None:
    """To the old one the key is as dead as the others, and its newest version is a tombstone; and yet there is a
    snapshot after it that sees the key."""
    with deleted.snapshot() as old:
        deleted.keyspace("k").put(b"0150", b"")
        with deleted.snapshot() as between:
            deleted.keyspace("k").delete(b"0150")
            assert [key for key, _ in old.keyspace("k").scan()] == [b"last"]
            assert [key for key, _ in between.keyspace("k").scan()] == [b"0150", b"last"]


def test_a_scan_of_a_closed_store_says_so_also_where_a_gap_is(deleted: lowtide.Store) -> None:
    with deleted.snapshot() as snapshot:
        deleted.keyspace("k").delete(b"last")
        assert keys(deleted) == []
        deleted.close()
        with pytest.raises(lowtide.UsageError, match="closed"):
            list(snapshot.keyspace("k").scan())
    with pytest.raises(lowtide.UsageError, match="closed"):
        keys(deleted)


def test_threads_that_scan_delete_and_put_agree_with_a_model(deleted: lowtide.Store) -> None:
    """Each thread owns some of the keys: what it put it finds in its next scan, and nothing that it deleted."""
    failures: list[BaseException] = []
    threads = [threading.Thread(target=_churn, args=(deleted, who, failures)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    parts_of(deleted).versions.gaps.check()


def _churn(store: lowtide.Store, who: int, failures: list[BaseException]) -> None:
    keyspace = store.keyspace("k")
    mine = [b"%04d-%d" % (number, who) for number in range(0, COUNT, 10)]
    mark = b"-%d" % who
    there: set[bytes] = set()
    steps: list[Callable[[bytes], None]] = [lambda key: keyspace.put(key, b"x"), keyspace.delete]
    try:
        for turn in range(150):
            key = mine[(turn * 7 + who) % len(mine)]
            put = key not in there
            steps[not put](key)
            there = there | {key} if put else there - {key}
            found = [each for each, _ in keyspace.scan(reverse=bool(turn % 2)) if each.endswith(mark)]
            assert sorted(found) == sorted(there), (turn, key)
    except BaseException as error:
        failures.append(error)
