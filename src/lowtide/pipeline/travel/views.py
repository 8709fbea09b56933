"""Temporary SQL views of an archive: for each collection its state and its history."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from lowtide.errors import UsageError
from lowtide.pipeline.tables.visible import visible
from lowtide.pipeline.travel.instants import At
from lowtide.pipeline.travel.reading import ArchivePath
from lowtide.pipeline.travel.travel import history_columns, reader_of, state_columns, versions
from lowtide.spark.session import explained

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HISTORY = "_history"


def create_views(
    spark: SparkSession,
    archive_path: ArchivePath,
    *,
    at: At | None = None,
    prefix: str = "",
    collections: Iterable[str] | None = None,
) -> list[str]:
    """Create two temporary views for each collection, and return their names.

    ``NAME`` is the collection as of ``at``, by default the last archived commit; ``NAME_history`` has all of its
    versions up to the last commit, in no particular order. ``prefix`` comes before every name. All views are of one
    commit. They show what the archive has now: create them again after a run. A name that is no SQL identifier is
    written in backquotes.
    """
    reader = reader_of(spark, archive_path)
    chosen = reader.names() if collections is None else list(collections)
    names = [f"{prefix}{name}{suffix}" for name in chosen for suffix in ("", _HISTORY)]
    _check(names)
    tables = {name: reader.table(name) for name in chosen}
    with explained(spark):
        commits = {name: reader.instant(at, table) for name, table in tables.items()}
        for name, table in tables.items():
            state = visible(spark, table, commits[name]).select(*state_columns(table, raw=False))
            state.createOrReplaceTempView(_quoted(prefix + name))
            rows = versions(spark, table, reader.instants.commit).select(*history_columns(table))
            rows.createOrReplaceTempView(_quoted(prefix + name + _HISTORY))
    return names


def _check(names: list[str]) -> None:
    """Refuse names that Spark takes for the same: it ignores case."""
    known: dict[str, str] = {}
    for each in names:
        other = known.setdefault(each.lower(), each)
        if other is not each:
            raise UsageError(
                f"the views {other!r} and {each!r} would have the same name. Choose the collections, "
                "collections=[...], and create the others with another prefix"
            )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
