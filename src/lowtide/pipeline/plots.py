"""Small plots as SVG: bars and a line. A report needs no other package and no network for them.

Everything that comes from outside is escaped. Colours are classes, which the page's style sheet sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import floor, log10
from typing import Final, TypeVar

_Point = TypeVar("_Point")

WIDTH: Final = 640
_ROW: Final = 26
_NAMES: Final = 220
_VALUES: Final = 110
_LINE_HEIGHT: Final = 220
_MARGIN: Final = 64
_LONGEST_NAME: Final = 30


def bars(title: str, values: Sequence[tuple[str, float, str]]) -> str:
    """Horizontal bars, each with its name, its value and the words for the value."""
    top = max((value for _, value, _ in values), default=0) or 1
    room = WIDTH - _NAMES - _VALUES
    rows = []
    for number, (name, value, words) in enumerate(values):
        y = number * _ROW
        width = max(1.0, value / top * room) if value > 0 else 0.0
        rows.append(
            f'<text class="name" x="{_NAMES - 8}" y="{y + 17}">{xml_text(_short(name))}</text>'
            f'<rect class="bar" x="{_NAMES}" y="{y + 4}" width="{width:.1f}" height="{_ROW - 8}">'
            f"<title>{xml_text(name)}: {xml_text(words)}</title></rect>"
            f'<text class="value" x="{_NAMES + width + 6:.1f}" y="{y + 17}">{xml_text(words)}</text>'
        )
    return _svg(title, max(1, len(values)) * _ROW, "".join(rows) if values else _nothing())


def line(title: str, points: Sequence[tuple[str, float]], unit: str) -> str:
    """A line over points in order, each with its name; the axis begins at 0."""
    if not points:
        return _svg(title, _ROW, _nothing())
    top = _round_up(max(value for _, value in points))
    right, bottom = WIDTH - 16, _LINE_HEIGHT - 28
    step = (right - _MARGIN) / max(1, len(points) - 1)
    places = [
        (_MARGIN + number * step, bottom - value / top * (bottom - 16)) for number, (_, value) in enumerate(points)
    ]
    ticks = "".join(
        f'<line class="grid" x1="{_MARGIN}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="name" x="{_MARGIN - 8}" y="{y + 4:.1f}">{xml_text(_number(top * share))}</text>'
        for share in (0.0, 0.5, 1.0)
        for y in [bottom - share * (bottom - 16)]
    )
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dots = "".join(
        f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{xml_text(name)}: {xml_text(_number(value))} '
        f"{xml_text(unit)}</title></circle>"
        for (x, y), (name, value) in zip(places, points, strict=True)
    )
    first, last = points[0][0], points[-1][0]
    ends = f'<text class="value" x="{_MARGIN}" y="{_LINE_HEIGHT - 8}">{xml_text(first)}</text>'
    if len(points) > 1:
        ends += f'<text class="name" x="{right}" y="{_LINE_HEIGHT - 8}">{xml_text(last)}</text>'
    return _svg(title, _LINE_HEIGHT, f'{ticks}<polyline class="line" points="{path}"/>{dots}{ends}')


def thinned(points: Sequence[_Point], most: int = 200) -> list[_Point]:
    """So many of the points at most, the first and the last among them, evenly spread.

    >>> thinned("abcde", 3)
    ['a', 'c', 'e']
    """
    if len(points) <= most:
        return list(points)
    return [points[number * (len(points) - 1) // (most - 1)] for number in range(most)]


def _svg(title: str, height: int, inside: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {WIDTH} {height}" '
        f'aria-label="{xml_text(title)}">{inside}</svg>'
    )


def _nothing() -> str:
    return '<text class="value" x="0" y="17">nothing yet</text>'


def xml_text(content: str) -> str:
    """Text for XML: escaped, and without the characters that XML does not have."""
    plain = content.encode(errors="backslashreplace").decode()
    return escape("".join(each if each.isprintable() else "\ufffd" for each in plain))


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"…{name[1 - _LONGEST_NAME :]}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"


def _round_up(value: float) -> float:
    """The next number above that is 1, 2 or 5 and zeros.

    >>> [_round_up(each) for each in (0, 3, 70, 101)]
    [1.0, 5.0, 100.0, 200.0]
    """
    if value <= 0:
        return 1.0
    unit = 10.0 ** floor(log10(value))
    return next(unit * each for each in (1, 2, 5, 10) if unit * each >= value)
