"""Converts statements to record batches: keys of ids in, columns of text out.

The terms of a batch are looked up together, each distinct id once. A literal in another position than the object, which
rdflib allows and RDF does not, is shown as its N-Triples text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from lowtide.errors import UsageError
from lowtide.quads.hashing import DEFAULT_GRAPH, ID_BYTES
from lowtide.quads.ids import needs_row
from lowtide.quads.indexes import CATALOG, INFERRED, ORDERS, QUADS, places_of
from lowtide.quads.parts import TermParts, flat, parts_of_row
from lowtide.spark.schemas import STATEMENT, arrow_schema

Rows = Callable[[list[bytes]], Sequence[bytes | None]]
"""Returns the rows of the dictionary for ids."""
_PLACES: Final = {"s": 0, "p": 1, "o": 2, "g": 3}


def keyspace_of(name: str, order: str = "spoc") -> str:
    """The keyspace of a quad store's statements in an order, or of its terms."""
    return f"{QUADS}{name}/{order}"


def keyspaces_of(name: str) -> list[str]:
    """The keyspaces of a quad store that are needed to read its statements."""
    return [CATALOG, *(keyspace_of(name, each) for each in (*ORDERS, "terms"))]


def check_statement_columns(schema: StructType, more: Sequence[str] = ()) -> None:
    """Refuse columns that statements do not have."""
    for field in schema:
        if field.name in more:
            continue
        if field.name not in STATEMENT.names or field.dataType != STATEMENT[field.name].dataType:
            raise UsageError(
                f"statements have the columns {', '.join(STATEMENT.names)}, of type string, and inferred of type "
                f"boolean, not {field.name!r} of type {field.dataType.simpleString()}"
            )


class StatementBatches:
    """Builds record batches of statements, with the requested columns of ``STATEMENT``."""

    def __init__(self, schema: StructType, more: Sequence[str] = ()) -> None:
        check_statement_columns(schema, more)
        self.schema = arrow_schema(schema)
        self._names = [name for name in self.schema.names if name not in more]

    def arrays(
        self, keys: Sequence[bytes], values: Sequence[bytes | None], rows: Rows, order: str = "spoc"
    ) -> dict[str, pa.Array]:
        """Return the columns of statements, given as keys of an index and their values."""
        found: dict[str, pa.Array] = {}
        if "inferred" in self._names:
            found["inferred"] = pa.array([None if each is None else each == INFERRED for each in values], pa.bool_())
        names = [name for name in self._names if name != "inferred"]
        if not names:
            return found
        numbers = np.frombuffer(b"".join(keys), dtype=">u8").reshape(-1, 4)[:, list(places_of(order))]
        wanted = sorted({_PLACES[name[0]] for name in names})
        distinct, inverse = np.unique(numbers[:, wanted], return_inverse=True)
        inverse = inverse.reshape(len(keys), len(wanted))
        parts = _parts([int(each).to_bytes(ID_BYTES, "big") for each in distinct], rows)
        for name in names:
            where = inverse[:, wanted.index(_PLACES[name[0]])]
            found[name] = _column(parts, name).take(pa.array(where))
        return found

    def batch(
        self, keys: Sequence[bytes], values: Sequence[bytes | None], rows: Rows, order: str = "spoc"
    ) -> pa.RecordBatch:
        """Return the record batch of statements."""
        if not self.schema.names:
            return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), len(keys), [None]))
        arrays = self.arrays(keys, values, rows, order)
        return pa.RecordBatch.from_arrays([arrays[name] for name in self.schema.names], schema=self.schema)


def _parts(ids: list[bytes], rows: Rows) -> list[TermParts | None]:
    """The terms of ids; None for the default graph."""
    hashed = [id for id in ids if needs_row(id)]
    found: Mapping[bytes, bytes | None] = dict(zip(hashed, rows(hashed), strict=True)) if hashed else {}
    return [None if id == DEFAULT_GRAPH else parts_of_row(id, found.get(id)) for id in ids]


def _column(parts: list[TermParts | None], name: str) -> pa.Array:
    """A column of distinct terms."""
    if name[0] != "o":
        parts = [None if each is None else flat(each) for each in parts]
    field = {"": 0, "_kind": 1, "_datatype": 2, "_language": 3}[name[1:]]
    return pa.array([None if each is None else each[field] for each in parts], pa.string())
