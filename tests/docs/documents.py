"""Parses the project's documents: code blocks, links, tables, and the tests that they name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
OPERATIONS = ROOT / "docs" / "operations.md"

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<code>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(?P<title>.+?) *$", re.MULTILINE)
_TEST_FILE = re.compile(r"`(?P<path>[\w/]*test_\w+\.py)(?:::(?P<name>\w+))?`")
_TEST_NAME = re.compile(r"`(?P<name>test_\w+)`")


@dataclass(frozen=True)
class Block:
    """A fenced block of a document; ``line`` is where its code begins."""

    language: str
    code: str
    line: int


def documents() -> list[Path]:
    """README, the guide for contributors, changelog, the list of examples and docs, in order."""
    others = (ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "examples" / "README.md")
    return [README, *others, *sorted((ROOT / "docs").rglob("*.md"))]


def name_of(document: Path) -> str:
    return str(document.relative_to(ROOT))


def code_blocks(document: Path, language: str) -> list[Block]:
    text = document.read_text()
    return [
        Block(match["language"], match["code"], text.count("\n", 0, match.start()) + 2)
        for match in _FENCE.finditer(text)
        if match["language"] == language
    ]


def prose(document: Path) -> str:
    """The document without its code blocks."""
    return _FENCE.sub("", document.read_text())


def links(document: Path) -> list[str]:
    return [match["target"] for match in _LINK.finditer(prose(document))]


def anchors(document: Path) -> set[str]:
    """The names by which the headings can be linked to, made as GitHub makes them."""
    titles = (match["title"].replace("`", "").lower() for match in _HEADING.finditer(prose(document)))
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


def section(document: Path, title: str) -> str:
    """The text under a heading, up to the next heading of any level."""
    found = re.search(
        rf"^#+ {re.escape(title)}\n(?P<text>.*?)(?=^#|\Z)", document.read_text(), re.MULTILINE | re.DOTALL
    )
    assert found is not None, f"{name_of(document)} has no section {title!r}"
    return found["text"]


def unwrapped(text: str) -> str:
    """The text in one line, wherever its lines end on the page."""
    return " ".join(text.split())


def table(text: str) -> list[list[str]]:
    """The rows of the first table in ``text``, without its heading."""
    rows = [line.strip().strip("|").split(" | ") for line in text.splitlines() if line.strip().startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def named_tests(document: Path) -> list[tuple[str | None, str | None]]:
    """What the document says of tests: a file, or a file and a test in it, or a test alone."""
    text = prose(document)
    files = [(match["path"], match["name"]) for match in _TEST_FILE.finditer(text)]
    return [*files, *((None, match["name"]) for match in _TEST_NAME.finditer(text))]
