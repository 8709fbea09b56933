"""Durations and sizes, as people read and write them: pure functions."""

from __future__ import annotations

import math
import re
from typing import Final

from lowtide.errors import UsageError

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_PART: Final = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>ms|[smhdw])")


def seconds_of(text: str) -> float:
    """Parse a duration such as ``90``, ``90s``, ``1h30m`` or ``2d``; return its seconds.

    >>> seconds_of("1h30m")
    5400.0
    """
    compact = text.replace(" ", "").lower()
    try:
        seconds = float(compact)
        if math.isfinite(seconds):
            return seconds
    except ValueError:
        pass
    parts = list(_PART.finditer(compact))
    if not parts or "".join(part[0] for part in parts) != compact:
        raise UsageError(f"{text!r} is not a duration; write it as 90s, 15m, 1h30m or 2d")
    return sum(float(part["number"]) * _UNITS[part["unit"]] for part in parts)


def span(seconds: float) -> str:
    """Format a duration for people: its two largest units."""
    if seconds < 0:
        return f"-{span(-seconds)}"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    for unit, below, name, smaller in ((86400, 3600, "d", "h"), (3600, 60, "h", "min"), (60, 1, "min", "s")):
        if whole >= unit:
            return f"{whole // unit} {name} {whole % unit // below} {smaller}"
    raise AssertionError(seconds)


def size(count: float) -> str:
    """Format a number of bytes for people."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
