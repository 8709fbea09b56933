"""Ownership of a store: one process holds an advisory lock, which the system releases when the process dies."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import sys
from datetime import datetime
from pathlib import Path

from lowtide.errors import StoreLocked
from lowtide.system.clock import Clock, SystemClock

_PATIENCE, _PAUSE = 1.0, 0.01
"""Seconds to wait for a lock whose owner is dead, because a process that it was just starting may briefly hold a copy;
or whose owner is not named in the file yet, or no longer."""

_RECOVERING = 30.0
"""Seconds to wait for a reader that is recovering a store without an owner."""


class Ownership:
    """Holds the lock file of a store. The file's text names the holder, but only the lock itself counts. A ``passing``
    holder keeps the lock briefly, and other processes wait for it.

    The clock is the machine's by default, because it waits for processes of this machine.
    """

    def __init__(self, path: Path, *, passing: bool = False, clock: Clock | None = None) -> None:
        # A file object, so that the lock ends with the last reference to it, even if the opening is interrupted.
        clock = clock or SystemClock()
        begun = clock.monotonic()
        self._file = open(path, "r+b", buffering=0, opener=_create)  # noqa: SIM115
        while not self._try_lock():
            text = os.pread(self._file.fileno(), 4096, 0)
            if clock.monotonic() - begun >= _patience_with(text):
                self._file.close()
                raise StoreLocked(path.parent, describe_holder(text))
            clock.sleep(_PAUSE)
        identity = {
            "passing": passing,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "program": " ".join(sys.argv[:2]) or sys.executable,
            "since": datetime.fromtimestamp(clock.time()).astimezone().strftime("%Y-%m-%d %H:%M:%S %z"),
        }
        self._file.truncate(0)
        self._file.write(json.dumps(identity).encode())

    def _try_lock(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError:
            return False

    def abandon(self) -> None:
        """Close this copy of the descriptor in a forked child; the parent keeps the lock."""
        self._file.close()

    def release(self) -> None:
        """Release the lock. A second call does nothing."""
        if not self._file.closed:
            self._file.truncate(0)
            self._file.close()


def _create(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, 0o600)


def holder_of(path: Path) -> str:
    """Describe the holder of the lock in ``path``."""
    try:
        return describe_holder(path.read_bytes())
    except OSError:
        return describe_holder(b"")


def describe_holder(text: bytes) -> str:
    """Describe the holder of the lock, from the text in its file."""
    try:
        holder = json.loads(text)
        where = "this process" if holder["pid"] == os.getpid() else f"process {holder['pid']}"
        return f"{where} on {holder['host']} ({holder['program']}), since {holder['since']}"
    except (ValueError, KeyError, TypeError, RecursionError):
        return "an unknown process"


def _patience_with(text: bytes) -> float:
    """How many seconds to wait for the holder that ``text`` names."""
    with contextlib.suppress(ValueError, AttributeError, RecursionError):
        if json.loads(text).get("passing"):
            return _RECOVERING
    return _PATIENCE if not text or _is_dead(text) else 0.0


def _is_dead(text: bytes) -> bool:
    """Whether the holder that ``text`` names was a process of this machine that no longer exists."""
    try:
        holder = json.loads(text)
        if holder["host"] != socket.gethostname():
            return False
        os.kill(holder["pid"], 0)
    except ProcessLookupError:
        return True
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError, OSError):
        return False
    return False
