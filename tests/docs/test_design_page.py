"""What docs/design.md says of the source is so: the layers, and where each noun lives."""

from __future__ import annotations

import re

from tests.docs.documents import ROOT, section, table
from tests.project.test_layers import LAYERS

PAGE = ROOT / "docs" / "design.md"
SOURCE = ROOT / "src" / "lowtide"


def test_the_layers_are_those_that_are_tested() -> None:
    told = re.search(r"^`(errors < [^`]*)`", section(PAGE, "Layers"), re.MULTILINE)
    assert told is not None
    layers = [tuple(each.split(", ")) for each in told[1].split(" < ")]
    package = {("lowtide",), ("__main__",)}
    assert layers == [each for each in LAYERS if each not in package]


def test_each_noun_lives_where_the_table_says() -> None:
    """A name without a folder is in the folder that was named before it."""
    missing = []
    for row in table(section(PAGE, "Definitions")):
        folder = ""
        for path in re.findall(r"`([\w/.]+)`", row[2]):
            if "/" in path:
                folder = path.rpartition("/")[0]
            if not (SOURCE / path).exists() and not (SOURCE / folder / path).exists():
                missing.append((row[0], path))
    assert missing == []


def test_each_file_that_a_decision_names_exists() -> None:
    text = section(PAGE, "Decisions, and why")
    named = re.findall(r"`((?:\w+/)+\w+\.py)`", text)
    assert len(named) > 10
    assert [path for path in named if not (SOURCE / path).exists() and not (ROOT / path).exists()] == []
