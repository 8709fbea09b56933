"""A warm interpreter for trials of mutants: pytest and Lowtide are imported once, and each trial runs in a fork.

``python -m tests.mutants.runner SOURCES``: a line of JSON on the standard input requests a trial, a line on the
standard output answers it. ``SOURCES`` is a copy of the sources that only this process uses. For a trial it writes the
fault into the copy, where the processes that tests start find it, and restores the file afterwards. The fork gives the
loaded functions the code of the broken file; see :mod:`tests.mutants.swap`.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import os
import pkgutil
import select
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import hypothesis
import hypothesis.stateful
import lmdb
import msgspec
import pytest
import sortedcontainers
import xdist.scheduler.loadscope
from hypothesis.internal.conjecture.providers import _get_local_constants

from tests.mutants.mutant import PROJECT, is_of
from tests.mutants.swap import loaded_functions, swap

WARM = (hypothesis.stateful, lmdb, msgspec, sortedcontainers, xdist.scheduler.loadscope)
"""What nearly every trial imports, ..."""
ALSO = tuple(
    [f"_pytest.{name}" for name in ("skipping", "threadexception", "tracemalloc", "unittest", "unraisableexception")]
    + [f"tests.support.{name}" for name in ("attack", "examples", "memory", "quick", "spark_start", "workers")]
    + ["pdb"]
)
"""... and nothing of it imports Lowtide, which is imported again for some trials."""
COLD = ("lowtide.cli", "lowtide.pipeline", "lowtide.rdf", "lowtide.spark")
"""What few trials import, and takes long."""
UNUSED = ("doctest", "faulthandler", "junitxml", "nose", "pastebin", "setuponly", "setupplan", "stepwise", "warnings")
"""Plugins of pytest that a trial does not need."""


_functions: dict[str, list[FunctionType]] = {}
"""Those of Lowtide that are loaded, by file. Written by _warm_up alone."""


class _Verdicts:
    """What each test said: the first words of a failure, or that it passed. Of a named test no more cases are run once
    one has failed, and an example that fails is taken as it is found."""

    def __init__(self, nodes: list[str]) -> None:
        self._nodes = nodes
        self.passed: list[str] = []
        self.failed: dict[str, str] = {}

    def pytest_sessionstart(self) -> None:
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        hypothesis.settings.register_profile("trial", phases=phases, report_multiple_bugs=False)
        hypothesis.settings.load_profile("trial")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        named = [node for node in self._nodes if is_of(item.nodeid, node)]
        if not all(any(is_of(failed, node) for failed in self.failed) for node in named):
            return None
        item.session._setupstate.teardown_exact(nextitem)  # what the one before has left to this one
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.failed[report.nodeid] = str(crash.message if crash else report.longrepr).split("\n")[0]
        elif report.when == "call" and report.passed:
            self.passed.append(report.nodeid)


def _try(sources: Path, file: str, text: str, original: str, nodes: list[str]) -> dict[str, Any]:
    """Run the tests against the sources with the fault in them. In a fork, since nothing of it can be undone."""
    os.environ["PYTHONPATH"] = f"{sources}{os.pathsep}{PROJECT}"
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    path = str(sources / "lowtide" / file)
    if not swap(_functions.get(path, []), path, original, text):
        for name in [each for each in sys.modules if each.partition(".")[0] == "lowtide"]:
            del sys.modules[name]  # all of it is imported again, with the fault
    import lowtide

    if not (lowtide.__file__ or "").startswith(str(sources)):
        raise RuntimeError(f"the tests would run against {lowtide.__file__}")
    verdicts = _Verdicts(nodes)
    unused = [f"-pno:{name}" for name in (*UNUSED, "cacheprovider")]
    code = pytest.main(["-q", "--tb=native", *unused, *nodes], plugins=[verdicts])
    return {"code": int(code), "passed": verdicts.passed, "failed": verdicts.failed}


@contextlib.contextmanager
def _fault_in(path: Path, text: str) -> Iterator[None]:
    """Let the file have this text meanwhile. What was compiled of it goes, before and after."""
    original, times = path.read_bytes(), path.stat()
    compiled = [*path.parent.glob(f"__pycache__/{path.stem}.*")]
    kept = {each: each.read_bytes() for each in compiled}
    for each in compiled:
        each.unlink()
    path.write_text(text)
    try:
        yield
    finally:
        path.write_bytes(original)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        for each in path.parent.glob(f"__pycache__/{path.stem}.*"):
            each.unlink()
        for each, content in kept.items():
            each.write_bytes(content)


def _child(answer: int, output: int, sources: Path, asked: dict[str, Any]) -> None:
    os.setsid()  # so that it can be ended with all that it started
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    told = json.dumps(_try(sources, **asked)).encode()
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


def trial(sources: Path, asked: dict[str, Any], timeout: float) -> dict[str, Any]:
    """Fork, run the tests in the child, end what is left of it, and tell the verdicts."""
    path = sources / "lowtide" / asked["file"]
    asked["original"] = path.read_text()
    with tempfile.TemporaryFile() as output, _fault_in(path, asked["text"]):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.close(read)
                _child(write, output.fileno(), sources, asked)
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


def _warm_up(sources: Path) -> None:
    """Load what pytest loads to run a test, and Lowtide. The collector of a fork does not go through it."""
    sys.path[:0] = [str(sources)]
    sys.dont_write_bytecode = False
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main(["--version", "--noconftest", "-p", "no:cacheprovider"])
    for found in pkgutil.walk_packages([str(sources / "lowtide")], "lowtide.", onerror=bool):
        if not found.name.startswith(COLD) and not found.name.endswith("__main__"):
            importlib.import_module(found.name)
    for name in ALSO:
        importlib.import_module(name)
    _get_local_constants()  # of the sources, which Hypothesis tries: to look for them takes longer than many a trial
    gc.collect()
    _functions.update(loaded_functions())
    gc.freeze()


def main() -> None:
    sources = Path(sys.argv[1])
    _warm_up(sources)
    for line in sys.stdin:
        asked = json.loads(line)
        timeout = asked.pop("timeout")
        print(json.dumps(trial(sources, asked, timeout)), flush=True)


if __name__ == "__main__":
    main()
