"""Constant collection, with readers that begin and end at random: every read is right, every count is exact (G1, G3,
G4).

Threads write, read and run upkeep concurrently. A reader checks what needs no shared model: all keys of a commit have
the same number, and a snapshot that is read twice shows the same both times.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import pytest

import lowtide
from lowtide.engine.garbage.account import superseded
from tests.conftest import OpenStore
from tests.garbage.background import still
from tests.support.parts import parts_of
from tests.support.patience import PATIENCE

KEYS = [b"%02d" % number for number in range(20)]


@pytest.fixture(params=["exact", "watermark"])
def store(request: pytest.FixtureRequest, open_store: OpenStore) -> lowtide.Store:
    store = open_store(
        collector=request.param,
        collect_threshold=1,
        checkpointer="thread",
        checkpoint_bytes=20_000,
        segment_bytes=16_384,
        map_size=1 << 20,
    )
    with store.transaction() as tx:
        for key in KEYS:
            tx.keyspace("k").put(key, b"0")
    return store


def commit(store: lowtide.Store, number: int, dice: random.Random) -> None:
    """Some of the keys get ``number``, one of them is deleted and one may come back; the marker names all of them."""
    with store.transaction() as tx:
        changed = dice.sample(KEYS, 5)
        for key in changed[1:]:
            tx.keyspace("k").put(key, b"%d" % number)
        tx.keyspace("k").delete(changed[0])
        tx.keyspace("m").put(b"last", b"%d " % number + b" ".join(changed))


def look(snapshot: lowtide.Snapshot) -> dict[bytes, bytes]:
    """What the snapshot shows, after checking that it is one commit's end and that both ways of reading agree."""
    found = dict(snapshot.keyspace("k").scan())
    marker = snapshot.keyspace("m").get(b"last")
    if marker is not None:
        number, deleted, *changed = marker.split(b" ")
        assert deleted not in found
        assert {found[key] for key in changed} == {number}
        assert max(map(int, found.values())) == int(number)
    assert dict(snapshot.keyspace("k").scan(reverse=True)) == found
    assert {key: value for key in KEYS if (value := snapshot.keyspace("k").get(key)) is not None} == found
    return found


def run(done: threading.Event, works: list[Callable[[], None]]) -> None:
    """All of ``works`` at once; an error in one of them ends the others, and is raised."""
    errors: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)
            done.set()

    threads = [threading.Thread(target=guarded, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


def check_layers(store: lowtide.Store) -> None:
    with still(store), parts_of(store).committer.exclusive():
        for layer in parts_of(store).versions.layers:
            layer.check()


def test_every_read_is_right_while_everything_is_collected_all_the_time(store: lowtide.Store) -> None:
    done = threading.Event()
    looks, rounds = [0, 0], [0]

    def write() -> None:
        """Until all the others have had their turns beside it."""
        dice = random.Random(1)
        number = 0
        try:
            while not done.is_set() and (number < 250 or min(looks) < 50 or rounds[0] < 10):
                number += 1
                commit(store, number, dice)
        finally:
            done.set()

    def read(index: int) -> Callable[[], None]:
        def work() -> None:
            dice = random.Random(index + 2)
            held: list[tuple[lowtide.Snapshot, dict[bytes, bytes]]] = []
            while not done.is_set():
                snapshot = store.snapshot()
                held.append((snapshot, look(snapshot)))
                looks[index] += 1
                if len(held) > dice.randint(0, 6):
                    older, seen = held.pop(dice.randrange(len(held)))
                    assert look(older) == seen
                    if dice.random() < 0.7:
                        older.close()
            for older, seen in held:
                assert look(older) == seen

        return work

    def keep_house() -> None:
        while not done.is_set():
            store.collect_garbage()
            store.checkpoint()
            rounds[0] += 1

    run(done, [write, read(0), read(1), keep_house])
    assert min(looks) >= 50
    check_layers(store)
    store.checkpoint()
    store.collect_garbage()
    stats = store.stats()
    assert (stats.snapshots, stats.versions, stats.history) == ([], 0, 0)
    assert stats.checkpoint_failures == stats.collect_failures == 0


@pytest.mark.parametrize("seed", range(3))
def test_a_key_has_at_most_one_version_more_than_there_are_snapshots(open_store: OpenStore, seed: int) -> None:
    """G1 for many keys, with snapshots that come and go: exactly the versions that a snapshot sees are left."""
    store = open_store(collect_threshold=1, checkpointer="thread")
    dice = random.Random(seed)
    held: list[lowtide.Snapshot] = []
    for number in range(1, 400):
        commit(store, number, dice)
        if dice.random() < 0.1:
            held.append(store.snapshot())
        if held and dice.random() < 0.1:
            held.pop(dice.randrange(len(held))).close()
        if dice.random() < 0.03:
            store.checkpoint()
        with still(store):
            stats = store.stats()
            live = {snapshot.ts for snapshot in held}
            assert stats.versions <= stats.chains * (len(live) + 1)
            assert stats.history <= (len(KEYS) + 1) * len(live)
    assert_exact(store, {snapshot.ts for snapshot in held})
    for snapshot in held:
        look(snapshot)
        snapshot.close()


def assert_exact(store: lowtide.Store, live: set[int]) -> None:
    """Assert that a snapshot sees every superseded version, wherever it is stored."""
    store.collect_garbage()
    with still(store):
        for begin, end, _, _ in superseded(parts_of(store).versions, parts_of(store).base):
            assert any(begin <= ts < end for ts in live), (begin, end, live)


def test_a_read_only_transaction_lets_collection_proceed_when_it_ends(store: lowtide.Store) -> None:
    """G5: however it ends, and at whatever level it holds a snapshot."""
    dice = random.Random(4)
    for number, level in enumerate(["snapshot", "serializable"] * 2, 1):
        tx = store.begin(level, read_only=True)
        tx.keyspace("k").get(KEYS[0])
        for step in range(10):
            commit(store, number * 10 + step, dice)
        if number % 2:
            tx.commit()
        else:
            tx.rollback()
        with still(store):
            stats = store.stats()
            assert stats.snapshots == []
            assert stats.versions == stats.chains
