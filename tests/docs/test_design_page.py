"""What docs/design.md and CONTRIBUTING.md say about the source is true: the layers, and where each noun is defined."""

from __future__ import annotations

import re

from tests.docs.documents import ROOT, section, table
from tests.project.graph import counts, drawn_edges, edges
from tests.project.test_layers import LAYERS, ROOMS

PAGE = ROOT / "docs" / "design.md"
SOURCE = ROOT / "src" / "lowtide"


def test_the_layers_are_those_that_are_tested() -> None:
    """The page has the highest first."""
    rows = [row[0].replace("`", "").replace(".py", "") for row in table(section(PAGE, "Layers"))]
    package = {("lowtide",), ("__main__",)}
    assert [tuple(row.split(", ")) for row in reversed(rows)] == [each for each in LAYERS if each not in package]


def test_the_rooms_are_those_that_are_tested() -> None:
    told = dict(re.findall(r"^\* (\w+): `([^`]* < [^`]*)`", section(PAGE, "Rooms"), re.MULTILINE))
    assert {part: tuple(rooms.split(" < ")) for part, rooms in told.items()} == {
        part: tuple(each for each in rooms if each != "types") for part, rooms in ROOMS.items()
    }


def test_the_picture_of_the_imports_is_current() -> None:
    """``make graph`` draws it again."""
    assert drawn_edges() == edges()
    assert "(layers.svg)" in PAGE.read_text()


def test_what_must_not_come_back_has_not() -> None:
    """The other counts may have changed since the page was written."""
    told = {row[0]: int(row[2]) for row in table(section(PAGE, "Before and after"))}
    now = counts(SOURCE)
    assert told["layers"] == len(LAYERS)
    assert set(told) - {"layers"} == set(now)
    for what in ("loose modules", "class names defined twice"):
        assert now[what] == told[what]


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


def test_each_file_of_the_tour_exists() -> None:
    named = re.findall(r"`((?:\w+/)+\w+\.py)`", section(ROOT / "CONTRIBUTING.md", "Reading the source"))
    assert len(named) > 30
    assert [path for path in named if not (SOURCE / path).exists()] == []
