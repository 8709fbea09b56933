"""A process of a soak, seen from the process that started it."""

from __future__ import annotations

import contextlib
import json
import queue
import signal
import threading
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.patience import PATIENCE
from tests.support.warm import Started, start


class Told(NamedTuple):
    """A line from a process: its kind, and what else it says. The last one is of the kind ``end``."""

    process: Process
    kind: str
    values: list[Any]


def run_module(name: str, *arguments: str, stderr: int = 2) -> Started:
    """``python -m name arguments``, as a fork: most processes of a soak live for little longer than imports take."""
    program = f"import runpy; runpy.run_module({name!r}, run_name='__main__', alter_sys=True)"
    return start(program, *arguments, stderr=stderr)


class Process:
    """A child process. A thread of this process puts its messages into ``heard``."""

    def __init__(self, role: str, command: list[str], errors: Path, heard: queue.SimpleQueue[Told]) -> None:
        self.role = role
        self.killed = False
        self.ended = False
        self.errors = errors
        with errors.open("wb") as file:
            self._child = run_module(*command, stderr=file.fileno())
        self._heard = heard
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def process_id(self) -> int:
        return self._child.pid

    def _listen(self) -> None:
        for line in self._child.stdout:
            kind, *values = json.loads(line)
            self._heard.put(Told(self, kind, values))
        self._heard.put(Told(self, "end", [self._child.wait()]))

    def kill(self) -> None:
        self.killed = True
        self._child.send_signal(signal.SIGKILL)

    def ask_to_end(self) -> None:
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
        self._child.close()

    def last_words(self) -> str:
        return self.errors.read_text(errors="replace")[-3000:]
