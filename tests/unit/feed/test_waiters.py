"""No waiter sleeps through a commit, and none returns without a reason."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from lowtide.feed.waiters import Waiters
from tests.support.patience import PATIENCE
from tests.support.schedule import Schedule


class Commits:
    """Where commits are published; ``waiting`` threads stand at their gates."""

    def __init__(self) -> None:
        self.last = 0
        self.waiters = Waiters(lambda: self.last)

    def publish(self) -> None:
        self.last += 1
        self.waiters.wake()


class Gates:
    """Counts the gates that were set up, so that a test can wait for a thread to stand at one."""

    def __init__(self, waiters: Waiters) -> None:
        self._waiters = waiters
        self._added = threading.Semaphore(0)
        gates = waiters.gates
        semaphore = self._added

        class Counted(type(gates)):  # type: ignore[misc]
            def append(self, gate: threading.Lock) -> None:
                super().append(gate)
                semaphore.release()

        waiters.gates = Counted(gates)

    def wait_for(self, count: int) -> None:
        for _ in range(count):
            assert self._added.acquire(timeout=PATIENCE)


@pytest.fixture
def commits() -> Commits:
    return Commits()


def test_what_is_committed_already_is_not_waited_for(commits: Commits) -> None:
    commits.last = 5
    assert commits.waiters.wait(4) == 5
    assert not commits.waiters.gates


@pytest.mark.parametrize("timeout", [0, -1, 0.001])
def test_a_wait_ends_with_its_timeout_and_leaves_nothing(commits: Commits, timeout: float) -> None:
    commits.last = 5
    assert commits.waiters.wait(5, timeout) == 5
    assert not commits.waiters.gates


def test_a_commit_between_the_gate_and_the_look_is_seen(commits: Commits) -> None:
    """The committer finds the gate, or the waiter finds the commit: here the latter."""
    with Schedule() as schedule:
        waiting = schedule.start(lambda: commits.waiters.wait(0), "wait.added").arrive()
        commits.publish()  # no gate is there yet
        assert waiting.finish() == 1


def test_a_commit_after_the_look_opens_the_gate(commits: Commits) -> None:
    """The same race from the other side: the waiter has looked, and the commit finds its gate."""
    looked = threading.Event()
    go = threading.Event()

    def published() -> int:
        last = commits.last
        if not looked.is_set():
            looked.set()
            assert go.wait(PATIENCE)
        return last

    waiters = Waiters(published)
    with Schedule() as schedule:
        waiting = schedule.start(lambda: waiters.wait(0))
        assert looked.wait(PATIENCE)
        commits.last = 1
        waiters.wake()
        go.set()
        assert waiting.finish() == 1


def test_every_waiting_thread_is_woken(commits: Commits) -> None:
    gates = Gates(commits.waiters)
    with Schedule() as schedule:
        waiting = [schedule.start(lambda: commits.waiters.wait(0)) for _ in range(5)]
        gates.wait_for(5)
        commits.publish()
        assert [each.finish() for each in waiting] == [1] * 5
    assert not commits.waiters.gates


def test_one_that_waits_for_a_later_commit_waits_on(commits: Commits) -> None:
    gates = Gates(commits.waiters)
    with Schedule() as schedule:
        waiting = schedule.start(lambda: commits.waiters.wait(1))
        gates.wait_for(1)
        commits.publish()
        gates.wait_for(1)  # it looked for itself, and stands at another gate
        commits.publish()
        assert waiting.finish() == 2


@pytest.mark.parametrize("timeout", [None, 600.0])
def test_being_woken_for_somebody_else_is_no_end(commits: Commits, timeout: float | None) -> None:
    gates = Gates(commits.waiters)
    with Schedule() as schedule:
        waiting = schedule.start(lambda: commits.waiters.wait(0, timeout))
        for _ in range(3):
            gates.wait_for(1)
            commits.waiters.wake()
        gates.wait_for(1)
        commits.publish()
        assert waiting.finish() == 1


def test_closing_ends_every_wait_and_every_later_one(commits: Commits) -> None:
    gates = Gates(commits.waiters)
    with Schedule() as schedule:
        waiting = schedule.start(lambda: commits.waiters.wait(0))
        gates.wait_for(1)
        commits.waiters.close()
        assert waiting.finish() == 0
    assert commits.waiters.wait(0) == 0


@pytest.mark.parametrize("how", ["close", "stop"])
def test_an_end_between_the_gate_and_the_look_is_seen(commits: Commits, how: str) -> None:
    stopped = threading.Event()
    end: dict[str, Callable[[], object]] = {"close": commits.waiters.close, "stop": stopped.set}
    with Schedule() as schedule:
        waiting = schedule.start(lambda: commits.waiters.wait(0, None, stopped.is_set), "wait.added").arrive()
        end[how]()
        commits.waiters.wake()
        assert waiting.finish() == 0


def test_one_that_is_stopped_returns_and_the_others_wait_on(commits: Commits) -> None:
    gates = Gates(commits.waiters)
    stopped = threading.Event()
    with Schedule() as schedule:
        one = schedule.start(lambda: commits.waiters.wait(0, None, stopped.is_set))
        other = schedule.start(lambda: commits.waiters.wait(0))
        gates.wait_for(2)
        stopped.set()
        commits.waiters.wake()
        assert one.finish() == 0
        gates.wait_for(1)
        commits.publish()
        assert other.finish() == 1


def test_many_committers_and_waiters_lose_no_wake_up(commits: Commits) -> None:
    """Each waiter asks for the commit after the one that it saw, until it saw the last."""
    rounds = 300

    def follow() -> int:
        seen = 0
        while seen < rounds:
            last = commits.waiters.wait(seen)
            assert last > seen
            seen = last
        return seen

    with Schedule() as schedule:
        waiting = [schedule.start(follow) for _ in range(4)]
        for _ in range(rounds):
            commits.publish()
        assert [each.finish() for each in waiting] == [rounds] * 4
