"""A process as others know it again: its number alone may have become another one's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

_PROC: Final = Path("/proc")


class Process(msgspec.Struct, frozen=True):
    """One process of one start of the machine."""

    boot: str
    pid: int
    started: int
    """In ticks of the kernel's clock since the machine started."""

    @property
    def is_alive(self) -> bool:
        """Whether it still runs; one of an earlier start of the machine does not."""
        return process_of(self.pid) == self


def process_of(pid: int) -> Process | None:
    """The process with this number, or None if there is none, or one that is over and only not yet waited for."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return Process(boot, pid, int(fields[19])) if fields[0] not in ("Z", "X") else None


def driver_process() -> Process:
    """The process that a piece of work belongs to: the nearest Java machine above this process, which runs Spark's
    driver, or else this process itself."""
    pid = os.getpid()
    while pid > 1:
        try:
            text = (_PROC / str(pid) / "stat").read_text()
        except OSError:
            break
        if "(java)" in text:
            found = process_of(pid)
            if found is not None:
                return found
        pid = int(text.rpartition(")")[2].split()[1])
    own = process_of(os.getpid())
    assert own is not None
    return own
