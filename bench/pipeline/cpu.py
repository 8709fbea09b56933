"""The CPU time of a process and all its descendants, while something runs.

Spark's daemon of Python workers does not wait for its children, so the kernel drops the CPU time of a worker when it
ends. Therefore a thread samples all processes repeatedly, and keeps the last CPU time of each. What a process uses
after the last sample is not counted: at most ``PAUSE`` for each process that ends.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType

PAUSE = 0.25
"""Seconds between two looks."""
_TICKS = os.sysconf("SC_CLK_TCK")

Process = tuple[int, int]
"""A process: its number, and when it began."""


class CpuMeter:
    """Measures during its ``with`` block. ``seconds`` is set when the block has ended. Only its own thread writes
    ``_last`` until it is joined."""

    def __init__(self) -> None:
        self._first: dict[Process, int] = {}
        self._last: dict[Process, int] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> CpuMeter:
        self._first = used_below(os.getpid())
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._last |= used_below(os.getpid())

    def _look(self) -> None:
        while not self._ended.wait(PAUSE):
            self._last |= used_below(os.getpid())

    @property
    def seconds(self) -> float:
        """What was used in between."""
        return sum(ticks - self._first.get(each, 0) for each, ticks in self._last.items()) / _TICKS


def used_below(pid: int) -> dict[Process, int]:
    """The ticks that a process and those below it have used, each by itself."""
    parents: dict[int, int] = {}
    used: dict[int, tuple[Process, int]] = {}
    for each in Path("/proc").iterdir():
        if each.name.isdecimal():
            with suppress(OSError):
                fields = (each / "stat").read_text().rpartition(")")[2].split()
                number = int(each.name)
                parents[number] = int(fields[1])
                used[number] = (number, int(fields[19])), int(fields[11]) + int(fields[12])
    found: dict[Process, int] = {}
    family = {pid}
    while family:
        found.update(used[each] for each in family if each in used)
        family = {child for child, parent in parents.items() if parent in family}
    return found
