"""Time travel: a collection as of any archived commit or time, the history of its documents, and what two instants
differ in. See ``instants`` for which instants can be read, and which commit a time means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F

from lowtide.errors import UsageError, shown
from lowtide.pipeline.tables.columns import DELETE, ID, INSERT, KEY, KIND, OWN, RAW, TIME, UPDATE, VALID_TO, VERSION
from lowtide.pipeline.tables.table import VersionTable
from lowtide.pipeline.tables.visible import files_with, replaced, visible
from lowtide.pipeline.travel.instants import At
from lowtide.pipeline.travel.reading import ArchivePath, ArchiveReader, Moments
from lowtide.spark.session import explained
from lowtide.values.ids import id_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def as_of(
    spark: SparkSession,
    archive_path: ArchivePath,
    at: At | None,
    collection: str | None = None,
    *,
    keyspace: str | None = None,
    quads: str | None = None,
    raw: bool = False,
) -> DataFrame:
    """Return a collection as the store had it at a commit or a time: ``_id`` and the typed columns.

    ``at`` is a commit, a datetime or an ISO time; None is the last archived commit. ``raw=True`` adds ``_raw``, the
    whole document as JSON text. ``keyspace`` names a keyspace in place of a collection: ``_id`` is the key, ``_raw``
    the value. ``quads`` names a quad store: its rows are statements, with the columns that Spark reads. Raises
    ArchiveGap, ArchiveBehind or NotArchived if the archive does not have that.
    """
    reader = reader_of(spark, archive_path)
    table = reader.table(collection, keyspace, quads)
    with explained(spark):
        found = visible(spark, table, reader.instant(at, table))
        return found.select(*state_columns(table, raw=raw))


def history(
    spark: SparkSession,
    archive_path: ArchivePath,
    collection: str | None = None,
    id: Any = None,
    *,
    keyspace: str | None = None,
    quads: str | None = None,
) -> DataFrame:
    """Return all versions of a collection, or of the document ``id``, in the order of ``_id`` and ``_version``.

    The columns are ``_id``, ``_version``, ``_time``, ``_kind``, ``_raw``, ``valid_to`` and the typed ones. ``valid_to``
    is the commit that ended the version, null for the newest one. A delete is a row of its own. With an ``id``, only
    files that may have it are read. Warns with ArchiveGapWarning of what the archive lacks.
    """
    reader = reader_of(spark, archive_path)
    table = reader.table(collection, keyspace, quads)
    reader.warn_of_gaps(table)
    key = None if id is None else key_text(id, is_keyspace=table.is_keyspace)
    with explained(spark):
        rows = versions(spark, table, reader.instants.commit, key)
        return rows.orderBy(KEY, VERSION).select(*history_columns(table))


def versions(spark: SparkSession, table: VersionTable, until: int, key: str | None = None) -> DataFrame:
    """Return all versions up to a commit, of all keys or of one, each with its end."""
    files = files_with(table.files, None if key is None else [key])
    rows = table.read(spark, [each for each in files if each.first_version <= until]).where(F.col(VERSION) <= until)
    if key is not None:
        rows = rows.where(F.col(KEY) == key)
    following = F.lead(VERSION).over(Window.partitionBy(KEY).orderBy(VERSION))
    # Compaction has noted the end where it was known. A vacuum may have removed the version that followed. A delete
    # is seen by no instant, and has its own commit there.
    noted = F.when(F.col(KIND) != DELETE, F.col(VALID_TO))
    return rows.withColumn(VALID_TO, F.coalesce(noted, following))


def diff(
    spark: SparkSession,
    archive_path: ArchivePath,
    a: At | None,
    b: At | None,
    collection: str | None = None,
    *,
    keyspace: str | None = None,
    quads: str | None = None,
) -> DataFrame:
    """Return what differs from instant ``a`` to ``b``: ``_id``, ``_kind``, ``before`` and ``after``.

    ``_kind`` is insert, update or delete; ``before`` and ``after`` are the documents as JSON text, or the values of a
    keyspace, null where there is none. Only documents that were written in between are compared. ``b`` may be earlier
    than ``a``: the rows then say what would undo the changes.
    """
    reader = reader_of(spark, archive_path)
    table = reader.table(collection, keyspace, quads)
    with explained(spark):
        first, second = reader.instant(a, table), reader.instant(b, table)
        before, after = replaced(spark, table, min(first, second), max(first, second))
        if first > second:
            before, after = after, before
        before = before.select(KEY, F.col(ID).alias("_id_before"), F.col(RAW).alias("before"))
        after = after.select(KEY, F.col(ID).alias("_id_after"), F.col(RAW).alias("after"))
        kind = F.when(F.col("before").isNull(), INSERT).when(F.col("after").isNull(), DELETE).otherwise(UPDATE)
        joined = before.join(after, KEY, "full_outer").where(~F.col("before").eqNullSafe(F.col("after")))
        return joined.select(
            F.coalesce("_id_after", "_id_before").alias(ID), kind.alias(KIND), F.col("before"), F.col("after")
        )


def reader_of(spark: SparkSession, archive_path: ArchivePath) -> ArchiveReader:
    """Return the archive, whose times are looked up by Spark."""
    return ArchiveReader(archive_path, lambda moments: _first_later(spark, moments))


def _first_later(spark: SparkSession, moments: Moments) -> int | None:
    paths = [location.spark_path(name) for location, names in moments.files for name in names]
    if not paths:
        return None
    rows = spark.read.schema(f"{VERSION} long, {TIME} timestamp").parquet(*paths)
    between = (F.col(VERSION) > moments.low) & (F.col(VERSION) < moments.high)
    found = rows.where(between & (F.col(TIME) > F.lit(moments.moment))).agg(F.min(VERSION)).collect()
    return None if found[0][0] is None else int(found[0][0])


def state_columns(table: VersionTable, *, raw: bool) -> list[str]:
    """Return the columns of a state: ``_id``, perhaps ``_raw``, which a keyspace always has, and the typed ones."""
    return [ID, *([RAW] if raw or table.is_keyspace else []), *typed_columns(table)]


def history_columns(table: VersionTable) -> list[str]:
    """Return the columns of a history, in their order."""
    return [ID, VERSION, TIME, KIND, RAW, VALID_TO, *typed_columns(table)]


def typed_columns(table: VersionTable) -> list[str]:
    """Return the names of the columns that the documents' own fields have."""
    return [each for each in table.schema.names if each not in OWN]


def key_text(id: Any, *, is_keyspace: bool) -> str:
    """Return the ``_key`` of a document, or of an entry of a keyspace.

    >>> key_text(b"ab", is_keyspace=True)
    '6162'
    """
    if not is_keyspace:
        return id_key(id).hex()
    if not isinstance(id, bytes | bytearray):
        raise UsageError(f"a key of a keyspace is bytes, not {shown(id)}")
    return bytes(id).hex()
