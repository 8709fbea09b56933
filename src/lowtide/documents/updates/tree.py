"""The tree of an update: one node for each part of its paths, applied to a document in one walk.

A node gets the value at its place, or MISSING, and returns the new value: the same object if nothing changes, MISSING
to remove it. Containers are copied along the path of a change and nowhere else. The input is never modified.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from lowtide.errors import shown
from lowtide.values.values import Document

MAX_PADDING: Final = 1_500_000
"""Maximum number of nulls that a write past the end of an array may insert."""


class Missing:
    """The type of MISSING."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()
"""The absence of a value. Not the same as null."""


class Refusal(Exception):
    """The update cannot be applied to the document. ``parts`` is the path, innermost first; the walk fills it in."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.parts: list[str] = []
        super().__init__(reason)

    @property
    def path(self) -> str:
        return ".".join(reversed(self.parts))


class Conflict(Exception):
    """Two changes affect the same field, or one affects a field inside the other. ``parts`` is as in Refusal."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        super().__init__()

    @property
    def path(self) -> str:
        return ".".join(reversed(self.parts))


@dataclass(slots=True)
class Occasion:
    """The inputs of a change other than the value: the document before the update, the time, the index for ``$``."""

    document: Document
    now: datetime
    position: int | None


Change = Callable[[Any, Occasion], Any]


class UpdateLeaf:
    """The end of a path: the change that an operator makes there.

    A ``strict`` leaf fails if the path cannot exist, even if the operator does not change missing fields.
    """

    __slots__ = ("change", "strict")

    def __init__(self, change: Change, *, strict: bool = False) -> None:
        self.change = change
        self.strict = strict


class UpdateFields:
    """Children by field name, or by index in an array. The name ``$`` is the index that the filter matched."""

    __slots__ = ("children",)

    def __init__(self, children: dict[str, Node] | None = None) -> None:
        self.children: dict[str, Node] = {} if children is None else children

    def change(self, value: Any, occasion: Occasion) -> Any:
        children = self.children
        if "$" in children:
            children = self._placed(occasion.position)
        if type(value) is dict:
            return _in_object(value, children, occasion)
        if type(value) is list:
            return _in_array(value, children, occasion)
        created: Document = {}
        for name, child in children.items():
            new = _changed(child, MISSING, name, occasion)
            if value is not MISSING and (new is not MISSING or child.strict):
                raise Refusal(f"cannot access or create field {name!r} in {described(value)}, which is not an object")
            if new is not MISSING:
                created[name] = new
        return created or value

    @property
    def strict(self) -> bool:
        return any(child.strict for child in self.children.values())

    def _placed(self, position: int | None) -> dict[str, Node]:
        """Return the children, with ``$`` replaced by the index."""
        if position is None:
            raise Refusal(
                "the positional operator $ requires a condition on the array in the filter; "
                "add one, or use $[] or $[name]"
            )
        index = str(position)
        placed: dict[str, Node] = {}
        for name, child in self.children.items():
            part = index if name == "$" else name
            try:
                placed[part] = merged(placed[part], child) if part in placed else child
            except Conflict as conflict:
                raise _collision(conflict, part) from None
        return placed


class Elements:
    """Children for the elements of an array: by the name of an array filter, or ``""`` for all elements."""

    __slots__ = ("children", "filters")

    strict: Final = True

    def __init__(self, filters: Mapping[str, Callable[[Any], bool]], children: dict[str, Node] | None = None) -> None:
        self.filters = filters
        self.children: dict[str, Node] = {} if children is None else children

    def change(self, value: Any, occasion: Occasion) -> Any:
        if value is MISSING:
            raise Refusal("$[] and $[name] require an array, but the field is missing")
        if type(value) is not list:
            raise Refusal(f"$[] and $[name] require an array, but the field is {described(value)}")
        changed = value
        for index, each in enumerate(value):
            node = self._for_element(each, index)
            if node is None:
                continue
            new = _changed(node, each, str(index), occasion)
            if new is MISSING:
                new = None
            if new is not each:
                if changed is value:
                    changed = value.copy()
                changed[index] = new
        return changed

    def _for_element(self, element: Any, index: int) -> Node | None:
        """Return the node for ``element``: all children that select it. All filters see the element unchanged."""
        found: Node | None = None
        for name, child in self.children.items():
            if name and not self.filters[name](element):
                continue
            try:
                found = child if found is None else merged(found, child)
            except Conflict as conflict:
                raise _collision(conflict, str(index)) from None
        return found


Node = UpdateLeaf | UpdateFields | Elements


def merged(first: Node, second: Node) -> Node:
    """Merge two nodes. Raises Conflict if they change the same field."""
    if isinstance(first, UpdateFields) and isinstance(second, UpdateFields):
        return UpdateFields(_merged_children(first.children, second.children))
    if isinstance(first, Elements) and isinstance(second, Elements):
        return Elements(first.filters, _merged_children(first.children, second.children, "$[{}]"))
    raise Conflict


def _merged_children(first: dict[str, Node], second: dict[str, Node], shown: str = "{}") -> dict[str, Node]:
    children = dict(first)
    for name, child in second.items():
        try:
            children[name] = merged(children[name], child) if name in children else child
        except Conflict as conflict:
            conflict.parts.append(shown.format(name))
            raise
    return children


def index_of(part: str) -> int | None:
    """Return the array index that a part of a path denotes: digits without leading zeros; else None."""
    if part.isascii() and part.isdigit() and (part[0] != "0" or part == "0"):
        return int(part)
    return None


def described(value: object) -> str:
    """Describe a value for an error message: its type, and the value, truncated if it is long."""
    text = shown(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"


def _changed(child: Node, value: Any, part: str, occasion: Occasion) -> Any:
    try:
        return child.change(value, occasion)
    except Refusal as refusal:
        refusal.parts.append(part)
        raise


def _in_object(value: Document, children: dict[str, Node], occasion: Occasion) -> Document:
    changed = value
    for name, child in children.items():
        old = value.get(name, MISSING)
        new = _changed(child, old, name, occasion)
        if new is old:
            continue
        if changed is value:
            changed = value.copy()
        if new is MISSING:
            del changed[name]
        else:
            changed[name] = new
    return changed


def _in_array(value: list[Any], children: dict[str, Node], occasion: Occasion) -> list[Any]:
    changed = value
    for part, child in children.items():
        index = index_of(part)
        inside = index is not None and index < len(value)
        old = value[index] if inside and index is not None else MISSING
        new = _changed(child, old, part, occasion)
        if index is None and (new is not old or child.strict):
            raise Refusal(f"cannot access or create field {part!r} in an array; use an index, $[] or $[name]")
        if new is old or index is None:
            continue
        if new is MISSING:
            if old is None:
                continue
            new = None
        if changed is value:
            changed = value.copy()
        if index >= len(changed):
            if index - len(changed) > MAX_PADDING:
                raise Refusal(f"index {index} would fill the array with more than {MAX_PADDING:,} nulls")
            changed.extend([None] * (index + 1 - len(changed)))
        changed[index] = new
    return changed


def _collision(conflict: Conflict, part: str) -> Refusal:
    refusal = Refusal("two parts of the update change the same element here")
    refusal.parts = [*conflict.parts, part]
    return refusal
