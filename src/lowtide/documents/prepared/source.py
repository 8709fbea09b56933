"""Creates functions from source text.

The text consists of field names, always as literals, and of words from this package. No value of a filter, an update or
a document becomes part of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import indent
from typing import Any


def function(head: str, lines: Sequence[str], **names: Any) -> Any:
    """Return the function ``def head:`` with these lines as its body. ``names`` are its global names.

    >>> function("twice(number)", ["return number * two"], two=2)(21)
    42
    """
    name = head.split("(")[0]
    text = f"def {head}:\n{indent(chr(10).join(lines), '    ')}\n"
    space = dict(names)
    exec(compile(text, f"<prepared {name}>", "exec"), space)
    return space[name]


def literal(field: str) -> str:
    """Return the name of a field as source text."""
    return repr(str(field))
