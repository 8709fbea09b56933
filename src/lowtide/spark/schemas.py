"""Converts schemas between Spark and Arrow.

A column of JSON text is a string in both, marked by the field metadata ``lowtide: json``. Spark has no metadata on the
elements of an array, so there the mark is on the array's own field and applies to the strings inside.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from lowtide.columnar.inference import JSON, is_json
from lowtide.errors import UsageError

MARK: Final = {"lowtide": "json"}
"""The metadata of a Spark field whose strings are JSON text."""
_SPARK: Final = b"SPARK::metadata::json"
"""The Arrow metadata key under which PySpark keeps a field's metadata."""

_EMPTY: Final = pa.struct([])
_FOREIGN: Final = ("variant", "geometry", "geography", "interval", "yearmonthinterval")
"""Types that Arrow lacks or cannot represent completely."""

KEYSPACE: Final = StructType(
    [StructField("key", BinaryType(), nullable=False), StructField("value", BinaryType(), nullable=False)]
)
"""The rows of a keyspace."""
STATEMENT: Final = StructType(
    [
        StructField("s", StringType(), nullable=False),
        StructField("s_kind", StringType(), nullable=False),
        StructField("p", StringType(), nullable=False),
        StructField("p_kind", StringType(), nullable=False),
        StructField("o", StringType(), nullable=False),
        StructField("o_kind", StringType(), nullable=False),
        StructField("o_datatype", StringType()),
        StructField("o_language", StringType()),
        StructField("g", StringType()),
        StructField("g_kind", StringType()),
        StructField("inferred", BooleanType()),
    ]
)
"""The rows of a quad store. ``g`` and ``g_kind`` are null in the default graph. ``inferred`` is null for a deleted
statement if the log does not record it."""
CHANGE: Final = (
    StructField("_change_type", StringType(), nullable=False),
    StructField("_commit_version", LongType(), nullable=False),
    StructField("_commit_timestamp", TimestampType(), nullable=False),
)
"""The additional columns of a change feed, with Delta's names."""


def arrow_schema(schema: StructType, json_columns: Collection[str] = ()) -> pa.Schema:
    """Return the exact Arrow schema that PySpark expects of record batches of ``schema``, with JSON text marked."""
    converted = to_arrow_schema(schema, timezone="UTC")
    if unknown := [name for name in json_columns if name not in converted.names]:
        raise UsageError(f"option 'jsonColumns' names {unknown[0]!r}, which is not a column of the schema")
    return pa.schema([_marked(field, field.name in json_columns) for field in converted])


def check_types(schema: StructType) -> None:
    """Refuse types that a document cannot hold or that Arrow lacks."""
    for each in schema:
        _check_type(each.dataType, each.name)


def _check_type(kind: DataType, path: str) -> None:
    match kind:
        case ArrayType():
            _check_type(kind.elementType, f"{path}.element")
        case MapType():
            _check_type(kind.keyType, f"{path}.key")
            _check_type(kind.valueType, f"{path}.value")
        case StructType():
            for each in kind:
                _check_type(each.dataType, f"{path}.{each.name}")
        case _:
            if kind.typeName() in _FOREIGN:
                raise UsageError(
                    f"column {path!r}: a document has no values of the type {kind.simpleString()}; to write it, "
                    "cast it, for example to string; to read it, use JSON text (type string, option 'jsonColumns')"
                )


def _marked(field: pa.Field, is_text: bool) -> pa.Field:
    """Return the field with PySpark's metadata replaced by ours, recursively."""
    stated = json.loads((field.metadata or {}).get(_SPARK, b"{}"))
    is_text = is_text or stated.get("lowtide") == "json"
    kind = field.type
    if pa.types.is_list(kind):
        found = pa.field(field.name, pa.list_(_marked(kind.value_field, is_text)), field.nullable)
    elif pa.types.is_struct(kind):
        found = pa.field(field.name, pa.struct([_marked(each, False) for each in kind]), field.nullable)
    else:
        found = pa.field(field.name, kind, field.nullable)
    if not is_text or pa.types.is_list(kind):
        return found
    if not pa.types.is_string(kind):
        raise UsageError(f"column {field.name!r} is to have JSON text, and must be of type string, not {kind}")
    return found.with_metadata(JSON)


def spark_schema(schema: pa.Schema) -> StructType:
    """Return the Spark schema of an inferred Arrow schema.

    Columns that are null everywhere and objects without known fields become JSON text.
    """
    return StructType([_field(each) for each in schema])


def _field(field: pa.Field) -> StructField:
    kind, is_text = _type(field)
    return StructField(field.name, kind, field.nullable, dict(MARK) if is_text else None)


def _type(field: pa.Field) -> tuple[Any, bool]:
    """Return the Spark type of a field, and whether the strings in it are JSON text."""
    kind = field.type
    if pa.types.is_null(kind) or kind == _EMPTY:
        return StringType(), True
    if pa.types.is_struct(kind):
        return StructType([_field(each) for each in kind]), False
    if pa.types.is_list(kind):
        element, is_text = _type(kind.value_field)
        return ArrayType(element, kind.value_field.nullable), is_text
    return from_arrow_type(kind, prefer_timestamp_ntz=False), is_json(field)
