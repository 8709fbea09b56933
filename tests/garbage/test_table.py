"""The table of Turso's collector, row by row, for this design (002's rules; G4).

In Turso a chain and a B-tree serve the readers, and the number of dropped versions depends on the low-water mark l and
the checkpoint c. Here versions at or below the boundary are never in a chain, so "c at or above" means that a
checkpoint was made. The rows hold with the low-water-mark collector, and with the exact one if there is one reader.
"""

from __future__ import annotations

import pytest

import lowtide
from tests.conftest import OpenStore
from tests.support.parts import parts_of

KEY = b"row"


@pytest.fixture(params=["exact", "watermark"])
def store(request: pytest.FixtureRequest, open_store: OpenStore) -> lowtide.Store:
    return open_store(collector=request.param, checkpointer="thread")


def advance(store: lowtide.Store, ts: int) -> None:
    """Commit elsewhere until the next commit has timestamp ``ts``."""
    while store.stats().last_commit < ts - 1:
        store.keyspace("elsewhere").put(b"clock", b"%d" % store.stats().last_commit)


def put_at(store: lowtide.Store, ts: int) -> None:
    advance(store, ts)
    store.keyspace("k").put(KEY, b"%d" % ts)
    assert store.stats().last_commit == ts


def delete_at(store: lowtide.Store, ts: int) -> None:
    advance(store, ts)
    store.keyspace("k").delete(KEY)


def reader_at(store: lowtide.Store, ts: int) -> lowtide.Snapshot:
    advance(store, ts + 1)
    snapshot = store.snapshot()
    assert snapshot.ts == ts
    return snapshot


def in_memory(store: lowtide.Store) -> list[int]:
    """The timestamps of the row's versions in memory, newest first."""
    full_key = store._backend.engine.catalog.prefix_of("k") + KEY
    found = []
    for layer in parts_of(store).versions.layers:
        chain = layer.chains.get(full_key)
        while chain is not None:
            found.append(chain[0])
            chain = chain[2]
    return found


def in_base(store: lowtide.Store) -> bytes | None:
    return parts_of(store).base.row(parts_of(store).engine.catalog.prefix_of("k") + KEY)


def test_a_version_that_ended_before_the_oldest_reader_goes(store: lowtide.Store) -> None:
    """(3,5)(5,-) l10 c0: 1 dropped."""
    put_at(store, 3)
    put_at(store, 5)
    with reader_at(store, 10):
        store.collect_garbage()
        assert in_memory(store) == [5]


def test_a_version_that_a_reader_sees_stays(store: lowtide.Store) -> None:
    """(3,15)(15,-) l10: 0 dropped; after a checkpoint it has moved to the history, where the base serves the other."""
    put_at(store, 3)
    reader = reader_at(store, 10)
    put_at(store, 15)
    store.collect_garbage()
    assert in_memory(store) == [15, 3]
    advance(store, 21)
    store.checkpoint()
    assert in_memory(store) == []
    assert store.collect_garbage() == 0
    assert reader.keyspace("k").get(KEY) == b"3"
    reader.close()
    store.collect_garbage()
    assert store.stats().history == 0


def test_a_tombstone_stays_until_the_base_knows_of_the_deletion(store: lowtide.Store) -> None:
    """Tombstone end 5, l10 c2: 0 dropped. To drop it would bring the row of the base back."""
    put_at(store, 1)
    store.checkpoint()
    delete_at(store, 5)
    with reader_at(store, 10):
        assert store.collect_garbage() == 0
        assert in_memory(store) == [5]
        assert in_base(store) is not None
        assert store.keyspace("k").get(KEY) is None
        assert list(store.keyspace("k").scan()) == []


def test_a_tombstone_of_a_key_that_was_written_since_stays_too_without_any_reader(store: lowtide.Store) -> None:
    """Without a live snapshot only the newest version stays, even if it is a deletion."""
    put_at(store, 1)
    store.checkpoint()
    put_at(store, 2)
    delete_at(store, 3)
    store.collect_garbage()
    assert in_memory(store) == [3]
    assert store.keyspace("k").get(KEY) is None
    assert list(store.keyspace("k").scan()) == []


def test_a_tombstone_goes_once_the_base_knows(store: lowtide.Store) -> None:
    """Tombstone end 5, l10 c5: gone."""
    put_at(store, 1)
    store.checkpoint()
    delete_at(store, 5)
    with reader_at(store, 10):
        store.checkpoint()
        assert in_memory(store) == []
        assert in_base(store) is None
        assert store.stats().history == 0
        assert store.keyspace("k").get(KEY) is None


def test_a_sole_survivor_goes_once_the_base_has_it_and_not_before(store: lowtide.Store) -> None:
    """(5,-) l10 c3: 0 dropped; c5: 1."""
    advance(store, 4)
    store.checkpoint()
    put_at(store, 5)
    with reader_at(store, 10) as reader:
        assert store.collect_garbage() == 0
        assert in_memory(store) == [5]
        store.checkpoint()
        assert in_memory(store) == []
        assert reader.keyspace("k").get(KEY) == store.keyspace("k").get(KEY) == b"5"


def test_a_current_version_never_goes_alone_and_leaves_older_ones_behind(store: lowtide.Store) -> None:
    """Turso's second hazard: superseded versions that hide the row of the base, with nothing left to be read."""
    put_at(store, 3)
    reader = reader_at(store, 4)
    put_at(store, 5)
    store.checkpoint()
    assert in_memory(store) == []
    assert reader.keyspace("k").get(KEY) == b"3"
    assert store.keyspace("k").get(KEY) == b"5"
    reader.close()


def test_what_is_not_committed_is_in_no_chain_at_either_end(store: lowtide.Store) -> None:
    """An uncommitted version is kept there; here it exists in its transaction only, and goes with it."""
    put_at(store, 3)
    inserting, deleting = store.begin(), store.begin()
    inserting.keyspace("k").put(b"new", b"uncommitted")
    deleting.keyspace("k").delete(KEY)
    store.collect_garbage()
    assert in_memory(store) == [3]
    store.checkpoint()
    assert deleting.keyspace("k").get(KEY) is None
    assert inserting.keyspace("k").get(b"new") == b"uncommitted"
    inserting.rollback()
    deleting.rollback()
    assert dict(store.keyspace("k").scan()) == {KEY: b"3"}
    assert store.stats().versions == 0


@pytest.mark.parametrize(("reader", "sees"), [(4, b"3"), (5, b"5"), (6, b"5")])
def test_the_edges_of_an_interval_are_exact(store: lowtide.Store, reader: int, sees: bytes) -> None:
    """G4: ``end == t`` is invisible to t, ``begin == t`` is visible; in memory and from base and history alike."""
    put_at(store, 3)
    snapshot = reader_at(store, reader) if reader == 4 else None
    put_at(store, 5)
    snapshot = snapshot or reader_at(store, reader)
    put_at(store, 9)
    store.collect_garbage()
    assert in_memory(store) == [9, 3 if sees == b"3" else 5] or store._options.collector == "watermark"
    for step in (lambda: 0, store.checkpoint, store.collect_garbage):
        step()
        assert snapshot.keyspace("k").get(KEY) == sees
    snapshot.close()


def test_collecting_twice_drops_nothing_more(store: lowtide.Store) -> None:
    """G4: idempotent."""
    put_at(store, 1)
    with store.snapshot(), store.begin():
        for ts in range(2, 8):
            put_at(store, ts)
        store.checkpoint()
        for ts in range(8, 12):
            put_at(store, ts)
        store.collect_garbage()
        before = store.stats()
        assert store.collect_garbage() == 0
        assert (store.stats().versions, store.stats().history) == (before.versions, before.history)
