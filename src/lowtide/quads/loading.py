"""Loads of RDF files into a quad store, in batches.

``load`` reads a file once, in memory that does not grow with the file. If pyoxigraph parses it, its terms become ids
directly, each distinct term once, without creating rdflib terms. The ids are the first candidates of the terms, see
``dictionary``. The first batch with a term writes its row. Later batches rely on that row, which is valid in the same
epoch. If terms were collected meanwhile, or a candidate belongs to another term, the batch is added by its terms
instead, like any statements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final

from rdflib.term import Identifier, Literal, URIRef

from lowtide.errors import UsageError
from lowtide.quads.changing import COLLECTED, EncodedStatements
from lowtide.quads.hashing import DEFAULT_GRAPH, HASHED, candidate
from lowtide.quads.ids import EncodedTerm, IdKind, Term, decode_row, encode, encode_text, inline_integer, inline_term
from lowtide.quads.indexes import QuadIds
from lowtide.quads.parsing import BATCH, STRING, Source, Statement, opened, oxigraph_parser, parse
from lowtide.quads.quads import Quads
from lowtide.system.cycles import adding

_MOST: Final = 100_000
"""Terms that are remembered during a load."""
_INTEGER: Final = "http://www.w3.org/2001/XMLSchema#integer"


def load(
    quads: Quads,
    source: Source,
    *,
    format: str | None = None,
    base: str | None = None,
    graph: Identifier | None = None,
    batch: int = BATCH,
    loaded: Callable[[int], object] | None = None,
) -> int:
    """Add the statements of a file to a quad store. Returns their number.

    With ``store.quads(name)`` each ``batch`` is a transaction: memory stays flat, and batches before an error stay.
    With ``tx.quads(name)`` all are part of the transaction. ``loaded`` is called after each batch, with the number of
    its statements. For the other arguments and errors see ``parsing.parse``.

    >>> import io
    >>> load(store.quads("people"), io.BytesIO(b"<urn:ann> <urn:knows> <urn:bob> ."), format="nt")
    1
    """

    def told(count: int) -> None:
        if loaded is not None:
            loaded(count)

    with opened(source, format, base) as (stream, chosen, resolved):
        parser = oxigraph_parser(chosen)
        if parser is None:

            def receive(statements: list[Statement]) -> None:
                quads.add_many(statements)
                told(len(statements))
                quads.give_way()

            return parse(stream, receive, format=chosen, base=resolved, graph=graph, batch=batch)
        total = 0
        for part in _Encoder(parser.module, graph).batches(parser.quads(stream, resolved), batch):
            quads.add_encoded(part)
            total += len(part.quads)
            told(len(part.quads))
            quads.give_way()
        return total


class _Encoder(dict[Any, bytes]):
    """The ids of pyoxigraph's terms: their first candidates, but for a term that collides with another one of the load,
    which gets an id of no kind. It is emptied when it is full. Used by one thread."""

    def __init__(self, oxigraph: Any, graph: Identifier | None) -> None:
        super().__init__()
        self._iri, self._blank, self._literal = oxigraph.NamedNode, oxigraph.BlankNode, oxigraph.Literal
        self._default = oxigraph.DefaultGraph()
        self._rows: dict[bytes, bytes] = {}
        """The rows of all ids here that need one."""
        self._new: dict[bytes, bytes] = {}
        """Those of them that no batch has brought."""
        self._collided: dict[bytes, EncodedTerm] = {}
        """The terms of ids of no kind."""
        self._graph = graph

    def _restart(self) -> None:
        self.clear()
        self._rows, self._new, self._collided = {}, {}, {}
        self[self._default] = DEFAULT_GRAPH if self._graph is None else self._noted(encode(self._graph))

    def batches(self, quads: Iterator[Any], batch: int) -> Iterator[EncodedStatements]:
        """The statements, encoded."""
        self._restart()
        epoch: list[int] = []
        while found := self._encoded(islice(quads, batch), batch):
            new, self._new = self._new, {}
            yield EncodedStatements(found, new, bool(self._collided), self._statements, epoch)
            if len(self) > _MOST or epoch == [COLLECTED]:
                self._restart()
                epoch = []

    def _encoded(self, quads: Iterator[Any], most: int) -> list[QuadIds]:
        with adding(most):
            return [(self[s], self[p], self[o], self[g]) for s, p, o, g in quads]

    def _statements(self, quads: list[QuadIds]) -> list[Statement]:
        """The statements of ids that are here, as terms."""
        terms: dict[bytes, Any] = {DEFAULT_GRAPH: None}
        for id in {each for quad in quads for each in quad}:
            if id != DEFAULT_GRAPH:
                terms[id] = self._term(id)
        return [(terms[s], terms[p], terms[o], terms[g]) for s, p, o, g in quads]

    def _term(self, id: bytes) -> Term:
        if id in self._collided:
            encoded = self._collided[id]
            return decode_row(encoded.id[0] >> 4, encoded.row or b"")
        return decode_row(id[0] >> 4, self._rows[id]) if id[0] >> 4 in HASHED else inline_term(id)

    def __missing__(self, node: Any) -> bytes:
        kind = type(node)
        if kind is self._iri:
            row = node.value.encode()
            found = self._noted(EncodedTerm(candidate(IdKind.IRI, row, 0), row))
        elif kind is self._literal:
            found = self._noted(_encode_literal(node))
        elif kind is self._blank:
            row = node.value.encode()
            found = self._noted(EncodedTerm(candidate(IdKind.BNODE, row, 0), row))
        else:
            raise UsageError(f"statements about statements cannot be stored: {node}")
        self[node] = found
        return found

    def _noted(self, encoded: EncodedTerm) -> bytes:
        id, row = encoded
        if row is None:
            return id
        there = self._rows.setdefault(id, row)
        if there == row:
            self._new[id] = row
            return id
        taken = (IdKind.SPECIAL << 60 | len(self._collided) + 1).to_bytes(8, "big")
        self._collided[taken] = encoded
        return taken


def _encode_literal(node: Any) -> EncodedTerm:
    """As ``ids.encode`` of rdflib's literal, which is made only if it may bring the text into another form."""
    if node.language is not None:
        return encode(Literal(node.value, lang=node.language))
    datatype = node.datatype.value
    if datatype == STRING:
        return encode_text(node.value)
    if datatype == _INTEGER and (found := inline_integer(node.value)) is not None:
        return found
    return encode(Literal(node.value, datatype=URIRef(datatype)))
