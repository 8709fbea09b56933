"""The soak itself: a short one passes, a broken engine is convicted, and the ledger detects wrong reports."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.soak.director import ROLES, Director, Plan
from tests.soak.faults import FAULTS
from tests.soak.flatness import ENOUGH, MIB, Samples, judge
from tests.soak.ledger import Ledger
from tests.soak.telling import Broken

CONVICTED_BY = {
    "lost-commit": {
        "a timestamp is given once",
        "a thread reads its own last commit",
        "the feed has what was acknowledged",
        "an instant is the same in every process",
    },
    "half-commit": {
        "a thread's rows are those of its number",
        "the bank's total stays",
        "keyspaces change together",
        "a batch is there as a whole",
        "one of each pair is on duty",
    },
    "blind-collector": {
        "a snapshot sees the same from begin to release",
        "an instant is the same in every process",
        "a thread's rows are those of its number",
        "the bank's total stays",
        "keyspaces change together",
        "a batch is there as a whole",
        "one of each pair is on duty",
    },
}


def test_a_short_soak_passes(tmp_path: Path) -> None:
    result = Director(Plan(seconds=3, owners=3, seed=7, directory=tmp_path, longest_life=1.5)).run()
    assert result.broken is None, result.broken
    assert result.passed
    for what in ("ack", "seen", "reading", "opened"):
        assert result.counts[what], (what, result.counts)


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_a_broken_engine_is_convicted(tmp_path: Path, fault: str) -> None:
    """Which invariant is reported depends on which process checks first."""
    result = Director(Plan(seconds=60, seed=7, directory=tmp_path, fault=fault, longest_life=50)).run()
    assert result.broken is not None, result.counts
    assert not result.passed
    assert result.broken.invariant in CONVICTED_BY[fault]


class _Reaped:
    """Stands where a process stood; counts how often it was killed."""

    role = "reader"

    def __init__(self) -> None:
        self.kills = 0

    def kill(self) -> None:
        self.kills += 1


def test_an_owner_and_its_readers_can_be_due_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the owner can be that of all readers: one that is due with it is not ended a second time."""
    director = Director(Plan(seconds=0, seed=7, directory=tmp_path))
    processes = {place: _Reaped() for place in range(len(ROLES) + 1)}
    monkeypatch.setattr(director, "_processes", processes)
    monkeypatch.setattr(director, "_ends", dict.fromkeys(processes, 1.0))
    monkeypatch.setattr(director, "_chance", Mock(random=lambda: 0.0))  # every chance is taken
    director.end_what_is_due(now=2.0)
    assert [process.kills for process in processes.values()] == [1] * len(processes)


# The ledger


@pytest.fixture
def ledger() -> Ledger:
    """Thread 1 has committed 1 and 2, at commits 2 and 3; a consumer was shown both and acknowledged the first."""
    ledger = Ledger()
    ledger.opened(1, {1: 0})
    ledger.place("mirror", 0)
    ledger.commit("mirror", 1, {1: 0}, "made")
    for number in (1, 2):
        ledger.ack(1, number, number + 1)
        ledger.commit("mirror", number + 1, {1: number}, "a")
    ledger.acked("mirror", 2)
    ledger.seen(3, "x")
    return ledger


def test_a_commit_that_was_under_way_at_a_kill_may_be_there(ledger: Ledger) -> None:
    ledger.opened(4, {1: 3})
    ledger.ack(1, 4, 5)


def test_what_was_shown_and_not_acknowledged_is_shown_again(ledger: Ledger) -> None:
    ledger.place("mirror", 2)
    ledger.commit("mirror", 3, {1: 2}, "a")
    ledger.caught_up(3)


@pytest.mark.parametrize(
    ("invariant", "told"),
    [
        ("what was acknowledged is there", ("opened", 3, {1: 1})),
        ("the store holds only what was written", ("opened", 9, {1: 4})),
        ("time does not go back", ("opened", 2, {1: 2})),
        ("a thread counts its commits", ("ack", 1, 4, 5)),
        ("a timestamp is given once", ("ack", 1, 3, 3)),
        ("an instant is the same in every process", ("seen", 3, "y")),
        ("a consumer goes on where it was", ("place", "mirror", 1)),
        ("a consumer goes on where it was", ("place", "mirror", 4)),
        ("the feed shows each commit once, in order", ("commit", "mirror", 5, {1: 3}, "b")),
        ("the feed shows each commit once, in order", ("commit", "mirror", 3, {1: 2}, "a")),
        ("the feed has each commit of each thread", ("commit", "mirror", 4, {1: 4}, "b")),
        ("the feed ends with the last commit", ("caught_up", 4)),
    ],
)
def test_the_ledger_contradicts(ledger: Ledger, invariant: str, told: tuple[object, ...]) -> None:
    method, *values = told
    with pytest.raises(Broken) as caught:
        getattr(ledger, str(method))(*values)
    assert caught.value.invariant == invariant


def test_the_feed_must_show_what_was_acknowledged_and_the_same_to_everybody(ledger: Ledger) -> None:
    ledger.ack(1, 3, 4)
    with pytest.raises(Broken, match="the feed has what was acknowledged"):
        ledger.commit("mirror", 4, {2: 1}, "b")
    ledger.place("index", 0)
    with pytest.raises(Broken, match="the feed shows all consumers the same"):
        ledger.commit("index", 1, {1: 0}, "other")


# Memory and disk


def test_what_grows_with_time_is_not_flat() -> None:
    level = [100 * MIB] * (2 * ENOUGH)
    growing = [each * MIB for each in range(2 * ENOUGH)]
    memory, disk = judge(Samples({1: growing[:9], 2: level}, growing))
    assert memory.flat
    assert not disk.flat
    memory, disk = judge(Samples({1: growing}, level))
    assert not memory.flat
    assert disk.flat
    assert judge(Samples({1: level[:9]}, growing[:9])) == []
