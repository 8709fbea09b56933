"""Statements of files: both parsers, all formats, batches, blank nodes, bases and errors."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from types import ModuleType

import pytest
import rdflib
from rdflib import XSD, BNode, Literal, URIRef
from rdflib.compare import isomorphic

from lowtide.errors import UsageError
from lowtide.quads import parsing
from lowtide.quads.parsing import Statement, format_of, parse

DATA = """
@prefix ex: <http://example.org/> .
ex:a ex:p _:b, "text", "text"@en, 5, 1.5, true, "01"^^<http://www.w3.org/2001/XMLSchema#integer> .
_:b ex:q ex:c, [ ex:r "2020-01-01"^^<http://www.w3.org/2001/XMLSchema#date> ] .
"""
FORMATS = ["turtle", "nt", "nquads", "trig", "xml", "n3", "json-ld", "trix", "hext"]


@pytest.fixture(params=["pyoxigraph", "rdflib"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With pyoxigraph, and as if it were not installed."""
    if request.param == "rdflib":

        def absent() -> ModuleType | None:
            return None

        monkeypatch.setattr(parsing, "_oxigraph", absent)
    return str(request.param)


def statements_of(source: parsing.Source, format: str | None = None, base: str | None = None) -> list[Statement]:
    found: list[Statement] = []
    total = parse(source, found.extend, format=format, base=base)
    assert total == len(found)
    return found


def as_graph(statements: list[Statement]) -> rdflib.Graph:
    graph = rdflib.Graph()
    for s, p, o, _ in statements:
        graph.add((s, p, o))
    return graph


@pytest.mark.parametrize("format", FORMATS)
def test_each_format_gives_what_rdflib_gives(parser: str, format: str) -> None:
    expected = rdflib.Dataset()
    expected.default_graph.parse(data=DATA, format="turtle")
    text = expected.serialize(format=format, encoding="utf-8")
    again = rdflib.Dataset()
    again.parse(data=text, format=format)
    found = statements_of(io.BytesIO(text), format)
    assert {each[3] for each in found} == {None}
    assert isomorphic(as_graph(found), again.default_graph)


@pytest.mark.parametrize("format", ["nquads", "trig"])
def test_named_graphs_are_kept(parser: str, format: str) -> None:
    dataset = rdflib.Dataset()
    ex = rdflib.Namespace("http://example.org/")
    dataset.get_context(ex.g).add((ex.a, ex.p, ex.b))
    dataset.add((ex.a, ex.p, ex.c))
    text = dataset.serialize(format=format, encoding="utf-8")
    assert set(statements_of(io.BytesIO(text), format)) == {(ex.a, ex.p, ex.b, ex.g), (ex.a, ex.p, ex.c, None)}
    moved: list[Statement] = []
    parse(io.BytesIO(text), moved.extend, format=format, graph=ex.h)
    assert {each[3] for each in moved} == {ex.g, ex.h}


def test_blank_nodes_get_new_names(parser: str) -> None:
    names = [statements_of(io.BytesIO(b"_:x <urn:p> _:x ."), "nt")[0] for _ in range(2)]
    assert all(isinstance(s, BNode) and s == o for s, _, o, _ in names)
    assert names[0][0] != names[1][0]


def test_relative_iris_are_resolved_by_the_base(parser: str, tmp_path: Path) -> None:
    text = b"<x> <urn:p> <#y> ."
    assert statements_of(io.BytesIO(text), "turtle", base="http://base.org/dir/doc") == [
        (URIRef("http://base.org/dir/x"), URIRef("urn:p"), URIRef("http://base.org/dir/doc#y"), None)
    ]
    file = tmp_path / "data.ttl"
    file.write_bytes(text)
    assert statements_of(file)[0][0] == URIRef((tmp_path / "x").as_uri())


def test_literals_are_rdflibs(parser: str) -> None:
    found = {o for _, _, o, _ in statements_of(io.BytesIO(DATA.encode()), "turtle")}
    assert Literal("text", lang="en") in found
    assert Literal("text") in found
    assert Literal("1", datatype=XSD.integer) in found
    assert Literal("2020-01-01", datatype=XSD.date) in found


def test_compressed_files_and_batches(parser: str, tmp_path: Path) -> None:
    file = tmp_path / "many.nt.gz"
    file.write_bytes(gzip.compress("".join(f'<urn:s{n}> <urn:p> "{n}" .\n' for n in range(25)).encode()))
    sizes: list[int] = []
    assert parse(str(file), lambda batch: sizes.append(len(batch)), batch=10) == 25
    assert sizes == [10, 10, 5]


@pytest.mark.parametrize("format", FORMATS)
def test_a_stream_stays_open(parser: str, format: str) -> None:
    """Parsers of rdflib close what they have read. Here the caller may still ask for the position of its stream."""
    stream = io.BytesIO(rdflib.Dataset().parse(data=DATA, format="turtle").serialize(format=format, encoding="utf-8"))
    assert parse(stream, len, format=format) > 5
    assert stream.tell() > 0


def test_an_error_of_the_syntax_is_raised(parser: str) -> None:
    with pytest.raises(Exception, match=r"urn:p|Invalid|expected|line"):
        statements_of(io.BytesIO(b"<urn:s> <urn:p> ."), "nt")


def test_the_format_is_known_by_the_name_of_the_file(tmp_path: Path) -> None:
    assert format_of("a.ttl", None) == "turtle"
    assert format_of(Path("a.nq.gz"), None) == "nquads"
    assert format_of("a.rdf", None) == "xml"
    assert format_of("a.hext", None) == "hext"
    assert format_of("a", "application/n-triples") == "nt"
    with pytest.raises(UsageError, match="give it as format="):
        format_of(io.BytesIO(), None)


def test_formulas_are_refused(parser: str) -> None:
    with pytest.raises(UsageError, match="formulas of N3"):
        statements_of(io.BytesIO(b"{ <urn:a> <urn:b> <urn:c> } => { <urn:d> <urn:e> <urn:f> } ."), "n3")
