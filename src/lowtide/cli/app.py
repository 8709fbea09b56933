"""The commands of ``lowtide``, put together."""

from __future__ import annotations

import io
import logging
import sys
from typing import Annotated

import typer

import lowtide
from lowtide.cli import audit, catalog, changes, edits, figures, inspect, pins, queries, shell, top, transfer, upkeep
from lowtide.cli.failures import guarded
from lowtide.cli.reach import PATIENCE, settings

app = typer.Typer(
    name="lowtide",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
inspecting = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

for command in (
    figures.stats,
    figures.snapshots,
    pins.pins,
    pins.pin,
    pins.unpin,
    changes.changes,
    changes.consumers,
    upkeep.verify,
    upkeep.checkpoint,
    upkeep.gc,
    upkeep.backup,
    upkeep.compact,
    figures.metrics,
    top.top,
    audit.audit,
    catalog.collections,
    queries.find,
    queries.count,
    queries.aggregate,
    queries.sql,
    edits.insert,
    edits.update,
    edits.delete,
    catalog.indexes,
    catalog.schema,
    transfer.import_,
    transfer.export,
    shell.shell,
):
    app.command(command.__name__.removesuffix("_"))(guarded(command))
app.add_typer(inspecting, name="inspect", help="Look inside: a key, a segment of the log, the base.")
inspecting.command()(guarded(inspect.key))
inspecting.command()(guarded(inspect.segment))
inspecting.command()(guarded(inspect.base))


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lowtide {lowtide.__version__}")
        raise typer.Exit


@app.callback()
def everything(
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout", metavar="SECONDS", min=0.01, help="How long to wait for a sign of life of the store's owner."
        ),
    ] = PATIENCE,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Look after a Lowtide store: a directory, open in another process or in none.

    Exit codes: 0 done, 1 failed, or verify or audit found problems, 2 wrong usage.
    """
    settings.patience = timeout


class _Words(logging.Formatter):
    """What the library logs, without traces."""

    def format(self, record: logging.LogRecord) -> str:
        return f"lowtide: {record.getMessage()}"


def run() -> None:
    """Run the command of this process."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    handler = logging.StreamHandler()
    handler.setFormatter(_Words())
    logging.getLogger("lowtide").addHandler(handler)
    app(prog_name="lowtide")
