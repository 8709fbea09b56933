"""Words for what is no JSON, or is JSON but no document: pure functions."""

from __future__ import annotations

import re

_AT = re.compile(r" \(byte (\d+)\)$")
_NAMES = {list: "an array", str: "a string", int: "a number", float: "a number", bool: "a boolean", type(None): "null"}


def reason_and_byte(error: Exception) -> tuple[str, int | None]:
    """What a JSON decoder found wrong, and at which byte if it says so."""
    if isinstance(error, RecursionError):
        return "it nests too deep", None
    if isinstance(error, UnicodeDecodeError):
        return "it is no UTF-8", error.start
    words = str(error)
    at = _AT.search(words)
    words = _AT.sub("", words)
    return words[:1].lower() + words[1:] if not words.startswith("JSON") else words, int(at[1]) if at else None


def not_a_document(value: object) -> str:
    """That a value is no document."""
    name = _NAMES.get(type(value), f"a {type(value).__name__}")
    hint = "; give --format json if the file is one array" if type(value) is list else ""
    return f"a document is an object in braces, and this is {name}{hint}"
