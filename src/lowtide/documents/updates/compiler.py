"""Compiles updates, each once, to a closure that changes documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from lowtide.documents.updates.arrays import adding, popping, pulling_all, pushing
from lowtide.documents.updates.conditions import compile_array_filters, pulling
from lowtide.documents.updates.fields import (
    dating,
    incrementing,
    lowering,
    masking,
    moving,
    multiplying,
    raising,
    setting,
    unsetting,
)
from lowtide.documents.updates.routes import Planting, is_dynamic, parts_of
from lowtide.documents.updates.tree import Change, Occasion, Refusal, UpdateFields, UpdateLeaf, described
from lowtide.documents.updates.update import Apply, Update, keep_id, refused
from lowtide.errors import OperationFailure
from lowtide.values.values import Document

_OPERATORS: Final[dict[str, Callable[[Any, str], Change]]] = {
    "$set": setting,
    "$setOnInsert": setting,
    "$unset": unsetting,
    "$inc": incrementing,
    "$mul": multiplying,
    "$min": lowering,
    "$max": raising,
    "$currentDate": dating,
    "$bit": masking,
    "$push": pushing,
    "$addToSet": adding,
    "$pop": popping,
    "$pullAll": pulling_all,
    "$pull": pulling,
}
_STRICT: Final = frozenset(("$pop", "$pull", "$pullAll"))
"""Operators that never create a field, but still fail if the path passes through a scalar value."""
_NAMES: Final = ("$rename", *_OPERATORS)


def compile_update(update: Mapping[str, Any], array_filters: Sequence[Mapping[str, Any]] | None = None) -> Update:
    """Compile an update with operators, such as ``{"$inc": {"n": 1}}``. Raises OperationFailure if it is invalid.

    >>> compile_update({"$inc": {"n": 1}}).apply({"_id": 7}, now=datetime(2030, 1, 1))
    {'_id': 7, 'n': 1}
    """
    _check_shape(update)
    filters = compile_array_filters(array_filters)
    inserting = Planting(filters)
    updating = Planting(filters) if "$setOnInsert" in update else inserting
    for operator, operands in update.items():
        if operator not in _NAMES:
            raise OperationFailure(
                f"unknown update operator {operator!r}; the operators are {', '.join(sorted(_NAMES))}"
            )
        if not isinstance(operands, Mapping):
            raise OperationFailure(
                f"{operator} requires an object of fields, such as {{'field': ...}}, got {described(operands)}"
            )
        for path, operand in operands.items():
            if not isinstance(path, str):
                raise OperationFailure(f"{operator}: field names must be strings, got {described(path)}")
            for parts, leaf in _leaves(operator, path, operand):
                inserting.plant(path, parts, leaf, operator)
                if updating is not inserting and operator != "$setOnInsert":
                    updating.plant(path, parts, leaf, operator)
    for name in filters.keys() - inserting.used:
        raise OperationFailure(f"the array filter {name!r} is not used: no path of the update contains $[{name}]")
    positional = any("$" in path and "$" in path.split(".") for operands in update.values() for path in operands)
    return Update(_applying(updating.root, inserting.root), frozenset(inserting.root.children), positional)


def _check_shape(update: Any) -> None:
    if isinstance(update, Sequence) and not isinstance(update, str):
        raise OperationFailure(
            "an update must be a dict of operators such as $set; aggregation pipelines are not supported as updates"
        )
    if not isinstance(update, Mapping):
        raise OperationFailure(f"an update must be a dict of operators such as $set, got {described(update)}")
    if not update:
        raise OperationFailure("the update is empty: update only works with $ operators, such as {'$set': {...}}")
    for name in update:
        if not isinstance(name, str) or not name.startswith("$"):
            raise OperationFailure(
                f"update only works with $ operators, such as {{'$set': {{...}}}}, got {name!r}; "
                "use replace_one to replace the whole document"
            )


def _leaves(operator: str, path: str, operand: Any) -> list[tuple[list[str], UpdateLeaf]]:
    """Return the changes of an operator for one of its fields, each with its path."""
    parts = parts_of(path, operator)
    if operator != "$rename":
        return [(parts, UpdateLeaf(_OPERATORS[operator](operand, path), strict=operator in _STRICT))]
    if not isinstance(operand, str):
        raise OperationFailure(f"$rename of {path!r} requires the new name as a string, got {described(operand)}")
    target = parts_of(operand, operator)
    if any(map(is_dynamic, (*parts, *target))):
        raise OperationFailure(f"$rename of {path!r} to {operand!r}: the names must not contain $, $[] or $[name]")
    if parts == target:
        raise OperationFailure(f"$rename of {path!r} to itself; the two names must differ")
    return [(parts, UpdateLeaf(unsetting(None, path), strict=True)), (target, UpdateLeaf(moving(parts, target)))]


def _applying(updating: UpdateFields, inserting_too: UpdateFields) -> Apply:
    guarded = "_id" in inserting_too.children

    def apply(document: Document, *, now: datetime, inserting: bool = False, position: int | None = None) -> Document:
        root = inserting_too if inserting else updating
        try:
            new: Document = root.change(document, Occasion(document, now, position))
        except Refusal as refusal:
            raise refused(document, refusal.path, refusal.reason) from None
        if guarded and new is not document:
            return keep_id(document, new)
        return new

    return apply
