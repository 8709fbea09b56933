"""Leases: taken, renewed, removed and expired, each in one transaction, with a clock that the test advances."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lowtide.engine.base.environment import Base
from lowtide.engine.base.leases import Leases, check_ttl, describe_owner
from lowtide.engine.base.names import check_keyspaces, check_name
from lowtide.errors import SnapshotExpired, UsageError
from tests.support.clocks import ManualClock
from tests.support.patience import PATIENCE
from tests.unit.engine.base.bases import PREFIX, new_base


@pytest.fixture
def base() -> Iterator[Base]:
    with new_base() as base:
        base.write(lambda txn: base.put_boundary(txn, 5))
        base.write(lambda txn: base.put_keyspaces(txn, {"k": PREFIX}))
        yield base


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def leases(base: Base, clock: ManualClock) -> Leases:
    return Leases(base, clock.time)


def test_a_pin_is_taken_at_the_boundary(leases: Leases, clock: ManualClock) -> None:
    row = leases.take("p", 10)
    assert (row.ts, row.taken, row.renewed, row.expires) == (5, 1000.0, 1000.0, 1010.0)
    assert leases.all() == [("p", row)]


def test_or_below_it_where_the_caller_holds_that_by_other_means(leases: Leases) -> None:
    assert leases.take("p", 10, at=3).ts == 3


def test_never_above_it(leases: Leases) -> None:
    with pytest.raises(AssertionError):
        leases.take("p", 10, at=6)
    assert leases.all() == []


def test_a_name_in_use_is_refused_with_what_can_be_done(leases: Leases, clock: ManualClock) -> None:
    row = leases.take("p", 10)
    clock.advance(4)
    with pytest.raises(UsageError, match="exists, at commit 5, for another 6 seconds; renew it, remove it"):
        leases.take("p", 10)
    assert leases.all() == [("p", row)]


def test_the_name_of_an_expired_pin_is_free_and_the_new_pin_is_another_one(leases: Leases, clock: ManualClock) -> None:
    old = leases.take("p", 10)
    clock.advance(10)
    new = leases.take("p", 10)
    assert new.id != old.id
    assert leases.find("p").id == new.id
    with pytest.raises(SnapshotExpired, match="does not exist"):
        leases.find("p", old.id)
    with pytest.raises(SnapshotExpired, match="does not exist"):
        leases.renew("p", old.id)
    assert leases.remove("p", old.id) is None
    assert leases.all() == [("p", new)]


def test_it_lives_up_to_its_last_moment_and_not_in_it(leases: Leases, clock: ManualClock) -> None:
    leases.take("p", 10)
    clock.advance(9.999)
    leases.find("p")
    clock.advance(0.001)
    with pytest.raises(SnapshotExpired, match=r"at commit 5 expired 0\.0 seconds ago"):
        leases.find("p")


def test_renewal_counts_from_now_for_as_long_as_before_or_as_it_says(leases: Leases, clock: ManualClock) -> None:
    row = leases.take("p", 10)
    clock.advance(6)
    assert leases.renew("p", row.id).expires == 1016.0
    assert leases.renew("p", row.id, 100).expires == 1106.0
    assert leases.renew("p", None).expires == 1106.0
    assert leases.renew("p", row.id, 1).expires == 1007.0, "shorter, too"
    assert leases.find("p").taken == 1000.0


def test_one_that_has_expired_is_not_brought_back(leases: Leases, clock: ManualClock) -> None:
    """What it held may be gone, even if its row is still there."""
    row = leases.take("p", 10)
    clock.advance(10)
    with pytest.raises(SnapshotExpired):
        leases.renew("p", row.id, 100)
    assert leases.all() == [("p", row)]


def test_a_removed_pin_is_gone_and_removing_it_again_says_so(leases: Leases) -> None:
    row = leases.take("p", 10)
    assert leases.remove("p") == row
    assert leases.remove("p") is None
    with pytest.raises(SnapshotExpired, match="removed, or has expired"):
        leases.find("p")


def test_only_those_whose_time_is_over_expire(leases: Leases, clock: ManualClock) -> None:
    short, long = leases.take("short", 10), leases.take("long", 20)
    assert leases.expire() == []
    clock.advance(10)
    assert leases.expire() == [short]
    assert leases.expire() == []
    assert leases.all() == [("long", long)]


def test_a_clock_that_is_set_back_lets_pins_live_longer_and_one_set_forward_ends_them(
    leases: Leases, clock: ManualClock
) -> None:
    row = leases.take("p", 10)
    clock.advance(-500)
    assert leases.expire() == []
    assert leases.renew("p", row.id).expires == 510.0
    clock.advance(5000)
    with pytest.raises(SnapshotExpired):
        leases.find("p")
    assert len(leases.expire()) == 1


def test_a_scope_is_kept_with_the_prefixes_of_the_keyspaces_that_exist(leases: Leases) -> None:
    row = leases.take("p", 10, keyspaces=["k", "later", "k"])
    assert (row.keyspaces, row.prefixes) == (("k", "later"), (PREFIX,))


def test_a_pin_beside_another_lies_where_that_lies(leases: Leases, base: Base) -> None:
    first = leases.take("first", 10)
    base.write(lambda txn: base.put_boundary(txn, 8))
    assert leases.take("second", 10, beside=("first", first)).ts == 5


def test_a_pin_beside_a_scoped_one_holds_no_more_than_that(leases: Leases) -> None:
    scoped = leases.take("scoped", 10, keyspaces=["k"])
    assert leases.take("same", 10, beside=("scoped", scoped)).keyspaces == ("k",)
    with pytest.raises(UsageError, match="holds only 'k'"):
        leases.take("more", 10, beside=("scoped", scoped), keyspaces=["k", "other"])
    whole = leases.take("whole", 10)
    assert leases.take("part", 10, beside=("whole", whole), keyspaces=["k"]).keyspaces == ("k",)


@pytest.mark.parametrize("end", ["removed", "expired", "taken again"])
def test_no_pin_is_taken_beside_one_that_has_ended(leases: Leases, clock: ManualClock, end: str) -> None:
    first = leases.take("first", 10)
    if end == "expired":
        clock.advance(10)
    else:
        leases.remove("first")
    if end == "taken again":
        leases.take("first", 10)
    with pytest.raises(SnapshotExpired):
        leases.take("second", 10, beside=("first", first))
    assert "second" not in dict(leases.all())


def test_a_timestamp_is_held_by_a_pin_of_everything_if_there_is_one(leases: Leases, clock: ManualClock) -> None:
    leases.take("a scoped", 10, keyspaces=["k"])
    assert leases.holder_of(5)[0] == "a scoped"
    leases.take("b whole", 5)
    assert leases.holder_of(5)[0] == "b whole"
    clock.advance(5)
    assert leases.holder_of(5)[0] == "a scoped"
    with pytest.raises(SnapshotExpired, match="no live snapshot or pin"):
        leases.holder_of(4)
    clock.advance(5)
    with pytest.raises(SnapshotExpired):
        leases.holder_of(5)


# What the owner of the store learns of


def test_the_owner_learns_of_pins_that_others_removed_and_not_of_its_own(base: Base, clock: ManualClock) -> None:
    owner, other = Leases(base, clock.time, owner=True), Leases(base, clock.time)
    for leases in (owner, other):
        leases.take("p", 10)
        assert not owner.removed_elsewhere()
        leases.remove("p")
    assert owner.removed_elsewhere()
    assert not owner.removed_elsewhere()
    other.remove("p")  # which is not there
    assert not owner.removed_elsewhere()


def test_the_owner_learns_of_an_expired_pin_whose_name_was_taken_again(base: Base, clock: ManualClock) -> None:
    owner, other = Leases(base, clock.time, owner=True), Leases(base, clock.time)
    other.take("p", 10)
    clock.advance(10)
    other.take("p", 10)
    assert owner.removed_elsewhere()


def test_each_timestamp_is_told_once(base: Base, clock: ManualClock) -> None:
    other = Leases(base, clock.time)
    for name in ("p", "q"):
        other.take(name, 10)
        other.remove(name)
    assert Leases(base, clock.time, owner=True).removed_elsewhere() == [5]


# Arguments


@pytest.mark.parametrize("name", ["", None, 5, b"bytes", "x" * 201, "é" * 101, "\ud800"])
def test_what_is_no_name_is_refused(leases: Leases, name: Any) -> None:
    with pytest.raises(UsageError, match="pin"):
        leases.take(name, 10)
    with pytest.raises(UsageError):
        leases.find(name)


def test_the_longest_name_is_allowed(leases: Leases) -> None:
    check_name("é" * 100)
    assert leases.take("é" * 100, 10).ts == 5


@pytest.mark.parametrize("ttl", [0, -1, True, None, "10", float("nan"), float("inf"), 1e11])
def test_what_is_no_time_to_live_is_refused(leases: Leases, ttl: Any) -> None:
    with pytest.raises(UsageError, match="ttl"):
        check_ttl(ttl)
    with pytest.raises(UsageError):
        leases.take("p", ttl)
    row = leases.take("p", 10)
    if ttl is not None:
        with pytest.raises(UsageError):
            leases.renew("p", row.id, ttl)


@pytest.mark.parametrize("keyspaces", [[], [""], [5], 5, ["a", None], [["a"]], ["\ud800"], ["x" * 201], [b"k"]])
def test_what_names_no_keyspaces_is_refused(keyspaces: Any) -> None:
    with pytest.raises(UsageError, match="names of keyspaces"):
        check_keyspaces(keyspaces)


def test_one_keyspace_needs_no_list() -> None:
    assert check_keyspaces("users") == ("users",)
    assert check_keyspaces(None) is None
    assert check_keyspaces(iter(["b", "a", "b"])) == ("b", "a")


def test_the_owner_of_a_pin_is_described_by_process_program_and_line() -> None:
    assert "process " in describe_owner("")
    assert "report.py:7" in describe_owner("report.py:7")


# Waiting


def test_what_is_refused_waits_for_nobody_who_reads_the_base_for_long(base: Base, leases: Leases) -> None:
    """verify and backups hold ``steady`` for minutes. A thread that waited for it inside a write would block all
    writers, and their leases would expire."""
    taken = leases.take("p", 10)

    def outcomes() -> list[str]:
        attempts: list[Callable[[], object]] = [
            lambda: leases.take("p", 10),
            lambda: leases.renew("gone", None),
            lambda: leases.renew("p", b"another"),
            lambda: leases.take("q", 10, beside=("gone", taken)),
        ]
        found = []
        for attempt in attempts:
            with pytest.raises((UsageError, SnapshotExpired)) as caught:
                attempt()
            found.append(caught.type.__name__)
        return found

    with ThreadPoolExecutor(1) as pool, base.steady:
        refused = pool.submit(outcomes)
        assert refused.result(PATIENCE) == ["UsageError", *["SnapshotExpired"] * 3]
    assert leases.all() == [("p", taken)]


def test_a_renewal_is_judged_by_when_it_was_asked_for(
    base: Base, leases: Leases, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for LMDB's writers, a long checkpoint for example; while the row is there, nothing was lost."""
    leases.take("p", 10)
    write = Base.write

    def write_later(*arguments: Any, **named: Any) -> Any:
        clock.advance(20)
        return write(*arguments, **named)

    monkeypatch.setattr(Base, "write", write_later)
    assert leases.renew("p", None).expires == 1030.0
    clock.advance(10)
    with pytest.raises(SnapshotExpired):
        leases.renew("p", None)


def test_what_is_refused_leaves_nothing_behind(leases: Leases, clock: ManualClock) -> None:
    """Its transaction is committed, since a commit never waits. So nothing may have been written before."""
    old = leases.take("p", 10)
    clock.advance(10)
    with pytest.raises(SnapshotExpired):
        leases.take("p", 10, beside=("gone", old))
    assert leases.all() == [("p", old)]
    assert leases.removed_elsewhere() == []


def test_what_is_known_of_a_lease_is_compared_with_its_row_each_time(leases: Leases, clock: ManualClock) -> None:
    lease = leases.take("l", 10, writer=True)
    for _ in range(2):
        assert leases.leased_from("l", lease.id) == lease.ts
        assert leases.leased_from("l", b"another!") is None
        leases.renew("l", lease.id)
    leases.remove("l", lease.id)
    assert leases.leased_from("l", lease.id) is None
    other = leases.take("l", 10, writer=True)
    assert leases.leased_from("l", lease.id) is None
    assert leases.leased_from("l", other.id) == other.ts
    leases.remove("l")
    plain = leases.take("l", 10)
    assert leases.leased_from("l", plain.id) is None
