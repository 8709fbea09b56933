"""The initial document of an upsert, from the equality conditions of its filter."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lowtide.documents.updates.routes import Planting, parts_of
from lowtide.documents.updates.tree import UpdateLeaf
from lowtide.errors import OperationFailure
from lowtide.values.codec import clean
from lowtide.values.values import Document


def seed_of(filter: Mapping[str, Any] | None, *, only_id: bool = False) -> Document:
    """Return the initial document of an upsert with ``filter``. ``only_id``, for a replacement, omits other fields.

    Equality conditions count: a value, $eq, and $in or $all with one value, also inside $and and an $or with
    one branch. Raises OperationFailure if two of them are on one field, or on a field and one inside it.

    >>> seed_of({"name": "Ada", "born.year": {"$eq": 1815}, "age": {"$gt": 30}})
    {'name': 'Ada', 'born': {'year': 1815}}
    """
    planting = Planting({})
    seed: Document = {}
    for path, operand in _equalities(filter or {}):
        parts = parts_of(path, "upsert")
        if only_id and parts[0] != "_id":
            continue
        if any(part.startswith("$") for part in parts):
            raise OperationFailure(
                f"upsert: the path {path!r} of the filter cannot be set in a new document; use $setOnInsert"
            )
        if path == "_id" and isinstance(operand, list | tuple):
            raise OperationFailure(
                f"upsert: the filter sets _id to the array {operand!r}, but an _id cannot be an array"
            )
        _plant(planting, path, parts)
        inner = seed
        for part in parts[:-1]:
            inner = inner.setdefault(part, {})
        inner[parts[-1]] = clean(operand, path)
    return {"_id": seed["_id"], **seed} if "_id" in seed else seed


def _plant(planting: Planting, path: str, parts: list[str]) -> None:
    try:
        planting.plant(path, parts, UpdateLeaf(lambda old, _: old), "upsert")
    except OperationFailure:
        raise OperationFailure(
            f"upsert: the filter has two conditions on {path!r}, or on a field and one inside it, so the value to "
            "insert is ambiguous; give each field once"
        ) from None


def _equalities(filter: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the path and the value of each equality condition."""
    for name, condition in filter.items():
        if name == "$and" or (name == "$or" and isinstance(condition, Sequence) and len(condition) == 1):
            for each in condition:
                yield from _equalities(each)
        elif name.startswith("$") or isinstance(condition, re.Pattern):
            continue
        elif isinstance(condition, Mapping) and any(str(key).startswith("$") for key in condition):
            for operator, operand in condition.items():
                if operator == "$eq":
                    yield name, operand
                elif isinstance(operand, list | tuple) and (
                    operator == "$all" or (operator == "$in" and len(operand) == 1)
                ):
                    for each in operand:
                        if not _is_condition(each):
                            yield name, each
        else:
            yield name, condition


def _is_condition(value: Any) -> bool:
    """Whether an operand in $all or $in is a pattern or $elemMatch rather than a value."""
    if isinstance(value, re.Pattern):
        return True
    return isinstance(value, Mapping) and any(str(key).startswith("$") for key in value)
