"""Tests of strings that need no general evaluation: REGEX, CONTAINS, STRSTARTS and STRENDS with a constant."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from rdflib.plugins.sparql.parserutils import Expr
from rdflib.term import Literal, Variable

TESTS: Final[dict[str, Callable[[str], Callable[[str], bool]]]] = {
    "Builtin_CONTAINS": lambda part: lambda text: part in text,
    "Builtin_STRSTARTS": lambda part: lambda text: text.startswith(part),
    "Builtin_STRENDS": lambda part: lambda text: text.endswith(part),
}
FLAGS: Final = {"i": re.IGNORECASE, "s": re.DOTALL, "m": re.MULTILINE}
"""Those that rdflib knows."""


def is_plain(term: object) -> bool:
    """Whether a term is a string without a language and a datatype."""
    return isinstance(term, Literal) and term.datatype is None and term.language is None


def text_test(expression: Expr) -> tuple[Variable, Callable[[str], bool]] | None:
    """The variable that an expression tests, and the test for plain strings; None if it is another expression."""
    if expression.name in TESTS:
        name, part = expression.arg1, expression.arg2
        if isinstance(name, Variable) and is_plain(part):
            return name, TESTS[expression.name](str(part))
    elif expression.name == "Builtin_REGEX":
        name, pattern, flags = expression.text, expression.pattern, expression.flags
        if isinstance(name, Variable) and is_plain(pattern) and (flags is None or is_plain(flags)):
            return _regex(name, str(pattern), str(flags or ""))
    return None


def _regex(name: Variable, pattern: str, flags: str) -> tuple[Variable, Callable[[str], bool]] | None:
    if not set(flags) <= FLAGS.keys():
        return None
    try:
        search = re.compile(pattern, sum(FLAGS[flag] for flag in set(flags))).search
    except re.error:
        return None
    return name, lambda text: search(text) is not None
