"""The schema of a collection that the user gives none for.

Types come from a sample of documents, spread over all keys, by the policy of ``documents/arrow/inference.py``: numbers
widen, objects become structs, arrays stay arrays, and what has several types, or none, becomes JSON text. Where the
collection's JSON Schema gives a field one type, that counts instead, whatever the sample has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import StructType

from lowtide.base.codec import after_prefix
from lowtide.documents.arrow.inference import JSON, TIMESTAMP, Fields
from lowtide.documents.catalog import Row
from lowtide.documents.codec import decode_document, decode_value
from lowtide.documents.look import Look
from lowtide.documents.source import OfSnapshot
from lowtide.errors import UsageError
from lowtide.readers.pinned import open_snapshot
from lowtide.spark.instant import Instant
from lowtide.spark.options import Options
from lowtide.spark.place import Place
from lowtide.spark.schemas import spark_schema
from lowtide.versions.visibility import Range
from lowtide.views import Snapshot

SAMPLE: Final = 10_000
"""Documents that types are inferred from."""
_PLACES: Final = 10
"""Places of the collection from which the sample is taken, if it is not all of it."""
_TYPES: Final = {"boolean": pa.bool_(), "integer": pa.int64(), "number": pa.float64(), "string": pa.string()}
_TEXTS: Final = (pa.string(), pa.binary(), TIMESTAMP)
"""What a JSON Schema means by "string"."""


def schema_at(options: Options, place: Place, instant: Instant) -> StructType:
    """The schema of the collection at a pinned instant."""
    assert options.collection is not None
    source = options.one_of("schemaFrom", ("auto", "sample", "jsonSchema"), "auto")
    size = options.number("sampleSize", SAMPLE) or SAMPLE
    with open_snapshot(place.path, pin=instant.pin) as snapshot:
        look = look_at(snapshot, options.collection)
        cuts = snapshot.cuts(look.row.keyspace, _PLACES)
        return spark_schema(infer(look, cuts, source, size, options.names("columns")))


def look_at(snapshot: Snapshot, collection: str) -> Look:
    """The collection at the snapshot's instant."""
    return OfSnapshot(snapshot).look(lambda reading, prefix_of: Look(reading, prefix_of, collection))


def infer(
    look: Look, cuts: Sequence[bytes], source: str, size: int = SAMPLE, columns: Sequence[str] | None = None
) -> pa.Schema:
    """The schema of the documents. ``cuts`` are keys that are spread over them."""
    declared = _declared(look.row) if source != "sample" else {}
    if source == "jsonSchema":
        if not declared:
            raise UsageError(f"collection {look.name!r} has no JSON Schema that names properties; set one, or infer")
        known = {"_id": pa.field("_id", pa.string(), metadata=JSON)} | declared
        return pa.schema([known.get(name, _unknown(name)) for name in columns or known])
    fields = Fields(columns)
    fields.add(map(decode_document, _sample(look, cuts, size)))
    inferred = fields.schema()
    found = [_agreed(each, declared.get(each.name)) for each in inferred]
    missing = [each for name, each in declared.items() if columns is None and name not in inferred.names]
    return pa.schema([*found, *missing])


def _sample(look: Look, cuts: Sequence[bytes], size: int) -> Iterator[bytes]:
    """Stored documents: the first ones, and as many from each of the cuts on."""
    prefix = look.prefix
    starts = [b"", *cuts]
    for start, stop in zip(starts, [*cuts, None], strict=True):
        high = after_prefix(prefix) if stop is None else prefix + stop
        entries = look.reading.scan(Range(prefix + start, high, False, 0))
        yield from (value for _, value in islice(entries, -(-size // len(starts))))


def _unknown(name: str) -> pa.Field:
    return pa.field(name, pa.string(), metadata=JSON)


def _agreed(inferred: pa.Field, declared: pa.Field | None) -> pa.Field:
    """What the JSON Schema declares, unless the sample knows which kind of string, or of object, is meant."""
    if declared is None or (inferred.type in _TEXTS and declared.type in _TEXTS):
        return inferred
    if declared.metadata == JSON and (pa.types.is_struct(inferred.type) or pa.types.is_list(inferred.type)):
        return inferred
    return declared


def _declared(row: Row) -> dict[str, pa.Field]:
    """The fields that a collection's JSON Schema gives a type, by name."""
    if row.schema is None:
        return {}
    return _properties(decode_value(row.schema))


def _properties(schema: Mapping[str, Any]) -> dict[str, pa.Field]:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return {}
    found = {name: field_of(name, each) for name, each in properties.items() if isinstance(each, Mapping)}
    return {name: field for name, field in found.items() if field is not None}


def field_of(name: str, schema: Mapping[str, Any]) -> pa.Field | None:
    """The column of one property; None if its schema gives no type. Several types, but for null, are JSON text.

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
        fields = list(_properties(schema).values())
        return pa.field(name, pa.struct(fields)) if fields else _unknown(name)
    items = schema.get("items")
    element = field_of("item", items) if isinstance(items, Mapping) else None
    return pa.field(name, pa.list_(element)) if element is not None else _unknown(name)
