"""An interrupt in the middle of compiled code leaves nothing registered, and no commit half done.

Signals are handled between the instructions of interpreted code. Compiled code has none, so an interrupt reaches it
only through the functions that it calls: here the clock, which a begin and a commit ask for the time. tests/crash
interrupts the other functions, at every instruction.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from threading import get_ident
from types import FrameType

import pytest

import lowtide
from tests.conftest import OpenStore
from tests.support.clocks import ManualClock
from tests.support.parts import parts_of


class Interrupt(BaseException):
    """What the handler of the signal raises."""


class InterruptingClock(ManualClock):
    """Sends its process a signal when the thread that made it asks for the time for the nth time from now."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 0
        self._thread = get_ident()

    def _tick(self) -> float:
        if self.left and get_ident() == self._thread:  # others, such as the monitor, ask for it as well
            self.left -= 1
            if not self.left:
                signal.raise_signal(signal.SIGUSR1)
        return self.now

    def time(self) -> float:
        return self._tick()

    def monotonic(self) -> float:
        return self._tick()


def written(store: lowtide.Store) -> None:
    with store.transaction() as tx:
        tx.keyspace("k").get(b"a")
        tx.keyspace("k").put(b"a", b"new")


def validated(store: lowtide.Store) -> None:
    with store.transaction("serializable") as tx:
        assert list(tx.keyspace("k").scan())
        tx.keyspace("k").put(b"a", b"new")


def autocommitted(store: lowtide.Store) -> None:
    store.keyspace("k").put(b"a", b"new")


def scanned(store: lowtide.Store) -> None:
    assert list(store.keyspace("k").scan())


@pytest.mark.parametrize("work", [written, validated, autocommitted, scanned])
def test_an_interrupt_in_what_compiled_code_calls_leaves_nothing(
    work: Callable[[lowtide.Store], None], open_store: OpenStore
) -> None:
    clock = InterruptingClock()
    store = open_store(clock=clock)
    keyspace = store.keyspace("k")
    keyspace.put(b"a", b"old")
    parts, interrupts = parts_of(store), 0

    def handler(number: int, frame: FrameType | None) -> None:
        raise Interrupt

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        for nth in range(1, 10):
            last = store.stats().last_commit
            clock.left = nth
            try:
                work(store)
            except Interrupt:
                interrupts += 1
                assert store.stats().last_commit == last
                assert keyspace.get(b"a") == b"old"
                assert not parts.registry.live
                assert not parts.registry.details
                assert not parts.committer._lock.locked()
            else:
                break
    finally:
        clock.left = 0
        signal.signal(signal.SIGUSR1, before)
    assert interrupts > 0
    keyspace.put(b"a", b"last")
    assert keyspace.get(b"a") == b"last"
