"""Applies an update for the tests, and checks that the given document is not changed."""

from __future__ import annotations

from copy import deepcopy
from datetime import datetime
from typing import Any

from lowtide.documents.updates import compile_update
from lowtide.values.values import Document

NOW = datetime(2030, 5, 6, 7, 8, 9)


def updated(
    document: Document,
    update: dict[str, Any],
    *,
    array_filters: list[dict[str, Any]] | None = None,
    inserting: bool = False,
    position: int | None = None,
) -> Document:
    """The document after the update; neither of the given ones has changed, and an equal one is the same object."""
    before, operators = deepcopy(document), deepcopy(update)
    compiled = compile_update(update, array_filters)
    after = compiled.apply(document, now=NOW, inserting=inserting, position=position)
    assert exact(document) == exact(before)
    assert update == operators
    assert (after is document) == (exact(after) == exact(before))
    return after


def exact(value: Any) -> Any:
    """A value in a form that tells types and the order of fields apart."""
    if isinstance(value, dict):
        return ["object", *((name, exact(each)) for name, each in value.items())]
    if isinstance(value, list):
        return ["array", *map(exact, value)]
    return type(value).__name__, repr(value)
