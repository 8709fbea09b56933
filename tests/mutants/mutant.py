"""A mutant: the engine with one deliberate fault, and the tests that must convict it.

A test that cannot fail proves nothing. Each mutant is a fault that a store of this kind can really have. The fault is
put into a copy of the sources by replacing exact texts. The named tests run against the copy in their own process (see
runner), and must fail. A text that no longer occurs exactly once is an error: the mutant must be updated.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[2]
SOURCES = PROJECT / "src"
TIMEOUT = 600.0
IMPATIENCE = 5.0
"""Seconds for which a test of a broken engine waits: some are convicted by what never comes."""

SAMPLE = 0
"""Of a test that tries another sample in each run, the one that must convict."""

_own = threading.local()

_CARELESS = ("NameError", "SyntaxError", "ImportError", "UnboundLocalError")
"""The errors of a patch that is itself wrong. They convict no mutant."""


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
            if not any(is_of(failed, node) and not words.startswith(_CARELESS) for failed, words in self.failed.items())
        ]


def is_of(node: str, named: str) -> bool:
    """Whether a test that was run is the ``named`` one, or one of its cases."""
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


def try_mutant(mutant: Mutant, also: tuple[str, ...] = ()) -> Trial:
    """Put the fault into a copy of the sources and run the tests that must convict it, and others, against that."""
    started = time.monotonic()
    text = patched((SOURCES / "lowtide" / mutant.file).read_text(), mutant)
    verdicts = _ask(mutant.file, text, (*mutant.convicted_by, *also))
    seconds = time.monotonic() - started
    if verdicts.get("hung"):
        return Trial({}, [], seconds, hung=True)
    if verdicts["code"] not in (0, 1):
        raise RuntimeError(f"the tests could not be run, code {verdicts['code']}:\n{verdicts['output']}")
    return Trial(verdicts["failed"], verdicts["passed"], seconds)


def _ask(file: str, text: str, nodes: tuple[str, ...]) -> dict[str, Any]:
    """Have the runner of this thread try the tests."""
    runner = _runner()
    assert runner.stdin is not None
    assert runner.stdout is not None
    asked = {"file": file, "text": text, "nodes": nodes, "timeout": TIMEOUT}
    runner.stdin.write(json.dumps(asked) + "\n")
    runner.stdin.flush()
    answer: dict[str, Any] = json.loads(runner.stdout.readline())
    return answer


def _copy_of_the_sources() -> Path:
    """The sources without a fault, with what is compiled of them. What is being compiled just now is left out."""
    directory = tempfile.mkdtemp(prefix="lowtide-sources-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    copy = Path(directory) / "src"
    shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("*.pyc.*", "*.egg-info"))
    return copy


def _runner() -> subprocess.Popen[str]:
    if not hasattr(_own, "runner"):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        environment |= {
            "LOWTIDE_PATIENCE": str(IMPATIENCE),
            "LOWTIDE_SAMPLE": str(SAMPLE),
            "LOWTIDE_EXAMPLES": "all",
        }
        _own.runner = subprocess.Popen(
            [sys.executable, "-m", "tests.mutants.runner", str(_copy_of_the_sources())],
            cwd=PROJECT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        atexit.register(_own.runner.communicate)
    runner: subprocess.Popen[str] = _own.runner
    return runner
