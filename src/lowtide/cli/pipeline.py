"""``lowtide pipeline``: the commands that run jobs of the pipeline.

Each imports the pipeline when it is called, since the command line works without its extra.
"""

from __future__ import annotations

from collections.abc import Callable

import typer

from lowtide.cli import pipeline_load, pipeline_restore, pipeline_runs, pipeline_travel, pipeline_upkeep
from lowtide.cli.failures import guarded

COMMANDS: tuple[Callable[..., None], ...] = (
    pipeline_runs.archive,
    pipeline_runs.run,
    pipeline_runs.status,
    pipeline_travel.as_of,
    pipeline_travel.history,
    pipeline_travel.diff,
    pipeline_runs.audit,
    pipeline_upkeep.compact,
    pipeline_upkeep.vacuum,
    pipeline_upkeep.erase,
    pipeline_upkeep.tag,
    pipeline_restore.restore,
    pipeline_restore.put_back,
    pipeline_restore.recover,
    pipeline_load.load,
    pipeline_load.replicate,
)

pipeline = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

for command in COMMANDS:
    pipeline.command(command.__name__.removesuffix("_").replace("_", "-"))(guarded(command))
