"""Locks for threads of which only one runs at a time: a thread that would wait hands over instead, and no clock is
used.

The engine creates its locks through the module ``threading``. :func:`scheduled_locks` replaces that module in every
module of the engine: with locks that know which worker of a scheduler asks, and threads that are never started. The
background of a store is a worker like the others, or does not run.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Protocol

import lowtide


class Waits(Protocol):
    """A worker, as a lock sees it."""

    def wait_for(self, lock: ScheduledLock) -> None:
        """Let others run until the lock is free and this worker is chosen."""


_RLOCK = type(threading.RLock())
_LOCKS = (type(threading.Lock()), _RLOCK)
_here = threading.local()


def set_worker(worker: Waits | None) -> None:
    """Set the worker of the calling thread."""
    _here.worker = worker


class ScheduledLock:
    """Like ``threading.Lock``. A thread that is not a worker never finds it taken, or the test is wrong."""

    def __init__(self, depth: int = 1) -> None:
        frame = sys._getframe(depth)
        self.name = f"{Path(frame.f_code.co_filename).stem}:{frame.f_lineno}"
        self._taken = False

    def free_for(self, worker: Waits) -> bool:
        return not self._taken

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if not self._taken:
            self._taken = True
            return True
        if not blocking:
            return False
        assert timeout < 0, "no schedule has a clock"
        worker: Waits | None = getattr(_here, "worker", None)
        assert worker is not None, f"the lock {self.name} is taken, and no worker runs that could release it"
        worker.wait_for(self)
        assert not self._taken
        self._taken = True
        return True

    def release(self) -> None:
        if not self._taken:
            raise RuntimeError("release unlocked lock")
        self._taken = False

    def locked(self) -> bool:
        return self._taken

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class ScheduledRLock(ScheduledLock):
    """Like ``threading.RLock``."""

    def __init__(self) -> None:
        super().__init__(2)
        self._owner = 0
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if self._owner != threading.get_ident() or not self._count:
            if not super().acquire(blocking, timeout):
                return False
            self._owner = threading.get_ident()
        self._count += 1
        return True

    def release(self) -> None:
        if self._owner != threading.get_ident() or not self._count:
            raise RuntimeError("cannot release un-acquired lock")
        self._count -= 1
        if not self._count:
            super().release()


class NeverStarted(threading.Thread):
    """A thread of the background: it does nothing, so a schedule decides about everything that happens."""

    def start(self) -> None:
        pass

    def join(self, timeout: float | None = None) -> None:
        pass


class _Threading:
    """What the engine's modules see as ``threading``."""

    Lock = ScheduledLock
    RLock = ScheduledRLock
    Thread = NeverStarted

    def __getattr__(self, name: str) -> Any:
        return getattr(threading, name)


@contextlib.contextmanager
def scheduled_locks() -> Iterator[None]:
    """Stores opened in this block have scheduled locks and no background. They must also be closed in it."""
    stand_in = _Threading()
    package = lowtide.__name__
    changed = [
        module
        for name, module in list(sys.modules.items())
        if name.split(".")[0] == package and getattr(module, "threading", None) is threading
    ]
    undo: list[tuple[ModuleType, str, object]] = []
    for module in changed:
        undo.append((module, "threading", threading))
        setattr(module, "threading", stand_in)  # noqa: B010
        for name, value in list(vars(module).items()):
            if isinstance(value, _LOCKS):  # made when the module was imported
                undo.append((module, name, value))
                setattr(module, name, ScheduledRLock() if isinstance(value, _RLOCK) else ScheduledLock())
    try:
        yield
    finally:
        for module, name, value in undo:
            setattr(module, name, value)
