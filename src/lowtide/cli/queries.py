"""``lowtide find``, ``count``, ``aggregate`` and ``sql``: queries over one snapshot of the store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from lowtide.cli.arguments import CollectionName, Fields, FilterArgument, FilterOption, Json, Order, StorePath
from lowtide.cli.collections import line, looking_at, print_documents
from lowtide.cli.expressions import fields_of, filter_of, objects_of, order_of
from lowtide.cli.output import Output
from lowtide.cli.reach import find_store, reading
from lowtide.documents.files.cells import cell_of
from lowtide.values.extended import to_extended
from lowtide.values.values import RANKS


def find(
    path: StorePath,
    collection: CollectionName,
    filter: FilterArgument = None,
    filter_option: FilterOption = None,
    fields: Fields = None,
    sort: Order = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="NUMBER", min=0, help="The most documents to print; 0 for all.")
    ] = 0,
    skip: Annotated[int, typer.Option("--skip", metavar="NUMBER", min=0, help="Skip this many documents first.")] = 0,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the plan and what it reads, instead of the documents.")
    ] = False,
    json: Json = False,
) -> None:
    """Print the documents that a filter matches, as Extended JSON, one per line."""
    output = Output(json)
    wanted, projection, order = filter_of(filter, filter_option), fields_of(fields), order_of(sort)
    with looking_at(path, collection) as found:
        cursor = found.find(wanted, projection, skip=skip, limit=limit, sort=order)
        if explain:
            tell_plan(output, cursor.explain())
        else:
            print_documents(output, cursor)


def tell_plan(output: Output, plan: dict[str, Any]) -> None:
    """Print a query plan."""
    if output.json:
        output.document(to_extended(plan))
    else:
        rows = [row for part in plan.values() for row in flattened(part)]
        output.table(("figure", "value"), rows, none="nothing to explain")


def flattened(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Each value inside objects, with its path."""
    if isinstance(value, dict) and value:
        for name, each in value.items():
            yield from flattened(each, f"{path}.{name}" if path else name)
    else:
        yield path, value if type(value) is str else line(value)


def count(
    path: StorePath,
    collection: CollectionName,
    filter: FilterArgument = None,
    filter_option: FilterOption = None,
    json: Json = False,
) -> None:
    """Count the documents that a filter matches."""
    output, wanted = Output(json), filter_of(filter, filter_option)
    with looking_at(path, collection) as found:
        number = found.count_documents(wanted)
    output.answer({"path": find_store(path), "collection": collection, "count": number}, str(number))


def aggregate(
    path: StorePath,
    collection: CollectionName,
    pipeline: Annotated[
        str, typer.Argument(metavar="PIPELINE", help="An array of stages, as Extended JSON.", show_default=False)
    ],
    json: Json = False,
) -> None:
    """Run an aggregation pipeline over a collection, and print its results, one per line."""
    output, stages = Output(json), objects_of(pipeline, "pipeline")
    with looking_at(path, collection) as found:
        print_documents(output, found.aggregate(stages))


def sql(
    path: StorePath,
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="The SQL query; each collection is a table.", show_default=False)
    ],
    json: Json = False,
) -> None:
    """Run a SQL query over one snapshot, in DuckDB. With --json, one row per line."""
    output = Output(json)
    with reading(find_store(path)) as opened:
        result = opened.sql(query)
    if json:
        for row in result:
            print(line({name: plain(value) for name, value in zip(result.columns, row, strict=True)}))
    else:
        output.table(result.columns, [[_cell(plain(value)) for value in row] for row in result], none="no rows")


def plain(value: Any) -> Any:
    """Convert a SQL value to one that a document may have; other types, such as intervals, become text."""
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if type(value) in (list, tuple):
        return [plain(each) for each in value]
    return value if type(value) in RANKS and value == value else None if value != value else str(value)


def _cell(value: Any) -> object:
    return value if type(value) in (int, float) else cell_of(value)
