"""What the commands of ``lowtide rdf`` share: options, the store, and reading with rdflib's errors explained."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lowtide.cli.reach import find_store, reading
from lowtide.documents.files.streams import STANDARD
from lowtide.errors import UsageError
from lowtide.system.extras import require

if TYPE_CHECKING:
    from rdflib.term import Identifier

    from lowtide.quads import ReadQuads

DEFAULT_QUADS = "default"

QuadsName = Annotated[
    str, typer.Option("--quads", "-q", metavar="NAME", help="The quad store; default is the one of rdflib's plugin.")
]
Timeout = Annotated[
    float | None,
    typer.Option("--timeout", metavar="SECONDS", min=0.001, help="Give up after this time.", show_default=False),
]
Union = Annotated[
    bool, typer.Option("--union", help="Make the default graph the union of all graphs, as in many RDF stores.")
]


def require_rdf() -> None:
    """Exit with an error if rdflib or numpy is missing."""
    require("rdflib", "rdf", "RDF")
    require("numpy", "rdf", "RDF")


@contextlib.contextmanager
def looking_at_quads(path: Path, name: str) -> Iterator[ReadQuads]:
    """An existing quad store in one snapshot, whether or not a process owns the store."""
    require_rdf()
    store = find_store(path)
    with reading(store) as opened, opened.snapshot() as snapshot:
        names = snapshot.list_quads()
        if name not in names:
            there = f"its quad stores are {', '.join(map(repr, names))}" if names else "it has none"
            raise UsageError(f"the store {store} has no quad store {name!r}; {there}")
        yield snapshot.quads(name)


def sparql_of(text: str) -> str:
    """The SPARQL that an argument means: itself, ``@FILE``, or ``-`` for standard input."""
    if text == STANDARD:
        return sys.stdin.read() if isinstance(sys.stdin, io.TextIOBase) else ""
    return Path(text[1:]).read_text() if text.startswith("@") else text


def graph_of(text: str | None) -> Identifier | None:
    """The name of a graph: an IRI, plain or in angle brackets, or ``_:label``; None without one."""
    if text is None:
        return None
    from rdflib.term import Literal, URIRef

    from lowtide.quads.text import term_of_text

    if not text.startswith(("<", "_:")):
        if not text or any(each in text for each in ' <>"{}|^`\\'):
            raise UsageError(f"{text!r} is not the IRI of a graph")
        return URIRef(text)
    term = term_of_text(text)
    assert not isinstance(term, Literal)
    return term
