"""Persistent tables: ``CREATE TABLE t USING lowtide OPTIONS (path ..., collection ...)``.

Spark 4.3 passes the options of a table to a Python source only once: when the table is created without a column list
and the source is asked for the schema. A query that reads the table or inserts into it gets the schema from the catalog
and no options. The schema therefore carries the options, as metadata of its first column.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from pyspark.sql.types import StructField, StructType

TABLE: Final = "lowtide.table"
"""The metadata of a column that has the options of its table, as JSON."""
_PROVIDER: Final = "provider"
_OPTION: Final = "option."


def creation(given: Mapping[str, str]) -> dict[str, str] | None:
    """Extract the user's options of CREATE TABLE. None if this is not a CREATE TABLE.

    Spark passes them together with the table's location, owner and properties, and each option twice.

    >>> creation({"provider": "lowtide", "owner": "me", "path": "/s", "option.collection": "c", "collection": "c"})
    {'path': '/s', 'collection': 'c'}
    """
    if _PROVIDER not in given:
        return None
    found = {"path": given["path"]} if "path" in given else {}
    return found | {name[len(_OPTION) :]: value for name, value in given.items() if name.startswith(_OPTION)}


def with_table(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Return the schema with the options of its table added."""
    first, *rest = schema.fields
    metadata = {**(first.metadata or {}), TABLE: msgspec.json.encode(dict(options)).decode()}
    return StructType([StructField(first.name, first.dataType, first.nullable, metadata), *rest])


def table_of(schema: StructType) -> dict[str, str] | None:
    """Return the table options that the schema carries, if any."""
    for field in schema:
        if text := (field.metadata or {}).get(TABLE):
            return msgspec.json.decode(text, type=dict[str, str])
    return None
