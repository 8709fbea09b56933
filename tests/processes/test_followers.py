"""Followers: a transaction sees every commit that was published before it began, and stays at that instant."""

from __future__ import annotations

import time
from pathlib import Path

import lowtide
from tests.conftest import OpenStore
from tests.crash.stores import wait_until
from tests.processes.children import children
from tests.support.clocks import ManualClock
from tests.support.parts import parts_of

TINY = {"segment_bytes": 4096, "feed_bytes": 0, "checkpoint_bytes": 5000, "checkpointer": "thread"}


def test_each_begin_sees_every_commit_that_was_published_before_it(open_store: OpenStore) -> None:
    """Also while checkpoints and released log make one generation follow the other."""
    store = open_store(**TINY)
    model: dict[bytes, bytes] = {}
    with children(store.path, 2) as followers:
        for each in followers:
            each.ask("follow")
        for number in range(60):
            key, value = b"%d" % (number % 9), b"%d" % number * 40
            store.keyspace("k").put(key, value)
            model[key] = value
            if number % 10 == 9:
                store.checkpoint()
            for each in followers:
                assert each.latest() == (number + 1, model)


def test_the_sum_of_a_bank_is_the_same_in_four_followers_beside_a_writing_owner(open_store: OpenStore) -> None:
    store = open_store(**TINY)
    with store.transaction() as tx:
        for account in range(10):
            tx.keyspace("k").put(b"%d" % account, b"%d" % 100)
    with children(store.path, 4) as followers:
        for each in followers:
            each.ask("follow")
        for number in range(100):
            for each in followers:
                each.tell("latest")
            with store.transaction() as tx:
                keyspace = tx.keyspace("k")
                for account, amount in ((number % 10, -1), ((number * 7 + 3) % 10, 1)):
                    key = b"%d" % account
                    keyspace.put(key, b"%d" % (int(keyspace.get(key) or b"0") + amount))
            for each in followers:
                _, rows = each.told()
                assert sum(int(bytes.fromhex(value)) for _, value in rows) == 1000


def test_followers_read_on_when_the_owner_is_killed_and_another_one_comes(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with children(path, 3) as [owner, first, second]:
        owner.ask("own", durability="relaxed")
        owner.ask("put", entries=[[b"x".hex(), b"1".hex()]])
        first.ask("follow")
        assert first.latest() == (1, {b"x": b"1"})
        owner.ask("put", entries=[[b"x".hex(), b"2".hex()]])
        owner.kill()
        assert first.latest() == (2, {b"x": b"2"})
        second.ask("follow")  # takes the store over for a moment
        assert second.latest() == (2, {b"x": b"2"})
        with lowtide.open(path, durability="relaxed") as store:
            store.keyspace("k").put(b"x", b"3")
            assert first.latest() == second.latest() == (3, {b"x": b"3"})
            first.ask("close", name="store")
            assert len(store.pins()) == 1


def test_the_pin_of_a_killed_follower_goes_when_its_lease_is_over(open_store: OpenStore) -> None:
    clock = ManualClock(time.time())
    store = open_store(monitor_interval=0.01, clock=clock)
    store.keyspace("k").put(b"x", b"1")
    with children(store.path, lease=3000.0) as [follower]:
        follower.ask("follow")
        assert follower.latest() == (1, {b"x": b"1"})
        assert len(parts_of(store).pinning.leases.all()) == 1
        follower.kill()
        clock.advance(10_000)
        wait_until(lambda: parts_of(store).pinning.leases.all() == [])
