"""Record batches of stored documents, in the columns that a schema declares.

A value fits a column if that can hold all of it: an integer fits int64 and, rounded beyond 2**53, double; a float fits
double only; a Decimal fits a decimal with room for its digits, or double; a UUID fits string; a datetime any timestamp
whose unit it does not break, or date32 at midnight in UTC; an object a struct or a map; an array a list; a column of
JSON text (``inference.JSON``) takes everything. Null, and what is missing, fits every nullable column. Fields that have
no column are left out.

What to do with a value that does not fit is Spark's to name:

==============  ==================================================================================================
FAILFAST        ValueMisfit, which names the collection, the document and the path
PERMISSIVE      null in its place; with ``corrupt``, the column of that name has the whole document as JSON text
DROPMALFORMED   the document is left out
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
    """The strict columns do not cover all that a batch has: its schema must be widened."""


class Columns:
    """Makes record batches of one schema. With the ``fields`` that it was inferred from they are strict: any value that
    does not fit, and any field that has no column, is Uncovered, whatever the mode says."""

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
            raise UsageError(f"column {corrupt!r} keeps what does not fit, and must be of type string")
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
        """The record batch of these stored documents, in their order."""
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
        """The record batches of batches of stored documents; none is empty."""
        for each in documents:
            batch = self.batch(each)
            if batch.num_rows:
                yield batch

    def _judge(self, stored: list[bytes], misfits: list[Misfit]) -> None:
        """Raise for the first misfit, if the mode says so or null cannot take its place."""
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
        """Whether there may be null at this path."""
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
