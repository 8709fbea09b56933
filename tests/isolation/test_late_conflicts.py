"""Conflicts with commits that are no longer in memory, and of transactions that began long ago (C2, C3, C4)."""

from __future__ import annotations

import pytest

import lowtide
from lowtide import Isolation
from tests.isolation.world import FIRST_COMMITTER_WINS, World, commits, delete, get, put
from tests.support.parts import parts_of

LEVEL = pytest.mark.parametrize("level", FIRST_COMMITTER_WINS)


@LEVEL
@pytest.mark.parametrize("existed", [True, False], ids=["update", "insert"])
def test_an_older_transaction_that_commits_late_is_a_conflict_for_younger_ones(
    world: World, level: Isolation, existed: bool
) -> None:
    """C2. Timestamps are drawn at commit: A began before C, but what it commits after C began, C has not seen."""
    world.fill(other=0, **({"a": 0} if existed else {}))
    a = world.begin(level)
    b = world.begin(level)
    put(b, "z", 1)
    b.commit()
    world.meanwhile()
    c = world.begin(level)
    assert get(c, "a") == (0 if existed else None)
    put(a, "a", 100)
    a.commit()
    world.meanwhile()
    put(c, "a", 1)
    assert not commits(c)
    assert world.get("a") == 100


@LEVEL
def test_a_key_that_was_only_in_the_base_conflicts_although_a_third_one_holds_a_write(
    world: World, level: Isolation
) -> None:
    """C3: the open write of T3 must not hide the commit of T1 from T2."""
    world.fill(x=0)
    world.store.checkpoint()
    t2 = world.begin(level)
    with world.store.transaction(level) as t1:
        put(t1, "x", 1)
    world.meanwhile()
    t3 = world.begin(level)
    put(t3, "x", 3)
    put(t2, "x", 2)
    assert not commits(t2)
    world.meanwhile()
    assert commits(t3)
    assert world.get("x") == 3


@LEVEL
def test_of_two_deletes_of_a_key_that_is_only_in_the_base_the_second_fails(world: World, level: Isolation) -> None:
    """C3: after the first one the key is nowhere but in a tombstone."""
    world.fill(x=0)
    world.store.checkpoint()
    t1, t2 = world.begin(level), world.begin(level)
    delete(t1, "x")
    delete(t2, "x")
    t1.commit()
    world.meanwhile()
    assert not commits(t2)


@LEVEL
@pytest.mark.parametrize("change", ["put", "delete"])
@pytest.mark.parametrize("existed", [False, True])
def test_a_key_that_came_and_went_since_is_a_conflict(
    world: World, level: Isolation, change: str, existed: bool
) -> None:
    """C4: inserted, deleted, checkpointed and collected, so that no version of it is left anywhere."""
    world.fill(other=0, **({"x": 1} if existed else {}))
    late = world.begin(level)
    world.put("x", 10)
    world.meanwhile()
    world.delete("x")
    for _ in range(2):
        world.meanwhile()
    if change == "put":
        put(late, "x", 5)
    else:
        delete(late, "x")
    with pytest.raises(lowtide.ConflictError) as caught:
        late.commit()
    assert caught.value.key == b"x"
    assert world.get("x") is None


@LEVEL
def test_each_writer_conflicts_with_exactly_the_deletions_it_did_not_see(world: World, level: Isolation) -> None:
    """The tombstones go one after the other, as the writers that could conflict with them end."""
    names = [f"x{number}" for number in range(6)]
    world.fill(**dict.fromkeys(names, 0))
    writers = []
    for name in names:
        writers.append(world.begin(level))
        world.delete(name)
        world.meanwhile()
    for number, tx in enumerate(writers):
        world.meanwhile()
        if number % 2:
            put(tx, names[number], 1)
            assert not commits(tx), "its own epoch's deletion came after it"
        else:
            put(tx, names[number - 1] if number else "new", 1)
            assert commits(tx), "that deletion was seen"
            world.delete(names[number - 1] if number else "new")
    world.meanwhile()


@LEVEL
def test_nothing_is_left_of_deleted_keys_once_no_writer_could_conflict(plain: World, level: Isolation) -> None:
    plain.fill(x=0)
    plain.store.checkpoint()
    late = plain.begin(level)
    plain.delete("x")
    plain.store.checkpoint()
    plain.store.collect_garbage()
    base = parts_of(plain.store).base
    key = plain.store._backend.engine.catalog.prefix_of("k") + b"x"
    assert base.changed_at(key) == plain.store.stats().last_commit
    late.rollback()
    plain.store.collect_garbage()
    assert base.changed_at(key) == 0


@LEVEL
def test_a_writer_that_begins_while_tombstones_are_swept_still_conflicts(plain: World, level: Isolation) -> None:
    """The sweep asks for the oldest writer, and there is none; before it goes on, one begins, and a key is deleted
    under it. The bound up to which tombstones may go must have been read before the question."""
    plain.fill(x=0)
    collector = parts_of(plain.store).collector
    ask = collector._oldest_writer
    begun: list[lowtide.Transaction] = []

    def ask_and_go_on() -> int | None:
        answer = ask()
        if not begun:
            begun.append(plain.begin(level))
            plain.delete("x")
            plain.store.checkpoint()
        return answer

    collector._oldest_writer = ask_and_go_on
    plain.store.collect_garbage()
    collector._oldest_writer = ask
    put(begun[0], "x", 1)
    assert not commits(begun[0])


@LEVEL
def test_conflicts_are_found_after_many_checkpoints_have_passed(world: World, level: Isolation) -> None:
    world.fill(x=0, y=0)
    late, other = world.begin(level), world.begin(level)
    for number in range(12):
        world.put("x", number)
        world.put("noise", number)
        world.meanwhile()
    put(other, "y", 1)
    put(late, "x", 99)
    assert commits(other), "y was not touched"
    assert not commits(late)
    assert (world.get("x"), world.get("y")) == (11, 1)


def test_after_a_reopen_there_is_nothing_to_conflict_with(plain: World) -> None:
    """Writers end with their process, so their tombstones do; what was committed is no conflict for a new writer."""
    plain.fill(x=0)
    late = plain.begin()
    plain.delete("x")
    plain.store.checkpoint()
    assert get(late, "x") == 0
    plain.store.close()
    with lowtide.open(plain.store.path, durability="relaxed") as again:
        with again.transaction() as tx:
            assert get(tx, "x") is None
            put(tx, "x", 1)
        with again.snapshot() as snapshot:
            assert get(snapshot, "x") == 1
