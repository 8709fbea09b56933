"""Column types that are stored with a collection, because they cannot be inferred from its documents.

A date is stored as its midnight, and a map as an object, so a reader of the documents sees datetimes and objects. A
bulk writer that knows its column types stores them in the collection's row, in the same transaction that writes the
documents. Writers and readers agree on the notation of types; this module only compares them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

_decode = msgspec.json.Decoder(dict[str, Any]).decode


def kept_types(stored: bytes | None) -> dict[str, Any]:
    """Decode the stored types, by field name."""
    return {} if stored is None else _decode(stored)


def merge_types(stored: bytes | None, written: Mapping[str, Any], *, replace: bool) -> bytes | None:
    """Return the stored types after a write of these fields. A type of None is for a field whose type can be inferred
    from its values. A field that was written with another type before loses its type. ``replace`` says that all
    documents were replaced.

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
