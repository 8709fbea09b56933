"""Rules that hold for the whole source: time comes from the clock module, long calls name their arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tests.project.source import nodes_at
from tests.project.test_layers import MODULES

CLOCK = "lowtide.system.clock"

MAY_IMPORT_TIME = {
    "lowtide.upkeep.inspect": "formats times",
    "lowtide.cli.words": "formats times",
    "lowtide.cli.pins": "shows how long ago something was",
    "lowtide.cli.top": "redraws a terminal every second",
    "lowtide.audit.recorder": "takes a clock; the real one is its default",
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


def imports_time(nodes: Iterable[ast.AST]) -> bool:
    for node in nodes:
        if isinstance(node, ast.Import) and any(each.name == "time" for each in node.names):
            return True
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            return True
    return False


def asks_the_day(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The calls of ``datetime`` and ``date`` that read the machine's clock."""
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr in ("now", "utcnow", "today"):
            owner = ast.unparse(node.value).rpartition(".")[2]
            if owner in ("datetime", "date"):
                yield f"{node.lineno}: {ast.unparse(node)}"


def long_calls(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The calls with more than five positional arguments. Starred ones do not count."""
    for node in nodes:
        if isinstance(node, ast.Call) and sum(not isinstance(each, ast.Starred) for each in node.args) > POSITIONAL:
            yield f"{node.lineno}: {ast.unparse(node.func)}"


def test_the_time_comes_from_the_clock() -> None:
    found = {module for module in MODULES if imports_time(nodes_at(MODULES[module]))}
    assert found == {CLOCK, *MAY_IMPORT_TIME}


def test_the_day_comes_from_the_clock() -> None:
    found = {module: list(asks_the_day(nodes_at(MODULES[module]))) for module in MODULES}
    assert {module: calls for module, calls in found.items() if calls} == {}


def test_long_calls_name_their_arguments() -> None:
    found = {module: list(long_calls(nodes_at(MODULES[module]))) for module in MODULES}
    assert {module: calls for module, calls in found.items() if calls} == {}


def test_each_would_be_found() -> None:
    def nodes(source: str) -> Iterator[ast.AST]:
        return ast.walk(ast.parse(source))

    assert imports_time(nodes("import os, time"))
    assert imports_time(nodes("def f():\n    from time import sleep"))
    assert not imports_time(nodes("from lowtide.system import clock"))
    assert list(asks_the_day(nodes("datetime.now(UTC)\nf(datetime.date.today)"))) == [
        "1: datetime.now",
        "2: datetime.date.today",
    ]
    assert list(asks_the_day(nodes("engine.now()\ndatetime.fromtimestamp(0)"))) == []
    assert list(long_calls(nodes("f(1, 2, 3, 4, 5, 6)"))) == ["1: f"]
    assert list(long_calls(nodes("f(1, 2, 3, 4, 5, *g, x=6)"))) == []
