"""docs/isolation.md shows the table that is tested, and the tests that it names exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lowtide import Isolation
from lowtide.engine.transaction import validate
from lowtide.engine.versions import visibility
from tests.isolation.anomalies import TABLE

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "isolation.md").read_text()
NAMED_TESTS = sorted(set(re.findall(r"tests/isolation/(test_\w+\.py)(?:::(\w+))?", PAGE)))


def rows_under(heading: str) -> list[list[str]]:
    """The rows of the first table under ``heading``, its title row first."""
    lines = PAGE.split(f"## {heading}\n", 1)[1].splitlines()
    table: list[list[str]] = []
    for line in lines:
        if line.startswith("|"):
            table.append([cell.strip() for cell in line.strip("|").split("|")])
        elif table:
            break
    return [table[0], *table[2:]]


def test_the_table_of_anomalies_is_the_one_that_is_tested() -> None:
    title, *rows = rows_under("Which anomaly, at which level")
    assert title[2:] == [level.name for level in Isolation]
    shown = {row[1].strip("`"): row[2:] for row in rows}
    assert shown == {story.__name__: [outcome.value for outcome in outcomes] for story, outcomes in TABLE.items()}


@pytest.mark.parametrize(("file", "test"), NAMED_TESTS)
def test_a_test_that_is_named_exists(file: str, test: str) -> None:
    source = (Path(__file__).parent / file).read_text()
    assert not test or f"def {test}(" in source


def test_the_numbers_are_those_of_the_source() -> None:
    words = " ".join(PAGE.split())
    assert f"({visibility._FIRST_CHUNK} keys at first, doubling up to {visibility._LARGEST_CHUNK:,})" in words
    assert f"more than {validate._MOST_KEYS:,} keys are kept" in words


def test_every_level_is_described() -> None:
    for level in Isolation:
        assert f"\n**{level.name}** promises" in PAGE
