"""Splits a line of the shell into words. Pure functions.

Words are separated by spaces. A word that begins with ``{`` or ``[`` is JSON and extends to the closing bracket. A word
may be in single or double quotes. Everything after ``sql`` is one word, unless it is in quotes.
"""

from __future__ import annotations

from lowtide.errors import UsageError

_CLOSING = {"{": "}", "[": "]"}


class Unfinished(Exception):
    """The line does not end where a command does: brackets or quotes are open."""


def words_of(text: str) -> list[str]:
    """The words of a command. Raises Unfinished if there must be more.

    >>> words_of('find users {"name": "A b"} --limit 3')
    ['find', 'users', '{"name": "A b"}', '--limit', '3']
    """
    words: list[str] = []
    at = _next(text, 0)
    while at < len(text):
        first = text[at]
        if words == ["sql"] and first not in "\"'":
            return ["sql", text[at:].strip().removesuffix(";")]
        if first in _CLOSING:
            end = end_of_json(text, at)
            words.append(text[at:end])
        elif first in "\"'":
            word, end = _quoted(text, at)
            words.append(word)
        else:
            end = at
            while end < len(text) and not text[end].isspace():
                end += 1
            words.append(text[at:end])
        if end < len(text) and not text[end].isspace():
            raise UsageError(f"there must be a space after {text[at:end]}")
        at = _next(text, end)
    return words


def is_unfinished(text: str) -> bool:
    """Whether the command needs more lines."""
    try:
        words_of(text)
    except Unfinished:
        return True
    except UsageError:
        return False
    return False


def end_of_json(text: str, at: int) -> int:
    """The index after the bracket that closes the one at ``at``."""
    open_ones: list[str] = []
    in_string = False
    index = at
    while index < len(text):
        each = text[index]
        if in_string:
            if each == "\\":
                index += 1
            elif each == '"':
                in_string = False
        elif each == '"':
            in_string = True
        elif each in _CLOSING:
            open_ones.append(_CLOSING[each])
        elif each in "}]":
            if open_ones.pop() != each:
                raise UsageError(f"{each} at character {index + 1} closes a bracket that is not open")
            if not open_ones:
                return index + 1
        index += 1
    raise Unfinished


def _quoted(text: str, at: int) -> tuple[str, int]:
    quote = text[at]
    found: list[str] = []
    index = at + 1
    while index < len(text):
        each = text[index]
        if each == quote:
            return "".join(found), index + 1
        if each == "\\" and quote == '"' and index + 1 < len(text):
            index += 1
            each = text[index]
        found.append(each)
        index += 1
    raise Unfinished


def _next(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at
