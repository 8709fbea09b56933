"""Pauses the background thread of a store, so that what a test sees does not depend on when that thread runs."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import lowtide
from tests.support.parts import parts_of
from tests.support.patience import PATIENCE


class _Pause:
    """A wish for the maintenance thread that holds it up: it is looked at between two pieces of work."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.over = threading.Event()

    def __bool__(self) -> bool:
        self.reached.set()
        assert self.over.wait(PATIENCE)
        return True


@contextlib.contextmanager
def still(store: lowtide.Store) -> Iterator[None]:
    """The store with its background at rest: all that was due is done, and nothing new begins."""
    pause = _Pause()
    wishes: Any = parts_of(store).maintenance._wishes
    wishes.put(pause)
    assert pause.reached.wait(PATIENCE)
    try:
        yield
    finally:
        pause.over.set()


def settle(store: lowtide.Store) -> None:
    """Wait until the background has done all that it was woken for."""
    with still(store):
        pass


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for another thread to make ``condition`` true."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        time.sleep(0.001)
