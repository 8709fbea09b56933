"""The operators that change one value: $set, $unset, $inc, $mul, $min, $max, $currentDate, $bit and $rename.

Each function checks an operand once and returns the change for a leaf of the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from lowtide.documents.updates.arithmetic import NUMBERS, added, multiplied
from lowtide.documents.updates.sameness import copied, same
from lowtide.documents.updates.tree import MISSING, Change, Occasion, Refusal, described, index_of
from lowtide.errors import OperationFailure
from lowtide.values.codec import clean
from lowtide.values.values import place


def setting(operand: Any, path: str) -> Change:
    """Compile $set or $setOnInsert."""
    value = clean(operand, path)
    if type(value) in (dict, list):
        return lambda old, _: old if same(old, value) else copied(value)
    return lambda old, _: old if same(old, value) else value


def unsetting(_operand: Any, _path: str) -> Change:
    """Compile $unset. The operand is ignored."""
    return lambda _old, _occasion: MISSING


def number_in(operand: Any, path: str, operator: str) -> Any:
    """Return the operand if it is a number. A boolean is not."""
    amount = clean(operand, path)
    if type(amount) not in NUMBERS:
        raise OperationFailure(f"{operator} of {path!r} requires a number, got {described(amount)}")
    return amount


def _calculating(
    operator: str, amount: Any, start: Any, compute: Callable[[Any, Any], Any]
) -> Callable[[Any, Occasion], Any]:
    def change(old: Any, _: Occasion) -> Any:
        if old is MISSING:
            return start
        if type(old) not in NUMBERS:
            raise Refusal(f"{operator} requires a number, but the field is {described(old)}")
        new = compute(old, amount)
        return old if same(old, new) else new

    return change


def incrementing(operand: Any, path: str) -> Change:
    """Compile $inc. A missing field counts as zero."""
    amount = number_in(operand, path, "$inc")
    return _calculating("$inc", amount, amount, added)


def multiplying(operand: Any, path: str) -> Change:
    """Compile $mul. A missing field becomes a zero of the operand's type."""
    amount = number_in(operand, path, "$mul")
    return _calculating("$mul", amount, type(amount)(0), multiplied)


def lowering(operand: Any, path: str) -> Change:
    """Compile $min, by the comparison order of all values. A missing field is set to the operand."""
    value = clean(operand, path)
    standing = place(value)
    return lambda old, _: copied(value) if old is MISSING or standing < place(old) else old


def raising(operand: Any, path: str) -> Change:
    """Compile $max, like $min."""
    value = clean(operand, path)
    standing = place(value)
    return lambda old, _: copied(value) if old is MISSING or standing > place(old) else old


def dating(operand: Any, path: str) -> Change:
    """Compile $currentDate. Both forms set a datetime, because there is no timestamp type."""
    wanted = isinstance(operand, bool) or (
        isinstance(operand, Mapping) and len(operand) == 1 and operand.get("$type") in ("date", "timestamp")
    )
    if not wanted:
        raise OperationFailure(
            f"$currentDate of {path!r} must be True, {{'$type': 'date'}} or {{'$type': 'timestamp'}}, "
            f"got {described(operand)}"
        )
    return lambda old, occasion: old if same(old, occasion.now) else occasion.now


_BITWISE: Final[dict[str, Callable[[int, int], int]]] = {
    "and": int.__and__,
    "or": int.__or__,
    "xor": int.__xor__,
}


def masking(operand: Any, path: str) -> Change:
    """Compile $bit: and, or and xor with integers, applied in order. A missing field counts as zero."""
    if not isinstance(operand, Mapping) or not operand:
        raise OperationFailure(
            f"$bit of {path!r} requires an object with and, or, or xor, such as {{'or': 4}}, got {described(operand)}"
        )
    steps = []
    for name, mask in operand.items():
        if name not in _BITWISE:
            raise OperationFailure(f"$bit of {path!r}: unknown operation {name!r}; use and, or, or xor")
        mask = clean(mask, path)
        if type(mask) is not int:
            raise OperationFailure(f"$bit of {path!r}: {name!r} must be an int, got {described(mask)}")
        steps.append((_BITWISE[name], mask))

    def change(old: Any, _: Occasion) -> Any:
        new = 0 if old is MISSING else old
        if type(new) is not int:
            raise Refusal(f"$bit requires an int, but the field is {described(old)}")
        for compute, mask in steps:
            new = compute(new, mask)
        return old if new == old else new

    return change


def moving(source: list[str], target: list[str]) -> Change:
    """Compile the target of $rename: sets the value that the source had before the update.

    The source is unset by a separate change. Neither path may pass through an array.
    """

    def change(old: Any, occasion: Occasion) -> Any:
        found = _found(occasion.document, source)
        if found is MISSING:
            return old
        for parts in (source, target):
            array = _array_on(occasion.document, parts)
            if array:
                raise Refusal(
                    f"$rename does not support arrays: {'.'.join(parts)!r} passes through the array {array!r}"
                )
        return old if same(old, found) else found

    return change


def _found(document: Any, parts: list[str]) -> Any:
    """Return the value at a path, without expanding arrays."""
    value = document
    for part in parts:
        if type(value) is dict:
            value = value.get(part, MISSING)
        elif type(value) is list:
            index = index_of(part)
            value = MISSING if index is None or index >= len(value) else value[index]
        else:
            return MISSING
    return value


def _array_on(document: Any, parts: list[str]) -> str:
    """Return the prefix of a path that is an array; empty if there is none."""
    for length in range(1, len(parts)):
        if type(_found(document, parts[:length])) is list:
            return ".".join(parts[:length])
    return ""
