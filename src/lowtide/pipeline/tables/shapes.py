"""The shapes of a collection's documents, stored with its table so that its columns only widen.

The types of the columns follow from the shapes (``columnar/inference.py``). Shapes merge in any order, so every run
adds to the shapes of all earlier runs, and a repeated run adds nothing.
"""

from __future__ import annotations

from typing import Any

import msgspec

from lowtide.columnar.inference import Fields, Shape

_Encoded = list[Any]


def encode_fields(fields: Fields) -> str:
    """Return the shapes as JSON text.

    >>> seen = Fields()
    >>> seen.add([{"_id": 1, "tags": ["a"]}])
    >>> decode_fields(encode_fields(seen)).schema() == seen.schema()
    True
    """
    return msgspec.json.encode({name: _encode(each) for name, each in fields.shapes.items()}).decode()


def decode_fields(text: str) -> Fields:
    """Return the shapes that ``encode_fields`` has written."""
    fields = Fields()
    fields.shapes = {name: _decode(each) for name, each in msgspec.json.decode(text, type=dict[str, _Encoded]).items()}
    return fields


def merge_fields(into: Fields, other: Fields) -> None:
    """Add what ``other`` has seen."""
    for name, shape in other.shapes.items():
        into.shapes.setdefault(name, Shape()).absorb(shape)


def _encode(shape: Shape) -> _Encoded:
    fields = {name: _encode(each) for name, each in shape.fields.items()}
    elements = None if shape.elements is None else _encode(shape.elements)
    return [shape.seen, str(shape.largest), shape.digits, shape.scale, fields, elements]


def _decode(encoded: _Encoded) -> Shape:
    shape = Shape()
    seen, largest, digits, scale, fields, elements = encoded
    shape.seen, shape.largest, shape.digits, shape.scale = seen, int(largest), digits, scale
    shape.fields = {name: _decode(each) for name, each in fields.items()}
    shape.elements = None if elements is None else _decode(elements)
    return shape
