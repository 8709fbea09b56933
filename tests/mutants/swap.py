"""Puts a fault into a loaded module by giving its functions the code of the broken text.

All functions of the module get new code, not only the broken one, so that their line numbers match the text: tests stop
threads at lines.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from types import CodeType, FunctionType

_OF_A_FUNCTION = 0x1
"""The flag of the code of a function, which the body of a module or of a class does not have."""

_AT_ONCE = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
"""Code that runs where it stands: no function of it stays."""

_Place = tuple[str, int]
"""Qualified name and first line of a function."""


class DiffersOutside(Exception):
    """Two texts differ in more than the bodies of functions."""


def loaded_functions() -> dict[str, list[FunctionType]]:
    """All functions of this process, by the file that they were loaded from."""
    found: dict[str, list[FunctionType]] = {}
    for each in gc.get_objects():
        if type(each) is FunctionType:
            found.setdefault(each.__code__.co_filename, []).append(each)
    return found


def swap(functions: list[FunctionType], file: str, original: str, broken: str) -> bool:
    """Give the ``functions``, which were loaded from the ``original`` text of a file, the code of the ``broken`` one.

    False if the texts differ in more than the bodies of functions: then the file must be imported again.
    """
    try:
        codes = _paired(compile(original, file, "exec"), compile(broken, file, "exec"))
        swapped = [(function, codes[_place(function.__code__)]) for function in functions]
    except DiffersOutside:
        return False
    for function, code in swapped:
        function.__code__ = code
    return True


def _place(code: CodeType) -> _Place:
    return code.co_qualname, code.co_firstlineno


def _paired(original: CodeType, broken: CodeType) -> dict[_Place, CodeType]:
    """For each function of the original text the code that it has in the broken one."""
    found: dict[_Place, CodeType] = {}
    for before, after in _pairs(original, broken):
        place = _place(before)
        if len(before.co_freevars) != len(after.co_freevars) or found.setdefault(place, after) != after:
            raise DiffersOutside
    return found


def _pairs(before: CodeType, after: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """The functions inside two codes, in pairs. What is not inside a function is the same in both."""
    inside_before, inside_after = _inside(before), _inside(after)
    if [each.co_name for each in inside_before] != [each.co_name for each in inside_after]:
        raise DiffersOutside
    if not before.co_flags & _OF_A_FUNCTION and _without_functions(before) != _without_functions(after):
        raise DiffersOutside
    for each, other in zip(inside_before, inside_after, strict=True):
        if each.co_flags & _OF_A_FUNCTION:
            yield each, other
        yield from _pairs(each, other)


def _inside(code: CodeType) -> list[CodeType]:
    return [each for each in code.co_consts if isinstance(each, CodeType) and each.co_name not in _AT_ONCE]


def _without_functions(code: CodeType) -> tuple[object, ...]:
    inside = _inside(code)
    constants = [(type(each), each) for each in code.co_consts if each not in inside]
    return code.co_code, code.co_names, code.co_varnames, constants
