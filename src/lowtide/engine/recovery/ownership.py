"""One process owns a store for writing: an advisory lock that the system gives back when its holder dies."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import sys
import time
from pathlib import Path

from lowtide.errors import StoreLocked

_PATIENCE, _PAUSE = 1.0, 0.01
"""How long a lock is waited for whose owner is dead, since a process that it was just starting may hold a copy for a
moment; or whose owner has not yet, or no longer, written who it is."""

_RECOVERING = 30.0
"""How long a reader is waited for that recovers a store which nobody owned."""


class Ownership:
    """The lock file of a store, held. Its text says by whom; only the lock on it counts. One who is ``passing`` holds
    it for a moment, and others wait for that."""

    def __init__(self, path: Path, *, passing: bool = False) -> None:
        # A file object, so that the lock goes with the last reference to it, whatever interrupts the opening.
        begun = time.monotonic()
        self._file = open(path, "r+b", buffering=0, opener=_create)  # noqa: SIM115
        while not self._try_lock():
            text = os.pread(self._file.fileno(), 4096, 0)
            if time.monotonic() - begun >= _patience_with(text):
                self._file.close()
                raise StoreLocked(path.parent, describe_holder(text))
            time.sleep(_PAUSE)
        identity = {
            "passing": passing,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "program": " ".join(sys.argv[:2]) or sys.executable,
            "since": time.strftime("%Y-%m-%d %H:%M:%S %z"),
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
        """In a forked child: give up this copy of the descriptor; the parent's lock stays."""
        self._file.close()

    def release(self) -> None:
        """Give the lock back. Harmless when repeated."""
        if not self._file.closed:
            self._file.truncate(0)
            self._file.close()


def _create(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, 0o600)


def describe_holder(text: bytes) -> str:
    """Who holds the lock, by the text in its file."""
    try:
        holder = json.loads(text)
        where = "this process" if holder["pid"] == os.getpid() else f"process {holder['pid']}"
        return f"{where} on {holder['host']} ({holder['program']}), since {holder['since']}"
    except (ValueError, KeyError, TypeError, RecursionError):
        return "a process that did not say who it is"


def _patience_with(text: bytes) -> float:
    """How many seconds the holder that ``text`` names is waited for."""
    with contextlib.suppress(ValueError, AttributeError, RecursionError):
        if json.loads(text).get("passing"):
            return _RECOVERING
    return _PATIENCE if not text or _is_dead(text) else 0.0


def _is_dead(text: bytes) -> bool:
    """Whether the holder that ``text`` names was a process of this machine that exists no longer."""
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
