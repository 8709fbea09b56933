"""Regular expressions in filters: Python's syntax, MongoDB's options, and the literal prefix for index scans."""

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
    """Compile ``$regex`` with ``$options``, which is None if not given."""
    flags = 0
    if options is not None:
        if not isinstance(options, str):
            raise OperationFailure(f"$options at {path!r}: expected a string of i, m, s and x, got {options!r}")
        for letter in options:
            if letter not in _FLAGS:
                raise OperationFailure(f"$options at {path!r}: unknown option {letter!r}; use i, m, s or x")
            flags |= _FLAGS[letter]
    if isinstance(given, re.Pattern):
        if not isinstance(given.pattern, str):
            raise OperationFailure(f"$regex at {path!r}: the pattern is for bytes; only strings can be matched")
        if not flags:
            return _bearable(given, path)
        if given.flags & ~re.UNICODE:
            raise OperationFailure(
                f"$options at {path!r}: the compiled pattern already has flags; use one or the other"
            )
        given = given.pattern
    if not isinstance(given, str):
        raise OperationFailure(f"$regex at {path!r}: expected a string or a compiled pattern, got {given!r}")
    try:
        return _bearable(re.compile(given, flags), path)
    except (re.error, OverflowError, RecursionError) as error:
        raise OperationFailure(f"$regex at {path!r}: {given!r} is not a valid regular expression: {error}") from error


def _bearable(pattern: re.Pattern[str], path: str) -> re.Pattern[str]:
    """Return the pattern, or raise OperationFailure if matching it could take exponential time."""
    try:
        search_of(pattern)
    except Explosive as error:
        raise OperationFailure(f"$regex at {path!r}: {pattern.pattern!r}: {error}; rewrite the expression") from error
    return pattern


def prefix_of(pattern: re.Pattern[str]) -> tuple[str, bool]:
    """Return the literal prefix of every string that matches, and whether every string with that prefix matches.

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
