"""What README and docs refer to exists: files, headings, tests, make targets."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.documents import README, ROOT, anchors, code_blocks, documents, links, name_of, named_tests, prose

EVERY_DOCUMENT = pytest.mark.parametrize("document", documents(), ids=name_of)


@cache
def functions_of(path: Path) -> frozenset[str]:
    functions = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef))
    return frozenset(node.name for node in functions if node.name.startswith("test_"))


@cache
def all_files() -> tuple[Path, ...]:
    return tuple(sorted((ROOT / "tests").rglob("test_*.py")))


def files_called(path: str) -> list[Path]:
    """The test files of that path, or, if it is a name alone, of that name."""
    if "/" in path:
        return [ROOT / path] if (ROOT / path).is_file() else []
    return [file for file in all_files() if file.name == path]


@EVERY_DOCUMENT
def test_every_relative_link_leads_somewhere(document: Path) -> None:
    broken = []
    for link in links(document):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@EVERY_DOCUMENT
def test_every_test_that_is_named_exists(document: Path) -> None:
    missing = []
    for path, name in named_tests(document):
        files = files_called(path) if path is not None else list(all_files())
        if not files or (name is not None and not any(name in functions_of(file) for file in files)):
            missing.append((path, name))
    assert missing == []


@EVERY_DOCUMENT
def test_every_file_of_the_source_that_is_named_exists(document: Path) -> None:
    named = re.findall(r"`((?:src|tests|bench|demo|examples|docs)/[\w/.-]*)`", prose(document))
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_example_is_listed() -> None:
    listed = {link for link in links(ROOT / "examples" / "README.md") if link.endswith(".py")}
    assert listed == {path.name for path in (ROOT / "examples").glob("*.py")}
    assert "examples/README.md" in links(README)


def test_every_document_is_linked_from_the_readme() -> None:
    linked = {link.partition("#")[0] for link in links(README)}
    assert {str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")} <= linked


def test_the_readme_fits_on_a_few_screens() -> None:
    assert README.read_text().count("\n") <= 150


def test_every_command_of_the_readme_exists() -> None:
    shell = "\n".join(block.code for block in code_blocks(README, "sh")) + prose(README)
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"demo", "test", "bench"} <= set(re.findall(r"`make ([a-z]+)`", shell)) <= targets
    for module in set(re.findall(r"python -m ((?:bench|demo)[\w.]*)", shell)):
        path = ROOT / module.replace(".", "/")
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), module


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    """The tests above would notice."""
    document = tmp_path / "page.md"
    document.write_text(
        "# A heading, `code`\n[one](nowhere.md) [two](#a-heading-code) `tests/unit/test_x.py::test_y` `test_z`\n"
    )
    assert links(document) == ["nowhere.md", "#a-heading-code"]
    assert anchors(document) == {"a-heading-code"}
    assert named_tests(document) == [("tests/unit/test_x.py", "test_y"), (None, "test_z")]
