"""The sources of a load: Parquet, CSV, JSON Lines or Delta files, a table of Spark's catalog, or a DataFrame.

CSV is read as text; the mapping gives the types. A record without the header's columns is kept as text, not dropped.
JSON Lines are passed to the tasks as text, so no value goes through a column that widens it. A Delta table is read by
the list of files that its log names; no jar of Delta is needed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from lowtide.errors import UsageError, shown
from lowtide.pipeline.load.judging import COMPUTED, CORRUPT, FILE, LINE
from lowtide.pipeline.load.mapping import FieldMapping
from lowtide.spark.schemas import arrow_schema, check_types
from lowtide.spark.values import convert_of
from lowtide.system.extras import require

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FORMATS: Final = ("parquet", "csv", "jsonl", "delta", "table")
_SUFFIXES: Final = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
_PACKED: Final = (".gz", ".bz2", ".zst", ".snappy", ".lz4")
_UNREADABLE_DELTA: Final = ("deletionVectors", "columnMapping")


@dataclass(frozen=True)
class LoadSource:
    """An opened source. ``frame`` has its columns, or the column ``LINE``; ``columns`` are None if lines have them."""

    frame: DataFrame
    columns: tuple[str, ...] | None
    described: str

    def prepared(self, mapping: FieldMapping) -> DataFrame:
        """The rows with their files and the values of the mapping's SQL expressions. Refuses a mapping that does not
        fit, and types that documents do not have, before anything runs."""
        if self.columns is not None:
            mapping.check_columns(self.columns)
        computed = [F.expr(each.sql or "").alias(f"{COMPUTED}{at}") for at, each in enumerate(mapping.expressions)]
        kept = [LINE] if self.columns is None else self._kept(mapping)
        try:
            frame = self.frame.select(
                *map(_column, kept), F.nullif(F.input_file_name(), F.lit("")).alias(FILE), *computed
            )
            check_types(frame.schema)
        except (AnalysisException, ParseException) as error:
            raise UsageError(f"mapping: an SQL expression does not fit {self.described}: {error}") from error
        return frame

    def _kept(self, mapping: FieldMapping) -> list[str]:
        """The columns that reach the tasks. Those that no field comes from go along, since a row that is refused is
        shown as it was read, unless no document can hold them."""
        used = {each.column for each in mapping.targets} | {
            (each.column or "").split(".")[0] for each in mapping.targets
        }
        if mapping.rest:
            used |= set(self.frame.columns) - mapping.taken
        kept = []
        for each in self.frame.schema:
            try:
                check_types(StructType([each]))
                convert_of(arrow_schema(StructType([each])).field(0), True)
            except UsageError:
                if each.name in used:
                    raise
            else:
                kept.append(each.name)
        return kept


def open_source(
    spark: SparkSession,
    source: Any,
    *,
    format: str | None,
    options: Mapping[str, str],
    with_columns: bool,
) -> LoadSource:
    """Open a source. ``with_columns`` says that SQL expressions need the columns of JSON Lines."""
    if format is not None and format not in FORMATS:
        raise UsageError(f"{format!r} is no format of a load; there are {', '.join(FORMATS)}")
    if hasattr(source, "mapInArrow"):  # of a plain session or of Spark Connect
        return _typed(source, "the DataFrame")
    if not isinstance(source, str | Path) or not str(source):
        raise UsageError(f"a source is a path, the name of a table or a DataFrame, not {shown(source)}")
    name = str(source)
    kind = format or _format_of(spark, name)
    place = name if kind == "table" else _place(name)
    try:
        match kind:
            case "table":
                return _typed(spark.table(place), f"the table {place}")
            case "parquet":
                return _typed(spark.read.options(**options).parquet(place), place)
            case "delta":
                return _delta(spark, place)
            case "csv":
                return _csv(spark, place, options)
            case _:
                return _lines(spark, place, options, with_columns)
    except AnalysisException as error:
        raise UsageError(f"{place} cannot be read as {kind}: {error}") from error


def _format_of(spark: SparkSession, name: str) -> str:
    """What the name of a source says that it is."""
    path = Path(name)
    if (path / "_delta_log").is_dir():
        return "delta"
    if (found := _by_suffix(path)) is not None:
        return found
    if path.is_dir():
        kinds = {kind for each in path.rglob("*") if each.is_file() and (kind := _by_suffix(each)) is not None}
        if len(kinds) == 1:
            return kinds.pop()
    elif not path.exists() and "/" not in name and spark.catalog.tableExists(name):
        return "table"
    raise UsageError(f"{name}: its format cannot be told from its name; give a format, one of {', '.join(FORMATS)}")


def _by_suffix(path: Path) -> str | None:
    if path.suffix in _PACKED:
        path = path.with_suffix("")
    return _SUFFIXES.get(path.suffix)


def _place(name: str) -> str:
    """The place as Spark's JVM, which may run in another directory, finds it."""
    return name if ":/" in name else str(Path(name).absolute())


def _typed(frame: DataFrame, described: str) -> LoadSource:
    names = frame.columns
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"{described} has two columns {twice[0]!r}; rename one")
    return LoadSource(frame, tuple(names), described)


def _csv(spark: SparkSession, place: str, options: Mapping[str, str]) -> LoadSource:
    given = {"header": "true", "escape": '"', **options}  # a quote in a cell is written twice, as other tools do
    if place.endswith(".tsv"):
        given = {"sep": "\t", **given}
    names = spark.read.options(**given).csv(place).columns
    fields = [StructField(name, StringType()) for name in [*names, CORRUPT]]
    # Without enforceSchema Spark compares each file's header with these names, instead of taking columns by position.
    reader = spark.read.schema(StructType(fields)).options(
        **given, mode="PERMISSIVE", columnNameOfCorruptRecord=CORRUPT, enforceSchema="false"
    )
    return LoadSource(reader.csv(place), tuple(names), place)


def _lines(spark: SparkSession, place: str, options: Mapping[str, str], with_columns: bool) -> LoadSource:
    frame = spark.read.options(**options).text(place).withColumnRenamed("value", LINE)
    frame = frame.where(F.trim(LINE) != "")
    if with_columns:
        inferred = spark.read.options(**options, columnNameOfCorruptRecord=CORRUPT).json(place).schema
        schema = StructType([each for each in inferred if each.name != CORRUPT])
        row = F.from_json(F.col(LINE), schema)
        frame = frame.select(LINE, *[row.getField(each.name).alias(each.name) for each in schema])
    return LoadSource(frame, None, place)


def _delta(spark: SparkSession, place: str) -> LoadSource:
    deltalake = require("deltalake", "pipeline", "reading a Delta table")
    table = deltalake.DeltaTable(place)
    features = table.protocol().reader_features or []
    if refused := [each for each in features if each in _UNREADABLE_DELTA]:
        raise UsageError(
            f"the Delta table {place} uses {refused[0]}, which cannot be read by its files alone; read it with Spark's "
            "own format delta, and load the DataFrame"
        )
    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    files = table.file_uris()
    if not files:
        return _typed(spark.createDataFrame([], schema), place)
    return _typed(spark.read.schema(schema).option("basePath", place).parquet(*files), place)


def _column(name: str) -> Column:
    """The column of exactly this name, dots and all."""
    return F.col("`" + name.replace("`", "``") + "`")
