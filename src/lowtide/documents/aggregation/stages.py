"""The stages that select, sort and unwind documents: $sort, $skip, $limit, $sample and $unwind."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from lowtide.documents.aggregation.context import Context, described, whole_number
from lowtide.documents.aggregation.stage import BuildStage, Run, Stage
from lowtide.documents.sorting import compile_sort
from lowtide.values.paths import MISSING
from lowtide.values.values import Document


def _whole(operand: Any, least: int, context: Context) -> int:
    found = whole_number(operand)
    if found is None or found < least:
        context.fail(f"expected an integer of at least {least}, got {described(operand)}")
    return found


def _limit(operand: Any, context: Context) -> Stage:
    count = _whole(operand, 1, context)
    return Stage("$limit", count, lambda documents, run: islice(documents, count), shares=False)


def _skip(operand: Any, context: Context) -> Stage:
    count = _whole(operand, 0, context)
    return Stage("$skip", count, lambda documents, run: islice(documents, count, None), shares=False)


def _sort(operand: Any, context: Context) -> Stage:
    order = context.sort(operand)

    def step(documents: Iterator[Document], run: Run) -> Iterator[Document]:
        yield from order.sorted(documents)

    return Stage("$sort", operand, step, context.reads, shares=False)


def sort_first(sort: Stage, count: int) -> Stage:
    """Return a $sort that keeps only the first ``count`` documents in memory."""
    order = compile_sort(sort.operand)

    def step(documents: Iterator[Document], run: Run) -> Iterator[Document]:
        yield from order.smallest(count, documents)

    return replace(sort, step=step)


def _sample(operand: Any, context: Context) -> Stage:
    size = _whole(context.named(operand, ("size",))["size"], 1, context.at("size"))

    def step(documents: Iterator[Document], run: Run) -> Iterator[Document]:
        kept = list(islice(documents, size))
        for seen, document in enumerate(documents, size + 1):
            at = random.randrange(seen)
            if at < size:
                kept[at] = document
        random.shuffle(kept)
        yield from kept

    return Stage("$sample", operand, step, shares=False)


def _unwind(operand: Any, context: Context) -> Stage:
    given = {"path": operand} if isinstance(operand, str) else operand
    given = context.named(given, ("path",), ("includeArrayIndex", "preserveNullAndEmptyArrays"))
    path, index = given["path"], given.get("includeArrayIndex")
    preserve = given.get("preserveNullAndEmptyArrays", False)
    if not isinstance(path, str) or path[:1] != "$" or not all(path[1:].split(".")):
        context.fail(f"the path must begin with $, such as '$items', got {described(path)}")
    if index is not None and (not isinstance(index, str) or not all(index.split(".")) or index[:1] == "$"):
        context.fail(f"includeArrayIndex must be a field path that does not begin with $, got {described(index)}")
    if not isinstance(preserve, bool):
        context.fail(f"preserveNullAndEmptyArrays must be true or false, got {described(preserve)}")
    parts = path[1:].split(".")
    context.reads.path(path[1:])
    index_parts = index.split(".") if index is not None else []
    if index is not None:
        context.reads.path(index)

    flat = parts[0] if len(parts) == 1 else None

    def with_index(document: Document, position: int | None) -> Document:
        return put(document, index_parts, position) if index_parts else document

    def step(documents: Iterator[Document], run: Run) -> Iterator[Document]:
        for document in documents:
            value = _inside(document, parts)
            if type(value) is list:
                if flat is not None and not index_parts:
                    for each in value:
                        yield {**document, flat: each}
                else:
                    for position, each in enumerate(value):
                        yield with_index(put(document, parts, each), position)
                if not value and preserve:
                    yield with_index(put(document, parts, MISSING), None)
            elif (value is not None and value is not MISSING) or preserve:
                yield with_index(document, None)

    return Stage("$unwind", operand, step, context.reads)


def _inside(value: Any, parts: list[str]) -> Any:
    """Return the value at a path, or MISSING. Does not look into arrays."""
    for name in parts:
        value = value.get(name, MISSING) if type(value) is dict else MISSING
    return value


def put(document: Document, parts: list[str], value: Any) -> Document:
    """Return a copy of ``document`` with ``value`` at a path.

    If ``value`` is MISSING, the field is removed. A value on the path that is not an object is replaced by one.
    """
    name, *rest = parts
    made = dict(document)
    if rest:
        inner = made.get(name)
        made[name] = put(inner if type(inner) is dict else {}, rest, value)
    elif value is MISSING:
        made.pop(name, None)
    else:
        made[name] = value
    return made


STAGES: Final[dict[str, BuildStage]] = {
    "$limit": _limit,
    "$sample": _sample,
    "$skip": _skip,
    "$sort": _sort,
    "$unwind": _unwind,
}
