"""The package's metadata is consistent: version, changelog, dependencies, types, the API that examples use."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import lowtide
import lowtide.audit
import lowtide.pipeline
import lowtide.rdf
import lowtide.spark
from tests.project.source import ROOT, nodes_at

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OF_THE_COMPILER = "mypy_extensions"
"""Has types that only a compiled build knows: mypyc brings it."""
FOR_USERS = sorted([*(ROOT / "examples").glob("*.py"), *(ROOT / "demo").glob("*.py")])


def packages_imported(*paths: Path) -> set[str]:
    """The first parts of the names of everything that these files import."""
    found = set()
    for node in (node for path in paths for node in nodes_at(path)):
        if isinstance(node, ast.Import):
            found |= {each.name.split(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found - set(sys.stdlib_module_names)


def test_the_version_is_the_same_everywhere() -> None:
    newest = re.search(
        r"^## \[(?P<version>[\d.]+)\] - \d{4}-\d{2}-\d{2}$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE
    )
    assert newest is not None
    assert PROJECT["version"] == lowtide.__version__ == newest["version"]


def packages_required(*paths: Path) -> set[tuple[str, str]]:
    """What these files name in calls of ``extras.require``: package and extra."""
    found = set()
    for node in (node for path in paths for node in nodes_at(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "require":
            package, extra = (ast.literal_eval(each) for each in node.args[:2])
            if extra is not None:
                found.add((package.split(".")[0], extra))
    return found


def test_types_of_the_compiler_are_not_imported_when_the_package_runs() -> None:
    """Else it would be a dependency."""
    importing = [path for path in (ROOT / "src").rglob("*.py") if OF_THE_COMPILER in packages_imported(path)]
    assert importing
    for path in importing:
        unread = {
            id(inner)
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            for statement in node.body
            for inner in ast.walk(statement)
            if isinstance(inner, ast.ImportFrom) and inner.module == OF_THE_COMPILER
        }
        assert len(unread) == path.read_text().count(OF_THE_COMPILER), path


def test_the_dependencies_are_what_the_source_imports() -> None:
    source = ROOT / "src" / "lowtide"
    commands = set((source / "cli").rglob("*.py"))
    columns = set((source / "columnar").rglob("*.py"))
    for_spark = {*(source / "spark").rglob("*.py"), *(ROOT / "src" / "pyspark_lowtide").rglob("*.py")}
    for_pipeline = set((source / "pipeline").rglob("*.py"))
    for_rdf = {*(source / "quads").rglob("*.py"), *(source / "rdf").rglob("*.py")}
    others = set((ROOT / "src").rglob("*.py")) - commands - columns - for_spark - for_pipeline - for_rdf
    needed = packages_imported(*others) - {"lowtide", OF_THE_COMPILER}
    assert needed == declared(PROJECT["dependencies"])
    for_commands = packages_imported(*commands) - {"lowtide"}
    for_statements = declared(PROJECT["optional-dependencies"]["rdf"])  # of the commands of lowtide rdf
    assert for_commands - needed - for_statements == declared(PROJECT["optional-dependencies"]["cli"])
    for_columns = packages_imported(*columns) - {"lowtide"}
    assert for_columns - needed == declared(PROJECT["optional-dependencies"]["arrow"])
    of_spark = packages_imported(*for_spark) - {"lowtide"}
    assert (of_spark | for_columns) - needed == declared(PROJECT["optional-dependencies"]["spark"])
    assert packages_imported(*for_rdf) - {"lowtide"} - needed == declared(PROJECT["optional-dependencies"]["rdf"])
    of_pipeline = packages_imported(*for_pipeline) - {"lowtide"} - needed
    extras = PROJECT["optional-dependencies"]
    assert of_pipeline <= declared([*extras["spark"], *extras["sql"], *extras["pipeline"]])


def test_what_is_imported_when_needed_is_in_the_extra_that_its_error_names() -> None:
    """Or comes with a package of that extra, which depends on it."""
    comes_along = {"referencing": "jsonschema", "jsonschema_specifications": "jsonschema"}
    required = packages_required(*(ROOT / "src").rglob("*.py"))
    assert required
    for package, extra in required:
        assert comes_along.get(package, package) in declared(PROJECT["optional-dependencies"][extra])


def declared(requirements: list[str]) -> set[str]:
    return {re.split(r"[><=~!]", each)[0] for each in requirements}


def test_each_dependency_is_pinned_for_the_project_itself() -> None:
    pinned = {line.partition("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().split()}
    extras = [each for extra in PROJECT["optional-dependencies"].values() for each in extra]
    wanted = {re.split(r"[><=~!\[]", each)[0].lower() for each in [*PROJECT["dependencies"], *extras, *for_work()]}
    assert wanted - {"lowtide"} <= pinned


def for_work() -> list[str]:
    """What is needed to work on Lowtide, not to use it."""
    lines = [line for path in (ROOT / "requirements").glob("*.txt") for line in path.read_text().splitlines()]
    return [line for line in lines if not line.startswith("#")]


def test_the_extras_are_for_users_and_one_has_them_all() -> None:
    extras = PROJECT["optional-dependencies"]
    assert set(extras) == {"cli", "schema", "arrow", "spark", "sql", "rdf", "pipeline", "all"}
    itself = next(each for each in extras["all"] if each.startswith("lowtide["))
    assert set(itself.removeprefix("lowtide[").removesuffix("]").split(",")) == set(extras) - {"all"}
    assert declared(extras["all"]) >= {"pandas", "polars"}
    makefile = (ROOT / "Makefile").read_text()
    assert {f"-r requirements/{path.name}" for path in (ROOT / "requirements").iterdir()} == set(
        re.findall(r"-r requirements/\w+\.txt", makefile)
    )


def test_the_description_of_the_package_has_no_link_into_the_repository() -> None:
    """Where it is shown there is no repository beside it."""
    source = (ROOT / "hatch_build.py").read_text()
    before, _, after = source.partition("class ReadmeHook")
    namespace: dict[str, Any] = {}
    exec(re.sub(r"^from hatchling.*\n", "", before, flags=re.MULTILINE), namespace)
    assert 'metadata["readme"]' in after
    readme = (ROOT / "README.md").read_text()
    shown = namespace["description"](readme)
    targets = re.findall(r"\]\(([^)]*)\)", re.sub(r"^```.*?^```$", "", shown, flags=re.MULTILINE | re.DOTALL))
    assert [each for each in targets if not each.startswith(("#", "http"))] == []
    assert "![" not in shown
    assert "| [documents](docs/documents.md) | collections" in readme
    assert "| documents | collections" in shown
    assert readme.count("```") == shown.count("```")
    assert readme.count("\n| ") == shown.count("\n| ")
    example = "[a](b.md) ![c](d.svg) [e](https://f.g)\n\n![h](i.svg)\n\n```\n[j](k)\n```\n"
    assert namespace["description"](example) == "a  [e](https://f.g)\n\n```\n[j](k)\n```\n"


def modules_after(statements: str) -> set[str]:
    """What is imported after these statements ran in a new interpreter."""
    program = f"{statements}\nimport sys\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_importing_the_package_loads_next_to_nothing() -> None:
    """Importing is not timed here: what makes it slow is what it loads."""
    loaded = modules_after("import lowtide") - modules_after("")
    assert {each for each in loaded if each.startswith("lowtide")} == {"lowtide"}
    heavy = {"lmdb", "msgspec", "dataclasses", "inspect", "logging", "json", "socket", "pathlib", "sortedcontainers"}
    assert not loaded & heavy
    assert len(loaded) < 40


def test_opening_a_store_loads_no_extra_and_no_aggregation() -> None:
    opened = modules_after("import lowtide, tempfile\nlowtide.open(tempfile.mkdtemp()).close()")
    assert "lowtide.store" in opened
    assert not opened & {"pyarrow", "numpy", "duckdb", "pyspark", "jsonschema", "typer", "rich", "secrets"}
    assert not {each for each in opened if each.startswith(("lowtide.documents.aggregation", "lowtide.audit"))}


def test_every_public_name_is_where_the_type_checker_looks_for_it() -> None:
    tree = ast.parse((ROOT / "src" / "lowtide" / "__init__.py").read_text())
    [for_types] = [node for node in tree.body if isinstance(node, ast.If)]
    shown: dict[str, object] = {}
    for node in for_types.body:
        assert isinstance(node, ast.ImportFrom)
        module = importlib.import_module(node.module or "")
        shown |= {each.asname or each.name: getattr(module, each.name) for each in node.names}
    assert shown.keys() == set(lowtide.__all__)
    for name, value in shown.items():
        assert getattr(lowtide, name) is value
    assert set(lowtide.__all__) <= set(dir(lowtide))
    with pytest.raises(AttributeError, match="module 'lowtide' has no attribute 'nothing'"):
        _ = lowtide.nothing
    assert lowtide.errors.Error is lowtide.Error


def test_the_package_is_typed_and_has_its_licence() -> None:
    assert (ROOT / "src" / "lowtide" / "py.typed").is_file()
    assert (ROOT / "LICENSE").read_text().split()[:2] == ["Apache", "License"]


@pytest.mark.parametrize("path", FOR_USERS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_examples_and_demo_use_the_public_interface_only(path: Path) -> None:
    text = path.read_text()
    assert "from lowtide" not in text
    assert not re.search(r"import lowtide\.(?!(spark|pipeline|audit|rdf)$)", text, re.MULTILINE)
    public = {*lowtide.__all__, "__file__", "spark", "pipeline", "audit", "rdf"}
    assert [name for name in re.findall(r"\blowtide\.(\w+)", text) if name not in public] == []
    for module in (lowtide.spark, lowtide.pipeline, lowtide.audit, lowtide.rdf):
        assert set(re.findall(rf"\b{re.escape(module.__name__)}\.(\w+)", text)) <= set(module.__all__)
    assert not re.search(r"\bstore\._", text)


def test_what_methods_of_collections_take_and_return_can_be_named() -> None:
    """In annotations of user code. Cursors of ``aggregate`` and ``sql`` are only for iteration."""
    named = set()
    for kind in (lowtide.Collection, lowtide.ReadCollection):
        for name, method in vars(kind).items():
            if not name.startswith("_") and inspect.isfunction(method):
                returned = method.__annotations__.get("return", "")
                named |= {each for each in re.findall(r"\b[A-Z]\w+", str(returned)) if each not in {"Any", "None"}}
    assert {"InsertOneResult", "Cursor", "CollectionWatch", "Violation"} <= named
    assert named - {"Document", "Results"} <= set(lowtide.__all__)


def test_rdflib_finds_the_plugin() -> None:
    name, attribute = PROJECT["entry-points"]["rdf.plugins.store"]["lowtide"].split(":")
    found = getattr(importlib.import_module(name), attribute)
    assert found is lowtide.rdf.LowtideStore
