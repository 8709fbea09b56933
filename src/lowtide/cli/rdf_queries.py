"""``lowtide rdf query``, ``update`` and ``explain``: SPARQL on the command line."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from lowtide.cli.arguments import Json, StorePath
from lowtide.cli.output import Output, busy
from lowtide.cli.rdf_arguments import (
    DEFAULT_QUADS,
    QuadsName,
    Timeout,
    Union,
    looking_at_quads,
    require_rdf,
    sparql_of,
)
from lowtide.cli.reach import find_store, writing
from lowtide.cli.words import clean
from lowtide.errors import Error, UsageError

if TYPE_CHECKING:
    from rdflib.term import Identifier

    from lowtide.quads import ReadQuads

TABLE: Final = "table"
_SOLUTIONS: Final = (TABLE, "json", "csv", "tsv", "xml")
_GRAPHS: Final = ("turtle", "nt", "xml", "json-ld", "n3", "trig", "nquads")

Sparql = Annotated[
    str,
    typer.Argument(metavar="SPARQL", help="In SPARQL 1.1, or @FILE, or - for standard input.", show_default=False),
]


def query(
    path: StorePath,
    sparql: Sparql,
    quads: QuadsName = DEFAULT_QUADS,
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="table, json, csv, tsv or xml; for CONSTRUCT and DESCRIBE turtle, nt, xml, json-ld or another format "
            "of rdflib.",
            show_default=False,
        ),
    ] = None,
    union: Union = False,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    """Ask in SPARQL, of one snapshot: solutions as a table, yes or no, or statements as Turtle."""
    from_text = sparql_of(sparql)
    if json and format is not None:
        raise UsageError("--json is a format; give --format alone")
    with looking_at_quads(path, quads) as found, found.reader() as reader:
        from lowtide.quads.sparql import query as evaluate
        from lowtide.quads.sparql.parsing import parsed_query

        prefixes = _prefixes(found)
        with _understood():
            parsed_query(from_text, prefixes, None)
        with busy("evaluating"):
            result = evaluate(reader, from_text, init_ns=prefixes, default_union=union, timeout=timeout)
            if result.type == "SELECT":
                rows = list(result)
        if result.type == "SELECT":
            _print_solutions(result, rows, "json" if json else format or TABLE)
        elif result.type == "ASK":
            _print_answer(result, "json" if json else format or TABLE)
        else:
            _print_graph(result, "json-ld" if json else format or "turtle")


def _print_solutions(result: Any, rows: list[Any], format: str) -> None:
    names = [str(each) for each in result.vars or ()]
    if format == TABLE:
        cells = [[_cell(term) for term in row] for row in rows]
        Output(False).table(names, cells, none="no solutions")
    elif format == "tsv":
        _print_tsv(names, rows)
    else:
        _print_serialized(result, _checked(format, _SOLUTIONS))


def _cell(term: Identifier | None) -> str:
    """A term for a person: of a literal its text, of others what N-Triples has."""
    from rdflib.term import Literal

    from lowtide.quads.text import term_text

    if term is None:
        return ""
    return str(term) if isinstance(term, Literal) else term_text(term)


def _print_tsv(names: Iterable[str], rows: Iterable[Any]) -> None:
    """The format "SPARQL 1.1 Query Results TSV", which rdflib does not write."""
    from lowtide.quads.text import term_text

    print("\t".join(f"?{each}" for each in names))
    for row in rows:
        print("\t".join("" if term is None else term_text(term) for term in row))


def _print_answer(result: Any, format: str) -> None:
    if format == TABLE:
        print("yes" if result.askAnswer else "no")
    else:
        _print_serialized(result, _checked(format, (TABLE, "json", "xml")))


def _print_graph(result: Any, format: str) -> None:
    _print_serialized(result, _checked(format, _GRAPHS, "of statements"))


def _checked(format: str, formats: tuple[str, ...], of: str = "of this result") -> str:
    if format not in formats:
        raise UsageError(f"the format {of} is {', '.join(formats)}, not {format!r}")
    return format


def _print_serialized(result: Any, format: str) -> None:
    encoded = result.serialize(format=format, encoding="utf-8")
    sys.stdout.flush()
    sys.stdout.buffer.write(encoded)
    if not encoded.endswith(b"\n"):
        sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()


def update(
    path: StorePath,
    sparql: Sparql,
    quads: QuadsName = DEFAULT_QUADS,
    union: Union = False,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    """Run a SPARQL update, of one operation or of several, in one transaction."""
    require_rdf()
    from_text, output, store = sparql_of(sparql), Output(json), find_store(path)
    with writing(store) as opened, busy("updating"):
        from lowtide.quads.sparql import update as evaluate
        from lowtide.quads.sparql.parsing import parsed_update

        target = opened.quads(quads)
        prefixes = _prefixes(target)
        with _understood():
            parsed_update(from_text, prefixes, None)
        report = evaluate(target, from_text, init_ns=prefixes, default_union=union, timeout=timeout)
    output.answer(
        {"path": store, "quads": quads, "inserted": report.inserted, "deleted": report.deleted},
        f"{report.inserted:,} inserted, {report.deleted:,} deleted",
    )


def explain(
    path: StorePath,
    sparql: Sparql,
    quads: QuadsName = DEFAULT_QUADS,
    union: Union = False,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    """Evaluate a query, and tell how: the order of the joins, how much each was expected to find, and did find."""
    from_text, output = sparql_of(sparql), Output(json)
    with looking_at_quads(path, quads) as found, found.reader() as reader, busy("evaluating"):
        from lowtide.quads.sparql import explain as evaluate
        from lowtide.quads.sparql.parsing import parsed_query

        prefixes = _prefixes(found)
        with _understood():
            parsed_query(from_text, prefixes, None)
        plan = evaluate(reader, from_text, init_ns=prefixes, default_union=union, timeout=timeout)
    if output.json:
        output.document([_node(each) for each in plan.root.children])
    else:
        for line in str(plan).split("\n"):
            print(clean(line))


def _node(node: Any) -> dict[str, Any]:
    """A step of a plan, for JSON."""
    return {
        "name": node.name,
        "how": node.how or None,
        "estimated": node.estimated,
        "rows": node.rows,
        "calls": node.calls,
        "steps": [_node(each) for each in node.children],
    }


def _prefixes(quads: ReadQuads) -> dict[str, Any]:
    """The prefixes that are kept with the statements."""
    return dict(quads.prefixes.items())


@contextmanager
def _understood() -> Iterator[None]:
    """An error of the syntax is one of the request. rdflib's parser has errors of several kinds, and no class of its
    own for a prefix that is not known."""
    try:
        yield
    except Error:
        raise
    except Exception as error:
        line, column = getattr(error, "line", None), getattr(error, "column", None)
        if line is None or column is None:
            raise UsageError(f"the SPARQL cannot be parsed: {error}") from error
        words = getattr(error, "msg", error)
        where = f"line {getattr(error, 'lineno', 1)}, column {column}"
        raise UsageError(f"the SPARQL cannot be parsed: {where}: {words}\n{line}\n{'^':>{column}}") from error
