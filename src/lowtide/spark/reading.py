"""``lowtide.spark.read`` and ``lowtide.spark.pinned``."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from lowtide.errors import UsageError
from lowtide.sharing.generation import LEASE
from lowtide.sharing.pins.pin import Pin
from lowtide.sharing.pins.snapshot import Renewer, renew_pin
from lowtide.spark.load_pin import BLOCK, StorePath, new_load, new_name
from lowtide.spark.options import LOAD, ORIGIN, SparkOptions
from lowtide.spark.origin import application_of, user_line
from lowtide.spark.session import explained, register
from lowtide.store.opening import follower_of, open_store
from lowtide.values.extended import dumps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_KEYS = ("keyStart", "keyEnd", "keyPrefix")


def read(
    spark: SparkSession,
    path: StorePath,
    collection: str | None = None,
    *,
    columns: Sequence[str] | None = None,
    filter: Mapping[str, Any] | str | None = None,
    schema: StructType | str | None = None,
    as_of: int | str | datetime | Pin | None = None,
    **options: Any,
) -> DataFrame:
    """Read a collection of the store in ``path`` as a DataFrame, in one snapshot: the last commit or ``as_of``.

    ``as_of`` is a pin, the timestamp of a commit or a time. ``columns`` are the fields to read. ``filter`` is a MongoDB
    filter. ``schema`` gives the types, as a StructType or Spark DDL. Further keyword arguments are options of the
    format, such as ``partitions=4``; see docs/spark.md.
    """
    given = given_options(path, collection, columns=columns, filter=filter, as_of=as_of, **options)
    given |= {LOAD: new_load(), ORIGIN: f"{application_of(spark)}, {user_line()}"}
    reader = register(spark).read.format("lowtide").options(**given)
    if schema is not None:
        reader = reader.schema(_chosen(schema, columns))
    with explained(spark):
        return reader.load()


def given_options(
    path: StorePath,
    collection: str | None,
    *,
    columns: Sequence[str] | None = None,
    filter: Mapping[str, Any] | str | None = None,
    as_of: int | str | datetime | Pin | None = None,
    **others: Any,
) -> dict[str, str]:
    """Convert the arguments to options of the format."""
    if not isinstance(filter, Mapping | str | None):
        raise UsageError(f"filter must be a MongoDB filter, as a dict or JSON text, not {filter!r}")
    given = {"path": Path(path).absolute(), "collection": collection, "columns": columns, **others}
    given["asOf"] = as_of.name if isinstance(as_of, Pin) else as_of
    given["filter"] = dict(filter) if isinstance(filter, Mapping) else filter
    SparkOptions(dict.fromkeys(given, ""))  # refuses unknown options
    return {name: _text(name, value, collection is None) for name, value in given.items() if value is not None}


def _text(name: str, value: Any, is_bytes: bool) -> str:
    """Convert the value of an option to text that parses to the same value."""
    if name in _KEYS and is_bytes:
        return f"0x{value.hex()}" if isinstance(value, bytes) else str(value)
    if name in _KEYS or isinstance(value, dict):
        return dumps(value).decode()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return msgspec.json.encode(list(value)).decode()
    return str(value)


def _chosen(schema: StructType | str, columns: Sequence[str] | None) -> StructType | str:
    """Return the schema with only these columns, in this order."""
    if columns is None:
        return schema
    from pyspark.sql.types import StructType

    parsed = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    assert isinstance(parsed, StructType)
    if unknown := [name for name in columns if name not in parsed.names]:
        raise UsageError(f"the schema has no column {unknown[0]!r}; it has {', '.join(parsed.names)}")
    return StructType([parsed[name] for name in columns])


@contextmanager
def pinned(path: StorePath) -> Iterator[str]:
    """Pin the last commit for a ``with`` block, for consistent reads of several collections: ``read(..., as_of=pin)``.

    The pin is renewed while the block runs and removed at its end. DataFrames loaded as of the pin keep their snapshot.
    """
    name = f"{BLOCK}{secrets.token_hex(6)}"
    with open_store(path, read_only=True) as store:
        pinning = follower_of(store).pinning
        pin = pinning.pin(name, LEASE, process=os.getpid())
        renewer = Renewer(lambda: renew_pin(path, name))
        try:
            renewer.start()
            yield name
        finally:
            renewer.close()
            pinning.hand_over(pin, new_name())
