"""``lowtide inspect key``, ``segment`` and ``base``: the contents of a store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lowtide.cli.arguments import Json, StorePath
from lowtide.cli.output import Output
from lowtide.cli.reach import ask, find_store, writing
from lowtide.cli.words import bytes_of, plain, shown
from lowtide.errors import UsageError
from lowtide.sharing.operations import reported
from lowtide.upkeep.inspect import inspect_base_files, inspect_segment


def key(
    path: StorePath,
    keyspace: Annotated[str, typer.Argument(metavar="KEYSPACE", help="The keyspace.", show_default=False)],
    key: Annotated[
        str,
        typer.Argument(metavar="KEY", help="The key: text, hex:DIGITS or base64:TEXT.", show_default=False),
    ],
    json: Json = False,
) -> None:
    """Show the kept versions of a key, where they are, and which snapshots see them."""
    store, output = find_store(path), Output(json)
    wanted = bytes_of(key)

    def here() -> dict[str, Any]:
        with writing(store) as opened:
            return reported(opened.inspect_key(keyspace, wanted))

    found = ask(store, "inspect_key", here, keyspace=keyspace, key=wanted)
    if json:
        output.document({"path": store, "owner": found.owner, **found.value["data"], "key": plain(wanted)})
        return
    _, _, versions = found.value["text"].partition("\n")
    count = len(found.value["data"]["versions"])
    output.say(f"key {shown(wanted)} of keyspace {keyspace}: {count} version{'' if count == 1 else 's'}")
    if versions:
        output.say(versions)


def segment(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A file in the log directory of a store.", show_default=False)
    ],
    json: Json = False,
) -> None:
    """Show a segment of the log: its header, its commits, where they end and why."""
    output = Output(json)
    if not file.is_file():
        raise UsageError(f"{file} is not a file; the segments of a store are PATH/log/*.log")
    _print(output, reported(inspect_segment(file)))


def base(path: StorePath, json: Json = False) -> None:
    """Show the tables of the base, its file, its free pages and its readers."""
    store, output = find_store(path, backups=True), Output(json)
    _print(output, ask(store, "inspect_base", lambda: reported(inspect_base_files(store))).value)


def _print(output: Output, report: dict[str, Any]) -> None:
    output.answer(report["data"], report["text"])
