"""The source is in layers: no module imports upward, there is no import cycle, and no module is long."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator, Mapping, Set
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.project.source import PACKAGE, nodes_at, tree_at

LONGEST = 400

LAYERS = (
    ("errors",),
    ("system",),
    ("options",),
    ("engine",),
    ("observe", "feed", "upkeep", "audit"),
    ("values",),
    ("columnar",),
    ("documents", "quads"),
    ("sharing",),
    ("store",),
    ("lowtide",),
    ("spark", "rdf"),
    ("pipeline",),
    ("cli",),
    ("__main__",),
)
"""From low to high; a part may import itself and what is in a lower row. ``lowtide`` is the package's own
``__init__``."""

HEIGHT = {part: height for height, parts in enumerate(LAYERS) for part in parts}


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def part_of(module: str) -> str:
    """``lowtide.engine.log.frame`` is of the part ``log``."""
    return ".".join(module.split(".")[:2]).rpartition(".")[2]


def imports(tree: ast.AST, *, at_run_time: bool) -> Iterator[str]:
    """The modules of the package that a module imports, also inside functions; perhaps without those for types only."""
    for node in ast.iter_child_nodes(tree):
        if at_run_time and isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name.split(".")[0] == "lowtide")
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            if (node.module or "").split(".")[0] == "lowtide":
                for each in node.names:
                    name = f"{node.module}.{each.name}"
                    yield name if name in MODULES else node.module or ""
        else:
            yield from imports(node, at_run_time=at_run_time)


def tree_of(module: str) -> ast.Module:
    return tree_at(MODULES[module])


@cache
def imported_by(module: str, *, at_run_time: bool = False) -> frozenset[str]:
    return frozenset(imports(tree_of(module), at_run_time=at_run_time))


def upward(part: str, imported: Set[str]) -> list[str]:
    """Those of the imported modules that are not below ``part`` nor in it."""
    return [name for name in sorted(imported) if part_of(name) != part and HEIGHT[part_of(name)] >= HEIGHT[part]]


def circle(graph: Mapping[str, Set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_a_module_imports_downward_only() -> None:
    found = {module: upward(part_of(module), imported_by(module)) for module in MODULES}
    assert {module: above for module, above in found.items() if above} == {}


ROOMS = {
    "engine": ("types", "log", "base", "versions", "garbage", "checkpoint", "recovery", "transaction", "statements"),
    "pipeline": ("tables", "travel", "archive", "vacuum", "load", "replicate", "restore", "audit", "runs"),
}
"""The rooms of a part, from low to high; each may import those before it."""


def room_of(part: str, module: str) -> str:
    """``lowtide.engine.log.frame`` is of the room ``log``; what is of none is empty."""
    parts = module.split(".")
    return parts[2] if parts[1:2] == [part] and len(parts) > 2 and parts[2] in ROOMS[part] else ""


def rooms_above(part: str, module: str) -> list[str]:
    """The rooms that a module imports though they are above its own."""
    order = ROOMS[part].index
    rooms = {room_of(part, name) for name in imported_by(module)} - {"", room_of(part, module)}
    return [room for room in sorted(rooms) if order(room) > order(room_of(part, module))]


@pytest.mark.parametrize("part", ROOMS)
def test_a_room_imports_those_below_it_only(part: str) -> None:
    found = {module: rooms_above(part, module) for module in MODULES if room_of(part, module)}
    assert found
    assert {module: above for module, above in found.items() if above} == {}


DOOR = "lowtide.engine"
BY_THE_DOOR = ("documents", "quads", "rdf", "feed", "columnar", "values", "spark", "audit", "pipeline", "cli")
"""The parts that import nothing of the engine but its public face."""


def test_the_engine_is_entered_by_its_door() -> None:
    within = [module for module in MODULES if part_of(module) in BY_THE_DOOR]
    found = {module: [name for name in imported_by(module) if name.startswith(f"{DOOR}.")] for module in within}
    assert {module: names for module, names in found.items() if names} == {}


def test_the_door_has_what_is_imported_through_it_and_nothing_else() -> None:
    """``Isolation`` and its like are public names of the package as well."""
    taken = set()
    for module in MODULES:
        if part_of(module) in (*BY_THE_DOOR, "lowtide"):
            for node in nodes_at(MODULES[module]):
                if isinstance(node, ast.ImportFrom) and node.module == DOOR:
                    taken |= {each.name for each in node.names}
    assert taken == set(importlib.import_module(DOOR).__all__)


def imports_lmdb(tree: ast.Module) -> bool:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and "lmdb" in {each.name.split(".")[0] for each in node.names}:
            return True
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "lmdb":
            return True
    return False


def test_only_the_base_imports_lmdb() -> None:
    """The rest has LMDB's types and errors from ``lowtide.engine.base.types``."""
    elsewhere = [module for module in MODULES if not module.startswith("lowtide.engine.base.")]
    assert [module for module in elsewhere if imports_lmdb(tree_of(module))] == []


def test_every_part_has_its_place() -> None:
    assert {part_of(module) for module in MODULES} == set(HEIGHT)


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circle({module: imported_by(module, at_run_time=True) - {module} for module in MODULES}) == []


def test_a_module_is_short_and_says_what_it_is() -> None:
    lines = {module: path.read_text().count("\n") for module, path in MODULES.items()}
    assert {module: count for module, count in lines.items() if count > LONGEST} == {}
    assert [module for module in MODULES if not ast.get_docstring(tree_of(module))] == []


def test_a_wrong_import_is_found() -> None:
    """The tests above would notice."""
    source = "from lowtide.store import Store\nif TYPE_CHECKING:\n    import lowtide.observe.stats\nimport lmdb\n"
    found = set(imports(ast.parse(source), at_run_time=False))
    assert found == {"lowtide.store", "lowtide.observe.stats"}
    assert set(imports(ast.parse(source), at_run_time=True)) == {"lowtide.store"}
    assert upward("feed", found) == ["lowtide.observe.stats", "lowtide.store"]
    assert upward("documents", found) == ["lowtide.store"]
    assert imports_lmdb(ast.parse(source))
    assert imports_lmdb(ast.parse("from lmdb.cffi import Environment"))
    assert not imports_lmdb(ast.parse("from lowtide.engine.base import lmdb"))
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})
    assert circle({"a": {"b", "c"}, "b": {"c"}}) == []
