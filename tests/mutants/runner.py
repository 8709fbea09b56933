"""A warm interpreter for trials of mutants: pytest is imported once, and each trial runs in a fork.

``python -m tests.mutants.runner``: a line of JSON on the standard input asks for a trial, a line on the standard output
answers it. This process never imports Lowtide: a fork finds it in the copy of the sources that it is told, and so do
the processes that its tests start.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import tempfile
from typing import Any

import hypothesis.stateful
import lmdb
import msgspec
import pytest
import sortedcontainers
import xdist.scheduler.loadscope

WARM = (hypothesis.stateful, lmdb, msgspec, sortedcontainers, xdist.scheduler.loadscope)
"""What nearly every trial imports."""


class _Verdicts:
    """What each test said: the first words of a failure, or that it passed."""

    def __init__(self) -> None:
        self.passed: list[str] = []
        self.failed: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.failed[report.nodeid] = str(crash.message if crash else report.longrepr).split("\n")[0]
        elif report.when == "call" and report.passed:
            self.passed.append(report.nodeid)


def _try(copy: str, project: str, nodes: list[str]) -> dict[str, Any]:
    """Run the tests against the sources in ``copy``. In a fork, since nothing of it can be undone."""
    sys.dont_write_bytecode = False
    sys.path[:0] = [copy]
    os.environ["PYTHONPATH"] = f"{copy}{os.pathsep}{project}"
    import lowtide

    if not lowtide.__file__.startswith(copy):
        raise RuntimeError(f"the tests would run against {lowtide.__file__}")
    verdicts = _Verdicts()
    code = pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", *nodes], plugins=[verdicts])
    return {"code": int(code), "passed": verdicts.passed, "failed": verdicts.failed}


def _child(answer: int, output: int, asked: dict[str, Any]) -> None:
    os.setsid()  # so that it can be ended with all that it started
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    told = json.dumps(_try(**asked)).encode()
    sys.stdout.flush()
    with open(answer, "wb") as pipe:
        pipe.write(told + b"\n")


def _read_line(pipe: int, timeout: float) -> bytes | None:
    """The child's answer: a line, what there is of one if it died, None if the time is over."""
    told = b""
    while not told.endswith(b"\n"):
        if not select.select([pipe], [], [], timeout)[0]:
            return None
        part = os.read(pipe, 1 << 16)
        if not part:
            break
        told += part
    return told


def trial(asked: dict[str, Any], timeout: float) -> dict[str, Any]:
    """Fork, run the tests in the child, end what is left of it, and tell the verdicts."""
    with tempfile.TemporaryFile() as output:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.close(read)
                _child(write, output.fileno(), asked)
            except BaseException as error:
                os.write(2, repr(error).encode())
            finally:
                os._exit(0)
        os.close(write)
        try:
            told = _read_line(read, timeout)
        finally:
            os.close(read)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
        if told is None:
            return {"hung": True}
        output.seek(0)
        said = output.read().decode(errors="replace")[-4000:]
        return {**json.loads(told), "output": said} if told.endswith(b"\n") else {"code": -1, "output": said}


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        timeout = asked.pop("timeout")
        print(json.dumps(trial(asked, timeout)), flush=True)


if __name__ == "__main__":
    main()
