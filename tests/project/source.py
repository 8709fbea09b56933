"""The project's own source, parsed once for all tests of a process."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "lowtide"


@cache
def tree_at(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text())


@cache
def nodes_at(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a file's syntax tree, as ``ast.walk`` yields them."""
    return tuple(ast.walk(tree_at(path)))
