"""The scheduler itself: one worker at a time, every interleaving once, locks that are waited for without a clock."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import pytest

from tests.support.choices import Choices, DepthFirst, Diverged, InTurn, Replay, Scattered, Seeded
from tests.support.locks import ScheduledLock, ScheduledRLock
from tests.support.scheduler import Deadlock, Scheduler, Step, workers_of


def interleave(choices: Choices, steps: int = 3) -> tuple[str, Scheduler]:
    """Two workers that each write their letter several times."""
    scheduler = Scheduler(choices)
    written: list[str] = []

    def write(letter: str) -> None:
        for number in range(steps):
            if number:
                scheduler.point(f"{letter}{number}")
            written.append(letter)

    scheduler.add("A", lambda: write("a"))
    scheduler.add("B", lambda: write("b"))
    scheduler.run()
    return "".join(written), scheduler


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_an_enumeration_has_every_interleaving_once(steps: int) -> None:
    found = [interleave(choices, steps)[0] for choices in DepthFirst().all()]
    assert len(found) == len(set(found)) == comb(2 * steps, steps)


def test_a_bound_counts_the_turns_that_were_taken_away() -> None:
    found = {bound: [interleave(choices)[0] for choices in DepthFirst(bound).all()] for bound in range(3)}
    assert found[0] == ["aaabbb", "bbbaaa"]
    assert set(found[1]) == {"aaabbb", "bbbaaa", "abbbaa", "aabbba", "baaabb", "bbaaab"}
    assert set(found[1]) < set(found[2])


def test_a_sample_has_interleavings_within_the_bound_and_is_the_same_each_time() -> None:
    every = {interleave(choices)[0] for choices in DepthFirst(2).all()}
    found = [interleave(choices)[0] for choices in Scattered(2, 40, sample=0).all()]
    assert found == [interleave(choices)[0] for choices in Scattered(2, 40, sample=0).all()]
    assert found != [interleave(choices)[0] for choices in Scattered(2, 40, sample=1).all()]
    assert len(found) == 40
    assert len(every) / 2 < len(set(found)) <= len(every)
    assert set(found) <= every


def test_the_same_choices_give_the_same_run() -> None:
    for seed in range(20):
        written, scheduler = interleave(Seeded(seed))
        again, other = interleave(Seeded(seed))
        assert (written, scheduler.trace) == (again, other.trace)
        replayed, third = interleave(Replay(workers_of(scheduler.trace)))
        assert (written, scheduler.trace) == (replayed, third.trace)
    assert len({interleave(Seeded(seed))[0] for seed in range(20)}) > 5


def test_a_recorded_schedule_that_cannot_be_followed_says_so() -> None:
    with pytest.raises(Diverged, match="ends after 2 steps"):
        interleave(Replay(["A", "B"]))
    with pytest.raises(Diverged, match="step 4 is of A"):
        interleave(Replay(["A", "A", "A", "A"]))


def test_an_enumeration_that_is_led_elsewhere_says_so() -> None:
    search = iter(DepthFirst().all())
    interleave(next(search))
    with pytest.raises(Diverged):
        interleave(_NowC(next(search)))


class _NowC:
    """Claims that another worker can run."""

    def __init__(self, choices: DepthFirst) -> None:
        self._choices = choices

    def pick(self, current: str | None, enabled: Sequence[str]) -> str:
        return self._choices.pick(current, [*enabled, "C"])


def test_a_worker_that_waits_for_a_lock_cannot_be_chosen_before_it_is_free() -> None:
    orders = set()
    for choices in DepthFirst().all():
        scheduler, lock, order = Scheduler(choices), ScheduledLock(), list[str]()

        def hold(
            name: str, scheduler: Scheduler = scheduler, lock: ScheduledLock = lock, order: list[str] = order
        ) -> None:
            with lock:
                order.append(f"{name} in")
                scheduler.point("inside")
                order.append(f"{name} out")

        for name in "AB":
            scheduler.add(name, lambda name=name, hold=hold: hold(name))  # type: ignore[misc]
        scheduler.run()
        orders.add(tuple(order))
        assert not lock.locked()
    assert orders == {("A in", "A out", "B in", "B out"), ("B in", "B out", "A in", "A out")}


def test_a_deadlock_is_recognised_and_told() -> None:
    outcomes = []
    for choices in DepthFirst().all():
        scheduler, first, second = Scheduler(choices), ScheduledLock(), ScheduledLock()

        def take(one: ScheduledLock, other: ScheduledLock, scheduler: Scheduler = scheduler) -> None:
            with one:
                scheduler.point("between")
                with other:
                    pass

        scheduler.add("A", lambda take=take, a=first, b=second: take(a, b))  # type: ignore[misc]
        scheduler.add("B", lambda take=take, a=first, b=second: take(b, a))  # type: ignore[misc]
        try:
            scheduler.run()
            outcomes.append("")
        except Deadlock as error:
            outcomes.append(str(error))
            assert scheduler.trace.count(Step("A", "start")) == 1
        assert not first.locked(), "what a worker held is given up when it is ended"
        assert not second.locked()
    assert "" in outcomes
    assert any("A stands at lock" in text and "B stands at lock" in text for text in outcomes)


def test_what_a_worker_raises_is_raised_when_all_have_ended() -> None:
    scheduler, ended = Scheduler(InTurn()), list[str]()

    def fail() -> None:
        raise KeyError("worker")

    scheduler.add("A", fail)
    scheduler.add("B", lambda: ended.append("B"))
    with pytest.raises(KeyError):
        scheduler.run()
    assert ended == ["B"]


def test_the_locks_behave_as_those_of_threading() -> None:
    lock, again = ScheduledLock(), ScheduledRLock()
    assert lock.acquire()
    assert lock.locked()
    assert not lock.acquire(blocking=False)
    lock.release()
    for each in (lock, again):
        with pytest.raises(RuntimeError):
            each.release()
    with again, again:
        assert again.locked()
    assert not again.locked()
