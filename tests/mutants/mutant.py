"""A mutant: the engine with one deliberate fault, and the tests that must convict it.

A test that cannot fail proves nothing. Each mutant here is a fault that a store of this kind can really have; it is
put into a copy of the sources by replacing exact texts, and the named tests, run against the copy in a process of their
own, must fail. A text that no longer occurs exactly once is an error: the mutant must be brought up to date.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[2]
SOURCES = PROJECT / "src"
TIMEOUT = 200.0

_RUNNER = """
import json, sys
copy, nodes = sys.argv[1], sys.argv[2:]
import lowtide
if not lowtide.__file__.startswith(copy):
    sys.exit("the tests would run against " + lowtide.__file__)
import pytest

class Verdicts:
    def __init__(self):
        self.passed, self.failed = [], {}

    def pytest_runtest_logreport(self, report):
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.failed[report.nodeid] = str(crash.message if crash else report.longrepr).split("\\n")[0]
        elif report.when == "call" and report.passed:
            self.passed.append(report.nodeid)

verdicts = Verdicts()
code = pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", *nodes], plugins=[verdicts])
print("\\n" + json.dumps({"code": int(code), "passed": verdicts.passed, "failed": verdicts.failed}))
"""

_CARELESS = ("NameError", "SyntaxError", "ImportError", "UnboundLocalError")
"""How a patch fails that is itself wrong: that convicts nobody."""


class DoesNotFit(AssertionError):
    """The text that a mutant replaces does not occur exactly once any more."""


@dataclass(frozen=True)
class Mutant:
    """``breaks`` says in a sentence what no longer holds; ``edits`` are pairs of an exact text of ``file`` and what
    stands there instead; ``convicted_by`` the tests that must fail. One that ``hangs`` may be convicted by that."""

    name: str
    breaks: str
    file: str
    edits: tuple[tuple[str, str], ...]
    convicted_by: tuple[str, ...]
    hangs: bool = False


@dataclass(frozen=True)
class Trial:
    """What the named tests said: those that failed with their first words, those that passed, and the seconds taken."""

    failed: dict[str, str]
    passed: list[str]
    seconds: float
    hung: bool = False

    def acquits(self, mutant: Mutant) -> list[str]:
        """The tests that should have convicted ``mutant`` and did not."""
        if self.hung:
            return [] if mutant.hangs else [f"{mutant.name} hangs"]
        return [
            node
            for node in mutant.convicted_by
            if not any(
                _is_of(failed, node) and not words.startswith(_CARELESS) for failed, words in self.failed.items()
            )
        ]


def _is_of(node: str, named: str) -> bool:
    return node == named or node.startswith((f"{named}[", f"{named}::"))


def patched(text: str, mutant: Mutant) -> str:
    """The source ``text`` with the fault in it."""
    for old, new in mutant.edits:
        if text.count(old) != 1:
            raise DoesNotFit(
                f"the patch {mutant.name} no longer fits: {mutant.file} has its text {text.count(old)} times:\n{old}"
            )
        text = text.replace(old, new)
    compile(text, mutant.file, "exec")
    return text


def try_mutant(mutant: Mutant, tests: tuple[str, ...] | None = None) -> Trial:
    """Put the fault into a copy of the sources and run the tests that must convict it, or other ones, against that."""
    with tempfile.TemporaryDirectory(prefix="lowtide-mutant-") as directory:
        copy = Path(directory) / "src"
        shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        source = copy / "lowtide" / mutant.file
        source.write_text(patched(source.read_text(), mutant))
        return _run(copy, tests if tests is not None else mutant.convicted_by)


def _run(copy: Path, nodes: tuple[str, ...]) -> Trial:
    started = time.monotonic()
    environment = {
        **os.environ,
        "PYTHONPATH": f"{copy}{os.pathsep}{PROJECT}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    for name in [name for name in environment if name.startswith("PYTEST_")]:
        del environment[name]
    try:
        process = subprocess.run(
            [sys.executable, "-c", _RUNNER, str(copy), *nodes],
            cwd=PROJECT,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        return Trial({}, [], time.monotonic() - started, hung=True)
    lines = process.stdout.strip().splitlines()
    if not lines or not lines[-1].startswith("{"):
        raise RuntimeError(f"the tests could not be run:\n{process.stdout[-2000:]}\n{process.stderr[-2000:]}")
    verdicts = json.loads(lines[-1])
    if verdicts["code"] not in (0, 1):
        raise RuntimeError(f"pytest ended with {verdicts['code']}:\n{process.stdout[-2000:]}\n{process.stderr[-2000:]}")
    return Trial(verdicts["failed"], verdicts["passed"], time.monotonic() - started)
