"""Runs a step of a measurement in its own process, so that steps do not share memory, caches and garbage.

The step is a function of a module that takes and returns plain data. The child gets its name, and imports it.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.section import Data


class StepFailed(Exception):
    """Raised if the child ended without an answer. Its output is on the standard error."""


def in_fresh_process(step: Callable[..., Data], *, killed: bool = False, **arguments: Any) -> Data:
    """Run ``step(**arguments)`` in a new process and return its result. With ``killed`` the process dies by SIGKILL
    right after it, without closing anything."""
    status, output = run(json.dumps([step.__module__, step.__qualname__, arguments, killed]))
    if status != (-signal.SIGKILL if killed else 0) or not output:
        raise StepFailed(f"{step.__qualname__} of {step.__module__} ended with status {status}")
    answer: Data = json.loads(output.splitlines()[-1])
    return answer


def run(order: str) -> tuple[int, str]:
    """Give an order to a new process that runs this module. Returns its exit code and its output."""
    done = subprocess.run([sys.executable, "-m", __name__], input=order, stdout=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stdout


def occupied(process: int | str = "self") -> dict[str, int]:
    """The bytes of memory of a process, by the kernel's names for them, such as RssAnon."""
    fields = (line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
    return {name: int(value.split()[0]) * 1024 for name, value in fields if value.endswith(" kB")}


def main() -> None:
    module, name, arguments, killed = json.load(sys.stdin)
    answer = getattr(importlib.import_module(module), name)(**arguments)
    print(json.dumps(answer), flush=True)
    if killed:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
