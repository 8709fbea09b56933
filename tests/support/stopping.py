"""Stopping a process for a while, as a debugger or a suspended machine does."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Stop a child of this process, all of its threads: a signal takes effect a moment after it is sent, so this waits
    for it. The child goes on afterwards, also if the test fails, which would else wait for its end for ever."""
    os.kill(pid, signal.SIGSTOP)
    os.waitpid(pid, os.WUNTRACED)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
