"""How the command line parses and prints bytes and times: pure functions.

Keys and values are bytes. Printable UTF-8 is written as text, anything else as ``hex:`` and its digits. The same forms
are read, and also ``base64:`` and ``text:``. The latter is for text that itself begins with one of these prefixes. In
JSON, a value is a string, or ``{"base64": "..."}`` if it is not printable text.
"""

from __future__ import annotations

import base64
import binascii
import json
import time
from pathlib import Path
from typing import Any

from lowtide.errors import UsageError

_FORMS = ("hex:", "base64:", "text:")


def clean(text: str) -> str:
    """``text`` made safe for a terminal: control characters, and what cannot be encoded, are escaped."""
    whole = text.encode(errors="backslashreplace").decode()
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in whole)


def bytes_of(text: str) -> bytes:
    """Parse bytes from a user's ``text``."""
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
        raise UsageError(f"{text!r} cannot be decoded: {error}; write text:{text} if it is text") from error
    return text.encode(errors="surrogateescape")


def printable(data: bytes) -> str | None:
    """``data`` as text; None if it is not text, or not all of it is printable."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() else None


def shown(data: bytes | None) -> str:
    """``data`` for people, in a form that ``bytes_of`` reads; nothing for None."""
    if data is None:
        return ""
    text = printable(data)
    if text is None:
        return f"hex:{data.hex()}"
    return f"text:{text}" if text.startswith(_FORMS) else text


def shortened(text: str, width: int) -> str:
    """``text`` if it fits, otherwise its beginning."""
    return text if len(text) <= width else f"{text[: max(0, width - 1)]}…"


def plain(value: object) -> Any:
    """Convert values that JSON does not have: bytes and paths."""
    if isinstance(value, bytes):
        text = printable(value)
        return {"base64": base64.b64encode(value).decode()} if text is None else text
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def as_json(value: object, *, indent: int | None = None) -> str:
    """``value`` as ASCII-only JSON, which passes through every pipe."""
    return json.dumps(value, default=plain, indent=indent)


def moment(seconds: float) -> str:
    """Format a time, in seconds since the epoch, in UTC."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(seconds))
    except (OverflowError, ValueError, OSError):
        return f"{seconds:g} s after 1970"
