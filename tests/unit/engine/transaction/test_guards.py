"""Guards: keys that a commit relies on without writing them, at every level."""

from __future__ import annotations

import pytest

import lowtide
from lowtide import ConflictError
from lowtide.engine.transaction.guards import Guards
from lowtide.engine.types import Range


def test_a_key_keeps_the_oldest_instant_at_which_it_was_seen() -> None:
    guards = Guards()
    guards.add(b"a", 3)
    guards.add(b"a", 5)
    guards.add(b"b", 5)
    assert guards.keys == {b"a": 3, b"b": 5}


def test_keys_and_ranges_are_met() -> None:
    guards = Guards()
    guards.add(b"a", 1)
    guards.add_range(Range(b"m", b"p"), 2)
    guards.add_range(Range(b"x", None), 2)
    assert [guards.meet(each) for each in (b"a", b"b", b"l", b"m", b"o", b"p", b"x", b"zz")] == [
        *(True, False, False, True, True, False, True, True)
    ]


@pytest.mark.parametrize("level", ["read_committed", "snapshot_read", "snapshot", "serializable"])
@pytest.mark.parametrize("flushed", [False, True])
def test_a_commit_fails_if_what_it_relies_on_was_changed(store: lowtide.Store, level: str, flushed: bool) -> None:
    """Whether the change is still in memory or in the base."""
    space = store.keyspace("k")
    space.put(b"relied", b"1")
    prefix = space.prefix

    def attempt(changed: bytes | None, *, ranged: bool) -> None:
        with store.transaction(level) as tx:
            tx.keyspace("k").put(b"written", b"x")
            if ranged:
                tx._tx.guarding().add_range(Range(prefix + b"r", prefix + b"s"), tx.ts)
            else:
                tx._tx.guarding().add(prefix + b"relied", tx.ts)
            if changed is not None:
                space.put(changed, b"2")
            if flushed:
                store.checkpoint()

    for ranged in (False, True):
        attempt(None, ranged=ranged)
        attempt(b"other", ranged=ranged)
        with pytest.raises(ConflictError) as caught:
            attempt(b"relied", ranged=ranged)
        assert (caught.value.keyspace, caught.value.key) == ("k", b"relied")
    attempt(b"r-new", ranged=False)
    with pytest.raises(ConflictError):
        attempt(b"r-newer", ranged=True)


def test_what_is_changed_before_it_was_seen_does_no_harm(store: lowtide.Store) -> None:
    space = store.keyspace("k")
    with store.transaction("read_committed") as tx:
        space.put(b"relied", b"1")
        tx._tx.guarding().add(space.prefix + b"relied", store.stats().last_commit)
        tx.keyspace("k").put(b"written", b"x")
    assert space.get(b"written") == b"x"
