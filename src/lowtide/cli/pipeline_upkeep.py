"""``lowtide pipeline compact``, ``vacuum``, ``erase`` and ``tag``: maintaining an archive."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from lowtide.cli.arguments import ArchivePath, CollectionName, Collections, IsKeyspace, Json
from lowtide.cli.failures import ATTENTION
from lowtide.cli.output import Output, busy
from lowtide.cli.reach import find_store
from lowtide.cli.spark_session import Master, pipeline_module, spark_session
from lowtide.cli.words import as_json, bytes_of
from lowtide.errors import UsageError
from lowtide.system.messages import UNDECODABLE
from lowtide.system.quantities import seconds_of, size
from lowtide.values.extended import NotExtended, loads


def compact(
    archive: ArchivePath,
    collection: Collections = None,
    force: Annotated[bool, typer.Option("--force", help="Rewrite all files, including the history.")] = False,
    master: Master = None,
    json: Json = False,
) -> None:
    """Merge the small files of an archive and sort them by key, so that reads are faster."""
    output, pipeline = Output(json), pipeline_module()
    with spark_session(master) as spark, busy("compacting") as tell:
        done = pipeline.compact(spark, archive, collection or None, force=force, progress=tell)
    rows = [
        (name, each.rows, each.files_before, each.files_after, size(each.bytes)) for name, each in done.tables.items()
    ]
    if json:
        output.document(done.to_dict())
    else:
        columns = ("table", "rows written", "files before", "after", "bytes written")
        output.table(columns, rows, none="nothing to compact")


def vacuum(
    archive: ArchivePath,
    keep: Annotated[
        str,
        typer.Option(
            "--keep", metavar="POLICY", help="What to keep: '7d, hourly 30d, daily 1y, monthly'.", show_default=False
        ),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report what would be removed.")] = False,
    store: Annotated[
        Path | None,
        typer.Option("--store", metavar="STORE", help="Also keep what its pins hold.", show_default=False),
    ] = None,
    grace: Annotated[
        str, typer.Option("--grace", metavar="DURATION", help="How long old files are kept for readers.")
    ] = "7d",
    master: Master = None,
    json: Json = False,
) -> None:
    """Remove the versions that no kept instant sees. Current documents and tagged commits always stay."""
    output, pipeline = Output(json), pipeline_module()
    policy = pipeline.Keep.of(keep)
    patience = timedelta(seconds=seconds_of(grace))
    path = None if store is None else find_store(store)
    with spark_session(master) as spark, busy(f"vacuuming {archive}") as tell:
        done = pipeline.vacuum(spark, archive, policy, dry_run, store_path=path, grace=patience, progress=tell)
    verb = "would go" if dry_run else "are gone"
    output.answer(
        done.to_dict(),
        f"{done.dropped} versions {verb}, about {size(done.bytes)}; {done.kept} stay. All commits from {done.floor} on "
        f"can be read, and {sum(each < done.floor for each in done.instants)} earlier ones",
    )


def erase(
    archive: ArchivePath,
    collection: CollectionName,
    id: Annotated[str, typer.Argument(metavar="ID", help="Its _id, as JSON or text.", show_default=False)],
    keyspace: IsKeyspace = False,
    even_if_current: Annotated[
        bool, typer.Option("--even-if-current", help="Erase it even if the store still has the document.")
    ] = False,
    remove_unpublished: Annotated[
        bool, typer.Option("--remove-unpublished", help="Remove files left by killed runs; no run may be active.")
    ] = False,
    proof: Annotated[
        Path | None,
        typer.Option("--proof", metavar="FILE", help="Write the proof here, as JSON.", show_default=False),
    ] = None,
    master: Master = None,
    json: Json = False,
) -> None:
    """Remove one document, or one key of a keyspace, from the whole history and from disk, with a proof.

    First delete it in the store and archive the deletion. Exit code 3 if some of it was found afterwards.
    """
    output, pipeline = Output(json), pipeline_module()
    if proof is not None and proof.exists():
        raise UsageError(f"{proof} exists already; give another file for the proof")
    with spark_session(master) as spark, busy(f"erasing from {collection}") as tell:
        done = pipeline.erase(
            spark,
            archive,
            None if keyspace else collection,
            bytes_of(id) if keyspace else _id_of(id),
            keyspace=collection if keyspace else None,
            even_if_current=even_if_current,
            remove_unpublished=remove_unpublished,
            progress=tell,
        )
    if proof is not None:
        proof.write_text(as_json(done.to_dict(), indent=2) + "\n")
    found = "nothing of it is left" if done.verified else "some of it is left: erase it again"
    others = "".join(f"; {each} has a document with this _id, too" for each in done.elsewhere)
    output.answer(done.to_dict(), f"{done.versions} versions erased; {found}{others}")
    if not done.verified:
        raise typer.Exit(ATTENTION)


def _id_of(text: str) -> Any:
    try:
        return loads(text)
    except (NotExtended, *UNDECODABLE):
        return text


def tag(
    archive: ArchivePath,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The tag; by default, list all tags.", show_default=False)
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="INSTANT", help="A commit or a time; by default the last one.", show_default=False
        ),
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the tag.")] = False,
    json: Json = False,
) -> None:
    """Name a commit of an archive, so that no vacuum removes its state; or list the tags."""
    output, pipeline = Output(json), pipeline_module()
    if name is None:
        if at is not None or remove:
            raise UsageError("give the name of the tag")
        known = pipeline.tags(archive)
        if json:
            output.document(known)
        else:
            output.table(("tag", "commit"), list(known.items()), none="no tags")
    elif remove:
        pipeline.untag(archive, name)
        output.answer({"removed": name}, f"removed the tag {name}")
    else:
        commit = pipeline.tag(archive, name, at)
        output.answer({"tag": name, "commit": commit}, f"{name} is commit {commit}")
