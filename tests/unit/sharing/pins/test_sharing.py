"""Shared pins: found or taken in one transaction, and removed with their last user."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from lowtide.engine.base.environment import Base
from lowtide.engine.base.leases import Leases
from lowtide.errors import SnapshotExpired, UsageError
from lowtide.system.identity import Identity
from tests.support.clocks import ManualClock
from tests.unit.engine.base.bases import PREFIX, new_base

OTHER = bytes([*PREFIX[:-1], PREFIX[-1] + 1])


@pytest.fixture
def base() -> Iterator[Base]:
    with new_base() as base:
        base.write(lambda txn: base.put_boundary(txn, 5))
        base.write(lambda txn: base.put_keyspaces(txn, {"k": PREFIX, "l": OTHER}))
        yield base


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def leases(base: Base, clock: ManualClock) -> Leases:
    return Leases(base, clock.time)


def test_the_second_user_joins_the_pin_of_the_first(leases: Leases, clock: ManualClock) -> None:
    _, first = leases.share(("a", "one"), "p", 10, keyspaces=["k"])
    clock.advance(4)
    name, second = leases.share(("b", "two"), "q", 20, keyspaces=["l"])
    assert (name, second.id, second.ts, second.expires) == ("p", first.id, 5, 1024.0)
    assert (second.keyspaces, second.prefixes) == (("k", "l"), (PREFIX, OTHER))
    assert (first.owner, second.owner) == ("one", "one and 1 more")
    assert leases.all() == [("p", second)]


def test_users_who_come_at_once_have_one_pin(leases: Leases) -> None:
    with ThreadPoolExecutor(8) as pool:
        names = {name for name, _ in pool.map(lambda n: leases.share((f"u{n}", "x"), f"p{n}", 10), range(32))}
    ((name, row),) = leases.all()
    assert names == {name}
    assert {token for token, _ in row.users} == {f"u{n}" for n in range(32)}


def test_a_pin_of_everything_stays_one_of_everything(leases: Leases) -> None:
    leases.share(("a", ""), "p", 10, keyspaces=["k"])
    _, row = leases.share(("b", ""), "q", 10)
    assert (row.keyspaces, row.prefixes) == (None, None)
    _, row = leases.share(("c", ""), "q", 10, keyspaces=["l"])
    assert (row.keyspaces, row.prefixes) == (None, None)


def test_another_commit_another_process_a_dead_pin_and_a_users_own_are_not_shared(
    base: Base, leases: Leases, clock: ManualClock
) -> None:
    leases.take("own", 1000)
    leases.share(("a", ""), "p", 10)
    elsewhere = Identity("another boot", "ns", 1, 1)
    assert leases.share(("b", ""), "q", 10, process=elsewhere)[0] == "q"
    clock.advance(10)
    assert leases.share(("c", ""), "r", 10)[0] == "r"
    base.write(lambda txn: base.put_boundary(txn, 6))
    name, row = leases.share(("d", ""), "s", 10)
    assert (name, row.ts) == ("s", 6)


def test_beside_another_pin_only_what_that_holds_is_shared(base: Base, leases: Leases) -> None:
    held = leases.take("old", 100, keyspaces=["k"])
    base.write(lambda txn: base.put_boundary(txn, 9))
    name, row = leases.share(("a", ""), "p", 10, beside=("old", held), keyspaces=["k"])
    assert (name, row.ts) == ("p", 5)
    with pytest.raises(UsageError, match="holds only 'k'"):
        leases.share(("b", ""), "q", 10, beside=("old", held), keyspaces=["l"])
    assert leases.find("p").keyspaces == ("k",)


def test_it_goes_with_the_last_user_and_is_noted_for_the_owner(leases: Leases) -> None:
    for token in "abc":
        leases.share((token, f"user {token}"), "p", 10)
    assert leases.leave("a") == []
    assert leases.find("p").owner == "user b and 1 more"
    assert leases.leave("a") == leases.leave("nobody") == []
    assert leases.leave("b") == []
    assert [row.ts for row in leases.leave("c")] == [5]
    assert leases.all() == []
    assert leases.removed_elsewhere() == [5]


def test_a_user_has_a_part_in_one_pin(base: Base, leases: Leases) -> None:
    leases.share(("a", ""), "p", 10)
    base.write(lambda txn: base.put_boundary(txn, 6))
    leases.share(("a", ""), "q", 10)
    assert [name for name, _ in leases.all()] == ["q"]


def test_a_pin_that_is_joined_stays_with_its_owner_and_is_left_to_its_users(leases: Leases) -> None:
    own = leases.take("own", 10, where="line 1")
    joined = leases.join("own", ("a", "user a"), 100)
    assert (joined.id, joined.ttl, joined.owner) == (own.id, 100, own.owner)
    assert leases.leave("a") == []
    assert leases.find("own").users == ()
    leases.join("own", ("b", "user b"), 100)
    assert leases.hand_over("own", own.id, "left") is None
    ((name, row),) = leases.all()
    assert (name, row.id, row.owner) == ("left", own.id, "user b")
    assert [each.ts for each in leases.leave("b")] == [5]


def test_without_users_a_pin_that_is_handed_over_is_removed(leases: Leases) -> None:
    own = leases.take("own", 10)
    assert leases.hand_over("own", b"another", "left") is None
    assert leases.hand_over("own", own.id, "left") == own
    assert leases.all() == []
    with pytest.raises(SnapshotExpired, match="does not exist"):
        leases.join("own", ("a", ""), 10)
