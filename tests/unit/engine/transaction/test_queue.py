"""A commit without a request: only over the newest state, only while no other thread commits, and all or nothing."""

from __future__ import annotations

from typing import Any

import pytest

import lowtide
from lowtide.engine.transaction.commit import Committer
from tests.conftest import OpenStore
from tests.support.parts import parts_of
from tests.support.schedule import Schedule


@pytest.fixture
def store(open_store: OpenStore) -> lowtide.Store:
    opened = open_store(durability="relaxed")
    opened.keyspace("k").put(b"a", b"0")
    return opened


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Notes how each commit is made."""
    noted: list[str] = []
    commit_at_once, submit = Committer.commit_at_once, Committer.submit

    def at_once(self: Committer, *given: Any, **named: Any) -> int:
        ts = commit_at_once(self, *given, **named)
        if ts:
            noted.append("at once")
        return ts

    def by_request(self: Committer, request: Any) -> int:
        noted.append("by a request")
        return submit(self, request)

    monkeypatch.setattr(Committer, "commit_at_once", at_once)
    monkeypatch.setattr(Committer, "submit", by_request)
    return noted


def test_a_commit_over_the_newest_state_needs_no_request(store: lowtide.Store, ways: list[str]) -> None:
    store.keyspace("k").put(b"a", b"1")
    with store.transaction() as tx:
        tx.keyspace("k").put(b"a", b"2")
    store["rows"].insert_one({"_id": 1})  # the first write to a keyspace names it
    store["rows"].update_one({"_id": 1}, {"$set": {"n": 1}})
    assert ways == ["at once", "at once", "by a request", "at once"]


@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
def test_a_commit_after_another_one_is_validated(store: lowtide.Store, ways: list[str], isolation: str) -> None:
    tx, other = store.begin(isolation), store.begin(isolation)
    for each in (tx, other):
        each.keyspace("k").put(b"a", b"1")
    other.commit()
    with pytest.raises(lowtide.ConflictError):
        tx.commit()
    assert ways == ["at once", "by a request"]


def test_a_commit_with_callbacks_is_a_request(store: lowtide.Store, ways: list[str]) -> None:
    called: list[int] = []
    with store.transaction() as tx:
        tx.keyspace("k").put(b"a", b"1")
        tx.on_commit(called.append)
    assert ways == ["by a request"]
    assert called == [store.stats().last_commit]


def test_a_commit_at_once_wakes_one_that_came_meanwhile(store: lowtide.Store) -> None:
    fruit = store.keyspace("k")
    with Schedule() as schedule:
        leader = schedule.start(lambda: fruit.put(b"a", b"1"), "commit.log").arrive()
        follower = schedule.start(lambda: fruit.put(b"a", b"2"), "commit.wait").arrive()
        leader.finish()
        follower.finish()
    assert fruit.get(b"a") == b"2"


def test_an_error_of_the_log_shows_nothing_of_a_commit_at_once(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, published = parts_of(store).log, store.stats().last_commit

    def refuse(*given: Any) -> None:
        raise lowtide.DiskFull("no room")

    with monkeypatch.context() as patch:
        patch.setattr(log, "append", refuse)
        tx = store.begin()
        tx.keyspace("k").put(b"a", b"1")
        with pytest.raises(lowtide.DiskFull):
            tx.commit()
    assert (store.keyspace("k").get(b"a"), store.stats().last_commit) == (b"0", published)
    assert not parts_of(store).registry.live
    store.keyspace("k").put(b"a", b"2")
    assert store.stats().last_commit == published + 1


def test_an_error_after_the_log_has_it_leaves_a_commit_at_once_committed(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the log has is published, whatever happens."""
    versions, publish, failures = parts_of(store).versions, parts_of(store).versions.publish, [RuntimeError("once")]

    def publish_after_a_failure(*given: Any) -> Any:
        if failures:
            raise failures.pop()
        return publish(*given)

    monkeypatch.setattr(versions, "publish", publish_after_a_failure)
    store.keyspace("k").put(b"a", b"1")
    assert store.keyspace("k").get(b"a") == b"1"
    store.keyspace("k").put(b"a", b"2")
    assert store.keyspace("k").get(b"a") == b"2"
