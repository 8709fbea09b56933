"""Where in the user's program a transaction, a snapshot or a pin was created."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import CodeType
from typing import Final

Caller = tuple[CodeType, int]
"""A place in a program: code, and the offset of an instruction in it. Cheap to take; Origin turns it into text."""

_SKIPPED: Final = ("lowtide.", "contextlib")
"""The prefixes of modules whose frames are not the user's."""

_outside: set[str] = set()
"""The user's modules that have called before: this lookup is faster than comparing prefixes."""
_inside: set[str] = set()
"""The modules of which frames were skipped before."""
_MOST_OUTSIDE: Final = 1000


@dataclass(frozen=True, slots=True)
class Origin:
    """Where in the user's program a snapshot was opened. ``code`` is None if that was not recorded."""

    code: CodeType | None
    instruction: int

    def __str__(self) -> str:
        if self.code is None:
            return "unknown (snapshot_origins is off)"
        line = None
        for start, end, number in self.code.co_lines():
            if start <= self.instruction < end:
                line = number
        return f"{self.code.co_filename}:{line if line is not None else self.code.co_firstlineno}"


def origin_of(caller: Caller | None) -> Origin:
    return Origin(None, 0) if caller is None else Origin(*caller)


def caller(depth: int = 2) -> Caller:
    """The innermost frame outside this package, seen from the function that calls this. In one of Lowtide's own threads
    there is none: then it is that function's caller.

    It walks over one frame for each call inside the package, so ``store.begin`` and similar methods call it first and
    pass on the result. A module that may be compiled passes ``depth`` 1: compiled functions have no frame, so with 2
    the user's frame would be skipped.
    """
    nearest = frame = sys._getframe(depth)
    try:
        if frame.f_globals["__name__"] in _outside:
            return frame.f_code, frame.f_lasti
    except (KeyError, TypeError):
        pass  # no name, or one that is not a string
    while True:
        name = frame.f_globals.get("__name__")
        if type(name) is not str:
            break
        if name not in _inside:
            if not name.startswith(_SKIPPED):
                break
            _inside.add(name)  # bounded by the number of modules
        if frame.f_back is None:
            frame = nearest
            break
        frame = frame.f_back
    if name == "threading":
        frame = nearest
    elif type(name) is str:
        if len(_outside) >= _MOST_OUTSIDE:
            _outside.clear()
        _outside.add(name)
    return frame.f_code, frame.f_lasti
