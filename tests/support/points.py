"""The named points of the engine: lines of the source that end in a comment ``# point: name``.

A point marks a line *before* which a thread may be stopped to let others run. Points have no runtime cost: they are
comments, and only threads that a test traces check for them. docs/schedules.md lists them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from pathlib import Path
from types import CodeType

import lowtide

_POINT = re.compile(r"# point: ([\w.]+)\s*$")

Points = dict[tuple[str, int], str]
"""File and line to name. Several lines that do the same may share a name."""


def source_of_the_engine() -> Path:
    assert lowtide.__file__ is not None
    return Path(lowtide.__file__).parent


def find_points(paths: Iterable[Path]) -> Points:
    """The points in these files."""
    found = {}
    for path in paths:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if match := _POINT.search(line):
                found[str(path), number] = match[1]
    return found


POINTS = find_points(sorted(source_of_the_engine().rglob("*.py")))


class PointsOfCode:
    """Which lines of a code object are points. Needed for every call in a traced thread, so it is cached."""

    def __init__(self, points: Points) -> None:
        self._points = points
        self._files = {path for path, _ in points}
        self._chosen: dict[frozenset[str], PointsOfCode] = {}
        self._known: dict[int, tuple[CodeType, dict[int, str]]] = {}
        """By the identity of the code object, which is kept alive so that the identity stays valid: hashing it would be
        slow."""

    def of(self, code: CodeType) -> dict[int, str]:
        """Line to name; empty for code that has no point."""
        known = self._known.get(id(code))
        if known is None:
            known = self._known[id(code)] = (code, self._find(code))
        return known[1]

    def among(self, names: Collection[str]) -> PointsOfCode:
        """Those with one of these names."""
        chosen = frozenset(names)
        if chosen not in self._chosen:
            self._chosen[chosen] = PointsOfCode({line: name for line, name in self._points.items() if name in chosen})
        return self._chosen[chosen]

    def _find(self, code: CodeType) -> dict[int, str]:
        if code.co_filename not in self._files:
            return {}
        numbers = {line for _, _, line in code.co_lines() if line is not None}
        return {
            line: self._points[code.co_filename, line] for line in numbers if (code.co_filename, line) in self._points
        }
