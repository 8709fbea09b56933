"""``lowtide changes`` and ``consumers``: the change feed, and the named places in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import islice
from typing import Annotated, Any

import typer

import lowtide
from lowtide.cli.arguments import Json, StorePath
from lowtide.cli.failures import FAILED, fail
from lowtide.cli.output import Output
from lowtide.cli.reach import find_store, reading
from lowtide.cli.words import moment, shortened, shown
from lowtide.errors import ChangesLost, UsageError


def changes(
    path: StorePath,
    since: Annotated[
        int | None,
        typer.Option(
            "--since",
            metavar="COMMIT",
            help="Begin after this commit. By default with the first that is kept, or, with --follow, with the next.",
            show_default=False,
        ),
    ] = None,
    until: Annotated[
        int | None,
        typer.Option("--until", metavar="COMMIT", help="End with this commit, not with the last.", show_default=False),
    ] = None,
    keyspace: Annotated[
        list[str] | None,
        typer.Option("--keyspace", "-k", metavar="NAME", help="Only of this keyspace; may be repeated."),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", metavar="NUMBER", min=1, help="End after so many changes.", show_default=False),
    ] = None,
    before: Annotated[
        bool, typer.Option("--before", help="Show replaced values too, if the store was opened with before_images.")
    ] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is committed later.")] = False,
    json: Json = False,
) -> None:
    """What commits did to each key, in commit order. With --json one document to a line."""
    store, output = find_store(path), Output(json)
    if follow and until is not None:
        raise UsageError("--follow has no end; leave out --until")
    with reading(store) as opened:
        found = _follow(opened, since, keyspace, before) if follow else _kept(opened, since, until, keyspace, before)
        for each in islice(found, limit):
            if json:
                output.line(as_plain(each, before))
            else:
                line = in_words(each, before)
                output.say(shortened(line, output.width) if output.is_terminal else line, flush=follow)


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
        str | None, typer.Option("--remove", metavar="NAME", help="Forget this consumer.", show_default=False)
    ] = None,
    reset: Annotated[
        str | None,
        typer.Option(
            "--reset",
            metavar="NAME",
            help="Give this consumer a new place: --to, or the last commit.",
            show_default=False,
        ),
    ] = None,
    to: Annotated[
        int | None, typer.Option("--to", metavar="COMMIT", help="The new place of --reset.", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """The named consumers of the change feed: how far each has come, and whether it lost its place."""
    store, output = find_store(path), Output(json)
    if remove is not None and reset is not None:
        raise UsageError("give --remove or --reset, not both")
    if to is not None and reset is None:
        raise UsageError("--to belongs to --reset")
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
