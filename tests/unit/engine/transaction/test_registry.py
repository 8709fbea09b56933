"""The registry: which timestamps are drawn and held, and the horizons computed from it (G2, I12, design decision 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from weakref import ref

import pytest

import lowtide
from lowtide.engine.transaction.origin import Origin
from lowtide.engine.transaction.registration import Entry, Registration
from lowtide.engine.transaction.registry import Registry
from lowtide.errors import SnapshotExpired, UsageError
from tests.support.parts import parts_of

CODE = (lambda: None).__code__

_owned: list[Registration] = []
"""The registrations of the running test: one that is dropped is released."""


@pytest.fixture(autouse=True)
def _drop_what_is_owned() -> Iterator[None]:
    yield
    _owned.clear()


def register(
    registry: Registry, *, writer: bool = True, tracks_reads: bool = False, begun: float = 0.0
) -> tuple[int, int]:
    registration = registry.register((writer, begun, (CODE, 0)), tracks_reads)
    _owned.append(registration)
    return registration.token, registration.ts


def register_at(registry: Registry, at: int) -> int:
    registration = registry.register_at(at, (False, 0.0, (CODE, 0)))
    _owned.append(registration)
    return registration.token


def test_a_registered_snapshot_is_the_last_published_commit() -> None:
    registry = Registry(7)
    token, ts = register(registry)
    assert ts == 7
    assert registry.timestamps() == [7]
    registry.published = 9
    assert register(registry)[1] == 9
    registry.release(token)
    assert registry.timestamps() == [9]


def test_every_token_is_new() -> None:
    registry = Registry(0)
    tokens = {register(registry)[0] for _ in range(100)}
    assert len(tokens) == 100
    assert 0 not in tokens, "0 stands for no token"


def test_releasing_is_harmless_when_repeated_or_unknown() -> None:
    registry = Registry(0)
    token, _ = register(registry, tracks_reads=True)
    for each in (token, token, 0, 999):
        registry.release(each)
    assert (registry.live, registry.details, registry.serializable) == ({}, {}, {})


def test_the_horizons_are_those_of_the_ones_they_concern() -> None:
    """All hold versions. Writers also hold what write conflicts need, and trackers of reads what validation needs."""
    registry = Registry(1)
    assert (registry.oldest_writer(), registry.oldest_serializable()) == (None, None)
    reader, _ = register(registry, writer=False)
    registry.published = 2
    writer, _ = register(registry)
    registry.published = 3
    serializable, _ = register(registry, tracks_reads=True)
    assert (min(registry.timestamps()), registry.oldest_writer(), registry.oldest_serializable()) == (1, 2, 3)
    registry.release(writer)
    assert (min(registry.timestamps()), registry.oldest_writer(), registry.oldest_serializable()) == (1, 3, 3)
    registry.release(serializable)
    assert (registry.oldest_writer(), registry.oldest_serializable()) == (None, None)
    registry.release(reader)
    assert registry.timestamps() == []


def test_the_entries_say_who_lives_oldest_first() -> None:
    registry = Registry(5)
    register(registry, begun=12.5)
    registry.live[999] = 1
    registry.details[999] = ((False, 3.0, (CODE, 0)), ref(_owned[0]))
    assert [(entry.ts, entry.writer, entry.begun) for entry in registry.entries()] == [(1, False, 3.0), (5, True, 12.5)]


def test_an_expired_snapshot_is_no_longer_live_and_leaves_a_note_until_it_is_given_back() -> None:
    registry = Registry(5)
    token, _ = register(registry, tracks_reads=True, begun=3.0)
    other, _ = register(registry)
    (entry,) = (each for each in registry.entries() if each.token == token)
    assert registry.expire(entry, 7.5, 7.0)
    assert (list(registry.live), list(registry.details), registry.serializable) == ([other], [other], {})
    assert (list(registry.expired), registry.expirations) == ([token], 1)
    assert registry.release(other) is None
    note = registry.release(token)
    assert note is not None
    assert (note.ts, note.age, note.limit) == (5, 7.5, 7.0)
    assert registry.expired == {}
    assert registry.release(token) is None


def test_one_that_was_given_back_before_it_could_be_expired_leaves_no_note() -> None:
    registry = Registry(5)
    token, _ = register(registry)
    (entry,) = registry.entries()
    registry.release(token)
    assert not registry.expire(entry, 7.5, 7.0)
    assert (registry.expired, registry.expirations) == ({}, 0)


class Watched(dict[int, int]):
    """A table that lets a test step in right after an entry was set."""

    then: Callable[[], None] | None = None

    def __setitem__(self, key: int, value: int) -> None:
        super().__setitem__(key, value)
        then, self.then = self.then, None
        if then is not None:
            then()


def test_a_commit_between_draw_and_registration_has_it_drawn_anew() -> None:
    registry = Registry(1)
    registry.live = live = Watched()

    def publish() -> None:
        registry.published = 2

    live.then = publish
    token, ts = register(registry, tracks_reads=True)
    assert ts == 2
    assert registry.live == {token: 2}
    assert registry.serializable == {token: 2}


def test_one_that_is_being_drawn_is_counted_and_named_and_held_by_none() -> None:
    """A collector must keep too much rather than too little. It will be drawn again, so it cannot be leaned on, nor
    expired."""
    registry = Registry(4)
    registry.live = live = Watched()
    seen: list[object] = []
    live.then = lambda: seen.extend([registry.timestamps(), registry.oldest_writer(), *registry.entries()])
    token, _ = register(registry, writer=False)
    entry = Entry(token, 4, False, 0.0, Origin(CODE, 0))
    assert seen == [[4], None, entry]
    seen.clear()
    live.then = lambda: seen.extend([registry._is_held(4), registry.expire(registry.entries()[-1], 1.0, 1.0)])
    registry.release(token)
    register(registry)
    assert seen == [False, False]
    assert registry.expired == {}


def test_one_that_is_dropped_is_released_and_the_collector_is_told() -> None:
    registry, told = Registry(4), list[int]()
    registry.abandoned = told.append
    registry.register((True, 0.0, (CODE, 0)), True)
    assert (registry.live, registry.details, registry.serializable, told) == ({}, {}, {}, [4])


def test_one_that_is_released_is_told_once() -> None:
    registry, told = Registry(4), list[int]()
    registry.abandoned = told.append
    registration = registry.register((True, 0.0, (CODE, 0)))
    for _ in range(2):
        registration.release(told.append)
    del registration
    assert (registry.live, registry.details, told) == ({}, {}, [4])


def test_what_a_destructor_could_not_release_is_reaped(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt that is delivered in a destructor is swallowed, and the rest of the destructor with it."""
    registry, told = Registry(4), list[int]()
    registry.abandoned = told.append
    monkeypatch.setattr(Registration, "__del__", lambda self: None)
    register(registry)
    lost, expired = registry.register((True, 0.0, (CODE, 0)), True), registry.register((True, 0.0, (CODE, 0)), True)
    assert registry.expire(next(each for each in registry.entries() if each.token == expired.token), 2.0, 1.0)
    del lost, expired
    registry.reap()
    assert registry.live == {_owned[0].token: 4}
    assert (list(registry.details), registry.serializable, registry.expired, told) == ([_owned[0].token], {}, {}, [4])


# Snapshots at a given commit


def test_a_snapshot_at_the_last_commit_needs_no_holder() -> None:
    registry = Registry(3)
    register_at(registry, 3)
    assert registry.timestamps() == [3]


def test_a_snapshot_at_an_older_commit_needs_one_who_holds_it_and_then_holds_it_alone() -> None:
    registry = Registry(3)
    holder, _ = register(registry)
    registry.published = 5
    second = register_at(registry, 3)
    registry.release(holder)
    third = register_at(registry, 3)
    registry.release(second)
    registry.release(third)
    with pytest.raises(SnapshotExpired, match="commit 3 is no longer kept"):
        register_at(registry, 3)
    assert registry.live == {}


def test_a_snapshot_between_two_that_are_held_is_refused() -> None:
    registry = Registry(3)
    register(registry)
    registry.published = 5
    register(registry)
    with pytest.raises(SnapshotExpired):
        register_at(registry, 4)
    assert sorted(registry.timestamps()) == [3, 5]


def test_a_snapshot_of_the_future_is_refused() -> None:
    registry = Registry(3)
    with pytest.raises(UsageError, match="does not exist yet"):
        register_at(registry, 4)


def test_it_does_not_lean_on_one_that_is_still_being_drawn(store: lowtide.Store) -> None:
    """A begin has drawn commit 1 and set its entry, but 2 was committed, checkpointed and collected in between: nothing
    of 1 is left, and the begin will draw again. At that moment its entry holds nothing."""
    keyspace, registry = store.keyspace("k"), parts_of(store).registry
    keyspace.put(b"x", b"old")
    store.checkpoint()
    outcome: list[object] = []

    def look() -> None:
        try:
            with store.snapshot(at=1) as snapshot:
                outcome.append(snapshot.keyspace("k").get(b"x"))
        except SnapshotExpired:
            outcome.append("expired")

    def overtake() -> None:
        """Runs in the begin, after its draw: commit, collect, and step in once more when the entry is set again."""
        keyspace.put(b"x", b"new")
        registry.live.pop(drawn)
        store.checkpoint()
        store.collect_garbage()
        live.then = look
        registry.live[drawn] = 1

    registry.live = live = Watched()
    drawn = next(registry.tokens) + 1
    live.then = overtake
    tx = store.begin()
    assert tx.ts == 2
    assert outcome == ["expired"]


def test_a_begin_uses_the_registration_of_a_transaction_that_has_ended(store: lowtide.Store) -> None:
    registry = parts_of(store).registry
    with store.transaction() as tx:
        tx.keyspace("k").put(b"x", b"1")
        (used,) = registry.details.values()
    assert [used[1]()] == list(registry.spare)
    second, third = store.begin(), store.begin("serializable", read_only=True)
    assert not registry.spare
    assert [owner() is used[1]() for _, owner in registry.details.values()] == [True, False]
    second.rollback()
    assert third.keyspace("k").get(b"x") == b"1"
    third.commit()
    assert (len(registry.spare), registry.live, registry.details) == (2, {}, {})


def test_a_registration_that_something_else_refers_to_is_not_used_again(store: lowtide.Store) -> None:
    """As the traceback of an error may. Its next owner could not drop it."""
    registry = parts_of(store).registry
    tx = store.begin()
    ((_, owner),) = registry.details.values()
    elsewhere = owner()
    tx.rollback()
    assert not registry.spare
    with store.begin():
        assert [owner() is elsewhere for _, owner in registry.details.values()] == [False]


def test_no_more_registrations_are_kept_than_some(store: lowtide.Store) -> None:
    registry = parts_of(store).registry
    many = [store.begin() for _ in range(1000)]
    for tx in many:
        tx.rollback()
    assert 0 < len(registry.spare) < 100
    assert all(each.token == 0 for each in registry.spare)
