"""Encodes the rows of a DataFrame as documents: record batches in, keys and stored documents out.

Each column becomes a list of values that MessagePack can encode directly. A struct class generated for the schema takes
one value of each and omits nulls. No value is inspected twice, and no dict is built per row.

===================  ==========================================================
Spark                document
===================  ==========================================================
numbers              int, float; NaN becomes null
decimal              Decimal
string, binary       str, bytes
boolean              bool
timestamp            datetime in UTC
timestamp_ntz, date  naive datetime; a date becomes midnight
struct               object, without null fields
map                  object; keys are strings
array                array, nulls included
JSON text            the parsed value; marked by metadata ``lowtide: json`` or option ``jsonColumns``
===================  ==========================================================
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

import msgspec
import pyarrow as pa

from lowtide.columnar.inference import is_json
from lowtide.errors import InvalidDocument, UsageError, ValueMisfit, shown
from lowtide.spark.values import (
    ColumnMisfit,
    Convert,
    check_name,
    convert_of,
    is_binary,
    is_list,
    json_values,
    plain_values,
)
from lowtide.values.cleaning import UUID_CODE
from lowtide.values.codec import check_encoded, encodable
from lowtide.values.ids import id_key, id_keys, new_id

_ID: Final = "_id"


class RowEncoder:
    """Encodes record batches of one schema, with its JSON text marked, as keys and stored documents."""

    def __init__(self, schema: pa.Schema, collection: str, id_field: str, ignore_nulls: bool) -> None:
        self._collection = collection
        names = list(schema.names)
        if len(set(names)) != len(names):
            raise UsageError(f"two columns have the name {next(n for n in names if names.count(n) > 1)!r}")
        self._at = names.index(id_field) if id_field in names else None
        if id_field != _ID and _ID in names:
            raise UsageError(f"there is a column '_id' as well as {id_field!r}, which option 'idField' makes the _id")
        others = [index for index in range(len(names)) if index != self._at]
        self._columns = [(names[index], index, convert_of(schema.field(index), ignore_nulls)) for index in others]
        self._id = None if self._at is None else _id_convert(schema.field(self._at))
        self._is_plain = self._id is not json_values
        """Whether MessagePack can encode the ids as they are."""
        self._dynamic = any(_is_dynamic(field) for field in schema)
        for name in names:
            check_name(name, name)
        self._make = _maker([_ID, *(name for name, _, _ in self._columns)], ignore_nulls)

    @property
    def has_id(self) -> bool:
        return self._at is not None

    def encode(self, batch: pa.RecordBatch) -> tuple[list[bytes], list[bytes]]:
        """Return the keys and stored documents of a batch of rows. Raises ValueMisfit, which names the document."""
        ids: list[Any]
        if self._at is None:
            ids, keys = new_ids(batch.num_rows)
        else:
            ids = self._ids(batch)
            keys = self._keys(ids)
        columns = []
        for name, index, convert in self._columns:
            try:
                columns.append(convert(batch.column(index)))
            except ColumnMisfit as misfit:
                path = f"{name}.{misfit.path}" if misfit.path else name
                raise ValueMisfit(self._collection, _shown_id(ids[misfit.row]), path, misfit.reason) from misfit
        documents = list(map(_encode, self._make(ids if self._is_plain else list(map(encodable, ids)), columns)))
        self._check(ids, documents)
        return keys, documents

    def encode_ids(self, batch: pa.RecordBatch) -> list[bytes]:
        """Return only the keys of a batch of rows."""
        return self._keys(self._ids(batch))

    def _ids(self, batch: pa.RecordBatch) -> list[Any]:
        assert self._at is not None
        assert self._id is not None
        column = batch.column(self._at)
        if column.null_count:
            raise UsageError(
                f"collection {self._collection!r}: the column of the _id is null in {column.null_count} of "
                f"{len(column)} rows; filter these out, or omit the column to have new _ids generated"
            )
        try:
            return self._id(column)
        except ColumnMisfit as misfit:
            raise ValueMisfit(self._collection, _shown_id(column[misfit.row].as_py()), _ID, misfit.reason) from misfit

    def _keys(self, ids: list[Any]) -> list[bytes]:
        keys = id_keys(ids)
        if keys is not None:
            return keys
        try:
            return list(map(id_key, ids))
        except InvalidDocument:
            for each in ids:
                try:
                    id_key(each)
                except InvalidDocument as error:
                    reason = str(error).partition(": ")[2]
                    raise ValueMisfit(self._collection, _shown_id(each), _ID, reason) from error
            raise

    def _check(self, ids: list[Any], documents: list[bytes]) -> None:
        """Refuse documents that are too large, or whose data (maps, JSON text) has field names that begin with $."""
        if self._dynamic or max(map(len, documents), default=0) > _LARGE:
            for _id, document in zip(ids, documents, strict=True):
                try:
                    check_encoded(document)
                except InvalidDocument as error:
                    reason = str(error).partition(": ")[2]
                    raise ValueMisfit(self._collection, _shown_id(_id), error.path, reason) from error


_LARGE: Final = 1 << 20
"""If a document of a batch has more bytes than this, all of them are checked one by one."""
_encode: Final = msgspec.msgpack.Encoder().encode


def new_ids(count: int) -> tuple[list[msgspec.msgpack.Ext], list[bytes]]:
    """Generate ascending UUIDs of version 7, encoded for MessagePack, and their keys.

    All share the time and the random bits of the first one and differ by their position.
    """
    head = new_id().bytes[:8]
    first = 1 << 63 | secrets.randbits(61)
    ids = [head + tail.to_bytes(8, "big") for tail in range(first, first + count)]
    prefix = id_key(UUID(bytes=bytes(16)))[:-16]
    return [msgspec.msgpack.Ext(UUID_CODE, each) for each in ids], [prefix + each for each in ids]


def _shown_id(value: object) -> object:
    if isinstance(value, msgspec.msgpack.Ext):
        return UUID(bytes=bytes(value.data))
    return value if len(repr(value)) <= 200 else shown(value)


def _is_dynamic(field: pa.Field) -> bool:
    """Return whether the data can contain field names."""
    kind = field.type
    if is_json(field) or pa.types.is_map(kind):
        return True
    if pa.types.is_struct(kind):
        return any(map(_is_dynamic, kind))
    return is_list(kind) and _is_dynamic(kind.value_field)


def _maker(names: list[str], ignore_nulls: bool) -> Callable[[list[Any], list[list[Any]]], Any]:
    """Return a class that builds an object per row, encoded with these field names. The first is never null."""
    if ignore_nulls and all(_is_plain_name(name) for name in names):
        fields: list[Any] = [(f"f{index}", Any, None) for index in range(1, len(names))]
        kind = msgspec.defstruct(
            "Row",
            [("f0", Any), *fields],
            rename={f"f{index}": name for index, name in enumerate(names)},
            omit_defaults=True,
            gc=False,
        )
        return lambda first, rest: map(kind, first, *rest)
    if ignore_nulls:
        return lambda first, rest: (
            {name: value for name, value in zip(names, row, strict=True) if value is not None}
            for row in zip(first, *rest, strict=True)
        )
    return lambda first, rest: (dict(zip(names, row, strict=True)) for row in zip(first, *rest, strict=True))


def _is_plain_name(name: str) -> bool:
    """Return whether a struct class accepts the name."""
    return name.isprintable() and '"' not in name and "\\" not in name


def _id_convert(field: pa.Field) -> Convert:
    """Return the reader of the ``_id`` column: plain values."""
    kind = field.type
    types = pa.types
    if is_json(field):
        return json_values
    if not (types.is_integer(kind) or types.is_string(kind) or types.is_large_string(kind) or is_binary(kind)):
        raise UsageError(
            f"column {field.name!r} is to be the _id, which is a number without fraction, a string or binary, "
            f"not {kind}; cast it"
        )
    return plain_values
