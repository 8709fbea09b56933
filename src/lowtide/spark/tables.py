"""Persistent tables: ``CREATE TABLE t USING lowtide OPTIONS (path ..., collection ...)``.

Spark 4.3 tells a Python source the options of a table only once: when the table is created without a list of columns,
and the source is asked for the schema. A query that selects from the table, or inserts into it, comes with the schema
that the catalog has, and with no options. So the schema carries them, as metadata of its first column.
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
    """What the user has given to CREATE TABLE, of all that Spark gives then: where the table is, who owns it, its
    properties, and each option twice. None if this is no CREATE TABLE.

    >>> creation({"provider": "lowtide", "owner": "me", "path": "/s", "option.collection": "c", "collection": "c"})
    {'path': '/s', 'collection': 'c'}
    """
    if _PROVIDER not in given:
        return None
    found = {"path": given["path"]} if "path" in given else {}
    return found | {name[len(_OPTION) :]: value for name, value in given.items() if name.startswith(_OPTION)}


def with_table(schema: StructType, options: Mapping[str, str]) -> StructType:
    """The schema, which carries the options of its table."""
    first, *rest = schema.fields
    metadata = {**(first.metadata or {}), TABLE: msgspec.json.encode(dict(options)).decode()}
    return StructType([StructField(first.name, first.dataType, first.nullable, metadata), *rest])


def table_of(schema: StructType) -> dict[str, str] | None:
    """The options of the table that the schema is of, if it is of one."""
    for field in schema:
        if text := (field.metadata or {}).get(TABLE):
            return msgspec.json.decode(text, type=dict[str, str])
    return None
