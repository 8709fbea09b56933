"""One process owns a store for writing: an advisory lock that the system gives back when its holder dies."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import sys
import time
from pathlib import Path

from lowtide.errors import StoreLocked


class Ownership:
    """The lock file of a store, held. Its text says by whom; only the lock on it counts."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = _describe(os.pread(self._descriptor, 4096, 0))
            os.close(self._descriptor)
            raise StoreLocked(path.parent, holder) from error
        identity = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "program": " ".join(sys.argv[:2]) or sys.executable,
            "since": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        }
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, json.dumps(identity).encode(), 0)

    def abandon(self) -> None:
        """In a forked child: give up this copy of the descriptor; the parent's lock stays."""
        os.close(self._descriptor)

    def release(self) -> None:
        os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)


def _describe(text: bytes) -> str:
    try:
        holder = json.loads(text)
        where = "this process" if holder["pid"] == os.getpid() else f"process {holder['pid']}"
        return f"{where} on {holder['host']} ({holder['program']}), since {holder['since']}"
    except (ValueError, KeyError, TypeError):
        return "a process that did not say who it is"
