"""The task of a load: record batches of the source in, stored documents and rejected rows out.

A batch has the columns of the source or, for JSON Lines, the line as text; then the file, and the values of the
mapping's SQL expressions. Each row comes out once, with a document or with a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Final

import pyarrow as pa

from lowtide.columnar.inference import is_json
from lowtide.pipeline.load.mapping import FieldMapping
from lowtide.pipeline.load.rules import UNREADABLE, Accepted, Rejected, Rules, Unrepresentable
from lowtide.spark.values import is_list
from lowtide.system.messages import UNDECODABLE
from lowtide.values.extended import NotExtended, dumps, loads

LINE: Final = "_lowtide_line"
"""The column of a line of JSON."""
CORRUPT: Final = "_lowtide_corrupt"
"""The column of the text of a record that Spark could not read."""
FILE: Final = "_lowtide_file"
COMPUTED: Final = "_lowtide_sql_"
"""What the columns of SQL expressions begin with; a number follows."""

JUDGED: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("document", pa.binary()),
        ("source", pa.string()),
        ("reason", pa.string()),
        ("field", pa.string()),
        ("detail", pa.string()),
        ("file", pa.string()),
    ]
)
"""What comes out: ``document`` or ``reason`` is null."""
JUDGED_DDL: Final = (
    "key binary, document binary, source string, reason string, field string, detail string, file string"
)

Reader = Callable[[Any], Any]
"""Makes of a value that Arrow gives one that a document can hold; None is null."""


@dataclass(frozen=True)
class Judge:
    """Judges the rows of record batches; made in the driver, and called in each task. ``schema`` is that of the
    batches, with JSON text marked."""

    mapping: FieldMapping
    schemas: tuple[Mapping[str, Any], ...]
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rules = Rules(self.mapping, self.schemas)
        for batch in batches:
            if batch.num_rows:
                yield _batch([_row_out(rules, *each) for each in self._rows(batch)])

    def _rows(self, batch: pa.RecordBatch) -> Iterator[tuple[str | None, Any, Sequence[Any], str | None]]:
        """Of each row the file, the source (a line, or the values by column), the computed values, and the text of a
        record that could not be read."""
        columns = {field.name: values_of(batch.column(at), field) for at, field in enumerate(self.schema)}
        files = columns.pop(FILE)
        corrupt = columns.pop(CORRUPT, [None] * batch.num_rows)
        lists = [columns.pop(name) for name in self.schema.names if name.startswith(COMPUTED)]
        computed = zip(*lists, strict=True) if lists else iter([()] * batch.num_rows)
        sources: Any = columns[LINE] if LINE in columns else _dicts(columns, batch.num_rows)
        return zip(files, sources, computed, corrupt, strict=True)


def _dicts(columns: Mapping[str, list[Any]], count: int) -> Iterator[dict[str, Any]]:
    """The rows as dicts, without what is null."""
    names = list(columns)
    rows = zip(*columns.values(), strict=True) if names else iter([()] * count)
    for row in rows:
        yield {name: value for name, value in zip(names, row, strict=True) if value is not None}


def _row_out(
    rules: Rules, file: str | None, source: Any, computed: Sequence[Any], corrupt: str | None
) -> tuple[Any, ...]:
    if corrupt is not None:
        return (None, None, corrupt, UNREADABLE, "", "the record does not have the columns of the header", file)
    if isinstance(source, str):
        text, row = source, _parsed(source)
        verdict = row if isinstance(row, Rejected) else rules.judge(row, computed)
    else:
        text = _json(source)
        verdict = rules.judge(source, computed)
    if isinstance(verdict, Accepted):
        return (verdict.key, verdict.document, text, None, None, None, file)
    return (None, None, text, verdict.reason, verdict.field, verdict.detail, file)


def _json(row: Mapping[str, Any]) -> str:
    return dumps(
        {name: value.detail if isinstance(value, Unrepresentable) else value for name, value in row.items()}
    ).decode()


def _parsed(line: str) -> dict[str, Any] | Rejected:
    try:
        found = loads(line)
    except (NotExtended, *UNDECODABLE) as error:
        return Rejected(UNREADABLE, "", f"the line is not JSON: {error}")
    if type(found) is not dict:
        return Rejected(UNREADABLE, "", f"the line is not a JSON object, but {type(found).__name__}")
    return found


def _batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.record_batch(
        [pa.array(list(values), field.type) for values, field in zip(columns, JUDGED, strict=True)], schema=JUDGED
    )


# Values


def values_of(array: pa.Array, field: pa.Field) -> list[Any]:
    """The values of an Arrow array as documents hold them. Null is None, and what Python cannot hold a Misfit."""
    read = reader_of(field)
    try:
        found = array.to_pylist()
    except (ValueError, OverflowError):
        found = [_value(each) for each in array]
    return found if read is None else [None if each is None else _read(read, each) for each in found]


def _value(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except (ValueError, OverflowError) as error:
        return Unrepresentable(f"a value of the type {scalar.type} is out of the range of Python: {error}")


def _read(read: Reader, value: Any) -> Any:
    if isinstance(value, Unrepresentable):
        return value
    try:
        return read(value)
    except (NotExtended, *UNDECODABLE) as error:
        return Unrepresentable(f"it must be JSON, but is not: {error}")


def reader_of(field: pa.Field) -> Reader | None:
    """What reads the values of a field; None if they stay as Arrow gives them."""
    kind, types = field.type, pa.types
    if is_json(field):
        return loads
    if types.is_floating(kind):
        return _number
    if types.is_timestamp(kind) and kind.tz is not None:
        return _moment
    if types.is_date(kind):
        return _midnight
    if types.is_struct(kind):
        return _struct_reader({each.name: reader_of(each) for each in kind})
    if types.is_map(kind):
        inner = reader_of(kind.item_field) or _same
        return lambda entries: {name: None if each is None else inner(each) for name, each in entries}
    if is_list(kind):
        element = reader_of(kind.value_field)
        if element is not None:
            return lambda values: [None if each is None else element(each) for each in values]
    return None


def _same(value: Any) -> Any:
    return value


def _number(value: float) -> float | None:
    """NaN is null, as in every write of Spark's to a store."""
    return value if value == value else None


def _moment(value: datetime) -> datetime:
    return value.astimezone(UTC)


def _midnight(value: date) -> datetime:
    return datetime(value.year, value.month, value.day)


def _struct_reader(readers: Mapping[str, Reader | None]) -> Reader:
    def read(value: Mapping[str, Any]) -> dict[str, Any]:
        found = {}
        for name, each in value.items():
            reader = readers[name]
            new = each if each is None or reader is None else reader(each)
            if new is not None:
                found[name] = new
        return found

    return read
