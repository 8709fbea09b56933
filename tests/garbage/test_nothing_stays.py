"""What is deleted, dropped or dead leaves nothing behind (G5, G6, G7, G8; invariants 5 and 6)."""

from __future__ import annotations

import gc
import threading
from itertools import islice
from pathlib import Path

import pytest

import lowtide
from tests.conftest import OpenStore
from tests.support.parts import parts_of
from tests.support.patience import PATIENCE


def size_of(path: Path) -> int:
    return sum(file.stat().st_blocks * 512 for file in path.rglob("*") if file.is_file())


@pytest.mark.parametrize("held", [False, True])
def test_deleted_keys_leave_nothing_in_chains_base_history_and_tombstones(store: lowtide.Store, held: bool) -> None:
    """G6, also where a writer was open that the deletions might have conflicted with."""
    keys = store.keyspace("k")
    for round_ in range(3):
        for index in range(200):
            keys.put(b"%03d" % index, b"%d" % round_)
        store.checkpoint()
        writer = store.begin() if held else None
        for index in range(200):
            keys.delete(b"%03d" % index)
        store.checkpoint()
        if writer is not None:
            assert len(list(writer.keyspace("k").scan())) == 200
            writer.rollback()
    store.collect_garbage()
    stats = store.stats()
    assert (stats.versions, stats.chains, stats.version_bytes, stats.history) == (0, 0, 0, 0)
    base = parts_of(store).base
    with base.env.begin() as txn:
        assert txn.stat(base.rows)["entries"] == 0
        assert txn.stat(base.tombstones)["entries"] == 0


def test_files_and_memory_are_flat_over_updates_aborts_reopening_and_a_snapshot(open_store: OpenStore) -> None:
    """G7."""
    sizes, versions = [], []
    for _ in range(3):
        store = open_store(segment_bytes=65536, checkpoint_bytes=20_000)
        snapshot = store.snapshot()
        for update in range(700):
            with store.transaction() as tx:
                tx.keyspace("k").put(b"document", b"%0500d" % update)
            aborted = store.begin()
            aborted.keyspace("k").put(b"document", b"never")
            aborted.rollback()
            if update % 100 == 0:
                store.checkpoint()
                versions.append(store.stats().versions + store.stats().history)
        snapshot.close()
        store.close()
        sizes.append(size_of(store.path))
    assert max(versions) <= 2
    assert sizes[2] <= sizes[0] + 200_000, sizes


def test_a_dropped_snapshot_and_one_of_a_dead_thread_hold_nothing(store: lowtide.Store) -> None:
    keys = store.keyspace("k")
    keys.put(b"x", b"old")
    store.checkpoint()

    def abandon() -> None:
        tx = store.begin()
        assert tx.keyspace("k").get(b"x") == b"old"

    thread = threading.Thread(target=abandon)
    thread.start()
    thread.join()
    snapshot: lowtide.Snapshot | None = store.snapshot()
    keys.put(b"x", b"new")
    store.checkpoint()
    assert store.stats().history == 1
    assert len(store.stats().snapshots) == 1
    del snapshot
    gc.collect()
    assert store.stats().snapshots == []
    store.collect_garbage()
    assert store.stats().history == 0


def test_the_holder_of_a_version_is_named_with_the_line_that_opened_it(store: lowtide.Store) -> None:
    """Invariant 6."""
    keys = store.keyspace("k")
    keys.put(b"x", b"1")
    first, second = store.snapshot(), store.begin()
    keys.put(b"x", b"2")
    third = store.snapshot()
    keys.put(b"x", b"3")
    held = store.stats().snapshots
    assert [(each.ts, each.versions_held) for each in held] == [(1, 1), (1, 1), (2, 1)]
    assert all(Path(each.where.rpartition(":")[0]) == Path(__file__) for each in held)
    assert all(each.age >= 0 for each in held)
    for holder in (first, third):
        holder.close()
    second.rollback()
    assert store.stats().versions == 1


def test_a_collection_that_fails_leaves_the_commit_and_is_counted(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G5."""
    keys = store.keyspace("k")
    keys.put_many({b"x": b"1", b"y": b"1"})
    with monkeypatch.context() as patch:
        patch.setattr(parts_of(store).versions, "keep_newest", lambda keys: 1 // 0)
        keys.put_many({b"x": b"2", b"y": b"2"})
    assert keys.get(b"x") == b"2"
    assert store.stats().collect_failures == 1
    store.collect_garbage()
    assert store.stats().versions == 2


def test_closing_while_others_collect_and_checkpoint_ends(open_store: OpenStore) -> None:
    """G8: no deadlock between close, collection, checkpoint and commits."""
    for _ in range(5):
        store = open_store(collect_threshold=1, checkpoint_bytes=1000, segment_bytes=4096)
        started = threading.Barrier(4)
        refusals: list[str] = []

        def work(
            kind: str,
            store: lowtide.Store = store,
            started: threading.Barrier = started,
            refusals: list[str] = refusals,
        ) -> None:
            started.wait()
            try:
                for index in range(100_000):
                    if kind == "put":
                        store.keyspace("k").put(b"%d" % (index % 50), b"v")
                    elif kind == "collect":
                        store.collect_garbage()
                    else:
                        store.checkpoint()
            except lowtide.UsageError as error:
                refusals.append(str(error))

        threads = [threading.Thread(target=work, args=(kind,)) for kind in ("put", "collect", "checkpoint")]
        for thread in threads:
            thread.start()
        started.wait()
        while store.stats().last_commit < 50:
            pass
        store.close()
        for thread in threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()
        assert refusals == ["the store is closed"] * 3


def test_a_scan_that_goes_from_instant_to_instant_holds_back_none_that_it_has_left(store: lowtide.Store) -> None:
    """Each chunk of a scan below SNAPSHOT has a snapshot of its own, which ends with the chunk."""
    keys = store.keyspace("k")
    keys.put_many({b"%04d" % index: b"" for index in range(400)})
    with store.transaction("none") as tx:
        scan = tx.keyspace("k").scan()
        next(scan)
        keys.put(b"0000", b"once more")
        assert parts_of(store).versions.active.held, "the scan may still see what was there"
        assert len(list(islice(scan, 200))) == 200
        assert not parts_of(store).versions.active.held
        scan.close()  # type: ignore[attr-defined]
