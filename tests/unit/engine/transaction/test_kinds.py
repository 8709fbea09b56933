"""What the log records about the previous values: right also for commits that are not validated, whatever was committed
in between.

Such a commit looks before it has the lock, so it must look again under the lock if others have changed its keys since.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable
from typing import Any

import pytest

import lowtide
from tests.conftest import OpenStore
from tests.isolation.crowd import run_together, wait_until
from tests.support.parts import parts_of
from tests.support.schedule import Schedule

UNVALIDATED = ["autocommit", "read_committed", "none"]


def write(store: lowtide.Store, how: str, entries: dict[bytes, bytes | None]) -> None:
    """Write ``entries``: in one transaction of the level ``how``, or one by one."""
    if how == "autocommit":
        _fill(store.keyspace("k"), entries)
        return
    with store.transaction(how) as tx:
        _fill(tx.keyspace("k"), entries)


def _fill(keyspace: lowtide.Keyspace, entries: dict[bytes, bytes | None]) -> None:
    for key, value in entries.items():
        if value is None:
            keyspace.delete(key)
        else:
            keyspace.put(key, value)


def replayed(changes: Iterable[lowtide.Change], *, before: bool) -> dict[bytes, bytes]:
    """The changes over nothing; each must fit what is there."""
    state: dict[bytes, bytes] = {}
    for change in changes:
        old = state.pop(change.key, None)
        expected = "delete" if change.value is None else "insert" if old is None else "update"
        assert change.kind == expected, change
        assert change.kind != "delete" or old is not None, change
        assert change.before == (old if before else None), change
        if change.value is not None:
            state[change.key] = change.value
    return state


def content(store: lowtide.Store) -> dict[bytes, bytes]:
    return dict(store.keyspace("k").scan())


@pytest.mark.parametrize("how", UNVALIDATED)
@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("value", [b"mine", None], ids=["put", "delete"])
def test_a_commit_between_the_look_and_the_lock_is_seen(
    open_store: OpenStore,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    checkpoint: bool,
    there: bool,
    value: bytes | None,
) -> None:
    """Also a deletion that a checkpoint has brought to the base, where it leaves no trace."""
    store = open_store(before_images=True, feed_bytes=1 << 30)
    write(store, "snapshot", {b"x": b"old" if there else None, b"y": b"y"})
    store.checkpoint()
    committer = parts_of(store).committer
    commit_at_once = committer.commit_at_once

    def meanwhile(*given: Any, **named: Any) -> int:
        monkeypatch.setattr(committer, "commit_at_once", commit_at_once)
        write(store, "snapshot", {b"x": None if there else b"theirs"})
        if checkpoint:
            store.checkpoint()
        return commit_at_once(*given, **named)

    monkeypatch.setattr(committer, "commit_at_once", meanwhile)
    write(store, how, {b"x": value})
    assert store.stats().last_commit == 3
    assert replayed(store.changes(before=True), before=True) == content(store)
    kinds = [(change.kind, change.before) for change in store.changes(since=2, before=True)]
    if there:
        assert kinds == ([("insert", None)] if value is not None else [])
    else:
        assert kinds == [("update" if value is not None else "delete", b"theirs")]


@pytest.mark.parametrize("how", UNVALIDATED)
def test_a_member_of_a_group_is_told_of_those_before_it_in_the_group(open_store: OpenStore, how: str) -> None:
    """All of them look while the key is absent; then they are committed together, in the order in which they came."""
    store = open_store(before_images=True, feed_bytes=1 << 30)
    write(store, "snapshot", {b"there": b""})
    committer = parts_of(store).committer
    values = [b"1", b"2", None, None, b"5"]
    with committer.exclusive():
        threads = [threading.Thread(target=write, args=(store, how, {b"x": value})) for value in values]
        for number, thread in enumerate(threads, 1):
            thread.start()
            wait_until(lambda number=number: len(committer._queue) == number)  # type: ignore[misc]
    for thread in threads:
        thread.join()
    shown = [(change.ts, change.kind, change.before) for change in store.changes(since=1, before=True)]
    assert shown == [(2, "insert", None), (3, "update", b"1"), (4, "delete", b"2"), (6, "insert", None)]


@pytest.mark.parametrize("how", UNVALIDATED)
def test_one_that_looked_while_another_was_on_its_way_is_told_of_it(open_store: OpenStore, how: str) -> None:
    """The other stands between validation and log: it is in no chain yet, and comes into no group with this one."""
    store = open_store(before_images=True, feed_bytes=1 << 30)
    with Schedule() as schedule:
        leader = schedule.start(lambda: write(store, how, {b"x": b"1"}), "commit.log").arrive()
        late = threading.Thread(target=write, args=(store, how, {b"x": b"2"}))
        late.start()
        wait_until(lambda: len(parts_of(store).committer._queue) == 1)
        leader.finish()
        late.join()
    shown = [(change.kind, change.before) for change in store.changes(before=True)]
    assert shown == [("insert", None), ("update", b"1")]


@pytest.mark.parametrize("durability", ["full", "relaxed"])
@pytest.mark.parametrize("before", [False, True])
def test_kinds_alternate_for_hot_keys_under_writers_of_every_level(
    open_store: OpenStore, durability: str, before: bool
) -> None:
    """Replayed over nothing, the feed gives the store."""
    store = open_store(durability=durability, before_images=before, feed_bytes=1 << 30, checkpointer="thread")
    keys = [b"a", b"b", b"c"]

    def work(seed: int, how: str) -> None:
        rng = random.Random(seed)
        for number in range(120):
            chosen = rng.sample(keys, rng.randint(1, 3))
            entries = {key: None if rng.random() < 0.4 else b"%d %d" % (seed, number) for key in chosen}
            try:
                write(store, how, entries)
            except lowtide.ConflictError:
                assert how == "snapshot"
            if number % 40 == seed:
                store.checkpoint()

    levels = [*UNVALIDATED, "snapshot", "autocommit", "read_committed"]
    run_together(*(lambda seed=seed, how=how: work(seed, how) for seed, how in enumerate(levels)))
    assert replayed(store.changes(before=before), before=before) == content(store)
