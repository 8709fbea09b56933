"""The linter, the formatter and the type checker report nothing. No file contains a path of a machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Put together here, so that this file does not contain what it looks for.
_ELSEWHERE = re.compile("(?<![\\w.~-])/(?:" + "|".join(("home", "root", "Users", "work")) + ")/[\\w.-]+")

_WITHOUT_CACHE = () if (ROOT / ".mypy_cache").exists() else ("--cache-dir", os.devnull)
"""In a new clone there is no cache to use, and to write one takes a sixth of the time. ``make lint`` writes it."""


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def project_files() -> list[Path]:
    """What is or will be in the repository; in a copy without one, everything that is not hidden or generated."""
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    if listed.returncode == 0:
        found = [ROOT / name for name in listed.stdout.split("\0") if name]
    else:
        found = [
            path
            for path in ROOT.rglob("*")
            if not re.search(r"/(\.|__pycache__|build/|dist/)", f"/{path.relative_to(ROOT)}")
        ]
    return sorted(path for path in found if path.is_file())


@pytest.mark.parametrize(
    "command",
    [("ruff", "check", "."), ("ruff", "format", "--check", "."), ("mypy", *_WITHOUT_CACHE)],
    ids=["lint", "format", "types"],
)
def test_the_checkers_are_content(command: tuple[str, ...]) -> None:
    result = run(sys.executable, "-m", *command)
    assert result.returncode == 0, result.stdout + result.stderr


def test_no_file_contains_a_path_of_the_machine_it_was_written_on() -> None:
    files = project_files()
    assert ROOT / "README.md" in files
    found = []
    for path in files:
        text = path.read_bytes().decode(errors="replace")
        found += [f"{path.relative_to(ROOT)}: {match}" for match in _ELSEWHERE.findall(text)]
        if f"{ROOT}/" in text:
            found.append(f"{path.relative_to(ROOT)}: {ROOT}")
    assert found == []


@pytest.mark.parametrize("text", ["see /{}/me/x", '"/{}/me"', "(/{}/me)"])
def test_such_a_path_would_be_found(text: str) -> None:
    for place in ("home", "root", "Users", "work"):
        assert _ELSEWHERE.search(text.format(place))
    assert not _ELSEWHERE.search("https://example.org/{}/me ~/{}/me".format("work", "home"))
