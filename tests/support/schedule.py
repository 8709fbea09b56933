"""Manual schedules over the named points of the engine, for tests that want one particular interleaving.

A thread started by :class:`Schedule` stops *before* each of its given points (see :mod:`tests.support.points`) until it
is released. :mod:`tests.support.scheduler` explores interleavings on its own.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Generic, TypeVar

from tests.support.patience import PATIENCE
from tests.support.points import POINTS

_Result = TypeVar("_Result")


class Step(Generic[_Result]):
    """One thread of a schedule."""

    def __init__(self, work: Callable[[], _Result], stops: tuple[str, ...]) -> None:
        if unknown := set(stops) - set(POINTS.values()):
            raise ValueError(f"no such point: {unknown}")
        self._work = work
        self._stops = list(stops)
        self._files = {path for path, _ in POINTS}
        self._arrived = threading.Event()
        self._go = threading.Event()
        self._result: list[_Result] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        sys.settrace(self._trace)
        try:
            self._result.append(self._work())
        except BaseException as error:
            self._error = error
        finally:
            sys.settrace(None)
            self._arrived.set()

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename not in self._files:
            return None
        if event == "line" and self._stops:
            name = POINTS.get((frame.f_code.co_filename, frame.f_lineno))
            if name == self._stops[0]:
                self._stops.pop(0)
                self._arrived.set()
                assert self._go.wait(PATIENCE), f"the thread was never released at {name}"
                self._go.clear()
        return self._trace

    def arrive(self) -> Step[_Result]:
        """Wait until the thread has stopped at its next point."""
        assert self._arrived.wait(PATIENCE), "the thread never came to its point"
        if self._error is not None:
            raise self._error
        assert self._thread.is_alive(), "the thread ended without coming to its point"
        return self

    def resume(self) -> None:
        """Let the thread continue, without waiting for it."""
        self._arrived.clear()
        self._go.set()

    def finish(self) -> _Result:
        """Let the thread run to its end, and return what its work returned or raise what it raised."""
        self._stops.clear()
        self._go.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the thread did not finish"
        if self._error is not None:
            raise self._error
        return self._result[0]


class Schedule:
    """Starts threads that stop at points, and lets all of them end with it."""

    def __init__(self) -> None:
        self._steps: list[Step[Any]] = []

    def start(self, work: Callable[[], _Result], *stops: str) -> Step[_Result]:
        """Run ``work`` in a thread that stops at each of ``stops`` in turn."""
        step = Step(work, stops)
        self._steps.append(step)
        return step

    def __enter__(self) -> Schedule:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for step in self._steps:
            step._stops.clear()
            step._go.set()
            step._thread.join(PATIENCE)
