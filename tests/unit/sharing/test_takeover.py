"""Asking the owner, or taking the store over. An owner that is closing no longer answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import lowtide
from lowtide.errors import StoreLocked
from lowtide.sharing.owner import Owner, OwnerGone, reach_owner
from lowtide.sharing.takeover import ask_or_take_over
from lowtide.store.owned import OwnedStore
from tests.conftest import OpenStore
from tests.support.clocks import ManualClock


def test_an_owner_that_is_closing_answers_nobody_any_more(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer would be that the store is closed, which does not help a process that can take it over."""
    store = open_store()
    owner = reach_owner(store.path)
    assert owner is not None
    assert owner.ask("checkpoint") == 0
    refuse, told = OwnedStore._refuse_everything, []

    def ask_when_refused(parts: OwnedStore, reason: str) -> None:
        refuse(parts, reason)
        with pytest.raises(lowtide.Error) as caught:
            owner.ask("checkpoint")
        told.append((caught.type, reach_owner(store.path)))

    monkeypatch.setattr(OwnedStore, "_refuse_everything", ask_when_refused)
    store.close()
    assert told == [(OwnerGone, None)]
    owner.close()


def test_a_snapshot_that_is_asked_of_a_closing_owner_is_had_by_taking_the_store_over(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store()
    store.keyspace("k").put(b"x", b"1")
    checkpoint = OwnedStore.checkpoint

    def close_then_checkpoint(parts: OwnedStore, *, hurry: bool = False) -> None:
        monkeypatch.undo()
        parts.close()  # another thread of the owner does, just after the question came in
        checkpoint(parts, hurry=hurry)

    monkeypatch.setattr(OwnedStore, "checkpoint", close_then_checkpoint)
    with lowtide.open_snapshot(store.path) as snapshot:
        assert snapshot.keyspace("k").get(b"x") == b"1"
    assert parts_closed(store)


def parts_closed(store: lowtide.Store) -> bool:
    return bool(store._backend.closed)


class Patience:
    """What ``ask_or_take_over`` gets, on a clock that only sleeping moves."""

    def __init__(self, seconds: float) -> None:
        self.clock = ManualClock()
        self.seconds = seconds
        self.failures: list[lowtide.Error] = []

    def deadline(self) -> float:
        return self.clock.monotonic() + self.seconds

    def timed_out(self, failure: lowtide.Error) -> str:
        self.failures.append(failure)
        return "timed out"

    def run(self, path: Path, ask: Callable[[Owner], str], take_over: Callable[[], str]) -> str:
        return ask_or_take_over(
            path, ask, take_over, deadline=self.deadline, timed_out=self.timed_out, clock=self.clock
        )


def not_called(*arguments: object) -> str:
    raise AssertionError("this is not to be called")


def test_a_living_owner_is_asked_and_a_store_without_one_is_taken_over(open_store: OpenStore) -> None:
    store = open_store()
    assert Patience(1).run(store.path, lambda owner: str(owner.ask("checkpoint")), not_called) == "0"
    store.close()
    assert Patience(1).run(store.path, not_called, lambda: "taken over") == "taken over"


def test_an_owner_that_dies_is_asked_again_until_the_deadline(open_store: OpenStore) -> None:
    store, answers = open_store(), ["died", "died", "answered"]

    def ask(owner: Owner) -> str:
        if (answer := answers.pop(0)) == "died":
            raise OwnerGone("it died")
        return answer

    assert Patience(1).run(store.path, ask, not_called) == "answered"
    answers += ["died"] * 1000
    impatient = Patience(0.1)
    assert impatient.run(store.path, ask, not_called) == "timed out"
    assert [str(each) for each in impatient.failures] == ["it died"]
    assert 5 < 1000 - len(answers) < 15, "it is asked every 10 ms"


def test_a_lock_that_stays_is_waited_for_and_other_errors_are_not(tmp_path: Path) -> None:
    tries: list[None] = []

    def locked() -> str:
        tries.append(None)
        raise StoreLocked(tmp_path, "another process")

    waiting = Patience(1)
    assert waiting.run(tmp_path, not_called, locked) == "timed out"
    assert len(tries) > 50
    assert [type(each) for each in waiting.failures] == [StoreLocked]

    def broken() -> str:
        raise lowtide.UsageError("no")

    with pytest.raises(lowtide.UsageError):
        waiting.run(tmp_path, not_called, broken)


def test_the_deadline_is_counted_from_the_first_failure(open_store: OpenStore) -> None:
    """A request may take long before its owner dies; then there is still time for the next owner."""
    store, patience = open_store(), Patience(1)

    def slow_then_quick(owner: Owner) -> str:
        if patience.clock.monotonic() > 1500:
            return "answered"
        patience.clock.sleep(1000)
        raise OwnerGone("it died at last")

    assert patience.run(store.path, slow_then_quick, not_called) == "answered"
