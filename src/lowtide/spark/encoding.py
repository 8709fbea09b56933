"""Rows of a DataFrame as documents: record batches in, keys and stored forms out, a column at a time.

Each column becomes a list of values that MessagePack can hold as they are; a struct class made for the schema takes one
of each, and leaves out what is null. So no value is looked at twice, and no dict is made for a row.

===================  ==========================================================
Spark                document
===================  ==========================================================
numbers              int, float; NaN is null, as for other files
decimal              Decimal
string, binary       str, bytes
boolean              bool
timestamp            datetime in UTC
timestamp_ntz, date  datetime without a zone; a date is its midnight
struct               object, without the fields that are null
map                  object; keys are strings
array                array, nulls included
JSON text            whatever the text says: metadata ``lowtide: json``, or option ``jsonColumns``
===================  ==========================================================
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final
from uuid import UUID

import msgspec
import pyarrow as pa

from lowtide.documents.arrow.inference import is_json
from lowtide.documents.codec import UUID_CODE, check_encoded, encodable
from lowtide.documents.ids import id_key, new_id
from lowtide.errors import InvalidDocument, UsageError, ValueMisfit, shown
from lowtide.files.extended import NotExtended, loads

Convert = Callable[[Any], list[Any]]
"""An Arrow array as a list of values that MessagePack can hold; None for null."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ID: Final = "_id"


class Misfit(Exception):
    """A value of a column cannot be stored: in which row, and at which path."""

    def __init__(self, row: int, path: str, reason: str) -> None:
        super().__init__(reason)
        self.row = row
        self.path = path
        self.reason = reason


class RowEncoder:
    """Turns record batches of one schema, which has JSON text marked, into keys and stored documents."""

    def __init__(self, schema: pa.Schema, collection: str, id_field: str, ignore_nulls: bool) -> None:
        self._collection = collection
        names = list(schema.names)
        if len(set(names)) != len(names):
            raise UsageError(f"two columns have the name {next(n for n in names if names.count(n) > 1)!r}")
        self._at = names.index(id_field) if id_field in names else None
        if id_field != _ID and _ID in names:
            raise UsageError(f"there is a column '_id' besides {id_field!r}, which option 'idField' makes the _id")
        others = [place for place in range(len(names)) if place != self._at]
        self._columns = [(names[place], place, _convert_of(schema.field(place), ignore_nulls)) for place in others]
        self._id = None if self._at is None else _id_convert(schema.field(self._at))
        self._is_plain = self._id is not _json_values
        """Whether MessagePack can hold the ids as they are."""
        self._dynamic = any(_is_dynamic(field) for field in schema)
        for name in names:
            _check_name(name, name)
        self._make = _maker([_ID, *(name for name, _, _ in self._columns)], ignore_nulls)

    @property
    def has_id(self) -> bool:
        return self._at is not None

    def encode(self, batch: pa.RecordBatch) -> tuple[list[bytes], list[bytes]]:
        """The keys and the stored forms of a batch of rows. Raises ValueMisfit, which names the document."""
        ids: list[Any]
        if self._at is None:
            ids, keys = new_ids(batch.num_rows)
        else:
            ids = self._ids(batch)
            keys = self._keys(ids)
        columns = []
        for name, place, convert in self._columns:
            try:
                columns.append(convert(batch.column(place)))
            except Misfit as misfit:
                path = f"{name}.{misfit.path}" if misfit.path else name
                raise ValueMisfit(self._collection, _shown_id(ids[misfit.row]), path, misfit.reason) from misfit
        documents = list(map(_encode, self._make(ids if self._is_plain else list(map(encodable, ids)), columns)))
        self._check(ids, documents)
        return keys, documents

    def encode_ids(self, batch: pa.RecordBatch) -> list[bytes]:
        """The keys of a batch of rows, of which nothing else is wanted."""
        return self._keys(self._ids(batch))

    def _ids(self, batch: pa.RecordBatch) -> list[Any]:
        assert self._at is not None
        assert self._id is not None
        column = batch.column(self._at)
        if column.null_count:
            raise UsageError(
                f"collection {self._collection!r}: the column of the _id is null in {column.null_count} of "
                f"{len(column)} rows; filter these out, or leave the column out to have new _ids made"
            )
        try:
            return self._id(column)
        except Misfit as misfit:
            raise ValueMisfit(self._collection, _shown_id(column[misfit.row].as_py()), _ID, misfit.reason) from misfit

    def _keys(self, ids: list[Any]) -> list[bytes]:
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
        """Refuse documents that are too large, or have names that would read as operators, in what was not known when
        the schema was."""
        if self._dynamic or max(map(len, documents), default=0) > _LARGE:
            for _id, document in zip(ids, documents, strict=True):
                try:
                    check_encoded(document)
                except InvalidDocument as error:
                    reason = str(error).partition(": ")[2]
                    raise ValueMisfit(self._collection, _shown_id(_id), error.path, reason) from error


_LARGE: Final = 1 << 20
"""Bytes of a document that is looked at more closely."""
_encode: Final = msgspec.msgpack.Encoder().encode


def new_ids(count: int) -> tuple[list[msgspec.msgpack.Ext], list[bytes]]:
    """New ids, UUIDs of version 7 that ascend, as MessagePack holds them, and their keys. All have the time and the
    chance of the first one, and are told apart by where they stand."""
    head = new_id().bytes[:8]
    first = 1 << 63 | secrets.randbits(61)
    ids = [head + tail.to_bytes(8, "big") for tail in range(first, first + count)]
    prefix = id_key(UUID(bytes=bytes(16)))[:-16]
    return [msgspec.msgpack.Ext(UUID_CODE, each) for each in ids], [prefix + each for each in ids]


def _shown_id(value: object) -> object:
    if isinstance(value, msgspec.msgpack.Ext):
        return UUID(bytes=bytes(value.data))
    return value if len(repr(value)) <= 200 else shown(value)


def _check_name(name: str, path: str) -> None:
    if name.startswith("$"):
        raise UsageError(f"column {path!r}: the name of a field may not begin with $, which marks operators")


def _is_dynamic(field: pa.Field) -> bool:
    """Whether names of fields are in the data."""
    kind = field.type
    if is_json(field) or pa.types.is_map(kind):
        return True
    if pa.types.is_struct(kind):
        return any(map(_is_dynamic, kind))
    return _is_list(kind) and _is_dynamic(kind.value_field)


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _maker(names: list[str], ignore_nulls: bool) -> Callable[[list[Any], list[list[Any]]], Any]:
    """What makes an object of each row, to be encoded with these names. The first is never null."""
    if ignore_nulls and all(_is_plain_name(name) for name in names):
        fields: list[Any] = [(f"f{place}", Any, None) for place in range(1, len(names))]
        kind = msgspec.defstruct(
            "Row",
            [("f0", Any), *fields],
            rename={f"f{place}": name for place, name in enumerate(names)},
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
    """Whether a struct class takes the name."""
    return name.isprintable() and '"' not in name and "\\" not in name


def _id_convert(field: pa.Field) -> Convert:
    """How the column of the ``_id`` is read: as plain values."""
    kind = field.type
    types = pa.types
    if is_json(field):
        return _json_values
    if not (types.is_integer(kind) or types.is_string(kind) or types.is_large_string(kind) or _is_binary(kind)):
        raise UsageError(
            f"column {field.name!r} is to be the _id, which is a number without fraction, a string or binary, "
            f"not {kind}; cast it"
        )
    return _plain


def _is_binary(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind))


def _convert_of(field: pa.Field, ignore_nulls: bool, path: str = "") -> Convert:
    """How the values of a column are read."""
    kind, types = field.type, pa.types
    path = f"{path}.{field.name}" if path else field.name
    if is_json(field):
        return _json
    if types.is_floating(kind):
        return _floats
    if types.is_timestamp(kind):
        return _moments if kind.tz is not None else _naive
    if types.is_date(kind):
        return lambda array: _each(array, lambda value: encodable(_midnight(value)))
    if types.is_decimal(kind):
        return lambda array: _each(array, _decimal)
    if types.is_struct(kind):
        return _struct(kind, ignore_nulls, path)
    if types.is_map(kind):
        if not (types.is_string(kind.key_type) or types.is_large_string(kind.key_type)):
            raise UsageError(f"column {path!r}: a map becomes an object, so its keys are strings, not {kind.key_type}")
        return _map(_convert_of(kind.item_field, ignore_nulls, path))
    if _is_list(kind):
        return _list(_convert_of(kind.value_field, ignore_nulls, path))
    if (
        types.is_integer(kind)
        or types.is_boolean(kind)
        or types.is_null(kind)
        or types.is_string(kind)
        or types.is_large_string(kind)
        or _is_binary(kind)
    ):
        return _plain
    raise UsageError(f"column {path!r}: a document has no values of the type {kind}; cast it, for example to string")


def _plain(array: pa.Array) -> list[Any]:
    found: list[Any] = array.to_pylist()
    return found


def _each(array: pa.Array, convert: Callable[[Any], Any]) -> list[Any]:
    return [None if value is None else convert(value) for value in array.to_pylist()]


def _floats(array: pa.Array) -> list[Any]:
    found: list[Any] = array.to_pylist()
    if any(value != value for value in found):
        return [value if value == value else None for value in found]
    return found


def _micros(array: pa.Array) -> list[int | None]:
    found: list[int | None] = array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64()).to_pylist()
    return found


def _moments(array: pa.Array) -> list[Any]:
    epoch, step = _EPOCH, timedelta
    values = _micros(array)
    try:
        if not array.null_count:
            return [epoch + step(0, 0, value) for value in values]  # type: ignore[arg-type]
        return [None if value is None else epoch + step(0, 0, value) for value in values]
    except OverflowError:
        raise _out_of_range(values) from None


def _naive(array: pa.Array) -> list[Any]:
    epoch, values = _EPOCH.replace(tzinfo=None), _micros(array)
    try:
        return [None if value is None else encodable(epoch + timedelta(0, 0, value)) for value in values]
    except OverflowError:
        raise _out_of_range(values) from None


def _out_of_range(values: list[int | None]) -> Misfit:
    for row, value in enumerate(values):
        try:
            _EPOCH + timedelta(microseconds=value or 0)
        except OverflowError:
            return Misfit(row, "", f"a time is in the years 1 to 9999, not {value} microseconds from 1970")
    raise AssertionError("all values are in range")


def _midnight(value: date) -> datetime:
    return datetime(value.year, value.month, value.day)


def _decimal(value: Decimal) -> Any:
    return encodable(value)


def _json_values(array: pa.Array) -> list[Any]:
    """What the texts say."""
    found = []
    for row, text in enumerate(array.to_pylist()):
        try:
            value = None if text is None else loads(text)
        except (NotExtended, msgspec.DecodeError) as error:
            raise Misfit(row, "", f"it should be JSON, and is {shown(text)}: {error}") from error
        found.append(value)
    return found


def _json(array: pa.Array) -> list[Any]:
    found = _json_values(array)
    for row, value in enumerate(found):
        if value is not None:
            try:
                found[row] = encodable(value)
            except InvalidDocument as error:
                raise Misfit(row, error.path, str(error).partition(": ")[2]) from error
    return found


def _struct(kind: pa.StructType, ignore_nulls: bool, path: str) -> Convert:
    names = [field.name for field in kind]
    for name in names:
        _check_name(name, f"{path}.{name}")
    converts = [_convert_of(field, ignore_nulls, path) for field in kind]
    make = _inner_maker(names, ignore_nulls)

    def convert(array: pa.Array) -> list[Any]:
        columns = []
        for part, name, inner in zip(array.flatten(), names, converts, strict=True):  # null where the struct is
            try:
                columns.append(inner(part))
            except Misfit as misfit:
                raise Misfit(misfit.row, f"{name}.{misfit.path}" if misfit.path else name, misfit.reason) from misfit
        rows = make(columns, len(array))
        return rows if not array.null_count else _masked(rows, array)

    return convert


def _inner_maker(names: list[str], ignore_nulls: bool) -> Callable[[list[list[Any]], int], list[Any]]:
    def make(columns: list[list[Any]], count: int) -> list[Any]:
        rows = zip(*columns, strict=True) if columns else (() for _ in range(count))
        if ignore_nulls:
            return [{name: each for name, each in zip(names, row, strict=True) if each is not None} for row in rows]
        return [dict(zip(names, row, strict=True)) for row in rows]

    return make


def _masked(rows: list[Any], array: pa.Array) -> list[Any]:
    return [row if valid else None for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)]


def _runs(array: pa.Array, flat: Callable[[int, int], Any]) -> list[Any]:
    """For each row what ``flat`` makes of its stretch of the values; None for null."""
    offsets = array.offsets.to_pylist()
    start = offsets[0] if offsets else 0
    found = [flat(low - start, high - start) for low, high in pairwise(offsets)]
    return found if not array.null_count else _masked(found, array)


def _stretch(array: pa.Array, values: pa.Array) -> pa.Array:
    """The values that the rows of an array refer to."""
    offsets = array.offsets
    start, end = (offsets[0].as_py(), offsets[-1].as_py()) if len(offsets) else (0, 0)
    return values.slice(start, end - start)


def _list(inner: Convert) -> Convert:
    def convert(array: pa.Array) -> list[Any]:
        if pa.types.is_fixed_size_list(array.type):
            array = array.cast(pa.list_(array.type.value_field))
        try:
            flat = inner(_stretch(array, array.values))
        except Misfit as misfit:
            raise _moved(array, misfit) from misfit
        return _runs(array, lambda low, high: flat[low:high])

    return convert


def _map(inner: Convert) -> Convert:
    def convert(array: pa.Array) -> list[Any]:
        names = _plain(_stretch(array, array.keys))
        try:
            values = inner(_stretch(array, array.items))
        except Misfit as misfit:
            raise _moved(array, misfit, names) from misfit
        return _runs(array, lambda low, high: dict(zip(names[low:high], values[low:high], strict=True)))

    return convert


def _moved(array: pa.Array, misfit: Misfit, names: list[str] | None = None) -> Misfit:
    """A misfit of an element as one of the row that has it."""
    offsets = array.offsets.to_pylist()
    at = misfit.row + offsets[0]
    row = next(row for row, high in enumerate(offsets[1:]) if at < high)
    place = str(at - offsets[row]) if names is None else names[misfit.row]
    return Misfit(row, f"{place}.{misfit.path}" if misfit.path else place, misfit.reason)
