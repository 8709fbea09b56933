"""Applies the rows of a change feed to a store: ``writeMode`` changes."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ByteType, IntegerType, LongType, ShortType, StringType, StructType

from lowtide.errors import UsageError
from lowtide.feed.ranges import DELETE, INSERT, POSTIMAGE, PREIMAGE
from lowtide.sharing.loading.job import How
from lowtide.sharing.loading.staged_changes import StagedChange, encode_change
from lowtide.spark.encoding import RowEncoder
from lowtide.spark.schemas import CHANGE

_COLUMNS: Final = tuple(each.name for each in CHANGE)
_KIND, _VERSION, _ = _COLUMNS
_KINDS: Final = (INSERT, POSTIMAGE, DELETE, PREIMAGE)
_WHOLE: Final = (ByteType, ShortType, IntegerType, LongType)


def check_change_columns(schema: StructType) -> None:
    """Refuse a schema without the columns of a change feed."""
    for name, kinds in ((_KIND, (StringType,)), (_VERSION, _WHOLE)):
        if name not in schema.names:
            raise UsageError(
                f"writeMode changes takes the rows of a change feed, which have a column {name!r}; there are "
                f"{', '.join(map(repr, schema.names))}. Read them with option readChangeFeed, or use writeMode upsert"
            )
        kind = schema[name].dataType
        if not isinstance(kind, kinds):
            raise UsageError(
                f"column {name!r} of changes is of type {kind.simpleString()}, which it cannot be; cast it"
            )


def documents_of(schema: StructType, how: How) -> StructType:
    """The columns that become fields."""
    return StructType([each for each in schema if how != "changes" or each.name not in _COLUMNS])


def without_change_columns(schema: pa.Schema) -> pa.Schema:
    """The columns of changes that become fields."""
    return pa.schema([each for each in schema if each.name not in _COLUMNS])


def encode_changes(encoder: RowEncoder, batch: pa.RecordBatch) -> tuple[list[bytes], list[bytes]]:
    """Return the keys and staged values of all rows except update preimages."""
    kinds = batch.column(_KIND)
    unknown = pc.invert(pc.fill_null(pc.is_in(kinds, pa.array(_KINDS, kinds.type)), False))
    if pc.any(unknown).as_py():
        wrong: Any = kinds.filter(unknown)[0].as_py()
        raise UsageError(f"column {_KIND!r} of changes has {wrong!r}; it has {', '.join(_KINDS)} and nothing else")
    batch = batch.filter(pc.not_equal(kinds, PREIMAGE))
    versions = batch.column(_VERSION)
    if versions.null_count or (len(versions) and pc.min(versions).as_py() < 0):
        raise UsageError(f"column {_VERSION!r} of changes has a row that is null or below 0: it is a commit's number")
    keys, documents = encoder.encode(batch.select([name for name in batch.schema.names if name not in _COLUMNS]))
    rows = zip(versions.to_pylist(), batch.column(_KIND).to_pylist(), documents, strict=True)
    return keys, [encode_change(StagedChange(each, None if kind == DELETE else stored)) for each, kind, stored in rows]
