"""The list of points in docs/schedules.md matches the source."""

from __future__ import annotations

import re
from pathlib import Path

from tests.schedules import test_beside_the_background, test_two_transactions
from tests.support.points import POINTS, find_points, source_of_the_engine

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "schedules.md"
_ROW = re.compile(r"^\| `([\w.]+)` \| (`[^|]+`) \| (\S[^|]+) \|$", re.MULTILINE)


def test_the_documented_points_are_those_of_the_source() -> None:
    listed = {name: set(re.findall(r"`([\w/.]+)`", places)) for name, places, _ in _ROW.findall(_PAGE.read_text())}
    source: dict[str, set[str]] = {}
    for (path, _), name in POINTS.items():
        source.setdefault(name, set()).add(str(Path(path).relative_to(source_of_the_engine())))
    assert listed == source


def test_a_point_is_a_comment_at_the_end_of_a_line(tmp_path: Path) -> None:
    file = tmp_path / "code.py"
    file.write_text("a = 1  # point: one.two\nb = 2  # point: three, or not\n# point: alone\n")
    assert find_points([file]) == {(str(file), 1): "one.two", (str(file), 3): "alone"}


def test_points_that_tests_stop_at_exist() -> None:
    """A test would silently never stop at a renamed point."""
    used = set(test_two_transactions.STEPS)
    text = Path(test_beside_the_background.__file__).read_text()
    used |= set(re.findall(r'"((?:begin|release|read|scan|commit|collect|sweep|checkpoint|drop|freeze)\.\w+)"', text))
    assert used <= set(POINTS.values())
