"""Arguments and options that several commands have, with their help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

StorePath = Annotated[Path, typer.Argument(metavar="PATH", help="The directory of the store.", show_default=False)]

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]

PinName = Annotated[str, typer.Argument(metavar="NAME", help="The name of the pin.", show_default=False)]

CollectionName = Annotated[
    str, typer.Argument(metavar="COLLECTION", help="The name of the collection.", show_default=False)
]

FilterArgument = Annotated[
    str | None,
    typer.Argument(metavar="FILTER", help="Which documents, as Extended JSON; all without it.", show_default=False),
]

FilterOption = Annotated[
    str | None,
    typer.Option("--filter", "-q", metavar="JSON", help="Which documents, as Extended JSON.", show_default=False),
]

Fields = Annotated[
    str | None,
    typer.Option(
        "--fields",
        "-f",
        metavar="NAMES",
        help="Only these fields: name,address.city, or all but some: -_id,-notes, or a projection as JSON.",
        show_default=False,
    ),
]

Order = Annotated[
    str | None,
    typer.Option(
        "--sort",
        "-s",
        metavar="NAMES",
        help="In this order: city,-age or city,age:desc, or as JSON.",
        show_default=False,
    ),
]

FileFormat = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="jsonl, json, csv or parquet; by default what the name of the file says.",
        show_default=False,
    ),
]
