"""Stopping a process for a while, as a debugger or a suspended machine does."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from tests.support.patience import wait_until


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Stop a process, all of its threads: a signal takes effect a moment after it is sent, so this waits for it. The
    process is resumed afterwards even if the test fails, which would otherwise wait for its end forever."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: set(_states(pid)) == {"T"})
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def _states(pid: int) -> list[str]:
    """A letter for each of its threads, T for one that is stopped."""
    told = [each.read_text() for each in Path(f"/proc/{pid}/task").glob("*/stat")]
    return [each.rpartition(")")[2].split()[0] for each in told]
