"""A gate behind one call of the engine: the next thread that makes the call stops there, with its result, until
released.

For places that are not before a line, where a point of :mod:`tests.support.schedule` would be, but after a call: the
call has returned, and other threads run before the result is used.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.support.patience import PATIENCE
from tests.support.schedule import Step

_BACKGROUND = "lowtide-maintenance"


class Gate:
    """Stops the next call of ``getattr(owner, name)`` after it returns. Later calls pass, and so does the background
    thread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> None:
        self._call: Any = getattr(owner, name)
        self._reached = threading.Event()
        self._open = threading.Event()
        self._waiting = threading.Lock()
        monkeypatch.setattr(owner, name, self._pass)

    def _pass(self, *arguments: Any, **named: Any) -> Any:
        result = self._call(*arguments, **named)
        if threading.current_thread().name != _BACKGROUND and self._waiting.acquire(blocking=False):
            self._reached.set()
            assert self._open.wait(PATIENCE), "the gate was never opened"
        return result

    def reached(self) -> None:
        """Wait until a thread has stopped behind the call."""
        assert self._reached.wait(PATIENCE), "the call was never made"

    def open(self) -> None:
        self._open.set()


def stays_blocked(step: Step[Any]) -> bool:
    """Whether a thread that must wait for another one does. It gets some time to show that it does not; the longer, the
    more surely a fault is found, and without a fault no time is too long."""
    step._thread.join(0.1)
    return step._thread.is_alive()
