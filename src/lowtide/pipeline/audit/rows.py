"""The rows of a history as a DataFrame: JSON Lines or Parquet, with the fields of docs/audit.md."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import UNSET
from pyspark.sql import functions as sql

from lowtide.audit.history import WRITES, Row, checked, is_torn
from lowtide.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Format = Literal["json", "parquet"]
FIELDS = Row.__struct_fields__
_TAIL = 1 << 16
"""Bytes of a file's end that are looked at for a line that was left torn."""
_NUMBERS = ("tx", "index", "value", "version", "session", "turn")
_FLOATS = ("float", "double")
_decode = msgspec.json.Decoder(Row).decode


def read_rows(spark: SparkSession, path: str | Path, form: Format | None = None) -> DataFrame:
    """The rows at a path, as text: ``tx``, ``line``, and where each was, for rows that have no index.

    ``form`` is found out from the names of the files if it is not given: Parquet, or else JSON Lines.
    """
    where = os.fspath(path)
    if Path(where).exists():
        where = str(Path(where).resolve())  # Spark's idea of the current directory may be another one
    if (form or _form_of(where)) == "parquet":
        frame = spark.read.parquet(where)
        unknown = sorted(set(frame.columns) - set(FIELDS))
        if unknown:
            raise UsageError(f"{where} has columns that no history has: {', '.join(unknown)}; see docs/audit.md")
        line = sql.to_json(sql.struct("*"))
        types = dict(frame.dtypes)
        if types.get("value") == "string":
            line = sql.udf(_as_text, "string", useArrow=False)(line)
        elif types.get("value", "").startswith("array") or any(types.get(name) in _FLOATS for name in _NUMBERS):
            line = sql.udf(_as_numbers, "string", useArrow=False)(line)
        return _numbered(frame, sql.col("tx").cast("string"), line)
    frame = spark.read.text(where)
    torn = _torn_lines(where)
    if torn:
        frame = frame.where(~sql.col("value").isin(torn))
    return _numbered(frame, sql.get_json_object("value", "$.tx"), sql.col("value"))


def _as_text(line: str) -> str:
    """A row of a table with a column of text for values: Spark makes one of JSON Lines whose values are numbers in some
    rows and lists in others. So each element is text, and a value that is a list in JSON is that list."""
    row = msgspec.json.decode(_as_numbers(line))
    if "value" in row:
        row["value"] = _text(row["value"])
    if row.get("values"):
        row["values"] = {key: _text(each) for key, each in row["values"].items()}
    return msgspec.json.encode(row).decode()


def _text(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in ("[", '"'):
        with suppress(msgspec.DecodeError):
            value = msgspec.json.decode(value)
    if isinstance(value, list):
        return [each if isinstance(each, str) else msgspec.json.encode(each).decode() for each in value]
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _as_numbers(line: str) -> str:
    """A row of a table with columns of floating-point numbers, as pandas makes them of whole ones where some are
    missing, or with a column of lists: there what is written or appended is a list of one."""
    row = _whole(msgspec.json.decode(line))
    value = row.get("value")
    if row["op"] in WRITES and isinstance(value, list) and len(value) == 1:
        row["value"] = value[0]
    return msgspec.json.encode(row).decode()


def _whole(value: Any) -> Any:
    """Whole numbers as such. What has a fraction is refused later, with its row."""
    if isinstance(value, dict):
        return {key: _whole(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_whole(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _torn_lines(where: str) -> list[str]:
    """The last lines of local files that were left torn by a writer that was killed: they count for nothing."""
    local = Path(where)
    files = (
        [each for each in local.rglob("*") if each.is_file()] if local.is_dir() else [local] if local.exists() else []
    )
    return [line for each in files if (line := _torn_line(each))]


def _torn_line(path: Path) -> str:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        tail, begin = b"", size
        while begin and b"\n" not in tail:
            begin = max(0, begin - _TAIL)
            file.seek(begin)
            tail = file.read(size - begin)
            if tail.endswith(b"\n"):
                return ""
    line = tail.rpartition(b"\n")[2]
    return line.decode(errors="replace") if line and is_torn(line) else ""


def _form_of(where: str) -> Format:
    local = Path(where)
    names = [each.name for each in local.rglob("*")] if local.is_dir() else [where]
    return "parquet" if any(name.endswith(".parquet") for name in names) else "json"


def _numbered(frame: DataFrame, tx: Column, line: Column) -> DataFrame:
    return frame.select(
        tx.alias("tx"),
        line.alias("line"),
        sql.xxhash64("_metadata.file_path").alias("file"),
        sql.col("_metadata.file_block_start").alias("block"),
        sql.monotonically_increasing_id().alias("number"),
    )


def row_of(line: str) -> Row | None:
    """The row of a line; None if the line is empty.

    In a table a field that is not given and one that is null are the same. So a read without a value and a version is
    one of nothing, a write without a value a delete, and a scan that shows nothing found nothing.
    """
    if not line or line.isspace():
        return None
    try:
        row = _decode(line)
        if row.value is UNSET and (row.op == "write" or (row.op == "read" and row.version is None)):
            row = msgspec.structs.replace(row, value=None)
        elif row.op == "scan" and row.values is None and row.versions is None:
            row = msgspec.structs.replace(row, values={})
        return checked(row)
    except (msgspec.MsgspecError, UsageError) as error:
        raise UsageError(f"{error}, in the row {line[:200]}") from error


def in_file_order(numbered: Iterable[tuple[Row, int, int, int]]) -> list[Row]:
    """The rows of one transaction, from rows with their file, block and number; without an index they are in the order
    of the one file that they are in."""
    rows = list(numbered)
    if any(row.index is None for row, *_ in rows):
        if len({file for _, file, _, _ in rows}) > 1:
            raise UsageError(
                f"the rows of transaction {rows[0][0].tx!r} are in several files and have no index, so their order is "
                "not known: give each row an index"
            )
        rows.sort(key=lambda each: each[2:])
    return [row for row, *_ in rows]
