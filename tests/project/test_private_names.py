"""A private name is used in the module that defines it, and nowhere else."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from tests.project.source import ROOT, nodes_at

SOURCE = ROOT / "src"

NAMEDTUPLE = {"_replace", "_asdict", "_fields", "_make"}
"""Public methods of named tuples, underscored only to keep clear of the fields."""

ALLOWED = {"sys._getframe", "lmdb._Database"}
"""What the standard library and py-lmdb have under no other name."""


def defined_in(nodes: Sequence[ast.AST]) -> set[str]:
    """The private names that a module defines: methods, functions, attributes of ``self`` and slots."""
    names = set()
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_own(node):
            names.add(node.attr)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names


def _is_own(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def foreign_accesses(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """The accesses ``x._name`` of a module to private names that are not its own."""
    own = defined_in(nodes) | NAMEDTUPLE
    for node in nodes:
        if not isinstance(node, ast.Attribute) or not node.attr.startswith("_") or node.attr.endswith("__"):
            continue
        if not _is_own(node) and node.attr not in own and ast.unparse(node) not in ALLOWED:
            yield ast.unparse(node)


MODULES = sorted(SOURCE.rglob("*.py"))


def test_a_module_uses_no_private_name_of_another() -> None:
    found = {str(path.relative_to(SOURCE)): list(foreign_accesses(nodes_at(path))) for path in MODULES}
    assert {path: names for path, names in found.items() if names} == {}


def test_an_access_to_a_private_name_is_found() -> None:
    """The test above would notice."""
    source = "class A:\n    def f(self, other):\n        self._x = other._x + other._y.z + sys._getframe(1)._f\n"
    nodes = list(ast.walk(ast.parse(source)))
    assert sorted(foreign_accesses(nodes)) == ["other._y", "sys._getframe(1)._f"]
