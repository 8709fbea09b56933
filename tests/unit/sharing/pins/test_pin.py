"""A pin as its holder sees it."""

from __future__ import annotations

import pytest

import lowtide
from lowtide.engine.base.environment import Base
from lowtide.engine.base.leases import Leases
from lowtide.sharing.pins.pin import Pin
from tests.support.clocks import ManualClock
from tests.unit.engine.base.bases import new_base


def make(base: Base, clock: ManualClock) -> tuple[Pin, Leases, list[int]]:
    leases = Leases(base, clock.time)
    released: list[int] = []
    return Pin(leases, "p", leases.take("p", 10), released.append), leases, released


def test_it_tells_what_it_holds_and_for_whom() -> None:
    with new_base() as base:
        pin, _, _ = make(base, ManualClock())
        assert (pin.name, pin.ts, pin.keyspaces, pin.taken, pin.expires) == ("p", 0, None, 1000.0, 1010.0)
        assert pin.owner.startswith("process ")
        assert repr(pin) == "<pin 'p' at 0>"


def test_the_end_of_its_block_removes_it_and_tells_the_collector_once() -> None:
    with new_base() as base:
        pin, leases, released = make(base, ManualClock())
        with pin:
            assert released == []
        pin.release()
        assert (leases.all(), released) == ([], [0])


def test_renewing_moves_its_end() -> None:
    clock = ManualClock()
    with new_base() as base:
        pin, _, _ = make(base, clock)
        clock.advance(5)
        pin.renew()
        assert pin.expires == 1015.0
        clock.advance(10)
        with pytest.raises(lowtide.SnapshotExpired):
            pin.renew()


def test_it_neither_removes_nor_renews_another_pin_that_took_its_name() -> None:
    clock = ManualClock()
    with new_base() as base:
        pin, leases, released = make(base, clock)
        clock.advance(10)
        other = leases.take("p", 10)
        pin.release()
        with pytest.raises(lowtide.SnapshotExpired):
            pin.renew(100)
        assert (leases.all(), released) == ([("p", other)], [])
