"""A picture of a cycle, as SVG: its transactions on a circle, an arrow for each step, and why each is there."""

from __future__ import annotations

from itertools import chain
from math import cos, hypot, pi, sin
from textwrap import wrap

from lowtide.audit.anomalies import MEANINGS
from lowtide.audit.history import Name
from lowtide.pipeline.audit.records import Anomaly, Step
from lowtide.pipeline.plots import xml_text

COLORS = {"ww": "#7a3e9d", "wr": "#1b6ca8", "rw": "#c2410c", "session": "#6b7280", "time": "#6b7280"}
WORDS = {
    "ww": "wrote what the next one overwrote",
    "wr": "wrote what the next one saw",
    "rw": "saw what the next one overwrote",
    "session": "came before it in its session",
    "time": "ended before it began",
}
_WIDTH, _TOP, _RADIUS, _NODE = 720, 64, 120, 26
_COLUMNS = 92
"""Letters of a line of the text below."""


def picture(anomaly: Anomaly) -> str:
    """The picture of an anomaly that is a cycle.

    >>> from lowtide.pipeline.audit.pictures import picture
    >>> from lowtide.pipeline.audit.records import Anomaly, Step
    >>> steps = [Step(1, 2, "rw", "x", "T1 missed x"), Step(2, 1, "rw", "y", "T2 missed y")]
    >>> picture(Anomaly("write-skew", [1, 2], ["x", "y"], "", steps))[:4]
    '<svg'
    """
    names = list(dict.fromkeys(step.source for step in anomaly.steps))
    places = _places(names)
    kinds = dict.fromkeys(step.kind for step in anomaly.steps)
    text = [f"{kind}: {WORDS[kind]}" for kind in kinds]
    text += chain.from_iterable(wrap(step.because, _COLUMNS, subsequent_indent="    ") for step in anomaly.steps)
    below = _TOP + 2 * (_RADIUS + _NODE) + 40
    height = below + 20 * len(text) + 16
    size = f'viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="14">',
        f"<title>{xml_text(anomaly.name)}</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        *(_marker(kind) for kind in kinds),
        f'<text x="16" y="28" font-size="18" font-weight="bold">{xml_text(anomaly.name)}</text>',
        f'<text x="16" y="48" fill="#4b5563">{xml_text(MEANINGS.get(anomaly.name, ""))}</text>',
        *(_arrow(step, places) for step in anomaly.steps),
        *(_node(name, places[name]) for name in names),
        *(
            f'<text x="16" y="{below + 20 * number}" font-size="12" xml:space="preserve">{xml_text(line)}</text>'
            for number, line in enumerate(text)
        ),
        "</svg>",
    ]
    return "\n".join(parts)


def _places(names: list[Name]) -> dict[Name, tuple[float, float]]:
    center = _WIDTH / 2, _TOP + _RADIUS + _NODE
    turn = 2 * pi / max(1, len(names))
    return {
        name: (center[0] - _RADIUS * cos(turn * number), center[1] - _RADIUS * sin(turn * number))
        for number, name in enumerate(names)
    }


def _marker(kind: str) -> str:
    return (
        f'<marker id="{kind}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto">'
        f'<path d="M0,0 L10,5 L0,10 z" fill="{COLORS[kind]}"/></marker>'
    )


def _arrow(step: Step, places: dict[Name, tuple[float, float]]) -> str:
    """A curve to the left of the straight line, so that two arrows between two transactions do not meet."""
    (x, y), (to_x, to_y) = places[step.source], places[step.target]
    length = hypot(to_x - x, to_y - y) or 1.0
    along = (to_x - x) / length, (to_y - y) / length
    aside = along[1], -along[0]
    bend = min(40.0, length / 4)
    middle = (x + to_x) / 2 + bend * aside[0], (y + to_y) / 2 + bend * aside[1]
    begin = x + _NODE * along[0] + 8 * aside[0], y + _NODE * along[1] + 8 * aside[1]
    end = to_x - (_NODE + 3) * along[0] + 8 * aside[0], to_y - (_NODE + 3) * along[1] + 8 * aside[1]
    dashes = ' stroke-dasharray="5 4"' if step.kind in ("session", "time") else ""
    words = f"{step.kind} {step.key}".strip()
    return (
        f'<path d="M{begin[0]:.1f},{begin[1]:.1f} Q{middle[0]:.1f},{middle[1]:.1f} {end[0]:.1f},{end[1]:.1f}" '
        f'fill="none" stroke="{COLORS[step.kind]}" stroke-width="2"{dashes} marker-end="url(#{step.kind})"/>'
        f'<text x="{middle[0]:.1f}" y="{middle[1]:.1f}" text-anchor="middle" font-size="12" '
        f'fill="{COLORS[step.kind]}" stroke="white" stroke-width="4" paint-order="stroke">{xml_text(words)}</text>'
    )


def _node(name: Name, place: tuple[float, float]) -> str:
    shown = name if isinstance(name, str) else f"T{name}"
    return (
        f'<circle cx="{place[0]:.1f}" cy="{place[1]:.1f}" r="{_NODE}" fill="#f3f4f6" stroke="#111827"/>'
        f'<text x="{place[0]:.1f}" y="{place[1] + 5:.1f}" text-anchor="middle">{xml_text(shown)}</text>'
    )
