"""The columns of a table of versions.

Each row is one version of one document, or of one entry of a keyspace: what commit ``_version`` left under ``_key``.
Rows are only ever appended. ``valid_to`` is filled in by compaction; until then the end of a version is the
``_version`` of the next row with the same ``_key``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from lowtide.columnar.inference import JSON, is_json

ID: Final = "_id"
VERSION: Final = "_version"
TIME: Final = "_time"
KIND: Final = "_kind"
RAW: Final = "_raw"
VALID_TO: Final = "valid_to"
KEY: Final = "_key"

INSERT: Final = "insert"
UPDATE: Final = "update"
DELETE: Final = "delete"

OWN: Final = frozenset((ID, VERSION, TIME, KIND, RAW, VALID_TO, KEY))
"""Column names that a document's own field cannot have; such a field is in ``_raw`` alone, except ``_id``."""
_FORBIDDEN: Final = frozenset(" ,;{}()\n\t=")
"""Characters that Delta refuses in the name of a column."""

TIMESTAMP: Final = pa.timestamp("us", "UTC")

_BEFORE: Final = (
    pa.field(VERSION, pa.int64(), nullable=False),
    pa.field(TIME, TIMESTAMP, nullable=False),
    pa.field(KIND, pa.string(), nullable=False),
)
_AFTER: Final = (pa.field(VALID_TO, pa.int64()), pa.field(KEY, pa.string(), nullable=False))

KEYSPACE: Final = pa.schema([pa.field(ID, pa.binary()), *_BEFORE, pa.field(RAW, pa.binary()), *_AFTER])
"""The columns of a keyspace's table: its keys are ``_id``, and its values ``_raw``."""


def collection_schema(typed: Iterable[pa.Field]) -> pa.Schema:
    """Return the schema of a collection's table, given the columns of its documents, ``_id`` included.

    >>> collection_schema([pa.field("_id", pa.int64()), pa.field("name", pa.string())]).names
    ['_id', '_version', '_time', '_kind', '_raw', 'name', 'valid_to', '_key']
    """
    fields = {each.name: each for each in typed}
    first = fields.pop(ID, pa.field(ID, pa.string(), metadata=JSON))
    return pa.schema([first, *_BEFORE, pa.field(RAW, pa.string()), *columnar(fields.values()), *_AFTER])


def columnar(fields: Iterable[pa.Field]) -> list[pa.Field]:
    """Return the fields that get a column. Delta refuses some names, and Spark takes two names that differ in case for
    one; such fields are in ``_raw`` alone."""
    taken = {each.casefold() for each in OWN}
    found = []
    for each in fields:
        name = each.name.casefold()
        if name not in taken and is_storable(each):
            taken.add(name)
            found.append(storable(each))
    return found


def is_storable(field: pa.Field) -> bool:
    """Whether Delta takes the name of a field."""
    return bool(field.name) and not _FORBIDDEN & set(field.name)


def storable(field: pa.Field) -> pa.Field:
    """Return the field as a table stores it: what was null everywhere is JSON text, and so is an object with a field
    that cannot be a column."""
    kind = field.type
    if is_json(field):
        return field
    if pa.types.is_struct(kind):
        names = [each.name.casefold() for each in kind]
        if not len(kind) or len(set(names)) < len(names) or not all(map(is_storable, kind)):
            return pa.field(field.name, pa.string(), metadata=JSON)
        return pa.field(field.name, pa.struct([storable(each) for each in kind]))
    if pa.types.is_list(kind):
        return pa.field(field.name, pa.list_(storable(kind.value_field).with_name("element")))
    if pa.types.is_null(kind):
        return pa.field(field.name, pa.string(), metadata=JSON)
    return pa.field(field.name, kind)


def plain(schema: pa.Schema) -> pa.Schema:
    """Return the schema as Delta keeps it: inside objects and arrays, nothing says which strings are JSON text."""
    return pa.schema([_plain(each).with_metadata(JSON if is_json(each) else None) for each in schema])


def _plain(field: pa.Field) -> pa.Field:
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_plain(each) for each in kind])
    elif pa.types.is_list(kind):
        kind = pa.list_(_plain(kind.value_field).with_name("element"))
    return pa.field(field.name, kind, field.nullable)
