"""``lowtide pipeline restore``, ``put-back`` and ``recover``: bring back an earlier state of a store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lowtide.cli.arguments import INSTANT, ArchivePath, CollectionName, Collections, Json, StoreDirectory
from lowtide.cli.failures import ATTENTION
from lowtide.cli.output import Output, busy
from lowtide.cli.reach import find_store
from lowtide.cli.spark_session import Master, pipeline_module, spark_session
from lowtide.errors import UsageError

Destination = Annotated[Path, typer.Argument(metavar="DEST", help="A new directory for the store.", show_default=False)]


def restore(
    archive: ArchivePath,
    dest: Destination,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="INSTANT", help=f"{INSTANT}; by default the last one.", show_default=False),
    ] = None,
    collection: Collections = None,
    master: Master = None,
    json: Json = False,
) -> None:
    """Rebuild a store, or some collections, as of any archived commit, with indexes and schemas.

    The new store is compared with the archive before the command ends.
    """
    output, pipeline = Output(json), pipeline_module()
    with spark_session(master) as spark, busy(f"restoring {dest}") as tell:
        done = pipeline.restore(spark, archive, dest, instant(at), collection or None, progress=tell)
    text = f"{done.path} is the store at commit {done.commit}: {done.rows} rows in {len(done.tables)} tables"
    output.answer(done.to_dict(), f"{text}, {done.indexes} indexes")


def put_back(
    archive: ArchivePath,
    store: StoreDirectory,
    collection: CollectionName,
    good: Annotated[
        str, typer.Option("--good", metavar="INSTANT", help=f"The last good state. {INSTANT}.", show_default=False)
    ],
    bad: Annotated[
        str | None,
        typer.Option(
            "--bad",
            metavar="INSTANT",
            help="The state to undo; by default the last archived one.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Also overwrite documents that were changed since.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report what would be put back.")] = False,
    master: Master = None,
    json: Json = False,
) -> None:
    """Undo the changes of a collection between two archived commits, on the live store, in one transaction.

    Exit code 3 if documents were changed since; those are left unchanged.
    """
    path, output, pipeline = find_store(store), Output(json), pipeline_module()
    with spark_session(master) as spark, busy(f"putting back {collection}") as tell:
        done = pipeline.put_back(
            spark,
            archive,
            path,
            collection,
            good=instant(good),
            bad=instant(bad),
            force=force,
            dry_run=dry_run,
            progress=tell,
        )
    conflicts = len(done.conflicts) + done.more_conflicts
    how = "would be put back" if dry_run else f"put back in commit {done.commit}"
    output.answer(
        done.to_dict(),
        "\n".join(
            [
                f"{done.put_back} documents {how}, {done.unchanged} were correct already, {conflicts} changed since",
                *(f"changed since: {each.id!r}, now {each.now or 'not there'}" for each in done.conflicts[:10]),
            ]
        ),
    )
    if conflicts and not force:
        raise typer.Exit(ATTENTION)


def recover(
    dest: Destination,
    log: Annotated[
        Path, typer.Option("--log", metavar="DIR", help="The log directory of the lost store.", show_default=False)
    ],
    archive: Annotated[
        str | None, typer.Option("--archive", metavar="PATH", help="Start from its archive.", show_default=False)
    ] = None,
    backup: Annotated[
        Path | None,
        typer.Option("--backup", metavar="DIR", help="Start from a backup; needs no Spark.", show_default=False),
    ] = None,
    master: Master = None,
    json: Json = False,
) -> None:
    """Rebuild a lost store from its backup or archive, and then from what is left of its log.

    Exit code 3 if it stopped before the end of the log.
    """
    output, pipeline = Output(json), pipeline_module()
    if (archive is None) == (backup is None):
        raise UsageError("give either --archive or --backup")
    if archive is None:
        with busy(f"recovering {dest}") as tell:
            done = pipeline.recover(None, dest, log=log, backup=backup, progress=tell)
    else:
        with spark_session(master) as spark, busy(f"recovering {dest}") as tell:
            done = pipeline.recover(spark, dest, log=log, archive=archive, progress=tell)
    stopped = "" if done.stopped is None else f"; it stopped there: {done.stopped}"
    text = f"{done.path} has everything up to commit {done.commit}, {done.replayed} of these commits from the log"
    output.answer(done.to_dict(), text + stopped)
    if done.stopped is not None:
        raise typer.Exit(ATTENTION)


def instant(text: str | None) -> int | str | None:
    """Parse a commit or a time for the pipeline."""
    return int(text) if text is not None and text.isascii() and text.isdigit() else text
