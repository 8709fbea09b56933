"""Parses RDF files into batches of statements: by pyoxigraph if it is installed, otherwise by rdflib.

``parse`` reads a file once and passes its statements on in lists, in memory that does not grow with the file.
pyoxigraph reads N-Triples, N-Quads, Turtle, TriG and RDF/XML, about ten times as fast as rdflib; rdflib reads every
other format that it knows. Blank nodes get new names, as in ``Graph.parse``: two files never share one. Literals are
those of rdflib, which brings numbers and dates into a canonical form ("01" becomes "1"). A plain literal has no
datatype, even if the file spells out ``xsd:string``: in RDF 1.1 that is the same literal.
"""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import IO, Any, Final, NamedTuple, TypeAlias

import rdflib.plugin
import rdflib.store
from rdflib.graph import DATASET_DEFAULT_GRAPH_ID, Dataset, Graph, QuotedGraph
from rdflib.term import BNode, Identifier, Literal, URIRef
from rdflib.util import SUFFIX_FORMAT_MAP, guess_format

from lowtide.errors import UsageError

Statement: TypeAlias = tuple[Identifier, Identifier, Identifier, Identifier | None]
"""Subject, predicate, object, and the graph: None for the default graph."""

Receive: TypeAlias = Callable[[list[Statement]], object]
Source: TypeAlias = str | os.PathLike[str] | IO[bytes]

BATCH: Final = 50_000
"""Statements in a batch, unless the caller says otherwise."""

STRING: Final = "http://www.w3.org/2001/XMLSchema#string"
_BY_OXIGRAPH: Final = {"nt": "N_TRIPLES", "nquads": "N_QUADS", "turtle": "TURTLE", "trig": "TRIG", "xml": "RDF_XML"}
_ALIASES: Final = {
    "nt11": "nt",
    "ntriples": "nt",
    "n-triples": "nt",
    "application/n-triples": "nt",
    "nq": "nquads",
    "n-quads": "nquads",
    "application/n-quads": "nquads",
    "ttl": "turtle",
    "text/turtle": "turtle",
    "application/trig": "trig",
    "rdf": "xml",
    "rdf/xml": "xml",
    "rdfxml": "xml",
    "application/rdf+xml": "xml",
    "jsonld": "json-ld",
}


def format_of(source: Source, format: str | None) -> str:
    """The name of a format, as rdflib has it: the given one, or by the ending of the file, without a ``.gz``.

    >>> format_of("people.ttl.gz", None)
    'turtle'
    """
    if format is None:
        name = source if isinstance(source, str | os.PathLike) else getattr(source, "name", "")
        found = guess_format(str(name).removesuffix(".gz"), {**SUFFIX_FORMAT_MAP, "hext": "hext"})
        if found is None:
            raise UsageError(f"the format of {str(name) or 'a stream'} is not known by its name; give it as format=")
        format = found
    lowered = format.lower()
    return _ALIASES.get(lowered, lowered)


def parse(
    source: Source,
    receive: Receive,
    *,
    format: str | None = None,
    base: str | None = None,
    graph: Identifier | None = None,
    batch: int = BATCH,
) -> int:
    """Read a file, and call ``receive`` with lists of up to ``batch`` of its statements. Returns their number.

    ``source`` is a path, possibly of a gzip file, or a binary stream. ``base`` resolves relative IRIs; for a path it
    defaults to the file's own. ``graph`` replaces the default graph. A syntax error is a SyntaxError or one of
    rdflib's; the caller has to undo what it received before.
    """
    collector = _Collector(receive, batch, graph)
    with opened(source, format, base) as (stream, chosen, resolved):
        parser = oxigraph_parser(chosen)
        if parser is None:
            _by_rdflib(stream, chosen, resolved, collector)
        else:
            _by_oxigraph(parser, stream, resolved, collector)
    collector.flush()
    return collector.total


@contextmanager
def opened(source: Source, format: str | None, base: str | None) -> Iterator[tuple[IO[bytes], str, str | None]]:
    """The bytes of a file, without compression, its format as rdflib names it, and its base; see ``parse``."""
    chosen = format_of(source, format)
    if not isinstance(source, str | os.PathLike):
        yield source, chosen, base
        return
    path = Path(source)
    with path.open("rb") as file:
        stream: Any = gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file
        yield stream, chosen, path.absolute().as_uri() if base is None else base


class OxigraphParser(NamedTuple):
    """A parser of pyoxigraph for one format."""

    module: Any
    format: str

    def quads(self, source: IO[bytes], base: str | None) -> Iterator[Any]:
        """The quads of a file, with pyoxigraph's terms."""
        chosen = getattr(self.module.RdfFormat, _BY_OXIGRAPH[self.format])
        found: Iterator[Any] = self.module.parse(source, format=chosen, base_iri=base, rename_blank_nodes=True)
        return found


def oxigraph_parser(format: str) -> OxigraphParser | None:
    """The parser of pyoxigraph for a format, if there is one, and it is installed."""
    module = _oxigraph() if format in _BY_OXIGRAPH else None
    return None if module is None else OxigraphParser(module, format)


def _oxigraph() -> ModuleType | None:
    """The package pyoxigraph, where it is installed."""
    try:
        return import_module("pyoxigraph")
    except ModuleNotFoundError:
        return None


class _Collector:
    """Gathers statements into batches."""

    def __init__(self, receive: Receive, batch: int, graph: Identifier | None) -> None:
        self.total = 0
        self.batch = batch
        self.graph = graph
        """What takes the place of the default graph."""
        self._receive = receive
        self._held: list[Statement] = []

    def add(self, statement: Statement) -> None:
        self._held.append(statement if statement[3] is not None else (*statement[:3], self.graph))
        if len(self._held) >= self.batch:
            self.flush()

    def take(self, statements: list[Statement]) -> None:
        """Hand on a whole batch."""
        self.total += len(statements)
        self._receive(statements)

    def flush(self) -> None:
        if self._held:
            held, self._held = self._held, []
            self.take(held)


def _by_oxigraph(parser: OxigraphParser, source: IO[bytes], base: str | None, collector: _Collector) -> None:
    term_of, graph, none = _Terms(parser.module), collector.graph, parser.module.DefaultGraph
    quads = parser.quads(source, base)
    while part := [
        (term_of[s], term_of[p], term_of[o], graph if type(g) is none else term_of[g])
        for s, p, o, g in islice(quads, collector.batch)
    ]:
        collector.take(part)


class _Terms(dict[Any, Identifier]):
    """rdflib's terms by pyoxigraph's. It is emptied when it is full: most terms come again soon, or never."""

    def __init__(self, oxigraph: Any) -> None:
        super().__init__()
        self._iri, self._blank, self._literal = oxigraph.NamedNode, oxigraph.BlankNode, oxigraph.Literal

    def __missing__(self, node: Any) -> Identifier:
        if len(self) >= BATCH:
            self.clear()
        found = self[node] = self._made(node)
        return found

    def _made(self, node: Any) -> Identifier:
        kind = type(node)
        if kind is self._iri:
            return str.__new__(URIRef, node.value)
        if kind is self._blank:
            return str.__new__(BNode, node.value)
        if kind is self._literal:
            if node.language is not None:
                return Literal(node.value, lang=node.language)
            datatype = node.datatype.value
            return Literal(node.value, datatype=None if datatype == STRING else URIRef(datatype))
        raise UsageError(f"statements about statements cannot be stored: {node}")


class _SinkStore(rdflib.store.Store):
    """A store of rdflib that keeps nothing but prefixes: what a parser adds goes to a collector."""

    context_aware = True
    formula_aware = True
    graph_aware = True

    def __init__(self, collector: _Collector) -> None:
        super().__init__()
        self._collector = collector

    def add(self, triple: Any, context: Any, quoted: bool = False) -> None:
        if quoted or any(isinstance(each, Graph) for each in triple) or isinstance(context, QuotedGraph):
            raise UsageError("formulas of N3 are not loaded this way; use graph.parse on a graph of the plugin")
        name = context.identifier
        self._collector.add((*triple, None if name == DATASET_DEFAULT_GRAPH_ID else name))

    def triples(self, triple_pattern: Any, context: Any = None) -> Iterator[Any]:
        return iter(())

    def remove(self, triple: Any, context: Any = None) -> None:
        """Nothing is kept, so nothing is removed: the parser of N-Quads clears a default graph that it does not use."""

    def add_graph(self, graph: Graph) -> None:
        """Empty graphs are not statements."""

    def remove_graph(self, graph: Graph) -> None:
        """As ``remove``."""


class _Kept(io.RawIOBase):
    """A stream that stays open when rdflib's parser closes it: it is the caller's."""

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__()
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        read = self._stream.read(len(buffer))
        buffer[: len(read)] = read
        return len(read)


def _by_rdflib(source: IO[bytes], format: str, base: str | None, collector: _Collector) -> None:
    kept = io.BufferedReader(_Kept(source))
    Dataset(_SinkStore(collector)).parse(kept, format=format, publicID=base)
