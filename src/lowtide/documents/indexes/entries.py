"""Index entries: which entries a document has in an index.

An entry's key is the encoded values of the index's fields, each inverted if the field is descending. In a unique index
the entry's value is the key of the document. In any other index the document's key follows the values, and the entry's
value is the length of that key, one byte.

An array gives one entry for each of its elements, so a document may have several. An empty array gives one entry for
the empty array itself. A missing field gives null. Only one of the fields may be an array; fields inside the same array
give an entry for each combination of their values.

Values that take more than ``MAX_VALUES`` bytes are truncated and end in a hash of the whole. Such keys are equal if the
values are, but they do not sort. An index that has one (``Index.long``) cannot be used for sorting.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from math import prod
from typing import Any, Final

from lowtide.documents.indexes.spec import Index
from lowtide.documents.prepared.keys import Entry, entry_function
from lowtide.errors import WriteError, shown
from lowtide.values.ordering import encode, inverted
from lowtide.values.values import Document

MAX_VALUES: Final = 290
"""Maximum bytes of an entry's values. Together with a document's key they fill the longest possible key."""
MOST_ENTRIES: Final = 10_000
"""Maximum number of entries of one document in one index."""
MULTIKEY: Final = 1
LONG: Final = 2
_HASH: Final = 16
CUT: Final = MAX_VALUES - _HASH - 1

_MISSING: Final = object()
_NULL: Final = encode(None)

Extract = Callable[[Document], tuple[list[Any], bool]]
"""The values at a path, and whether there was an array on it."""


def cut(values: bytes) -> bytes:
    """Return the key for encoded values, truncated if they are too long."""
    if len(values) <= MAX_VALUES:
        return values
    return values[:CUT] + b"\xff" + blake2b(values, digest_size=_HASH).digest()


def cut_bound(values: bytes) -> bytes:
    """Return the prefix of encoded values that every key for them has, truncated or not."""
    return values if len(values) <= CUT else values[:CUT]


def entry_key(index: Index, values: bytes, document_key: bytes) -> bytes:
    return values if index.unique else values + document_key


LENGTHS: Final = [bytes((length,)) for length in range(256)]
"""The values of entries in an index that is not unique, by the length of the document's key."""


def entry_value(index: Index, document_key: bytes) -> bytes:
    return document_key if index.unique else LENGTHS[len(document_key)]


def document_key_of(index: Index, key: bytes, value: bytes) -> bytes:
    """Return the key of the document that an entry belongs to."""
    return value if index.unique else key[-value[0] :]


def extract(path: str) -> Extract:
    """Return a function that finds the values at ``path`` in a document."""
    if "." not in path:

        def flat(document: Document) -> tuple[list[Any], bool]:
            value = document.get(path, _MISSING)
            if type(value) is list:
                return value or [[]], True
            return ([] if value is _MISSING else [value]), False

        return flat
    parts = path.split(".")

    def deep(document: Document) -> tuple[list[Any], bool]:
        found: list[Any] = []
        through = _walk(document, parts, 0, found)
        return found, through

    return deep


def _walk(value: Any, parts: list[str], at: int, found: list[Any]) -> bool:
    """Collect the values at the rest of a path. Returns whether there was an array on it."""
    if at == len(parts):
        if type(value) is list:
            found.extend(value or [[]])
            return True
        found.append(value)
        return False
    part = parts[at]
    if type(value) is dict:
        if part in value:
            return _walk(value[part], parts, at + 1, found)
        return False
    if type(value) is list:
        if part.isdecimal() and int(part) < len(value):
            _walk(value[int(part)], parts, at + 1, found)
        for each in value:
            if type(each) is dict:
                before = len(found)
                _walk(each, parts, at, found)
                if len(found) == before:
                    found.append(None)
        return True
    return False


class IndexEntries:
    """The entries of one index, compiled."""

    __slots__ = ("_descending", "_extracts", "fields", "index", "only")

    def __init__(self, index: Index) -> None:
        self.index = index
        self._extracts = [extract(path) for path, _ in index.keys]
        self._descending = [direction < 0 for _, direction in index.keys]
        asked = index.partial_filter.conjuncts if index.partial_filter is not None else ()
        self.fields = frozenset(path.split(".")[0] for path in (*index.paths, *(each.path for each in asked)))
        """The fields of a document that determine its entries."""
        is_flat = not any("." in path for path in index.paths) and not index.sparse and index.partial is None
        self.only: Entry | None = entry_function(index.keys, MAX_VALUES) if is_flat else None
        """Returns the encoded values of the only entry of a document; None if it has several, or a truncated one. There
        is no such function for indexes that omit documents, or that have paths into objects."""

    def of(self, document: Document) -> tuple[list[bytes], int]:
        """Return the encoded values of the entries of ``document``, each once; and MULTIKEY, LONG, both or 0."""
        if self.only is not None and (encoded := self.only(document)) is not None:
            return [encoded], 0
        partial = self.index.partial_filter
        if partial is not None and not partial.matches(document):
            return [], 0
        found = [each(document) for each in self._extracts]
        if self.index.sparse and not any(values for values, _ in found):
            return [], 0
        arrays = [path for path, (_, through) in zip(self.index.paths, found, strict=True) if through]
        if len({path.split(".")[0] for path in arrays}) > 1 or prod(len(values) for values, _ in found) > MOST_ENTRIES:
            raise WriteError(
                f"index {self.index.name!r} cannot hold the document with _id {shown(document.get('_id'))}: there are "
                f"arrays at {' and '.join(map(repr, arrays))}; at most one may be, of {MOST_ENTRIES:,} elements at most"
            )
        keys = [b""]
        for (values, _), descending in zip(found, self._descending, strict=True):
            parts = [encode(each) for each in values] or [_NULL]
            if descending:
                parts = [inverted(each) for each in parts]
            keys = [key + part for key in keys for part in parts]
        special = (MULTIKEY if arrays else 0) | (LONG if max(map(len, keys)) > MAX_VALUES else 0)
        return list(dict.fromkeys(map(cut, keys) if special & LONG else keys)), special
