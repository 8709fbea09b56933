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
    typer.Argument(metavar="FILTER", help="Which documents, as Extended JSON; by default all.", show_default=False),
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
        help="jsonl, json, csv or parquet; by default from the name of the file.",
        show_default=False,
    ),
]

ArchivePath = Annotated[
    str, typer.Argument(metavar="ARCHIVE", help="The directory or URI of the archive.", show_default=False)
]

StoreDirectory = Annotated[
    Path, typer.Argument(metavar="STORE", help="The directory of the store.", show_default=False)
]

Collections = Annotated[
    list[str] | None,
    typer.Option("--collection", metavar="NAME", help="Only this one; repeatable.", show_default=False),
]

INSTANT = "A commit, or a time such as 2026-05-01T12:00:00Z"
"""How to write an instant of an archive, for the help of options."""
IsKeyspace = Annotated[bool, typer.Option("--keyspace", help="COLLECTION is the name of a keyspace.")]
