"""``lowtide rdf``: the group of commands for RDF statements. They need the extra ``rdf``."""

from __future__ import annotations

from collections.abc import Callable

import typer

from lowtide.cli import rdf_files, rdf_queries
from lowtide.cli.failures import guarded

COMMANDS: tuple[Callable[..., None], ...] = (
    rdf_files.load,
    rdf_files.dump,
    rdf_queries.query,
    rdf_queries.update,
    rdf_queries.explain,
)

rdf = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

for command in COMMANDS:
    rdf.command(command.__name__)(guarded(command))
