"""Spark types that documents do not preserve: a write stores them with the collection, and a read restores them.

A date, a timestamp without a zone and a map are stored as a datetime, a datetime and an object. If a column has such a
type, itself or inside, the write stores the column's type with the collection. A read that infers its schema gives the
column this type, whatever the sample shows. Numbers are not kept; they are inferred, and widen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    MapType,
    StructField,
    StructType,
    TimestampNTZType,
)


def types_of(schema: StructType, texts: Iterable[str], id_field: str) -> dict[str, Any]:
    """Return by field the type to keep, in Spark's JSON, or None if the values imply it. ``texts`` are JSON columns."""
    plain = {*texts, id_field}
    return {
        each.name: _nullable(each.dataType).jsonValue() if each.name not in plain and _is_lost(each.dataType) else None
        for each in schema
        if each.name != id_field
    }


def with_kept(schema: StructType, kept: Mapping[str, Any], columns: Iterable[str] | None = None) -> StructType:
    """Return an inferred schema with the kept types.

    Without ``columns``, kept columns that no document of the sample has are added too.
    """
    types = {name: _parsed(kind) for name, kind in kept.items()}
    found = [_restored_field(each, types.pop(each.name, None)) for each in schema]
    others = [] if columns is not None else [StructField(name, kind) for name, kind in types.items()]
    return StructType([*found, *others])


def _is_lost(kind: DataType) -> bool:
    match kind:
        case DateType() | TimestampNTZType() | MapType():
            return True
        case ArrayType():
            return _is_lost(kind.elementType)
        case StructType():
            return any(_is_lost(each.dataType) for each in kind)
    return False


def _nullable(kind: DataType) -> DataType:
    """Return the type, nullable wherever another writer may omit a value."""
    match kind:
        case MapType():
            return MapType(kind.keyType, _nullable(kind.valueType), True)
        case ArrayType():
            return ArrayType(_nullable(kind.elementType), True)
        case StructType():
            return StructType([StructField(each.name, _nullable(each.dataType), True, each.metadata) for each in kind])
    return kind


def _parsed(kind: Any) -> DataType:
    """Parse the type from its JSON."""
    return StructType.fromJson({"type": "struct", "fields": [_stated("f", kind)]})["f"].dataType


def _stated(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def _restored_field(field: StructField, kept: DataType | None) -> StructField:
    if kept is None:
        return field
    kind = _restored(field.dataType, kept)
    is_same = kind == field.dataType
    return StructField(field.name, kind, field.nullable, field.metadata if is_same else None)


def _restored(seen: DataType, kept: DataType) -> DataType:
    """Merge the kept type with further object fields of the sample."""
    match seen, kept:
        case StructType(), StructType():
            names = set(seen.names)
            found = [
                _restored_field(each, kept[each.name].dataType if each.name in kept.names else None) for each in seen
            ]
            return StructType([*found, *(each for each in kept if each.name not in names)])
        case ArrayType(), ArrayType():
            return ArrayType(_restored(seen.elementType, kept.elementType), True)
    return kept if _is_lost(kept) or type(seen) is not type(kept) else seen
