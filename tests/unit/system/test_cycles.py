"""Python's cyclic collector is paused for many objects, and left as it was."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from lowtide.system import cycles
from lowtide.system.cycles import MANY, adding, count_as_old, without_collector
from tests.crash.interrupts import Places, interrupted


@pytest.fixture(autouse=True)
def collecting(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is frozen at first, whatever the test run has frozen. That is frozen again afterwards: collections of the
    tests that follow would go through all of it."""
    monkeypatch.setattr(cycles, "_program_freezes", False)
    gc.unfreeze()
    gc.enable()
    yield
    gc.enable()
    gc.freeze()


def test_it_is_paused_and_runs_again_afterwards() -> None:
    with without_collector():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(KeyError), without_collector():
        raise KeyError
    assert gc.isenabled()


def test_it_is_paused_for_many_objects() -> None:
    with adding(MANY):
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_is_not_paused_for_a_few() -> None:
    with adding(MANY - 1):
        assert gc.isenabled()


def test_a_program_that_has_switched_it_off_finds_it_off() -> None:
    gc.disable()
    with adding(MANY), without_collector():
        pass
    assert not gc.isenabled()


def test_an_interrupt_anywhere_leaves_it_running() -> None:
    tried, reached = Places(), ["somewhere"]
    while reached:
        with interrupted(tried, KeyboardInterrupt()) as reached:
            try:
                with adding(MANY):
                    pass
            except KeyboardInterrupt:
                pass
        assert gc.isenabled(), f"after an interrupt in {reached}"
    assert len(tried) > 5, "it was hardly traced"


def test_what_was_made_meanwhile_is_in_the_oldest_generation() -> None:
    with adding(MANY):
        made = [[number] for number in range(MANY)]
    assert not {id(each) for each in gc.get_objects(generation=0)} & set(map(id, made))


def test_what_a_program_has_frozen_stays_frozen_and_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen = [object()]
    gc.freeze()
    with adding(MANY):
        pass
    assert gc.is_tracked(frozen)
    assert not any(each is frozen for each in gc.get_objects()), "it is in a generation again"
    monkeypatch.delattr(gc, "get_freeze_count")
    count_as_old()
