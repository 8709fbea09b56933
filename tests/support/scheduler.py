"""A deterministic scheduler: exactly one thread runs at a time, and they switch only at named points.

Each worker is a thread. It runs until it comes to a point (a comment in the source, see :mod:`tests.support.points`, or
a call of :meth:`Scheduler.point`), until it must wait for a lock that another worker holds, or until it ends. Then the
choices (:mod:`tests.support.choices`) select the next worker. A waiting worker can be selected once the lock is free,
which the locks know (:mod:`tests.support.locks`). Nothing depends on time, so the same choices give the same run. If no
worker can run and not all have ended, that is a deadlock.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import traceback
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import FrameType
from typing import Any

from tests.support.choices import Choices
from tests.support.locks import ScheduledLock, set_worker
from tests.support.patience import PATIENCE
from tests.support.points import POINTS, PointsOfCode

_MOST_STEPS = 20_000

ENGINE = PointsOfCode(POINTS)


class Deadlock(AssertionError):
    """No worker can run, and not all have ended."""


class _Abandoned(BaseException):
    """Ends the workers of a schedule that cannot continue."""


@dataclass(frozen=True, slots=True)
class Step:
    """A worker continued from where it was: a point, "start", or the lock that it had waited for."""

    worker: str
    place: str


Trace = list[Step]


def workers_of(trace: Sequence[Step]) -> list[str]:
    """The choices of a trace, for a replay."""
    return [step.worker for step in trace]


def tell(trace: Sequence[Step]) -> str:
    """A readable trace: which worker ran, from where, and where the turn was taken from it."""
    lines = []
    for worker, steps in groupby(trace, key=lambda step: step.worker):
        places = [step.place for step in steps]
        shown = places if len(places) <= 6 else [*places[:3], "...", *places[-2:]]
        lines.append(f"  {worker}: {' > '.join(shown)}")
    return "\n".join(lines)


class Worker:
    """One thread of a schedule."""

    def __init__(self, scheduler: Scheduler, name: str, work: Callable[[], object]) -> None:
        self.name = name
        self.place = "start"
        self.ended = False
        self.error: BaseException | None = None
        self.waiting: ScheduledLock | None = None
        self.turn = threading.Lock()
        self.turn.acquire()
        self._scheduler = scheduler
        self._work = work
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def enabled(self) -> bool:
        return not self.ended and (self.waiting is None or self.waiting.free_for(self))

    def wait_for(self, lock: ScheduledLock) -> None:
        self.waiting, self.place = lock, f"lock {lock.name}"
        self._scheduler.hand_over(self)
        self.waiting = None

    def _run(self) -> None:
        set_worker(self)
        try:
            self._scheduler.await_turn(self)
            sys.settrace(self._trace)
            self._work()
        except _Abandoned:
            pass
        except BaseException as error:
            self.error = error
        finally:
            sys.settrace(None)
            set_worker(None)
            self.ended = True
            self._scheduler.hand_over(self)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._trace_lines if self._scheduler.points.of(frame.f_code) else None

    def _trace_lines(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            name = self._scheduler.points.of(frame.f_code).get(frame.f_lineno)
            if name is not None:
                self.place = name
                self._scheduler.hand_over(self)
        return self._trace_lines


class Scheduler:
    """Runs workers by ``choices``. ``stops`` are the points at which the turn may change, None for all of them."""

    def __init__(
        self, choices: Choices, *, stops: Collection[str] | None = None, points: PointsOfCode = ENGINE
    ) -> None:
        self._choices = choices
        self.points = points if stops is None else points.among(stops)
        self._workers: list[Worker] = []
        self._over = threading.Lock()
        self._over.acquire()
        self._failure: BaseException | None = None
        self.trace: Trace = []

    def add(self, name: str, work: Callable[[], object]) -> None:
        """Let ``work`` be a worker of this schedule."""
        self._workers.append(Worker(self, name, work))

    def run(self) -> None:
        """Run all workers to their ends. Raises what a worker raised, or Deadlock."""
        for worker in self._workers:
            worker.thread.start()
        self._pass_turn(None)
        over = self._over.acquire(timeout=PATIENCE)
        if not over:
            self._abandon(AssertionError(f"a worker came to no point any more\n{self._stacks()}"), None)
        for worker in self._workers:
            worker.thread.join(PATIENCE)
        if self._failure is not None:
            raise self._failure
        for worker in self._workers:
            if worker.error is not None:
                raise worker.error

    def point(self, name: str) -> None:
        """A point of the test itself; called by a worker."""
        worker = next(each for each in self._workers if each.thread is threading.current_thread())
        worker.place = name
        self.hand_over(worker)

    def await_turn(self, worker: Worker) -> None:
        if not worker.turn.acquire(timeout=PATIENCE * 2) or self._failure is not None:
            raise _Abandoned

    def hand_over(self, worker: Worker) -> None:
        """Let the choices select the next worker. Returns when it is ``worker``'s turn again, or at once if it has
        ended."""
        if self._failure is not None:
            if worker.ended:
                self._end_if_all_ended()
                return
            raise _Abandoned
        chosen = self._pass_turn(worker)
        if chosen is not worker and not worker.ended:
            self.await_turn(worker)

    def _pass_turn(self, worker: Worker | None) -> Worker | None:
        """Select the next worker, and wake it if it is another one. Only called by the running worker."""
        enabled = [each for each in self._workers if each.enabled]
        if not enabled:
            if all(each.ended for each in self._workers):
                self._over.release()
                return None
            self._abandon(Deadlock(f"no worker can continue\n{self._stacks()}"), worker)
            return None
        current = worker.name if worker is not None and worker in enabled else None
        try:
            if len(self.trace) >= _MOST_STEPS:
                raise AssertionError(f"no end after {_MOST_STEPS} steps\n{self._stacks()}")
            name = self._choices.pick(current, [each.name for each in enabled])
        except BaseException as error:
            self._abandon(error, worker)
            return None
        chosen = next(each for each in enabled if each.name == name)
        self.trace.append(Step(chosen.name, chosen.place))
        if chosen is not worker:
            chosen.turn.release()
        return chosen

    def _abandon(self, failure: BaseException, worker: Worker | None) -> None:
        """End every worker where it is."""
        self._failure = failure
        for each in self._workers:
            if each is not worker and not each.ended and each.turn.locked():
                each.turn.release()
        if worker is not None and not worker.ended:
            raise _Abandoned
        self._end_if_all_ended()

    def _end_if_all_ended(self) -> None:
        if all(each.ended for each in self._workers):
            with contextlib.suppress(RuntimeError):  # several may end at once here
                self._over.release()

    def _stacks(self) -> str:
        """The stack of every worker."""
        frames = sys._current_frames()
        told = []
        for worker in self._workers:
            frame = frames.get(worker.thread.ident or 0)
            if worker.ended or frame is None:
                told.append(f"{worker.name} has ended")
                continue
            stack = traceback.extract_stack(frame)
            shown = [f"    {each.filename}:{each.lineno} {each.name}" for each in stack if "/lowtide/" in each.filename]
            told.append("\n".join([f"{worker.name} stands at {worker.place}", *shown[-6:]]))
        return "\n".join(told)
