"""How the command line reads and writes bytes, times and sizes: pure functions.

Keys and values are bytes. One that is printable UTF-8 is written as the text that it is; any other as ``hex:`` and its
digits. The same forms are read, and ``base64:`` and ``text:`` besides; the last is for a text that begins with one of
these words itself. In JSON a value is a string, or ``{"base64": "..."}`` where it is no printable text.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import time
from pathlib import Path
from typing import Any

from lowtide.errors import UsageError

_FORMS = ("hex:", "base64:", "text:")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_PART = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>ms|[smhdw])")


def clean(text: str) -> str:
    """``text`` as it may go to a terminal: what would steer it, or cannot be encoded, is escaped."""
    whole = text.encode(errors="backslashreplace").decode()
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in whole)


def bytes_of(text: str) -> bytes:
    """The bytes that a user means by ``text``."""
    form, colon, rest = text.partition(":")
    try:
        match form + colon:
            case "hex:":
                return bytes.fromhex(rest)
            case "base64:":
                return base64.b64decode(rest, validate=True)
            case "text:":
                return rest.encode(errors="surrogateescape")
    except (ValueError, binascii.Error) as error:
        raise UsageError(f"{text!r} does not hold what it says: {error}; write text:{text} if it is text") from error
    return text.encode(errors="surrogateescape")


def printable(data: bytes) -> str | None:
    """``data`` as text; None if it is none, or not all of it can be printed."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() else None


def shown(data: bytes | None) -> str:
    """``data`` for a person, in a form that ``bytes_of`` reads; nothing for None."""
    if data is None:
        return ""
    text = printable(data)
    if text is None:
        return f"hex:{data.hex()}"
    return f"text:{text}" if text.startswith(_FORMS) else text


def shortened(text: str, width: int) -> str:
    """``text`` if it fits, else its beginning."""
    return text if len(text) <= width else f"{text[: max(0, width - 1)]}…"


def plain(value: object) -> Any:
    """What JSON has no word for: bytes and paths."""
    if isinstance(value, bytes):
        text = printable(value)
        return {"base64": base64.b64encode(value).decode()} if text is None else text
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def as_json(value: object, *, indent: int | None = None) -> str:
    """``value`` as JSON, all of it ASCII, so that it passes through every pipe."""
    return json.dumps(value, default=plain, indent=indent)


def seconds_of(text: str) -> float:
    """The seconds of a span of time, such as ``90``, ``90s``, ``1h30m`` or ``2d``."""
    compact = text.replace(" ", "").lower()
    try:
        seconds = float(compact)
        if math.isfinite(seconds):
            return seconds
    except ValueError:
        pass
    parts = list(_PART.finditer(compact))
    if not parts or "".join(part[0] for part in parts) != compact:
        raise UsageError(f"{text!r} is no span of time; write it as 90s, 15m, 1h30m or 2d")
    return sum(float(part["number"]) * _UNITS[part["unit"]] for part in parts)


def span(seconds: float) -> str:
    """A span of time for a person: its two largest units."""
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
    """A number of bytes for a person."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def moment(seconds: float) -> str:
    """A moment, from seconds since the epoch, in UTC."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(seconds))
    except (OverflowError, ValueError, OSError):
        return f"{seconds:g} s after 1970"
