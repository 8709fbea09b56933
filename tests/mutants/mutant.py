"""A mutant: the engine with one deliberate fault, and the tests that must convict it.

A test that cannot fail proves nothing. Each mutant here is a fault that a store of this kind can really have; it is
put into a copy of the sources by replacing exact texts, and the named tests, run against the copy in a process of their
own (see runner), must fail. A text that no longer occurs exactly once is an error: the mutant must be updated.
"""

from __future__ import annotations

import atexit
import compileall
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[2]
SOURCES = PROJECT / "src"
TIMEOUT = 600.0
IMPATIENCE = 15.0
"""Seconds for which a test of a broken engine waits: some are convicted by what never comes."""

_own = threading.local()

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
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="lowtide-mutant-", dir=_originals().parent) as directory:
        copy = Path(directory) / "src"
        shutil.copytree(_originals(), copy, copy_function=os.link)
        source = copy / "lowtide" / mutant.file
        text = patched(source.read_text(), mutant)
        source.unlink()  # it is a link to the original
        source.write_text(text)
        for compiled in source.parent.glob(f"__pycache__/{source.stem}.*"):
            compiled.unlink()
        verdicts = _ask(copy, tests if tests is not None else mutant.convicted_by)
    seconds = time.monotonic() - started
    if verdicts.get("hung"):
        return Trial({}, [], seconds, hung=True)
    if verdicts["code"] not in (0, 1):
        raise RuntimeError(f"the tests could not be run, code {verdicts['code']}:\n{verdicts['output']}")
    return Trial(verdicts["failed"], verdicts["passed"], seconds)


@cache
def _originals() -> Path:
    """The sources without a fault, compiled once for all trials of this process, which link to them."""
    directory = tempfile.mkdtemp(prefix="lowtide-originals-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    originals = Path(directory) / "originals"
    shutil.copytree(SOURCES, originals, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    compileall.compile_dir(originals, quiet=2)
    return originals


def _ask(copy: Path, nodes: tuple[str, ...]) -> dict[str, Any]:
    """Have the runner of this thread try the tests."""
    runner = _runner()
    assert runner.stdin is not None
    assert runner.stdout is not None
    asked = {"copy": str(copy), "project": str(PROJECT), "nodes": nodes, "timeout": TIMEOUT}
    runner.stdin.write(json.dumps(asked) + "\n")
    runner.stdin.flush()
    answer: dict[str, Any] = json.loads(runner.stdout.readline())
    return answer


def _runner() -> subprocess.Popen[str]:
    if not hasattr(_own, "runner"):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        environment["LOWTIDE_PATIENCE"] = str(IMPATIENCE)
        _own.runner = subprocess.Popen(
            [sys.executable, "-m", "tests.mutants.runner"],
            cwd=PROJECT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        atexit.register(_own.runner.communicate)
    runner: subprocess.Popen[str] = _own.runner
    return runner
