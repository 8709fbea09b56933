"""Generates the functions that recognize a filter or an update of a known shape, and return its values.

A program repeats the same few statements. Comparing one with the last statement of its kind, by a function written for
that, takes a third of the time of computing a key from all names and types and looking it up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from lowtide.documents.prepared.bound import Bind, BindFilter
from lowtide.documents.prepared.source import function, literal
from lowtide.documents.prepared.splices import FieldChange
from lowtide.values.ids import ID_TYPES

_TEXTS: Final[frozenset[type]] = frozenset((str,))


def bind_update(changes: Sequence[FieldChange]) -> Bind:
    """Return the function that recognizes an update with these changes, in any order. For ``{"$set": {"a": ...},
    "$inc": {"n": ..., "m": ...}}`` it is as follows. Most other updates are refused before an error is raised, which
    takes longer.

    def bind(update):
        if len(update) != 2 or '$set' not in update or '$inc' not in update: return None
        f0 = update['$set']
        f1 = update['$inc']
        if type(f0) is not dict or len(f0) != 1 or 'a' not in f0: return None
        if type(f1) is not dict or len(f1) != 2 or 'n' not in f1: return None
        try:
            v0 = f0['a']
            v1 = f1['n']
            v2 = f1['m']
        except KeyError: return None
        return [v0, v1, v2] if type(v0) is k0 and type(v1) is k1 and type(v2) is k2 else None
    """
    operators = list(dict.fromkeys(each.operator for each in changes))
    other = "".join(f" or {literal(each)} not in update" for each in operators)
    lines = [f"if len(update) != {len(operators)}{other}: return None"]
    lines += [f"f{at} = update[{literal(each)}]" for at, each in enumerate(operators)]
    for at, operator in enumerate(operators):
        those = [each.name for each in changes if each.operator == operator]
        wrong = f"type(f{at}) is not dict or len(f{at}) != {len(those)} or {literal(those[0])} not in f{at}"
        lines.append(f"if {wrong}: return None")
    lines.append("try:")
    lines += [
        f"    v{place} = f{operators.index(each.operator)}[{literal(each.name)}]" for place, each in enumerate(changes)
    ]
    same = [f"type(v{place}) is k{place}" for place in range(len(changes))]
    same += [f"v{place} == v{place}" for place, each in enumerate(changes) if each.kind is float]  # not NaN
    values = ", ".join(f"v{place}" for place in range(len(changes)))
    lines += ["except KeyError: return None", f"return [{values}] if {' and '.join(same)} else None"]
    bind: Bind = function("bind(update)", lines, **{f"k{place}": each.kind for place, each in enumerate(changes)})
    return bind


def bind_filter(filter: Mapping[str, Any]) -> BindFilter | None:
    """Return the function that recognizes filters like this one, which has a shape. It is only called with filters that
    have the same paths, in the same order. None for the empty filter. For ``{"a": 1, "b": {"$gt": "x"}}`` it is:

    def bind(filter):
        try:
            a0, a1 = filter.values()
            if type(a1) is not dict: return None
            (o1,) = a1
            (v1,) = a1.values()
        except ValueError: return None
        if type(a0) is k0 and o1 == '$gt' and type(v1) is k1 and (v1.isascii() or is_text(v1)): return (a0, v1)
    """
    if not filter:
        return None
    names: dict[str, Any] = {"ids": _ids, "is_text": is_text}
    given = [f"a{place}" for place in range(len(filter))]
    lines, same, values = ["try:", f"    {', '.join(given)}, = filter.values()"], list[str](), list[str]()
    for local, operand in zip(given, filter.values(), strict=True):
        parts = [(local, operand)]
        if type(operand) is dict:
            parts = [(f"v{len(values) + at}", each) for at, each in enumerate(operand.values())]
            operators = [f"o{len(values) + at}" for at in range(len(parts))]
            lines.append(f"    if type({local}) is not dict: return None")
            lines.append(f"    {', '.join(operators)}, = {local}")
            lines.append(f"    {', '.join(name for name, _ in parts)}, = {local}.values()")
            same += [f"{each} == {literal(name)}" for each, name in zip(operators, operand, strict=True)]
        for name, value in parts:
            names[f"k{len(values)}"] = kind = type(value)
            same.append(f"type({name}) is k{len(values)}")
            if kind is list:  # the caller may change it before the statement runs
                same.append(f"({name} := ids({name})) is not None")
            elif kind is str:
                same.append(f"({name}.isascii() or is_text({name}))")
            elif kind is float:
                same.append(f"{name} == {name}")  # not NaN
            values.append(name)
    lines += ["except ValueError: return None", f"if {' and '.join(same)}: return ({', '.join(values)},)"]
    bind: BindFilter = function("bind(filter)", lines, **names)
    return bind


def is_text(value: str) -> bool:
    """Whether a string can be stored: it has no lone surrogate."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _ids(given: list[Any]) -> tuple[Any, ...] | None:
    """Return a copy of the operand of ``$in``; None if it has other values than ids."""
    if given and type(given[0]) is str and _TEXTS.issuperset(map(type, given)):
        text = "".join(given)
    elif ID_TYPES.issuperset(map(type, given)):
        text = "".join([each for each in given if type(each) is str])
    else:
        return None
    return tuple(given) if text.isascii() or is_text(text) else None
