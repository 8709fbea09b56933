"""String operators of expressions.

Positions and lengths are in code points, or in UTF-8 bytes for the operators named ``Bytes``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from lowtide.documents.aggregation.context import (
    BadOperand,
    Build,
    Context,
    Evaluate,
    by_name,
    described,
    several,
    unary,
    whole_number,
)
from lowtide.documents.aggregation.conversions import to_text
from lowtide.documents.regex.backtracking import WHY, Explosive, is_explosive, search_of
from lowtide.values.paths import MISSING

_FLAGS: Final = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise BadOperand(f"expected strings, got {described(value)}")
    return value


def _lenient(value: object) -> str:
    """Return the text of a value; empty for null and missing."""
    return "" if value is None or value is MISSING else to_text(value)


def _position(value: object, what: str, least: int = 0) -> int:
    whole = whole_number(value)
    if whole is None or whole < least:
        raise BadOperand(f"{what} must be an integer of at least {least}, got {described(value)}")
    return whole


def _concat(*values: Any) -> str:
    return "".join(map(_string, values))


def _substring(value: Any, start: Any, count: Any) -> str:
    text = _lenient(value)
    first, length = _position(start, "the start"), _position(count, "the count")
    return text[first : first + length]


def _substring_of_bytes(value: Any, start: Any, count: Any) -> str:
    """Return a substring by bytes. A negative count means up to the end."""
    encoded = _lenient(value).encode()
    first = _position(start, "the start")
    length = whole_number(count)
    if length is None:
        raise BadOperand(f"the count must be an integer, got {described(count)}")
    try:
        return encoded[first : None if length < 0 else first + length].decode()
    except UnicodeDecodeError as error:
        raise BadOperand("the range splits a character; use $substrCP to count characters") from error


def _split(value: Any, separator: Any) -> list[str]:
    if _string(separator) == "":
        raise BadOperand("the separator must not be empty")
    return _string(value).split(separator)


def _trimming(function: Callable[[str, str | None], str]) -> Build:
    def trim(value: Any, characters: Any) -> str | None:
        if characters is None:
            return None
        # MongoDB also trims the null character.
        return function(_string(value), _SPACES if characters is MISSING else _string(characters))

    return by_name(trim, ("input",), ("chars",), strict=("input",))


_SPACES: Final = "\0 \t\n\v\f\r\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"


def _index_of(value: Any, part: Any, start: Any = 0, end: Any = None) -> int | None:
    if value is None or value is MISSING:
        return None
    text, sought = _string(value), _string(part)
    first = _position(start, "the start")
    last = len(text) if end is None else _position(end, "the end")
    return -1 if first > min(last, len(text)) else text.find(sought, first, last)


def _compare_without_case(first: Any, second: Any) -> int:
    left, right = _lenient(first).upper(), _lenient(second).upper()
    return (left > right) - (left < right)


@lru_cache(256)
def _compiled(pattern: str, options: str) -> re.Pattern[str]:
    flags = 0
    for letter in options:
        if letter not in _FLAGS:
            raise BadOperand(f"unknown regular expression option {letter!r}; use i, m, s or x")
        flags |= _FLAGS[letter]
    try:
        return re.compile(pattern, flags)
    except re.error as error:
        raise BadOperand(f"{pattern!r} is not a valid regular expression: {error}") from error


def _pattern(regex: Any, options: Any) -> re.Pattern[str]:
    return _compiled(_string(regex), "" if options is None or options is MISSING else _string(options))


def _absent(*values: object) -> bool:
    return any(value is None or value is MISSING for value in values)


def _regex_match(value: Any, regex: Any, options: Any) -> bool:
    if _absent(value, regex):
        return False
    try:
        search = search_of(_pattern(regex, options))
    except Explosive as error:
        raise BadOperand(f"{regex!r}: {error}; rewrite the expression") from error
    return bool(search(_string(value)))


def _locating(regex: Any, options: Any) -> re.Pattern[str]:
    """Return a pattern for finding match positions, which only ``re`` can do."""
    pattern = _pattern(regex, options)
    if is_explosive(pattern):
        raise BadOperand(f"{regex!r}: {WHY}; rewrite the expression, or use $regexMatch to test only for a match")
    return pattern


def _found(match: re.Match[str]) -> dict[str, Any]:
    return {"match": match[0], "idx": match.start(), "captures": list(match.groups())}


def _regex_find(value: Any, regex: Any, options: Any) -> dict[str, Any] | None:
    match = None if _absent(value, regex) else _locating(regex, options).search(_string(value))
    return None if match is None else _found(match)


def _regex_find_all(value: Any, regex: Any, options: Any) -> list[dict[str, Any]]:
    return (
        [] if _absent(value, regex) else [_found(each) for each in _locating(regex, options).finditer(_string(value))]
    )


def _replacing(count: int) -> Build:
    def replace(value: Any, find: Any, replacement: Any) -> str:
        return _string(value).replace(_string(find), _string(replacement), count)

    names = ("input", "find", "replacement")
    return by_name(replace, names, strict=names)


def _by_regex(function: Callable[[Any, Any, Any], Any]) -> Build:
    """Build an operator with {input, regex, options}. A compiled expression supplies its text and its flags."""
    named = by_name(function, ("input", "regex"), ("options",))

    def build(operand: Any, context: Context) -> Evaluate:
        if isinstance(operand, dict) and isinstance(operand.get("regex"), re.Pattern):
            pattern = operand["regex"]
            if not isinstance(pattern.pattern, str) or "options" in operand:
                context.fail("a compiled regular expression must be for str, and options cannot be given with it")
            letters = "".join(letter for letter, flag in _FLAGS.items() if pattern.flags & flag)
            operand = {**operand, "regex": {"$literal": pattern.pattern}, "options": letters}
        return named(operand, context)

    return build


OPERATORS: Final[dict[str, Build]] = {
    "$concat": several(_concat, 0),
    "$indexOfCP": several(_index_of, 2, 4, strict=False),
    "$ltrim": _trimming(str.lstrip),
    "$regexFind": _by_regex(_regex_find),
    "$regexFindAll": _by_regex(_regex_find_all),
    "$regexMatch": _by_regex(_regex_match),
    "$replaceAll": _replacing(-1),
    "$replaceOne": _replacing(1),
    "$rtrim": _trimming(str.rstrip),
    "$split": several(_split, 2, 2),
    "$strLenBytes": unary(lambda value: len(_string(value).encode()), strict=False),
    "$strLenCP": unary(lambda value: len(_string(value)), strict=False),
    "$strcasecmp": several(_compare_without_case, 2, 2, strict=False),
    "$substr": several(_substring_of_bytes, 3, 3, strict=False),
    "$substrBytes": several(_substring_of_bytes, 3, 3, strict=False),
    "$substrCP": several(_substring, 3, 3, strict=False),
    "$toLower": unary(lambda value: _lenient(value).lower(), strict=False),
    "$toUpper": unary(lambda value: _lenient(value).upper(), strict=False),
    "$trim": _trimming(str.strip),
}
