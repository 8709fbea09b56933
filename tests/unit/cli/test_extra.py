"""The command line is an extra: the library does not need it, and the command says what is missing."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest

from tests.docs.documents import ROOT
from tests.unit.cli.commands import command, environment

BLOCKED = """
import sys
sys.modules[{name!r}] = None  # as if it were not installed
import runpy
sys.argv = ["lowtide", "stats", "."]
runpy.run_module("lowtide", run_name="__main__")
"""


def python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment()
    )


def test_the_library_imports_neither_typer_nor_rich() -> None:
    result = python("import lowtide, sys; print(sorted({'typer', 'rich', 'pydantic'} & set(sys.modules)))")
    assert result.stdout == "[]\n"


@pytest.mark.parametrize("name", ["typer", "rich"])
def test_without_the_extra_one_line_says_what_to_install(name: str) -> None:
    result = python(BLOCKED.format(name=name))
    assert result.returncode == 1
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert "pip install 'lowtide[cli]'" in result.stderr


def test_the_console_script_is_the_module() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"lowtide": "lowtide.cli:main"}
    printed = subprocess.run(command("--version"), capture_output=True, text=True, check=True, env=environment()).stdout
    assert printed == f"lowtide {project['version']} (pure Python)\n"
