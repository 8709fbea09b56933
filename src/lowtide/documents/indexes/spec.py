"""``Index``: the definition of an index, with its name, its fields and its options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec

from lowtide.documents.filters import Filter, compile_filter
from lowtide.errors import OperationFailure
from lowtide.values.codec import decode_value

ASCENDING: Final = 1
DESCENDING: Final = -1
PRIMARY: Final = "_id_"
"""The name of the index on ``_id``: the documents themselves are in that order."""
MAX_PARTS: Final = 32
MAX_NAME: Final = 60

Keys = str | Sequence[Any] | Mapping[str, Any]


class Index(msgspec.Struct, frozen=True, dict=True, kw_only=True):
    """One index of a collection. It is stored in the collection's row.

    ``keyspace`` holds the entries. ``multikey`` says that a document has, or had, several entries, because of an array
    on one of the paths. ``long`` says that there is, or was, a truncated entry. ``partial`` is an encoded filter.
    ``building`` is true until all documents are indexed: writers maintain the index, but queries do not use it.
    ``build`` is the number of the build, drawn with each announcement.
    """

    name: str
    keys: tuple[tuple[str, int], ...]
    keyspace: str
    unique: bool = False
    sparse: bool = False
    partial: bytes | None = None
    multikey: bool = False
    long: bool = False
    building: bool = False
    build: int = 0

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(path for path, _ in self.keys)

    @cached_property
    def partial_filter(self) -> Filter | None:
        return compile_filter(decode_value(self.partial)) if self.partial is not None else None

    def information(self) -> dict[str, Any]:
        """Return the index in the form of ``index_information``."""
        found: dict[str, Any] = {"key": list(self.keys)}
        for name in ("unique", "sparse", "multikey", "building"):
            if getattr(self, name):
                found[name] = True
        if self.partial is not None:
            found["partialFilterExpression"] = decode_value(self.partial)
        return found

    def noting(self, *, multikey: bool, long: bool) -> Index:
        """Return the index after an entry of this kind was added; the same object if nothing changes."""
        if self.multikey >= multikey and self.long >= long:
            return self
        return self.having(multikey=self.multikey or multikey, long=self.long or long)

    def having(self, **changes: Any) -> Index:
        return msgspec.structs.replace(self, **changes)

    def same_as(self, other: Index) -> bool:
        """Whether both have the same keys and options, whatever their state."""
        return (self.keys, self.unique, self.sparse, self.partial) == (
            other.keys,
            other.unique,
            other.sparse,
            other.partial,
        )


def parse_keys(keys: Keys) -> tuple[tuple[str, int], ...]:
    """Parse the keys of an index, in any of PyMongo's forms.

    >>> parse_keys("city"), parse_keys([("city", 1), ("age", -1)])
    ((('city', 1),), (('city', 1), ('age', -1)))
    """
    pairs: list[tuple[Any, Any]] = []
    if isinstance(keys, str):
        pairs = [(keys, ASCENDING)]
    elif isinstance(keys, Mapping):
        pairs = list(keys.items())
    elif isinstance(keys, Sequence) and not isinstance(keys, bytes):
        for each in keys:
            if isinstance(each, str):
                pairs.append((each, ASCENDING))
            elif isinstance(each, tuple | list) and len(each) == 2:
                pairs.append((each[0], each[1]))
            else:
                raise OperationFailure(f"an index field must be a path, or a pair of path and direction, got {each!r}")
    if not pairs or len(pairs) > MAX_PARTS:
        raise OperationFailure(
            f"an index must have 1 to {MAX_PARTS} fields, such as [('city', 1), ('age', -1)], got {keys!r}"
        )
    for path, direction in pairs:
        if not isinstance(path, str) or not path or any(not part or part.startswith("$") for part in path.split(".")):
            raise OperationFailure(f"{path!r} is not a valid field path, such as 'city' or 'address.city'")
        if isinstance(direction, bool) or direction not in (1, -1):
            raise OperationFailure(
                f"the direction of {path!r} must be 1 or -1, got {direction!r}; other index types are not supported"
            )
    if len({path for path, _ in pairs}) < len(pairs):
        raise OperationFailure(f"a path can occur only once in an index: {keys!r}")
    return tuple((path, int(direction)) for path, direction in pairs)


def name_of(keys: tuple[tuple[str, int], ...]) -> str:
    """Return the default name of an index, the same as MongoDB's."""
    return "_".join(f"{path}_{direction}" for path, direction in keys)
