"""A process of a soak, seen from the process that started it."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.patience import PATIENCE


class Told(NamedTuple):
    """A line from a process: its kind, and what else it says. The last one is of the kind ``end``."""

    process: Process
    kind: str
    values: list[Any]


class Process:
    """A child process. A thread of this process puts its messages into ``heard``."""

    def __init__(self, role: str, command: list[str], errors: Path, heard: queue.SimpleQueue[Told]) -> None:
        self.role = role
        self.killed = False
        self.ended = False
        self.errors = errors
        with errors.open("wb") as file:
            self._child = subprocess.Popen(
                [sys.executable, "-m", *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)},
            )
        self._heard = heard
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def process_id(self) -> int:
        return self._child.pid

    def _listen(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            kind, *values = json.loads(line)
            self._heard.put(Told(self, kind, values))
        self._heard.put(Told(self, "end", [self._child.wait()]))

    def kill(self) -> None:
        self.killed = True
        self._child.send_signal(signal.SIGKILL)

    def ask_to_end(self) -> None:
        assert self._child.stdin is not None
        with contextlib.suppress(OSError):
            self._child.stdin.close()

    def ask_where(self) -> None:
        """Have it write the stacks of its threads to its error file."""
        self._child.send_signal(signal.SIGUSR1)

    def finish(self) -> None:
        """Kill it, if it still lives, and let go of its pipes."""
        self.killed = True
        self._child.kill()
        self._listener.join(PATIENCE)
        self._child.wait()
        for stream in (self._child.stdin, self._child.stdout):
            assert stream is not None
            with contextlib.suppress(OSError):
                stream.close()

    def last_words(self) -> str:
        return self.errors.read_text(errors="replace")[-3000:]
