"""Point lookups: filters for one value of one field, such as ``{"_id": 7}`` or ``{"email": "ann@example.com"}``.

They are the most common queries and need no plan. If the field has an index, the key of the entry is known.
The document that the entry leads to has the value in the field, or in the field's array, so it matches.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from lowtide.documents.indexes.entries import CUT
from lowtide.values.ids import ID_TYPES, MAX_ID
from lowtide.values.ordering import encode
from lowtide.values.values import Document

_SCALARS: Final = frozenset((str, int, float, bool, bytes, UUID, datetime))


class Point(NamedTuple):
    """One value at one path without dots. ``encoded`` is short enough to be stored untruncated in an index."""

    path: str
    encoded: bytes
    value: Any

    def is_of(self, document: Document) -> bool:
        """Whether the field has exactly this value, rather than an array with it."""
        found = document.get(self.path)
        kind = type(found)
        if kind is type(self.value):
            return bool(found == self.value)
        return kind is not list and encode(found) == self.encoded


def point_of(filter: Any) -> Point | None:
    """Return the point of a filter; None if it is not a point lookup. A filter that is not a dict is an ``_id``."""
    if type(filter) is not dict:
        path, value = "_id", filter
    elif len(filter) == 1:
        path, value = next(iter(filter.items()))
        if type(path) is not str or "." in path or path[:1] == "$":
            return None
    else:
        return None
    kind = type(value)
    if kind not in _SCALARS or (kind is float and value != value):
        return None
    if path == "_id" and kind not in ID_TYPES:
        return None
    try:
        encoded = encode(value)
    except UnicodeEncodeError:
        return None
    return Point(path, encoded, value) if len(encoded) <= (MAX_ID if path == "_id" else CUT) else None
