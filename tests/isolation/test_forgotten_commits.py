"""A serializable transaction may stay open for a long time. When the recent commits have been forgotten, it is still
validated exactly, against the versions in memory and in the base (C7)."""

from __future__ import annotations

import random

import pytest

from lowtide import Isolation
from tests.isolation.world import World, commits, delete, get, put, rows, scan
from tests.support.parts import parts_of

BOUNDS = [0, 3]


@pytest.fixture(params=BOUNDS, autouse=True)
def forgetful(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Limits the number of keys after which recent commits are forgotten."""
    monkeypatch.setattr("lowtide.engine.transaction.validate._MOST_KEYS", request.param)
    bound: int = request.param
    return bound


def noise(world: World) -> None:
    """Commits that have nothing to do with the story, enough to have the recent ones forgotten."""
    for number in range(4):
        world.put(f"noise-{number}", number)
    world.meanwhile()


def has_forgotten(world: World, since: int) -> bool:
    return since < parts_of(world.store).committer._validator.recent.complete_after


@pytest.mark.parametrize("read", ["key", "scan", "reverse"])
@pytest.mark.parametrize("change", ["update", "insert", "delete", "insert and delete", "delete and insert", "nothing"])
def test_a_long_lived_transaction_is_validated_exactly(world: World, read: str, change: str) -> None:
    world.fill(b=1, d=1, f=1)
    tx = world.begin(Isolation.SERIALIZABLE)
    name = "e" if change in ("insert", "insert and delete") else "d"
    if read == "key":
        get(tx, name)
    else:
        list(scan(tx, "c", "f", reverse=read == "reverse"))
    put(tx, "mine", 1)
    noise(world)
    for step in change.split(" and "):
        if step == "delete":
            world.delete(name)
        elif step != "nothing":
            world.put(name, 1)
        world.meanwhile()
    noise(world)
    assert has_forgotten(world, tx.ts)
    assert commits(tx) == (change == "nothing")


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("where", ["before", "on", "behind"])
@pytest.mark.usefixtures("tiny_chunks")
def test_a_scan_that_stopped_early_has_read_only_up_to_there(world: World, reverse: bool, where: str) -> None:
    world.fill(b=1, d=1, f=1)
    tx = world.begin(Isolation.SERIALIZABLE)
    entries = scan(tx, None, "g", reverse)
    next(entries)
    next(entries)
    put(tx, "mine", 1)
    noise(world)
    world.put({"before": "e" if reverse else "c", "on": "d", "behind": "c" if reverse else "e"}[where], 5)
    world.meanwhile()
    assert has_forgotten(world, tx.ts)
    assert commits(tx) == (where == "behind")


def test_disjoint_long_lived_transactions_all_commit(world: World) -> None:
    world.fill(**{f"{name}{number}": 0 for name in "abc" for number in range(5)})
    long_ones = [world.begin(Isolation.SERIALIZABLE) for _ in range(3)]
    for name, tx in zip("abc", long_ones, strict=True):
        assert len(list(scan(tx, name, name + "9"))) == 5
        put(tx, name + "0", 1)
    noise(world)
    assert all(has_forgotten(world, tx.ts) for tx in long_ones)
    for tx in reversed(long_ones):
        assert commits(tx)
        noise(world)


def test_a_transaction_that_began_after_the_forgotten_ones_is_validated_by_the_recent_ones(
    world: World, forgetful: int
) -> None:
    world.fill(d=1)
    old = world.begin(Isolation.SERIALIZABLE)
    assert get(old, "d") == 1
    noise(world)
    young = world.begin(Isolation.SERIALIZABLE)
    assert get(young, "d") == 1
    world.put("other", 1)
    if forgetful:
        assert not has_forgotten(world, young.ts)
    put(young, "mine", 1)
    put(old, "d2", 1)
    world.meanwhile()
    assert commits(young)
    assert commits(old)


def test_without_serializable_transactions_nothing_is_remembered(world: World) -> None:
    """And what was remembered goes with the last of them, however long it stayed."""
    recent = parts_of(world.store).committer._validator.recent
    world.put("a", 1)
    assert len(recent.commits) == 0
    long_one = world.begin(Isolation.SERIALIZABLE)
    noise(world)
    assert sum(len(keys) for _, keys in recent.commits) <= max(BOUNDS)
    long_one.rollback()
    world.put("a", 2)
    assert len(recent.commits) == 0


@pytest.mark.parametrize("seed", range(4))
def test_long_lived_transactions_agree_with_a_model(world: World, seed: int) -> None:
    """Random reads, then random commits: accepted iff none of the written keys lies in what was read."""
    dice = random.Random(seed)
    names = [f"{number:02d}" for number in range(30)]
    world.fill(**dict.fromkeys(names[::2], 0))
    for _ in range(4):
        tx = world.begin(Isolation.SERIALIZABLE)
        read: set[str] = set()
        for _ in range(dice.randint(0, 3)):
            low, high = sorted(dice.sample(names, 2))
            list(scan(tx, low, high, reverse=dice.random() < 0.5))
            read |= {name for name in names if low <= name < high}
        for name in dice.sample(names, dice.randint(0, 2)):
            get(tx, name)
            read.add(name)
        written: set[str] = set()
        for _ in range(dice.randint(1, 4)):
            with world.store.transaction() as other:
                for name in dice.sample(names, 2):
                    written.add(name)
                    if dice.random() < 0.4:
                        delete(other, name)
                    else:
                        put(other, name, dice.randint(1, 9))
            if dice.random() < 0.5:
                world.meanwhile()
        before = world.rows()
        put(tx, "mine", dice.randint(1, 9))
        accepted = commits(tx)
        assert accepted == written.isdisjoint(read)
        assert {name: number for name, number in rows(world.begin()).items() if name != "mine"} == {
            name: number for name, number in before.items() if name != "mine"
        }
