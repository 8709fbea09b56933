"""``lowtide verify``, ``checkpoint``, ``gc``, ``backup`` and ``compact``: run in the owner, or here if there is
none."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lowtide.cli.arguments import Json, StorePath
from lowtide.cli.failures import FAILED, fail
from lowtide.cli.output import Output, Tell, busy
from lowtide.cli.reach import CommandResult, ask, find_store, writing
from lowtide.errors import UsageError
from lowtide.quads.checking import examine_quads
from lowtide.sharing.operations import reported
from lowtide.upkeep.verify import verify_files


def verify(path: StorePath, json: Json = False) -> None:
    """Check every invariant of log, base, history and memory; exit code 1 if one does not hold.

    Without an owner it reads the files and changes nothing; that works on backups too.
    """
    store, output = find_store(path, backups=True), Output(json)
    with busy(f"verifying {store}"):
        found = ask(store, "verify", lambda: reported(verify_files(store, (examine_quads,))))
    data, ok = found.value["data"], bool(found.value["ok"])
    problems = sum(check["found"] for check in data["checks"])
    output.answer({**data, "owner": found.owner, "ok": ok, "found": problems}, found.value["text"])
    if not ok:
        raise typer.Exit(FAILED)


def checkpoint(path: StorePath, json: Json = False) -> None:
    """Write everything that is committed to the base."""
    store, output = find_store(path), Output(json)

    def here() -> int:
        with writing(store) as opened:
            opened.checkpoint()
            return opened.stats().boundary

    with busy(f"making a checkpoint of {store}"):
        found = ask(store, "checkpoint", here)
    output.answer(
        {"path": store, "owner": found.owner, "boundary": found.value},
        f"the base holds every commit up to {found.value}",
    )


def gc(path: StorePath, json: Json = False) -> None:
    """Drop the versions that no reader sees, and expired pins. The owner also does this by itself."""
    store, output = find_store(path), Output(json)

    def here() -> int:
        with writing(store) as opened:
            return opened.collect_garbage()

    with busy(f"collecting garbage in {store}"):
        found = ask(store, "collect", here)
    output.answer({"path": store, "owner": found.owner, "collected": found.value}, f"dropped {found.value} versions")


def backup(
    path: StorePath,
    dest: Annotated[
        Path,
        typer.Argument(metavar="DEST", help="The directory for the copy; an earlier backup there is updated."),
    ],
    json: Json = False,
) -> None:
    """Copy the store, even while it is in use, to a directory that can be opened as a store."""
    store, output = find_store(path), Output(json)
    target = dest.absolute()

    def here(tell: Tell) -> dict[str, Any]:
        with writing(store) as opened:
            return reported(opened.backup(target, progress=tell))

    with busy(f"backing up {store}") as tell:
        found = ask(store, "backup", lambda: here(tell), dest=str(target))
    _report(output, found)


def compact(path: StorePath, json: Json = False) -> None:
    """Return free pages and spare log files to the file system, even while the store is in use."""
    store, output = find_store(path), Output(json)

    def here() -> dict[str, Any]:
        with writing(store) as opened:
            return reported(opened.compact())

    try:
        with busy(f"compacting {store}"):
            found = ask(store, "compact", here)
    except UsageError as error:  # another process reads or changes it: the request itself is correct
        fail(error, FAILED)
    _report(output, found, path=str(store))


def _report(output: Output, found: CommandResult, **more: str) -> None:
    output.answer({**more, **found.value["data"], "owner": found.owner}, found.value["text"])
