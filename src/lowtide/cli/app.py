"""The commands of ``lowtide``, put together."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Callable, Collection, Iterator
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import lowtide
from lowtide.cli import audit, catalog, changes, edits, figures, inspect, pins, queries, shell, top, transfer, upkeep
from lowtide.cli.failures import guarded
from lowtide.cli.pipeline import pipeline
from lowtide.cli.rdf import rdf
from lowtide.cli.reach import PATIENCE, settings
from lowtide.system.build import BUILD

COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    "Documents": (
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
    ),
    "Changes and pins": (changes.changes, changes.consumers, pins.pins, pins.pin, pins.unpin),
    "Figures": (figures.stats, figures.snapshots, figures.metrics, top.top),
    "Upkeep": (upkeep.verify, upkeep.backup, upkeep.checkpoint, upkeep.gc, upkeep.compact, audit.audit),
}
"""The commands by section, most used first; ``inspect`` comes last."""


class _Sections(TyperGroup):
    """Lists the commands in sections, each with its full summary, on several lines if needed."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, self.commands))
        for title, names in _sections(self.commands):
            with formatter.section(title):
                rows = [(name.ljust(width), _summary(self.commands[name].help)) for name in names]
                formatter.write_dl(rows)


def _sections(known: Collection[str]) -> Iterator[tuple[str, list[str]]]:
    """The names of the commands by section. Commands without a section go to the last one."""
    left = dict.fromkeys(known)
    for title, commands in COMMANDS.items():
        names = [name for name in map(_name, commands) if name in left]
        for name in names:
            del left[name]
        yield title, [*names, *left] if title == [*COMMANDS][-1] else names


def _name(command: Callable[..., None]) -> str:
    return command.__name__.removesuffix("_")


def _summary(help: str | None) -> str:
    """The first paragraph of a command's help."""
    return " ".join((help or "").split("\n\n")[0].split())


app = typer.Typer(
    name="lowtide",
    cls=_Sections,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
inspecting = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

for commands in COMMANDS.values():
    for command in commands:
        app.command(_name(command))(guarded(command))
app.add_typer(inspecting, name="inspect", help="Inspect a key, a segment of the log, or the base.")
app.add_typer(rdf, name="rdf", help="RDF statements: load and dump files, query and update in SPARQL.")
app.add_typer(
    pipeline,
    name="pipeline",
    help="A store's whole history on Spark: archive, time travel, vacuum, restore, audit; loads and replicas.",
)
inspecting.command()(guarded(inspect.key))
inspecting.command()(guarded(inspect.segment))
inspecting.command()(guarded(inspect.base))


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lowtide {lowtide.__version__} ({BUILD})")
        raise typer.Exit


@app.callback()
def everything(
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout", metavar="SECONDS", min=0.01, help="How long to wait for an answer from the store's owner."
        ),
    ] = PATIENCE,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Inspect, query and maintain a Lowtide store, which another process may have open.

    Exit codes: 0 done, 1 failed, or verify or audit found problems, 2 wrong usage; docs/cli.md has all of them.
    """
    settings.patience = timeout


class _Words(logging.Formatter):
    """Formats the library's log messages, without tracebacks."""

    def format(self, record: logging.LogRecord) -> str:
        return f"lowtide: {record.getMessage()}"


def run() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    handler = logging.StreamHandler()
    handler.setFormatter(_Words())
    logging.getLogger("lowtide").addHandler(handler)
    app(prog_name="lowtide")
