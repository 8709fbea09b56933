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
"""The index of the process's start time in /proc/PID/stat, counted from behind the program's name."""
_PARENT = 1


class Identity(msgspec.Struct, frozen=True, array_like=True):
    """The identity of one process."""

    boot: str
    namespace: str
    pid: int
    began: int

    @property
    def is_gone(self) -> bool:
        """Whether the process has certainly ended; false if that cannot be known from here."""
        if self.boot != boot_id():
            return False  # it may run on another machine
        if self.namespace != _namespace():
            return False
        found = identify(self.pid)
        return found != self if found is not None else not _is_hidden(self.pid)


@cache
def boot_id() -> str:
    """The id of this machine's current boot: unique over machines and restarts."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _namespace() -> str:
    return os.readlink("/proc/self/ns/pid")


def identify(pid: int) -> Identity | None:
    """The identity of the process with this id; None if there is none."""
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
    """The id of the parent process; None if ``pid`` is gone."""
    fields = _status(pid)
    return None if fields is None else int(fields[_PARENT])


def _status(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat behind the program's name, which may contain any character."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields


def _is_hidden(pid: int) -> bool:
    """Whether /proc hides this process because it belongs to another user, which depends on the mount options."""
    if Path(f"/proc/{pid}").exists():
        return False  # a zombie: it has ended, but its parent has not waited for it
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
