"""Small plots made of block characters."""

from __future__ import annotations

from collections.abc import Sequence

#: x and y of one point; a line's points are in the order of x.
Points = Sequence[tuple[float, float]]

EIGHTHS = " ▁▂▃▄▅▆▇█"
FULL = "█"
SHADE = "░"


def text_plot(front: Points, behind: Points, width: int = 60, height: int = 10) -> str:
    """Two areas over the same axes from zero on, `front` solid and `behind` shaded."""
    everything = [*front, *behind, (1.0, 1.0)]
    right, top = max(x for x, _ in everything), max(y for _, y in everything)
    solid, shaded = (_columns(points, right, top, width, height) for points in (front, behind))
    lines = []
    for row in reversed(range(height)):
        label = f"{top * (row + 1) / height:>9,.0f}" if row + 1 == height or row + 1 == height // 2 else " " * 9
        lines.append(f"{label} ┤" + "".join(_cell(s - row, b - row) for s, b in zip(solid, shaded, strict=True)))
    lines.append(f"{0:>9} └" + "─" * width)
    lines.append(" " * 11 + "0" + f"{right:,.0f} commits".rjust(width - 1))
    return "\n".join(lines)


def _columns(points: Points, right: float, top: float, width: int, height: int) -> list[float]:
    """For each column the height in rows of the last point at or before its right edge; past the last point, 0."""
    heights, reached, value = [], 0, 0.0
    for column in range(width):
        while reached < len(points) and points[reached][0] <= right * (column + 1) / width:
            value, reached = points[reached][1], reached + 1
        ended = not points or points[-1][0] < right * column / width
        heights.append(0.0 if ended else value / top * height)
    return heights


def _cell(solid: float, shaded: float) -> str:
    """One character, given how far each area reaches above the cell's lower edge, in cells."""
    if solid >= 1:
        return FULL
    # The smallest value above zero shows as one eighth: a flat line near zero must not vanish.
    eighths = max(1, round(solid * 8)) if solid > 0 else 0
    return EIGHTHS[eighths] if eighths else SHADE if shaded >= 0.5 else " "


def sparkline(values: Sequence[float], width: int = 50) -> str:
    shown = values[-width:]
    top = max(shown, default=0) or 1
    return "".join(EIGHTHS[max(1, round(value / top * 8))] for value in shown)
