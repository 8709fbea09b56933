"""Prose is wrapped at 100 columns. Tables, code and links that cannot be broken may be longer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.documents import ROOT, documents, name_of, prose

WIDEST = 100
UNWRAPPED = {ROOT / "CHANGELOG.md"}
PAGES = [each for each in documents() if each not in UNWRAPPED]


def too_long(text: str) -> list[str]:
    """The lines of ``text`` that could have been broken and were not."""
    lines = (line for line in text.splitlines() if not re.match(r"\s*(\||!\[|<!--|#)", line))
    return [line for line in lines if len(line) > WIDEST and " " in without_code(line.strip())]


def without_code(line: str) -> str:
    """A list item that is one code span or one link cannot be broken."""
    return re.sub(r"^(?:[*-]|\d+\.) +", "", re.sub(r"`[^`]*`", "``", line))


@pytest.mark.parametrize("document", PAGES, ids=name_of)
def test_no_line_of_prose_is_longer_than_100_columns(document: Path) -> None:
    assert too_long(prose(document)) == []


def test_a_long_line_is_found() -> None:
    """The test above would notice."""
    assert too_long("word " * 21) == ["word " * 21]
    assert too_long("| cell " * 30 + "|") == []
    assert too_long("* `" + "code " * 30 + "`") == []
