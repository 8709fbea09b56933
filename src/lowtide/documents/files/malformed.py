"""Error texts for input that is not JSON, or not a document. Pure functions."""

from __future__ import annotations

import re

_AT = re.compile(r" \(byte (\d+)\)$")
_NAMES = {list: "an array", str: "a string", int: "a number", float: "a number", bool: "a boolean", type(None): "null"}


def reason_and_byte(error: Exception) -> tuple[str, int | None]:
    """Return the reason of a JSON decoding error, and its byte offset if known."""
    if isinstance(error, RecursionError):
        return "the document is nested too deeply", None
    if isinstance(error, UnicodeDecodeError):
        return "the line is not valid UTF-8", error.start
    words = str(error)
    at = _AT.search(words)
    words = _AT.sub("", words)
    return words[:1].lower() + words[1:] if not words.startswith("JSON") else words, int(at[1]) if at else None


def not_a_document(value: object) -> str:
    """Return the error text for a value that is not a document."""
    name = _NAMES.get(type(value), f"a {type(value).__name__}")
    hint = "; use --format json if the file is one array" if type(value) is list else ""
    return f"a document must be an object in braces, got {name}{hint}"
