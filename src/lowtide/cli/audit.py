"""``lowtide audit``: check whether an isolation level allows a recorded history."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lowtide.audit import History
from lowtide.audit import audit as audited
from lowtide.audit.levels import level_of
from lowtide.cli.arguments import Json
from lowtide.cli.failures import FAILED
from lowtide.cli.output import Output, busy
from lowtide.system.cycles import without_collector


def audit(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="The history, as JSON Lines; several files are combined.",
            show_default=False,
            exists=True,
            dir_okay=False,
            readable=True,
        ),
    ],
    level: Annotated[
        str, typer.Option("--level", metavar="LEVEL", help="The isolation level that is promised.")
    ] = "SERIALIZABLE",
    json: Json = False,
) -> None:
    """Search a recorded history for isolation anomalies; exit code 1 if it has one that the level forbids.

    It needs no store. docs/audit.md describes the format of a history.
    """
    promised, output = level_of(level), Output(json)
    with busy(f"reading {', '.join(map(str, files))}") as tell, without_collector():
        history = History.load(*files)
        tell(f"{len(history.transactions)} transactions")
        report = audited(history, promised)
    output.answer(report.as_data(), str(report))
    if not report.ok:
        raise typer.Exit(FAILED)
