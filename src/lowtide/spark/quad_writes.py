"""Encodes the rows of a DataFrame as staged statements.

The columns are those of a read. ``s``, ``p``, ``o`` and ``o_kind`` are required. Without ``s_kind``, ``p_kind`` and
``g_kind``, these terms are IRIs. Without ``g``, the statement is in the default graph. Without ``inferred``, it is
explicit.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import StructType

from lowtide.errors import UsageError
from lowtide.feed.ranges import DELETE, INSERT
from lowtide.quads.ids import encode
from lowtide.quads.indexes import EXPLICIT, INFERRED, check_quads_name
from lowtide.quads.parts import IRI, LITERAL, parts_of, term_of_flat, term_of_parts
from lowtide.sharing.loading.job import How
from lowtide.sharing.loading.staged_changes import StagedChange, encode_change
from lowtide.sharing.loading.statements import Parts, encode_statement
from lowtide.spark.change_columns import KIND, MOMENT, VERSION
from lowtide.spark.change_writes import check_change_columns
from lowtide.spark.options import PATTERN, SparkOptions
from lowtide.spark.statements import check_statement_columns

_NEEDED: Final = ("s", "p", "o", "o_kind")
_DOCUMENTS: Final = ("jsonColumns", "idField", "deleteBy", "ignoreNullFields")


def check_statements(options: SparkOptions, schema: StructType, how: How) -> None:
    """Refuse options and columns that cannot be written to a quad store."""
    check_quads_name(options.quads)
    options.refuse((*_DOCUMENTS, *PATTERN), "for a write to quads")
    check_statement_columns(schema, (KIND, VERSION, MOMENT) if how == "changes" else ())
    for name in _NEEDED:
        if name not in schema.names:
            raise UsageError(
                f"statements need the columns {', '.join(_NEEDED)}, and there is no {name!r}; there are "
                f"{', '.join(map(repr, schema.names))}"
            )
    if how == "changes":
        check_change_columns(schema)


class StatementEncoder:
    """Encodes rows, in one task. Terms that occur often are checked once."""

    def __init__(self, how: How) -> None:
        self._how = how
        self._known: dict[tuple[Any, ...], Parts] = {}

    def encode(self, batch: pa.RecordBatch) -> tuple[list[bytes], list[bytes] | None]:
        """Return the keys and staged values of the rows of a batch; no values for statements that are to be removed."""
        names, count = set(batch.schema.names), batch.num_rows

        def column(name: str, default: Any = None) -> list[Any]:
            return batch.column(name).to_pylist() if name in names else [default] * count

        keys = []
        terms = zip(
            *(column("s"), column("s_kind", IRI), column("p"), column("p_kind", IRI)),
            *(column("o"), column("o_kind"), column("o_datatype"), column("o_language")),
            *(column("g"), column("g_kind", IRI)),
            strict=True,
        )
        for s, s_kind, p, p_kind, o, o_kind, datatype, language, g, g_kind in terms:
            keys.append(
                encode_statement(
                    self._flat("s", s, s_kind),
                    self._flat("p", p, p_kind),
                    self._parts("o", o, o_kind, datatype, language),
                    None if g is None else self._flat("g", g, g_kind),
                )
            )
        if self._how == "delete":
            return keys, None
        values = [INFERRED if each else EXPLICIT for each in column("inferred")]
        if self._how != "changes":
            return keys, values
        changes = zip(column(VERSION), column(KIND), values, strict=True)
        return keys, [encode_change(_change(*each)) for each in changes]

    def _flat(self, column: str, text: str | None, kind: str | None) -> Parts:
        known = self._known.get((text, kind))
        if known is None:
            if kind == LITERAL and text is not None:
                known = _checked(column, lambda: parts_of(term_of_flat(text, LITERAL)))
            else:
                known = self._parts(column, text, kind, None, None)
            self._remember((text, kind), known)
        return known

    def _parts(self, column: str, *parts: str | None) -> Parts:
        known = self._known.get(parts)
        if known is None:
            known = _checked(column, lambda: parts_of(term_of_parts(parts)))
            self._remember(parts, known)
        return known

    def _remember(self, given: tuple[Any, ...], parts: Parts) -> None:
        if len(self._known) > 100_000:
            self._known.clear()
        self._known[given] = parts


def _checked(column: str, make: Any) -> Parts:
    """The parts of a term that can be stored, with its language in the stored form."""
    try:
        text, kind, datatype, language = make()
        term = term_of_parts((text, kind, datatype, language))
        encode(term)
    except (UsageError, ValueError) as error:
        raise UsageError(f"column {column!r}: {error}") from error
    return text, kind, datatype, None if language is None else language.lower()


def _change(version: int | None, kind: str | None, value: bytes) -> StagedChange:
    if kind not in (INSERT, DELETE):
        raise UsageError(f"column {KIND!r} of changes of quads has {kind!r}; it has {INSERT} or {DELETE}")
    if version is None or version < 0:
        raise UsageError(f"column {VERSION!r} of changes has a row that is null or below 0: it is a commit's number")
    return StagedChange(version, None if kind == DELETE else value)
