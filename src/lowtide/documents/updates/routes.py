"""Parses the paths of an update and builds its tree from them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from lowtide.documents.updates.tree import Elements, UpdateFields, UpdateLeaf
from lowtide.errors import OperationFailure
from lowtide.values.cleaning import MAX_DEPTH

_ELEMENTS: Final = re.compile(r"\$\[(.*)\]", re.DOTALL)


def parts_of(path: str, operator: str) -> list[str]:
    """Split ``path`` into its parts. Raises OperationFailure if it is not valid in an update.

    >>> parts_of("grades.$[].mean", "$set")
    ['grades', '$[]', 'mean']
    """
    parts = path.split(".")
    if "" in parts:
        raise OperationFailure(f"{operator}: the path {path!r} has an empty part; every part must have a name")
    if len(parts) > MAX_DEPTH:
        raise OperationFailure(
            f"{operator}: the path {path[:60]!r}... has {len(parts)} parts; the maximum is {MAX_DEPTH}"
        )
    if "$" in path:
        _check_dollars(path, parts, operator)
    return parts


def is_dynamic(part: str) -> bool:
    """Whether the part depends on the document: ``$``, ``$[]`` or ``$[name]``."""
    return part.startswith("$")


def _check_dollars(path: str, parts: list[str], operator: str) -> None:
    for part in parts:
        if part.startswith("$") and part != "$" and not _ELEMENTS.fullmatch(part):
            raise OperationFailure(
                f"{operator}: the path {path!r} has the part {part!r}; a field name must not begin with $"
            )
    if is_dynamic(parts[0]):
        raise OperationFailure(
            f"{operator}: the path {path!r} begins with {parts[0]!r}; put the name of the array first"
        )
    if parts.count("$") > 1:
        raise OperationFailure(f"{operator}: the path {path!r} has more than one $; only one is allowed")


class Planting:
    """Builds a tree from paths, and records which array filters they use."""

    def __init__(self, filters: Mapping[str, Callable[[Any], bool]]) -> None:
        self.root = UpdateFields()
        self.filters = filters
        self.used: set[str] = set()

    def plant(self, path: str, parts: list[str], leaf: UpdateLeaf, operator: str) -> None:
        """Add ``leaf`` at the end of a path. Raises OperationFailure if another path ends at, above or below it."""
        node: UpdateFields | Elements = self.root
        for depth, part in enumerate(parts):
            chosen = _ELEMENTS.fullmatch(part)
            if isinstance(node, Elements) is not (chosen is not None):
                raise _conflict(path, parts[:depth], operator)
            name = part
            if chosen:
                name = chosen[1]
                self._use(name, path, operator)
            child = node.children.get(name)
            if depth + 1 == len(parts):
                if child is not None:
                    raise _conflict(path, parts, operator)
                node.children[name] = leaf
                return
            if child is None:
                child = Elements(self.filters) if _ELEMENTS.fullmatch(parts[depth + 1]) else UpdateFields()
                node.children[name] = child
            if isinstance(child, UpdateLeaf):
                raise _conflict(path, parts[: depth + 1], operator)
            node = child

    def _use(self, name: str, path: str, operator: str) -> None:
        if name and name not in self.filters:
            raise OperationFailure(
                f"{operator}: the path {path!r} uses {name!r}, but there is no array filter of that name; "
                f"pass array_filters=[{{{name + '.field'!r}: ...}}]"
            )
        self.used.add(name)


def _conflict(path: str, parts: list[str], operator: str) -> OperationFailure:
    place = ".".join(parts)
    return OperationFailure(
        f"{operator}: updating the path {path!r} conflicts with another change at {place!r}; "
        "an update may change each field only once, and not also a field inside it"
    )
