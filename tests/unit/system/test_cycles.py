"""Python's cyclic collector is paused for many objects, and left as it was."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from lowtide.system.cycles import MANY, without_collector


@pytest.fixture(autouse=True)
def collecting() -> Iterator[None]:
    gc.enable()
    yield
    gc.unfreeze()
    gc.enable()


def test_it_is_paused_for_many_objects_and_runs_again_afterwards() -> None:
    with without_collector(MANY):
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(KeyError), without_collector(MANY):
        raise KeyError
    assert gc.isenabled()


def test_it_is_not_paused_for_a_few() -> None:
    with without_collector(MANY - 1):
        assert gc.isenabled()


def test_a_program_that_has_switched_it_off_finds_it_off() -> None:
    gc.disable()
    with without_collector(MANY):
        pass
    assert not gc.isenabled()


def test_what_was_made_meanwhile_is_in_the_oldest_generation() -> None:
    with without_collector(MANY):
        made = [[number] for number in range(MANY)]
    assert not {id(each) for each in gc.get_objects(generation=0)} & set(map(id, made))


def test_what_a_program_has_frozen_stays_frozen() -> None:
    gc.freeze()
    before = gc.get_freeze_count()
    with without_collector(MANY):
        pass
    assert gc.get_freeze_count() >= before > 0
