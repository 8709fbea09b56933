"""A collection that has stopped between reading the live snapshots and dropping takes nothing that is seen (G2, G3)."""

from __future__ import annotations

import lowtide
from lowtide.engine.garbage.horizon import Exact
from tests.conftest import OpenStore
from tests.race.gates import stays_blocked
from tests.support.parts import parts_of
from tests.support.schedule import Schedule


def put(store: lowtide.Store, value: bytes) -> None:
    store.keyspace("k").put(b"x", value)


def read(snapshot: lowtide.Snapshot) -> bytes | None:
    found = snapshot.keyspace("k").get(b"x")
    assert dict(snapshot.keyspace("k").scan()) == ({b"x": found} if found is not None else {})
    return found


def with_history(store: lowtide.Store) -> lowtide.Snapshot:
    """A history of one version, and the snapshot at 0 that sees it; the row is at 1."""
    put(store, b"0")
    store.checkpoint()
    snapshot = store.snapshot()
    put(store, b"1")
    store.checkpoint()
    assert store.stats().history == 1
    return snapshot


def test_a_snapshot_that_begins_while_a_sweep_stands_keeps_its_versions(store: lowtide.Store) -> None:
    """G2. The checkpoint waits for LMDB's writer, which the sweep has, and adds the new snapshot's version after it. A
    sweep that was not over by then would drop that version, believing that no snapshot is live."""
    old = with_history(store)
    with Schedule() as schedule:
        sweep = schedule.start(store.collect_garbage, "sweep.sampled").arrive()
        old.close()  # not before: the background would sweep at once
        with store.snapshot() as snapshot:
            put(store, b"2")
            checkpoint = schedule.start(store.checkpoint, "checkpoint.apply").arrive()
            checkpoint.resume()
            put(store, b"3")
            assert read(snapshot) == b"1"
            assert sweep.finish() == 1
            checkpoint.finish()
            assert read(snapshot) == b"1"
            assert store.stats().history == 1
            store.collect_garbage()
            assert read(snapshot) == b"1"
        store.collect_garbage()
        assert store.stats().history == 0


def test_no_checkpoint_adds_to_the_history_between_a_sweep_s_question_and_its_work(store: lowtide.Store) -> None:
    """G2. No snapshot was live when the sweep read them, so it drops everything. If it read them before its write
    transaction began, a checkpoint could put the new snapshot's version there in between, to be dropped at once. The
    checkpoint is given a moment to show whether it can; it has to wait for the sweep."""
    old = with_history(store)
    real = parts_of(store).collector._sample
    opened: list[lowtide.Snapshot] = []
    with Schedule() as schedule:

        def sample_and_be_overtaken() -> Exact:
            old.close()  # not before: the background would sweep at once
            horizon = real()
            if not opened:
                opened.append(store.snapshot())
                put(store, b"2")
                schedule.start(store.checkpoint)._thread.join(0.3)
                assert store.stats().boundary == 2, "the checkpoint did not wait"
            return horizon

        parts_of(store).collector._sample = sample_and_be_overtaken
        assert schedule.start(store.collect_garbage).finish() == 1
    parts_of(store).collector._sample = real
    assert store.stats().boundary == 3
    assert read(opened[0]) == b"1"
    opened[0].close()


def test_snapshots_on_both_sides_of_a_sweep_s_question_keep_theirs(store: lowtide.Store) -> None:
    """G2. The oldest snapshot holds one version. A snapshot that begins or ends while the sweep is stopped counts as it
    is when the sweep reads the live ones."""
    oldest = with_history(store)
    ending = store.snapshot()
    put(store, b"2")
    store.checkpoint()
    assert store.stats().history == 2
    with Schedule() as schedule:
        sweep = schedule.start(store.collect_garbage, "sweep.sampled").arrive()
        beginning = store.snapshot()
        ending.close()
        put(store, b"3")
        assert sweep.finish() == 1
    store.checkpoint()
    store.collect_garbage()
    assert read(oldest) == b"0"
    assert read(beginning) == b"2"
    assert store.stats().history == 2
    oldest.close()
    beginning.close()
    store.collect_garbage()
    assert store.stats().history == 0


def test_a_reader_that_begins_after_a_commit_s_question_keeps_what_it_needs(store: lowtide.Store) -> None:
    """G2. The commit is published and collects what it superseded. A reader that begins now sees the commit; one that
    ends now needs nothing. An answer that was taken as valid for later commits too would drop what the reader sees."""
    put(store, b"0")
    oldest = store.snapshot()
    put(store, b"1")
    ending = store.snapshot()
    with Schedule() as schedule:
        commit = schedule.start(lambda: put(store, b"2"), "collect.sampled").arrive()
        beginning = store.snapshot()
        ending.close()
        commit.finish()
        assert store.stats().versions == 2, "0 for the oldest, and 2"
        put(store, b"3")
        put(store, b"4")
    assert read(oldest) == b"0"
    assert read(beginning) == b"2"
    assert store.stats().versions == 3
    store.checkpoint()
    assert read(oldest) == b"0"
    assert read(beginning) == b"2"
    oldest.close()
    beginning.close()


def test_a_reader_that_begins_while_a_collection_stands_keeps_what_it_needs(store: lowtide.Store) -> None:
    """G2. A collection of held chains that has read its bound, but not yet the live snapshots. Both snapshots are read
    before and after; dropping by the bound alone would take the value of the older one."""
    put(store, b"0")
    oldest = store.snapshot()
    put(store, b"1")
    with Schedule() as schedule:
        collection = schedule.start(store.collect_garbage, "collect.sampled").arrive()
        beginning = store.snapshot()
        oldest_again = store.snapshot(at=oldest.ts)
        oldest.close()
        assert collection.finish() == 0
    put(store, b"2")
    store.collect_garbage()
    assert read(oldest_again) == b"0"
    assert read(beginning) == b"1"
    oldest_again.close()
    beginning.close()
    store.collect_garbage()
    assert store.stats().versions == 1


def test_a_reader_that_is_being_drawn_while_a_commit_publishes_and_collects_reads_its_snapshot(
    store: lowtide.Store,
) -> None:
    """G2. The timestamp was drawn before the publication and registered after the live snapshots were read. Without a
    second check of what is published, the reader would have a timestamp whose version was dropped."""
    put(store, b"0")
    oldest = store.snapshot()
    put(store, b"1")
    with Schedule() as schedule:
        commit = schedule.start(lambda: put(store, b"2"), "commit.visible", "collect.sampled").arrive()
        begin = schedule.start(store.snapshot, "begin.drawn").arrive()
        commit.resume()
        commit.arrive()
        commit.finish()
        beginning = begin.finish()
        assert read(beginning) == {2: b"1", 3: b"2"}[beginning.ts]
        assert read(oldest) == b"0"
    beginning.close()
    oldest.close()


def test_a_close_waits_for_a_sweep_in_another_thread(open_store: OpenStore) -> None:
    """LMDB must not be closed under a write transaction: py-lmdb never returns from that."""
    store = open_store(checkpointer="thread")
    store.keyspace("k").put(b"a", b"0")
    store.checkpoint()
    snapshot = store.snapshot()
    store.keyspace("k").put(b"a", b"1")
    store.checkpoint()
    with Schedule() as schedule:
        sweep = schedule.start(store.collect_garbage, "sweep.sampled").arrive()
        closing = schedule.start(store.close)
        assert stays_blocked(closing)
        sweep.finish()
        closing.finish()
    del snapshot
    with lowtide.open(store.path) as again:
        assert again.verify().ok
