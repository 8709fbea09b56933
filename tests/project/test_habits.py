"""Habits that hold for the whole source: the time comes from the clock, long calls name their arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.project.test_layers import MODULES, part_of

CLOCK = "lowtide.system.clock"

MAY_IMPORT_TIME = {
    "lowtide.upkeep.inspect": "formats times",
    "lowtide.cli.words": "formats times",
    "lowtide.cli.pins": "shows how long ago something was",
    "lowtide.cli.top": "redraws a terminal every second",
    "lowtide.values.ids": "ids are made without a store, so without its clock",
    "lowtide.audit.recorder": "takes a clock; the real one is its default",
    "lowtide.columnar.cache": "compares the ages of files, which the file system sets",
    "lowtide.engine.versions.visibility": "waits for another thread",
    "lowtide.feed.waiters": "waits for another thread",
    "lowtide.spark.stream_snapshot": "renews a pin of another process",
    "lowtide.spark.load_pin": "compares with a time that the user gave",
    "lowtide.spark.snapshot": "renews a pin of another process",
    "lowtide.spark.stream": "renews a pin of another process",
}
"""The modules that import ``time`` besides the clock, and why a store's clock is not theirs."""

POSITIONAL = 5
"""Arguments that a call may have without a name."""

MAY_BE_LONG = {
    "audit": 11,
    "cli": 1,
    "columnar": 3,
    "documents": 12,
    "engine": 33,
    "feed": 4,
    "spark": 3,
    "store": 8,
    "values": 5,
}
"""How many calls with more of them each part may have; a part that is not listed has none."""


def imports_time(tree: ast.AST) -> bool:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and any(each.name == "time" for each in node.names):
            return True
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            return True
    return False


def long_calls(tree: ast.AST) -> Iterator[str]:
    """The calls with more than five positional arguments, of which starred ones do not count."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and sum(not isinstance(each, ast.Starred) for each in node.args) > POSITIONAL:
            yield f"{node.lineno}: {ast.unparse(node.func)}"


def parsed(module: str) -> ast.AST:
    return ast.parse(MODULES[module].read_text())


def test_the_time_comes_from_the_clock() -> None:
    found = {module for module in MODULES if imports_time(parsed(module))}
    assert found - set(MAY_IMPORT_TIME) == {CLOCK}


@pytest.mark.parametrize("part", sorted({part_of(module) for module in MODULES}))
def test_long_calls_name_their_arguments(part: str) -> None:
    found = [f"{module}:{call}" for module in MODULES if part_of(module) == part for call in long_calls(parsed(module))]
    assert len(found) <= MAY_BE_LONG.get(part, 0), "\n".join(found)


def test_both_would_be_found() -> None:
    assert imports_time(ast.parse("import os, time"))
    assert imports_time(ast.parse("def f():\n    from time import sleep"))
    assert not imports_time(ast.parse("from lowtide.system import clock"))
    assert list(long_calls(ast.parse("f(1, 2, 3, 4, 5, 6)"))) == ["1: f"]
    assert list(long_calls(ast.parse("f(1, 2, 3, 4, 5, *g, x=6)"))) == []
