"""``lowtide changes`` and ``consumers``: the change feed and its named consumers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import islice
from typing import Annotated, Any

import typer

import lowtide
from lowtide.cli.arguments import Json, StorePath
from lowtide.cli.collections import check_exists
from lowtide.cli.collections import in_words as document_text
from lowtide.cli.failures import FAILED, fail
from lowtide.cli.output import Output
from lowtide.cli.reach import find_store, reading
from lowtide.cli.words import clean, moment, shortened, shown
from lowtide.documents.catalog import DOCUMENTS
from lowtide.documents.watch import decoded
from lowtide.errors import ChangesLost, UsageError
from lowtide.values.extended import to_extended


def changes(
    path: StorePath,
    since: Annotated[
        int | None,
        typer.Option(
            "--since",
            metavar="COMMIT",
            help="Begin after this commit. By default with the first one kept; with --follow, with the next one.",
            show_default=False,
        ),
    ] = None,
    until: Annotated[
        int | None,
        typer.Option(
            "--until", metavar="COMMIT", help="End with this commit; by default the last.", show_default=False
        ),
    ] = None,
    collection: Annotated[
        list[str] | None,
        typer.Option("--collection", "-c", metavar="NAME", help="Only this collection; may be repeated."),
    ] = None,
    keyspace: Annotated[
        list[str] | None,
        typer.Option(
            "--keyspace", "-k", metavar="NAME", help="Only this keyspace, as keys and values; may be repeated."
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", metavar="NUMBER", min=1, help="End after this many changes.", show_default=False),
    ] = None,
    before: Annotated[
        bool, typer.Option("--before", help="Show replaced values too, if the store was opened with before_images.")
    ] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for further commits.")] = False,
    json: Json = False,
) -> None:
    """Show what commits did to each document and each key, in commit order. With --json, one change per line."""
    store, output = find_store(path), Output(json)
    if follow and until is not None:
        raise UsageError("--follow has no end; leave out --until")
    if collection and keyspace:
        raise UsageError("give --collection or --keyspace, not both")
    with reading(store) as opened:
        known = {} if keyspace else documents_in(opened)
        only = keyspace
        if collection:
            for each in collection:
                check_exists(each, known.values())
            only = [name for name, of in known.items() if of in collection]
        found = _follow(opened, since, only, before) if follow else _kept(opened, since, until, only, before)
        for change in islice(found, limit):
            if not keyspace and change.keyspace not in known and change.keyspace.startswith(DOCUMENTS):
                known |= {change.keyspace: change.keyspace.removeprefix(DOCUMENTS), **documents_in(opened)}
            name = known.get(change.keyspace)
            if json:
                output.line(as_plain(change, before) if name is None else of_document(name, change, before))
            else:
                text = in_words(change, before) if name is None else document_in_words(name, change, before)
                output.say(shortened(text, output.width) if output.is_terminal else text, flush=follow)


def documents_in(opened: lowtide.Store) -> dict[str, str]:
    """The collections by the keyspace of their documents."""
    with opened.snapshot() as snapshot:
        found = {name: snapshot.collection(name).keyspaces() for name in snapshot.list_collection_names()}
    return {next(each for each in keyspaces if each.startswith(DOCUMENTS)): name for name, keyspaces in found.items()}


def _kept(
    opened: lowtide.Store, since: int | None, until: int | None, keyspaces: list[str] | None, before: bool
) -> Iterator[lowtide.Change]:
    if since is not None:
        return opened.changes(since, until, keyspaces or None, before=before)
    try:
        return opened.changes(0, until, keyspaces or None, before=before)
    except ChangesLost as error:  # raised before the first change
        if until is not None and until < error.kept - 1:
            raise
        return opened.changes(error.kept - 1, until, keyspaces or None, before=before)


def _follow(
    opened: lowtide.Store, since: int | None, keyspaces: list[str] | None, before: bool
) -> Iterable[lowtide.Change]:
    return opened.watch(since, keyspaces or None, before=before)


def as_plain(change: lowtide.Change, before: bool) -> dict[str, Any]:
    found = asdict(change)
    if not before:
        del found["before"]
    if not change.replaced:
        del found["replaced"]
    return found


def of_document(collection: str, change: lowtide.Change, before: bool) -> dict[str, Any]:
    """A change of a document, as Extended JSON."""
    found = decoded(change, collection)
    plain: dict[str, Any] = {"ts": found.ts, "time": found.time, "collection": collection, "kind": found.kind}
    plain |= {"_id": to_extended(found.id), "document": to_extended(found.document)}
    return plain | {"before": to_extended(found.before)} if before else plain


def document_in_words(collection: str, change: lowtide.Change, before: bool) -> str:
    """A change of a document on one line."""
    found = decoded(change, collection)
    shown_of = found.document if found.document is not None else {"_id": found.id}
    words = [f"{found.ts}  {moment(found.time)}  {found.kind}  {clean(collection)}  {document_text(shown_of, None)}"]
    if before and found.before is not None:
        words.append(f"(was {document_text(found.before, None)})")
    return "  ".join(words)


def in_words(change: lowtide.Change, before: bool) -> str:
    """A change on one line."""
    words = [f"{change.ts}  {moment(change.time)}  {change.kind}  {change.keyspace}  {shown(change.key)}"]
    if change.value is not None:
        words.append(shown(change.value))
    if before and change.before is not None:
        words.append(f"(was {shown(change.before)})")
    return "  ".join(words)


def consumers(
    path: StorePath,
    remove: Annotated[
        str | None, typer.Option("--remove", metavar="NAME", help="Remove this consumer.", show_default=False)
    ] = None,
    reset: Annotated[
        str | None,
        typer.Option(
            "--reset",
            metavar="NAME",
            help="Move this consumer to --to, or to the last commit.",
            show_default=False,
        ),
    ] = None,
    to: Annotated[
        int | None, typer.Option("--to", metavar="COMMIT", help="The new position for --reset.", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """List the named consumers of the change feed: their positions, and whether they have lost changes."""
    store, output = find_store(path), Output(json)
    if remove is not None and reset is not None:
        raise UsageError("give --remove or --reset, not both")
    if to is not None and reset is None:
        raise UsageError("--to needs --reset")
    with reading(store) as opened:
        name = remove if remove is not None else reset
        if name is not None and name not in {each.name for each in opened.consumers()}:
            fail(f"there is no consumer {name!r} in {store}", FAILED)
        if remove is not None:
            opened.consumer(remove).remove()
        elif reset is not None:
            opened.consumer(reset).reset(to)
        last = opened.stats().last_commit
        found = [{**asdict(each), "behind": last - each.position} for each in opened.consumers()]
    if json:
        output.document({"path": store, "last_commit": last, "consumers": found})
        return
    output.table(
        ("name", "position", "behind", "acknowledged", "place"),
        [
            (
                each["name"],
                each["position"],
                each["behind"],
                moment(each["acknowledged"]),
                "LOST" if each["lost"] else "kept",
            )
            for each in found
        ],
        none="no consumers",
    )
