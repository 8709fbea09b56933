"""SERIALIZABLE refuses a transaction if what it read has changed, and only then: precision locking (C7).

In each story T reads something and writes its own key, another transaction changes something, then T commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import pytest

import lowtide
from lowtide import Isolation
from tests.isolation.world import World, commits, delete, get, put, rows, scan
from tests.support.parts import parts_of

pytestmark = pytest.mark.usefixtures("tiny_chunks")

Read = Callable[[lowtide.Transaction], object]
Change = Callable[[lowtide.Transaction], None]

START = {"b": 1, "d": 1, "f": 1, "h": 1}


def key(name: str) -> Read:
    return lambda tx: get(tx, name)


def ranged(start: str | None, stop: str | None, reverse: bool = False, first: int | None = None) -> Read:
    """A scan, of the ``first`` entries only if that is given."""
    return lambda tx: list(islice(scan(tx, start, stop, reverse), first))


def sets(name: str) -> Change:
    return lambda tx: put(tx, name, 50)


def removes(name: str) -> Change:
    return lambda tx: delete(tx, name)


def comes_and_goes(name: str) -> Change:
    def change(tx: lowtide.Transaction) -> None:
        put(tx, name, 1)
        delete(tx, name)

    return change


CONFLICTS: dict[str, tuple[Read, Change]] = {
    "a key is changed": (key("d"), sets("d")),
    "a key is deleted": (key("d"), removes("d")),
    "a key is set to what it was": (key("d"), lambda tx: put(tx, "d", 1)),
    "an absent key is inserted": (key("e"), sets("e")),
    "an absent key is deleted": (key("e"), removes("e")),
    "an absent key comes and goes": (key("e"), comes_and_goes("e")),
    "a phantom in a range": (ranged("c", "g"), sets("e")),
    "a phantom in a range, backwards": (ranged("c", "g", True), sets("e")),
    "a phantom at the start of a range": (ranged("c", "g"), sets("c")),
    "a phantom at the end of a range": (ranged("c", "g"), sets("fzzz")),
    "a phantom in an empty range": (ranged("i", "j"), sets("i5")),
    "a phantom behind everything": (ranged(None, None), sets("z")),
    "a phantom before everything": (ranged(None, None, True), sets("")),
    "a change in a range": (ranged("c", "g"), sets("f")),
    "a delete from a range": (ranged("c", "g"), removes("f")),
    "a delete from a range, backwards": (ranged("c", "g", True), removes("d")),
    "before where a scan stopped": (ranged(None, None, first=2), sets("c")),
    "on where a scan stopped": (ranged(None, None, first=2), removes("d")),
    "before where a scan stopped, backwards": (ranged(None, None, True, first=2), sets("g")),
    "on where a scan stopped, backwards": (ranged(None, None, True, first=2), sets("f")),
    "behind the last entry, since the scan looked for more": (ranged(None, "z", first=5), sets("i")),
}

PRECISE: dict[str, tuple[Read, Change]] = {
    "a neighbour of a key": (key("d"), sets("d\0")),
    "a neighbour of an absent key": (key("e"), sets("f")),
    "the key that is the range's stop": (ranged("c", "g"), sets("g")),
    "just before a range": (ranged("c", "g"), sets("bzzz")),
    "an empty range": (ranged("i", "j"), sets("j")),
    "a range that is no range": (ranged("d", "d"), sets("d")),
    "a range whose ends are crossed": (ranged("f", "d"), sets("e")),
    "behind where a scan stopped": (ranged(None, None, first=2), sets("e")),
    "right behind where a scan stopped": (ranged(None, None, first=2), sets("d\0")),
    "behind where a scan stopped, a delete": (ranged(None, None, first=2), removes("f")),
    "behind where a scan stopped, backwards": (ranged(None, None, True, first=2), sets("e")),
    "a scan that was never asked for anything": (ranged(None, None, first=0), sets("d")),
    "the same key in another keyspace": (key("d"), lambda tx: tx.keyspace("other").put(b"d", b"")),
    "another keyspace beside a scan of all": (ranged(None, None), lambda tx: tx.keyspace("other").put(b"d", b"")),
    "nothing was read": (lambda tx: None, sets("d")),
}


def story(world: World, read: Read, change: Change) -> bool:
    world.fill(**START)
    tx = world.begin(Isolation.SERIALIZABLE)
    read(tx)
    put(tx, "mine", 1)
    with world.store.transaction(Isolation.READ_COMMITTED) as other:
        change(other)
    world.meanwhile()
    return commits(tx)


@pytest.mark.parametrize("name", CONFLICTS)
def test_what_was_read_and_then_changed_is_a_conflict(world: World, name: str) -> None:
    assert not story(world, *CONFLICTS[name])
    assert world.get("mine") is None


@pytest.mark.parametrize("name", PRECISE)
def test_what_was_not_read_is_no_conflict(world: World, name: str) -> None:
    assert story(world, *PRECISE[name])
    assert world.get("mine") == 1


@pytest.mark.parametrize("name", CONFLICTS)
def test_at_snapshot_none_of_these_is_a_conflict(plain: World, name: str) -> None:
    """The same stories are write skew, which SNAPSHOT allows: so it was the reads that were refused."""
    read, change = CONFLICTS[name]
    plain.fill(**START)
    tx = plain.begin(Isolation.SNAPSHOT)
    read(tx)
    put(tx, "mine", 1)
    with plain.store.transaction() as other:
        change(other)
    assert commits(tx)


@pytest.mark.parametrize("name", CONFLICTS)
@pytest.mark.parametrize("declared", [False, True])
def test_a_transaction_that_only_reads_never_aborts(world: World, name: str, declared: bool) -> None:
    """Whether it says so at begin or not: it reads one instant, and that is where it stands in the serial order."""
    read, change = CONFLICTS[name]
    world.fill(**START)
    tx = world.begin(Isolation.SERIALIZABLE, read_only=declared)
    before = read(tx)
    with world.store.transaction() as other:
        change(other)
    world.meanwhile()
    assert read(tx) == before
    assert tx.commit() == tx.ts


def test_a_read_only_transaction_is_not_even_tracked(plain: World) -> None:
    tx = plain.begin(Isolation.SERIALIZABLE, read_only=True)
    list(scan(tx))
    assert parts_of(plain.store).registry.serializable == {}
    assert tx._tx.reads is None


def test_blind_writes_never_conflict_with_what_others_read(world: World) -> None:
    """A transaction that reads nothing cannot have read stale data: only a write of the same key refuses it."""
    world.fill(**START)
    readers = [world.begin(Isolation.SERIALIZABLE) for _ in range(2)]
    blind = [world.begin(Isolation.SERIALIZABLE) for _ in range(3)]
    for number, tx in enumerate(readers):
        assert rows(tx) == START
        put(tx, f"x{number}", number)
    for number, tx in enumerate(blind):
        put(tx, "bdf"[number], 50)
        delete(tx, f"absent-{number}")
    assert commits(readers[0])
    for tx in blind:
        world.meanwhile()
        assert commits(tx)
    assert not commits(readers[1])


def test_own_writes_that_were_read_back_are_no_reads(world: World) -> None:
    """What they show does not depend on anything committed; the key itself is guarded as a write."""
    world.fill(**START)
    tx = world.begin(Isolation.SERIALIZABLE)
    put(tx, "mine", 1)
    assert get(tx, "mine") == 1
    with tx.savepoint() as savepoint:
        put(tx, "d", 9)
        assert get(tx, "d") == 9
        savepoint.rollback()
    world.put("d", 50)
    world.meanwhile()
    assert commits(tx)


def test_reads_inside_a_savepoint_that_was_rolled_back_still_count(world: World) -> None:
    """The program has seen them, and may have acted on them."""
    world.fill(**START)
    tx = world.begin(Isolation.SERIALIZABLE)
    with tx.savepoint() as savepoint:
        get(tx, "d")
        put(tx, "d", 9)
        savepoint.rollback()
    put(tx, "mine", 1)
    world.put("d", 50)
    world.meanwhile()
    assert not commits(tx)


def test_a_read_that_saw_the_newest_state_is_no_conflict(world: World) -> None:
    """Also where the change is the very last commit before begin, and is still remembered for an older one's sake."""
    world.fill(**START)
    older = world.begin(Isolation.SERIALIZABLE)
    for number in range(4):
        world.put("d", number)
        world.meanwhile()
        tx = world.begin(Isolation.SERIALIZABLE)
        assert rows(tx)["d"] == number
        put(tx, "mine", number)
        assert commits(tx)
    assert rows(older) == START


def test_the_error_names_what_was_read_and_who_changed_it(world: World) -> None:
    world.fill(**START)
    tx = world.begin(Isolation.SERIALIZABLE)
    assert len(list(scan(tx, "c", "g"))) == 2
    put(tx, "mine", 1)
    changed_at = world.put("e", 1)
    world.meanwhile()
    with pytest.raises(lowtide.ConflictError, match="read key b'e' of keyspace 'k'") as caught:
        tx.commit()
    assert (caught.value.snapshot_ts, caught.value.committed_ts) == (tx.ts, changed_at)


def test_two_scans_that_are_half_consumed_in_turn_have_read_what_each_came_to(world: World) -> None:
    world.fill(**START)

    def step(*scans: Iterator[tuple[str, int]]) -> None:
        for entries in scans:
            next(entries)

    tx = world.begin(Isolation.SERIALIZABLE)
    forward, backward = scan(tx), scan(tx, reverse=True)
    step(forward, backward)
    put(tx, "mine-a", 1)
    world.put("e", 1)
    world.meanwhile()
    assert commits(tx), "b and h were read, with what lies before and behind them"
    tx = world.begin(Isolation.SERIALIZABLE)
    forward, backward = scan(tx, None, "i"), scan(tx, None, "i", reverse=True)
    step(forward, backward, forward, backward)
    put(tx, "mine-b", 1)
    world.put("g", 1)
    world.meanwhile()
    assert not commits(tx), "the second step came to f from behind, over g"
