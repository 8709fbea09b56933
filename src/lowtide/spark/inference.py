"""Infers the schema of a collection when the user gives none.

Types come from a sample of documents, spread over all keys, by the rules of ``columnar/inference.py``: numbers widen,
objects become structs, arrays stay arrays, and fields with several types or none become JSON text. If the collection's
JSON Schema gives a field one type, that takes precedence over the sample. The sample then only decides the kind of
number or string and adds fields of objects that the schema does not name. Types that a write stored with the collection
(``kept_types``) take precedence over both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import StructType

from lowtide.columnar.inference import JSON, TIMESTAMP, Fields, is_json
from lowtide.documents.catalog import CatalogRow
from lowtide.documents.column_types import kept_types
from lowtide.documents.management import collection_names
from lowtide.documents.reader import CollectionReader
from lowtide.engine import EngineSnapshot, SnapshotStatements
from lowtide.errors import Error, UsageError
from lowtide.spark.kept_types import with_kept
from lowtide.spark.load_pin import LoadPin
from lowtide.spark.location import StoreLocation
from lowtide.spark.options import SparkOptions
from lowtide.spark.schemas import spark_schema
from lowtide.store.opening import open_store
from lowtide.system.messages import UNDECODABLE
from lowtide.values.codec import decode_document, decode_value
from lowtide.values.ids import id_of
from lowtide.values.values import Document

SAMPLE: Final = 10_000
"""Number of documents from which types are inferred."""
_PLACES: Final = 10
"""Number of positions in the collection from which the sample is taken, unless it is the whole collection."""
_TYPES: Final = {"boolean": pa.bool_(), "integer": pa.int64(), "number": pa.float64(), "string": pa.string()}
_TEXTS: Final = (pa.string(), pa.binary(), TIMESTAMP)
"""The types that JSON Schema calls "string"."""


def schema_at(options: SparkOptions, location: StoreLocation, pin: LoadPin) -> StructType:
    """Return the schema of the collection at a pinned commit."""
    assert options.collection is not None
    source = options.one_of("schemaFrom", ("auto", "sample", "jsonSchema"), "auto")
    size = options.number("sampleSize", SAMPLE) or SAMPLE
    columns = options.names("columns")
    if columns is not None and not columns:
        raise UsageError("option 'columns' names no column; without it all are read")
    with pin.open(Path(location.path)) as snapshot:
        if options.collection not in collection_names(SnapshotStatements(snapshot)):
            raise _missing(location, options.collection, pin)
        look = look_at(snapshot, options.collection)
        found = infer(look, snapshot.cuts(look.row.keyspace, _PLACES), source, size, columns)
        kept = kept_types(look.row.types) if source == "auto" else {}
    texts = options.names("jsonColumns") or ()
    schema = spark_schema(pa.schema([_unknown(each.name) if each.name in texts else each for each in found]))
    return with_kept(schema, {name: kind for name, kind in kept.items() if name not in texts}, columns)


def check_keyspace(options: SparkOptions) -> None:
    """Refuse a keyspace that does not exist."""
    with open_store(options.path, read_only=True) as store:
        names = store.keyspaces()
    if options.keyspace not in names:
        there = f"it has {', '.join(map(repr, names))}" if names else "it has none"
        raise UsageError(
            f"the store {options.path} has no keyspace {options.keyspace!r}; {there}. To read what may not be there "
            "yet, give a schema"
        )


def _missing(location: StoreLocation, collection: str, pin: LoadPin) -> UsageError:
    with open_store(location.path, read_only=True) as store:
        names = store.list_collection_names()
    there = f"its collections are {', '.join(map(repr, names))}" if names else "it has none"
    return UsageError(
        f"the store {location.path} has no collection {collection!r} at commit {pin.ts}; {there}. To read what may "
        "not be there yet, give a schema"
    )


def look_at(snapshot: EngineSnapshot, collection: str) -> CollectionReader:
    """Return the collection as of the snapshot."""
    return SnapshotStatements(snapshot).read(
        lambda reading, prefix_of: CollectionReader(reading, prefix_of, collection)
    )


def infer(
    look: CollectionReader, cuts: Sequence[bytes], source: str, size: int = SAMPLE, columns: Sequence[str] | None = None
) -> pa.Schema:
    """Return the schema of the documents. ``cuts`` are keys spread over the collection."""
    stated = _declared(look.row) if source != "sample" else []
    seen, names = Fields(columns), {"_id"}
    if source != "jsonSchema":
        seen.add(_noted(_sample(look, cuts, size), names))
    elif not stated:
        raise UsageError(f"collection {look.name!r} has no JSON Schema that names properties; set one, or infer")
    found = {"_id": _unknown("_id")} | {each.name: each for each in _merged(seen.schema(), stated)}
    names.update(each.name for each in stated)
    for name in columns or ():
        if name not in names:
            _check_unseen(name, names)
    return pa.schema([found.get(name, _unknown(name)) for name in dict.fromkeys(found if columns is None else columns)])


def _noted(documents: Iterable[Document], names: set[str]) -> Iterator[Document]:
    """Yield the documents and add their field names to ``names``."""
    for each in documents:
        names.update(each)
        yield each


def _check_unseen(name: str, names: set[str]) -> None:
    """Refuse a column that the sample lacks and that looks like a mistake. Other missing columns may just be rare."""
    near = [each for each in names if each.casefold() == name.casefold()]
    first = name.partition(".")[0]
    if near:
        hint = f"did you mean {near[0]!r}?"
    elif name == "*":
        hint = "without the option all are read"
    elif first != name and first in names:
        hint = f"read {first!r}, and select {name!r} from it"
    else:
        return
    raise UsageError(f"option 'columns' names {name!r}, and no document of the sample has such a field; {hint}")


def _sample(look: CollectionReader, cuts: Sequence[bytes], size: int) -> Iterator[Document]:
    """Return the first documents, and as many from each of the cuts."""
    each = -(-size // (len(cuts) + 1))
    for low, high in zip([b"", *cuts], [*cuts, None], strict=True):
        yield from (_decoded(key, stored) for key, stored in islice(look.between(low, high), each))


def _decoded(key: bytes, stored: bytes) -> Document:
    try:
        return decode_document(stored)
    except UNDECODABLE as error:
        raise undecodable(key, error) from error


def undecodable(key: bytes, error: Exception) -> Error:
    """Return the error for a damaged document."""
    return Error(f"the document with _id {id_of(key)!r} cannot be decoded: {error}")


def _unknown(name: str) -> pa.Field:
    return pa.field(name, pa.string(), metadata=JSON)


def _merged(seen: Iterable[pa.Field], stated: Iterable[pa.Field]) -> list[pa.Field]:
    """Return the fields of the sample, and those that only the JSON Schema has."""
    known = {each.name: each for each in stated}
    found = [_agreed(each, known.pop(each.name)) if each.name in known else each for each in seen]
    return [*found, *known.values()]


def _agreed(seen: pa.Field, stated: pa.Field) -> pa.Field:
    """Merge the JSON Schema's type with the sample's, which adds the kind of string or number and further contents of
    objects and arrays."""
    first, second = seen.type, stated.type
    if is_json(stated):
        return stated
    if pa.types.is_struct(first) and pa.types.is_struct(second):
        return pa.field(seen.name, pa.struct(_merged(first, second)))
    if pa.types.is_list(first) and pa.types.is_list(second):
        return pa.field(seen.name, pa.list_(_agreed(first.value_field, second.value_field)))
    is_precise = (first in _TEXTS and second in _TEXTS) or (_is_number(first) and _is_number(second))
    return seen if pa.types.is_null(second) or (is_precise and first != pa.int64()) else stated


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _declared(row: CatalogRow) -> list[pa.Field]:
    """Return the fields whose type the collection's JSON Schema gives."""
    return [] if row.schema is None else _properties(decode_value(row.schema))


def _properties(schema: Mapping[str, Any]) -> list[pa.Field]:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return []
    found = [field_of(name, each) for name, each in properties.items() if isinstance(each, Mapping)]
    return [each for each in found if each is not None]


def field_of(name: str, schema: Mapping[str, Any]) -> pa.Field | None:
    """Return the column of one property. None if its schema gives no type.

    Several types, not counting null, become JSON text. An object or array without further details has unknown fields
    or elements.

    >>> field_of("age", {"type": ["integer", "null"], "minimum": 0}).type
    DataType(int64)
    """
    stated = schema.get("type")
    kinds = [each for each in ([stated] if isinstance(stated, str) else stated or ()) if each != "null"]
    if not kinds:
        return None
    if len(kinds) > 1:
        return _unknown(name)
    kind = kinds[0]
    if kind == "string" and schema.get("format") == "date-time":
        return pa.field(name, TIMESTAMP)
    if kind in _TYPES:
        return pa.field(name, _TYPES[kind])
    if kind == "object":
        return pa.field(name, pa.struct(_properties(schema)))
    items = schema.get("items")
    element = field_of("item", items) if isinstance(items, Mapping) else None
    return pa.field(name, pa.list_(element if element is not None else pa.null()))
