"""Regular expressions in filters: Python's own, with MongoDB's options, and the literal text that they begin with."""

from __future__ import annotations

import re
from typing import Any, Final

from lowtide.documents.regex.backtracking import Explosive, search_of
from lowtide.errors import OperationFailure

_FLAGS: Final = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}
_SPECIAL: Final = frozenset(".^$*+?{}[]\\|()")
_REPEATS: Final = frozenset("*+?{")
_LOOSE: Final = re.IGNORECASE | re.MULTILINE | re.VERBOSE | re.LOCALE


def pattern_of(given: Any, options: Any, path: str) -> re.Pattern[str]:
    """The pattern of ``$regex`` and ``$options``; ``options`` is None if there are none."""
    flags = 0
    if options is not None:
        if not isinstance(options, str):
            raise OperationFailure(f"$options at {path!r}: it is a string of i, m, s and x, not {options!r}")
        for letter in options:
            if letter not in _FLAGS:
                raise OperationFailure(f"$options at {path!r}: {letter!r} is no option; there are i, m, s and x")
            flags |= _FLAGS[letter]
    if isinstance(given, re.Pattern):
        if not isinstance(given.pattern, str):
            raise OperationFailure(f"$regex at {path!r}: the pattern is of bytes; only strings are searched")
        if not flags:
            return _bearable(given, path)
        if given.flags & ~re.UNICODE:
            raise OperationFailure(f"$options at {path!r}: the compiled pattern has flags already; give them once")
        given = given.pattern
    if not isinstance(given, str):
        raise OperationFailure(f"$regex at {path!r}: it is a string or a compiled pattern, not {given!r}")
    try:
        return _bearable(re.compile(given, flags), path)
    except (re.error, OverflowError, RecursionError) as error:
        raise OperationFailure(f"$regex at {path!r}: {given!r} is no regular expression: {error}") from error


def _bearable(pattern: re.Pattern[str], path: str) -> re.Pattern[str]:
    """The pattern, if it can be searched for without standing still."""
    try:
        search_of(pattern)
    except Explosive as error:
        raise OperationFailure(f"$regex at {path!r}: {pattern.pattern!r}: {error}; write it in another way") from error
    return pattern


def prefix_of(pattern: re.Pattern[str]) -> tuple[str, bool]:
    """The text that every string begins with that the pattern finds, and whether every string with it is found.

    >>> prefix_of(re.compile("^ab+")), prefix_of(re.compile(r"^a\\.b.*")), prefix_of(re.compile("ab"))
    (('a', False), ('a.b', True), ('', False))
    """
    text = pattern.pattern
    if pattern.flags & _LOOSE or not text.startswith("^") or "|" in text:
        return "", False
    literal: list[str] = []
    at = 1
    while at < len(text):
        letter, width = text[at], 1
        if letter == "\\":
            letter, width = text[at + 1], 2
            if letter.isalnum() or not letter.isascii():
                break
        elif letter in _SPECIAL:
            break
        literal.append(letter)
        at += width
    rest = text[at:]
    if rest and rest[0] in _REPEATS and literal:
        literal.pop()
        return "".join(literal), False
    return "".join(literal), rest in ("", ".*")
