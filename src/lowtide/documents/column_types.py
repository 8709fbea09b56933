"""The column types that are kept with a collection: what its documents alone do not tell.

A date is stored as the midnight that begins it, and a map as an object, so a reader of the documents sees datetimes
and objects. A bulk writer that knows the types of its columns leaves those here, in the collection's row, in the very
transaction that writes the documents. What a type is said in, is between those who write and those who read; here they
are only compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

_decode = msgspec.json.Decoder(dict[str, Any]).decode


def kept_types(stored: bytes | None) -> dict[str, Any]:
    """The types by the names of fields, from their stored form."""
    return {} if stored is None else _decode(stored)


def merge_types(stored: bytes | None, written: Mapping[str, Any], *, replace: bool) -> bytes | None:
    """What is kept after a write of these fields; None is the type of a field whose values tell it. A field that was
    written with another type before has none of its own any more. ``replace``, if all documents were replaced.

    >>> merge_types(b'{"day":"date"}', {"day": None, "due": "date"}, replace=False)
    b'{"due":"date"}'
    """
    found = {} if replace else kept_types(stored)
    for name, kind in written.items():
        if kind is None or found.get(name, kind) != kind:
            found.pop(name, None)
        else:
            found[name] = kind
    return msgspec.json.encode(found, order="sorted") if found else None
