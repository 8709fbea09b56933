"""The list of compiled modules is right. Nothing is compiled, or needed for compiling, unless the environment asks."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
HOOK = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]
MODULES: list[str] = HOOK["custom"]["modules"]


class Interface:
    """Stands for hatchling's interface, which is installed only where a package is built."""

    def __init__(self) -> None:
        self.config, self.root = HOOK["custom"], str(ROOT)


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Any:
    name = "hatchling.builders.hooks.plugin.interface"
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        monkeypatch.setitem(sys.modules, ".".join(parts[:end]), ModuleType(parts[end - 1]))
    monkeypatch.setattr(sys.modules[name], "BuildHookInterface", Interface, raising=False)
    namespace: dict[str, Any] = {}
    exec(compile((ROOT / "hatch_compile.py").read_text(), "hatch_compile.py", "exec"), namespace)
    return namespace["CompileHook"]()


def test_each_compiled_module_exists_once() -> None:
    assert len(set(MODULES)) == len(MODULES)
    for name in MODULES:
        assert (ROOT / "src" / f"{name.replace('.', '/')}.py").is_file(), name
    assert "lowtide.system.build" in MODULES, "it tells which build runs"


def test_no_compiled_module_has_what_compiling_would_break() -> None:
    """Structs lose their keywords without a word. Compiled objects cannot be referred to weakly, and compiled functions
    have no frames. Types are checked at run time, so what a type checker is told to ignore raises. Methods of a
    subclass of dict or list are passed over, since compiled code goes to the items directly."""
    words = (
        r"\(msgspec\.Struct",
        "__weakref__",
        "def __del__",
        r"_getframe\(",
        "type: ignore",
        r"^class \w+\((dict|list)",
    )
    for name in MODULES:
        source = (ROOT / "src" / f"{name.replace('.', '/')}.py").read_text()
        assert [word for word in words if re.search(word, source, re.MULTILINE)] == [], name


def cleans_up(function: ast.FunctionDef) -> bool:
    """Whether it is a generator that has something to do when it is dropped. One behind a ``with`` is always closed."""
    if any("contextmanager" in ast.unparse(each) for each in function.decorator_list):
        return False
    tries = [each for each in ast.walk(function) if isinstance(each, ast.Try) and each.finalbody]
    return any(isinstance(each, ast.Yield | ast.YieldFrom) for found in tries for each in ast.walk(found))


def test_no_compiled_generator_cleans_up_when_it_is_dropped() -> None:
    """A compiled one does not notice."""
    for name in MODULES:
        tree = ast.parse((ROOT / "src" / f"{name.replace('.', '/')}.py").read_text())
        found = [each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef) and cleans_up(each)]
        assert found == [], name


@pytest.mark.parametrize("asked", [None, "", "0"])
def test_without_the_variable_nothing_is_compiled_or_needed(
    hook: Any, monkeypatch: pytest.MonkeyPatch, asked: str | None
) -> None:
    monkeypatch.delenv("LOWTIDE_COMPILE", raising=False)
    if asked is not None:
        monkeypatch.setenv("LOWTIDE_COMPILE", asked)
    build: dict[str, Any] = {"force_include": {}}
    assert hook.dependencies() == []
    hook.initialize("standard", build)
    hook.finalize("standard", build, "")
    assert build == {"force_include": {}}


def test_an_editable_installation_is_never_compiled(hook: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOWTIDE_COMPILE", "1")
    build: dict[str, Any] = {"force_include": {}}
    hook.initialize("editable", build)
    assert build == {"force_include": {}}
