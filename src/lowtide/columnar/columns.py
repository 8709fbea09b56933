"""Converts stored documents to record batches with the columns of a given schema.

A value fits a column if the column's type can represent it:

==============  ==================================================================================================
integer         int64; double, rounded beyond 2**53
float           double
Decimal         a decimal with enough digits, or double
UUID            string
datetime        a timestamp whose unit is fine enough; date32 if it is midnight in UTC
object          struct or map
array           list
any value       a column of JSON text (``inference.JSON``)
==============  ==================================================================================================

Null and missing values fit every nullable column. Fields without a column are ignored.

The mode decides what happens to a value that does not fit. The names are Spark's:

==============  ==================================================================================================
FAILFAST        raises ValueMisfit, which names the collection, the document and the path
PERMISSIVE      stores null instead; with ``corrupt``, that column holds the whole document as JSON text
DROPMALFORMED   skips the document
==============  ==================================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

import numpy as np
import pyarrow as pa
from msgspec import ValidationError

from lowtide.columnar.inference import Fields
from lowtide.columnar.leaves import Misfit, decode
from lowtide.columnar.nodes import Object
from lowtide.columnar.text import json_text
from lowtide.columnar.uniform import Uniform
from lowtide.errors import UsageError, ValueMisfit
from lowtide.system.cycles import MANY, without_collector
from lowtide.values.paths import position

_LONGEST = 100


class Mode(StrEnum):
    """What to do with a value that does not fit its column; the names are Spark's."""

    PERMISSIVE = "PERMISSIVE"
    DROPMALFORMED = "DROPMALFORMED"
    FAILFAST = "FAILFAST"

    @classmethod
    def _missing_(cls, value: object) -> Mode:
        for each in cls:
            if isinstance(value, str) and value.upper() == each.value:
                return each
        raise UsageError(f"the mode is PERMISSIVE, DROPMALFORMED or FAILFAST, not {value!r}")


class Uncovered(Exception):
    """Raised by strict columns for a batch that they do not cover: the schema must be widened."""


class Columns:
    """Builds record batches with one schema.

    With ``fields``, the shapes that the schema was inferred from, the columns are strict: a value that does not fit or
    a field without a column raises Uncovered, whatever the mode.
    """

    def __init__(
        self,
        schema: pa.Schema,
        *,
        collection: str = "",
        mode: str = Mode.FAILFAST,
        corrupt: str | None = None,
        fields: Fields | None = None,
    ) -> None:
        if repeated := sorted({name for name in schema.names if schema.names.count(name) > 1}):
            raise UsageError(f"the schema has more than one column {repeated[0]!r}")
        if corrupt is not None and corrupt not in schema.names:
            schema = schema.append(pa.field(corrupt, pa.string()))
        elif corrupt is not None and not pa.types.is_string(schema.field(corrupt).type):
            raise UsageError(f"column {corrupt!r} holds corrupt records, so it must be of type string")
        self.schema = schema
        self._collection = collection
        self._mode = Mode(mode)
        self._corrupt = corrupt
        self._strict = fields is not None
        declared = pa.struct([each for each in schema if each.name != corrupt])
        shape = None if fields is None else fields.shape()
        self._root = Object(declared, "", shape, every=fields is None or fields.columns is None)
        every = fields is not None and fields.columns is None
        self._uniform = Uniform(self._root.declared, self._root.nodes, every=every)

    def batch(self, documents: Sequence[bytes]) -> pa.RecordBatch:
        """Return the record batch of these stored documents, in the same order. Everything that is decoded on the way
        is freed before it returns, so the cyclic collector need not examine it."""
        if len(documents) < MANY:
            return self._batch(documents)
        with without_collector():
            return self._batch(documents)

    def _batch(self, documents: Sequence[bytes]) -> pa.RecordBatch:
        misfits: list[Misfit] = []
        stored = list(documents)
        nothing_to_find = not self._strict and not self._root.declared  # when documents are only counted
        arrays = [] if nothing_to_find else self._uniform.columns(stored)
        if arrays is None:
            try:
                arrays = self._root.columns(self._root.rows(stored, misfits), misfits, whole=True)
            except ValidationError as error:
                raise Uncovered from error
        if misfits:
            self._judge(stored, misfits)
        if self._corrupt is not None:
            texts: list[str | None] = [None] * len(stored)
            for row in {each.row for each in misfits}:
                texts[row] = json_text(decode(stored[row]))
            arrays.insert(self.schema.names.index(self._corrupt), pa.array(texts, pa.string()))
        if not arrays:
            return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), len(stored), [None]))
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        if misfits and self._mode is Mode.DROPMALFORMED:
            kept = np.ones(len(stored), np.bool_)
            kept[[each.row for each in misfits]] = False
            batch = batch.filter(pa.array(kept))
        return batch

    def batches(self, documents: Iterable[Sequence[bytes]]) -> Iterator[pa.RecordBatch]:
        """Convert batches of stored documents to record batches. Empty ones are skipped."""
        for each in documents:
            batch = self.batch(each)
            if batch.num_rows:
                yield batch

    def _judge(self, stored: list[bytes], misfits: list[Misfit]) -> None:
        """Raise for the first misfit in mode FAILFAST, or if its column is not nullable."""
        if self._strict:
            raise Uncovered
        if self._mode is Mode.DROPMALFORMED:
            return
        unbearable = [each for each in misfits if self._mode is Mode.FAILFAST or not self._nullable(each.path)]
        if unbearable:
            row = min(each.row for each in unbearable)
            document = decode(stored[row])
            first = min(
                (each for each in unbearable if each.row == row), key=lambda each: position(document, each.path)
            )
            raise ValueMisfit(
                self._collection, document.get("_id"), ".".join(map(str, first.path)), _reason(first, self._mode)
            )

    def _nullable(self, path: tuple[str | int, ...]) -> bool:
        """Return whether the column at this path is nullable."""
        field = self.schema.field(path[0])
        for part in path[1:]:
            found = field.type
            if pa.types.is_struct(found):
                field = found.field(part)
            else:
                field = found.item_field if pa.types.is_map(found) else found.value_field
        return bool(field.nullable)


def _reason(misfit: Misfit, mode: Mode) -> str:
    if misfit.value is None:
        return f"it is null or missing, but its column, of type {misfit.type}, is declared as not nullable"
    text = repr(misfit.value)
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    kind = type(misfit.value).__name__
    what = f"{kind} {text} does not fit its column, of type {misfit.type}"
    return what if mode is Mode.FAILFAST else f"{what}, which is declared as not nullable"
