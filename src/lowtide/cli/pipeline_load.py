"""``lowtide pipeline load`` and ``replicate``: write data to a store from files, tables or another store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lowtide.cli.arguments import CollectionName, Json, StorePath
from lowtide.cli.failures import ATTENTION
from lowtide.cli.output import Output, busy
from lowtide.cli.reach import find_store
from lowtide.cli.spark_session import Master, spark_session
from lowtide.errors import UsageError
from lowtide.system.extras import require
from lowtide.system.messages import UNDECODABLE
from lowtide.values.extended import NotExtended, loads


def load(
    path: StorePath,
    collection: CollectionName,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A file, a directory of files, a Delta table or a Spark table.",
            show_default=False,
        ),
    ],
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="parquet, csv, jsonl, delta or table; by default from the name of the source.",
            show_default=False,
        ),
    ] = None,
    mapping: Annotated[
        str | None,
        typer.Option(
            "--map",
            metavar="JSON",
            help="Which column becomes which field: a JSON file, or the JSON itself; by default all columns.",
            show_default=False,
        ),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            "--schema",
            metavar="JSON",
            help="A JSON Schema for the documents, in addition to the collection's: a file, or the JSON itself.",
            show_default=False,
        ),
    ] = None,
    mode: Annotated[str, typer.Option("--mode", metavar="MODE", help="upsert, insert or overwrite.")] = "upsert",
    quarantine: Annotated[
        str | None,
        typer.Option(
            "--quarantine",
            metavar="TABLE",
            help="The Delta table for bad rows; without it, a bad row fails the load.",
            show_default=False,
        ),
    ] = None,
    max_bad: Annotated[
        str | None,
        typer.Option(
            "--max-bad",
            metavar="NUMBER",
            help="The most bad rows to accept: 100, or a share such as 1%.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="The name of the load. It is done only once.", show_default=False),
    ] = None,
    version: Annotated[
        int, typer.Option("--version", metavar="NUMBER", min=0, help="Which load of its name this is.")
    ] = 0,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option", metavar="NAME=VALUE", help="An option of Spark's reader, such as sep=;.", show_default=False
        ),
    ] = None,
    master: Master = None,
    json: Json = False,
) -> None:
    """Load files or a table into a collection, in one transaction; bad rows go to a quarantine table.

    Exit code 3 if rows were quarantined. Creates the store if there is none. docs/howto/load-files.md describes the
    mapping and the reasons.
    """
    given: dict[str, Any] = {
        "format": format,
        "mapping": _json("--map", mapping),
        "schema": _json("--schema", schema),
        "mode": mode,
        "quarantine": quarantine,
        "max_bad": most_bad(max_bad),
        "name": name,
        "version": version,
        "options": dict(map(_option, option or ())),
    }
    output = Output(json)
    with busy(f"loading {source}") as tell:
        jobs = _jobs()
        tell("starting Spark")
        with spark_session(master) as spark:
            report = jobs.load(spark, source, path.absolute(), collection, progress=tell, **given)
    output.answer(report.to_dict(), _loaded(report))
    if report.quarantined:
        raise typer.Exit(ATTENTION)


def replicate(
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="The directory of the store to replicate.", show_default=False)
    ],
    destination: Annotated[
        Path,
        typer.Argument(
            metavar="DESTINATION", help="The directory of the copy, created if it does not exist.", show_default=False
        ),
    ],
    collection: Annotated[
        list[str] | None,
        typer.Option(
            "--collection",
            metavar="NAME",
            help="A collection to replicate, repeatable; without it and --keyspace, everything.",
            show_default=False,
        ),
    ] = None,
    keyspace: Annotated[
        list[str] | None,
        typer.Option("--keyspace", metavar="NAME", help="A keyspace to replicate, repeatable.", show_default=False),
    ] = None,
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="The name of the replication, and of its consumer.")
    ] = "replica",
    follow: Annotated[bool, typer.Option("--follow", help="Keep running, and apply commits as they arrive.")] = False,
    json: Json = False,
) -> None:
    """Bring a copy of a store up to date from its change feed, one transaction for each batch of commits.

    It continues where it stopped or was killed. docs/howto/replicate.md says what is replicated.
    """
    output = Output(json)
    where = find_store(source)
    with busy(f"replicating {source}") as tell:
        report = _jobs().replicate(
            None,
            where,
            destination,
            collection or None,
            name=name,
            keyspaces=keyspace or None,
            follow=(lambda: True) if follow else None,
            progress=tell,
        )
    output.answer(report.to_dict(), _replicated(report))


def _jobs() -> Any:
    """The pipeline, if its extra is installed."""
    require("deltalake", "pipeline", "the pipeline")
    from lowtide import pipeline

    return pipeline


def _json(option: str, text: str | None) -> Any:
    """The JSON of an option, given directly or as the name of a file."""
    if text is None:
        return None
    content = text if text.lstrip().startswith("{") else Path(text).read_text()
    try:
        return loads(content)
    except (NotExtended, *UNDECODABLE) as error:
        raise UsageError(f"{option} is not JSON: {error}") from error


def most_bad(text: str | None) -> int | float | None:
    """Parse the limit of ``--max-bad``.

    >>> most_bad("100"), most_bad("1%"), most_bad("0.5")
    (100, 0.01, 0.5)
    """
    if text is None:
        return None
    try:
        if text.endswith("%"):
            return float(text[:-1]) / 100
        return float(text) if "." in text else int(text)
    except ValueError as error:
        raise UsageError(f"--max-bad takes a number of rows, or a share such as 1% or 0.01, not {text!r}") from error


def _option(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f"--option takes NAME=VALUE, not {text!r}")
    return name, value


def _loaded(report: Any) -> str:
    if report.skipped:
        return f"skipped: the load {report.name!r}, version {report.version}, was done by commit {report.commit}"
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in report.by_reason.items())
    bad = f", {report.quarantined:,} in quarantine: {reasons}" if report.quarantined else ""
    return (
        f"loaded {report.written:,} of {report.read:,} rows into {report.collection} in commit {report.commit}: "
        f"{report.inserted:,} inserted, {report.replaced:,} replaced, {report.deleted:,} deleted{bad}"
    )


def _replicated(report: Any) -> str:
    copied = f", {report.copied:,} copied from a snapshot" if report.resynced else ""
    return (
        f"{report.destination} is at commit {report.commit}: {report.changes:,} changes in {report.batches:,} "
        f"batches{copied}"
    )
