"""Arguments and options that several commands have, with their help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

StorePath = Annotated[Path, typer.Argument(metavar="PATH", help="The directory of the store.", show_default=False)]

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]

PinName = Annotated[str, typer.Argument(metavar="NAME", help="The name of the pin.", show_default=False)]
