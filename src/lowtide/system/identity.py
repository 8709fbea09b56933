"""The identity of a process: unique over time and over machines.

A process id alone is reused. Together with the start time of the process, the boot id of the machine and the pid
namespace it is unique. Only a process with the same boot id and namespace can tell whether another one is gone.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import msgspec

_START = 19
"""Where, behind the name of the program, /proc/PID/stat has the time at which the process began."""
_PARENT = 1


class Identity(msgspec.Struct, frozen=True, array_like=True):
    """One process."""

    boot: str
    namespace: str
    pid: int
    began: int

    @property
    def is_gone(self) -> bool:
        """Whether it surely lives no more; false where that cannot be known from here."""
        if self.boot != boot_id():
            return False  # it may be of another machine
        if self.namespace != _namespace():
            return False
        found = identify(self.pid)
        return found != self if found is not None else not _is_hidden(self.pid)


@cache
def boot_id() -> str:
    """What tells this start of this machine from every other."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _namespace() -> str:
    return os.readlink("/proc/self/ns/pid")


def identify(pid: int) -> Identity | None:
    """The process with this number; None if there is none."""
    fields = _status(pid)
    return None if fields is None else Identity(boot_id(), _namespace(), pid, int(fields[_START]))


def ancestor(program: str) -> Identity | None:
    """The nearest process above this one that runs ``program``."""
    pid = os.getppid()
    while pid > 1:
        fields = _status(pid)
        if fields is None:
            return None
        if _program(pid) == program:
            return identify(pid)
        pid = int(fields[_PARENT])
    return None


def parent_of(pid: int) -> int | None:
    """The number of the process that started it; None if it is gone."""
    fields = _status(pid)
    return None if fields is None else int(fields[_PARENT])


def _status(pid: int) -> list[str] | None:
    """The fields behind the program's name, which may have anything in it."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields


def _is_hidden(pid: int) -> bool:
    """Whether it is a process of another user that /proc hides, depending on how it is mounted."""
    if Path(f"/proc/{pid}").exists():
        return False  # it has ended, and its parent has not noticed
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return ""
