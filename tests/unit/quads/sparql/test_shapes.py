"""Queries of one shape are parsed once, and give the trees that rdflib makes of each."""

from __future__ import annotations

from typing import Any

import pytest
from rdflib.paths import Path
from rdflib.plugins.sparql.parserutils import CompValue
from rdflib.term import BNode, Identifier, Literal

from lowtide.quads.sparql import parsing
from lowtide.quads.sparql.parsing import QUERIES, UPDATES, ParseCache
from lowtide.quads.sparql.shapes import shape_of

NAMES = {"e": "urn:e:", "": "urn:empty:"}
CONSTANTS = [("urn:a", "x", "1"), ("urn:b", "a # b <urn:c>", "20"), ("http://e.org/a#b?c=1%20", "it's", "007")]


def form(node: Any) -> Any:
    """What a tree says, without the identity of its parts and the order of triples, which depends on constants."""
    if isinstance(node, BNode):
        return "blank"
    if isinstance(node, Literal):
        return "literal", str(node), node.datatype, node.language
    if isinstance(node, Identifier):
        return type(node), str(node)
    if isinstance(node, Path):
        return type(node), [(name, form(each)) for name, each in vars(node).items()]
    if isinstance(node, CompValue):
        others = {name: each for name, each in vars(node).items() if name not in ("_evalfn", "ctx", "prologue")}
        return type(node), form(dict(dict.items(node))), form(others)
    if isinstance(node, dict):
        return [(form(key), form(each)) for key, each in node.items()]
    if isinstance(node, set | frozenset):
        return sorted(map(str, node))
    if isinstance(node, list) and all(isinstance(each, tuple) for each in node):
        return sorted((form(each) for each in node), key=str)
    return [form(each) for each in node] if isinstance(node, list | tuple) else node


def assert_as_by_rdflib(cache: ParseCache[Any], text: str, names: dict[str, str] = NAMES) -> None:
    direct, cached = cache._parse(text, names, "http://base.org/x"), cache.get(text, names, "http://base.org/x").tree
    assert form(cached.algebra) == form(direct.algebra), text


QUERY_SHAPES = [
    "SELECT ?o { <IRI> e:p ?o }",
    'SELECT ?o { ?s <IRI> "TEXT" ; :p "TEXT"@en-GB , NUMBER , -NUMBER , "NUMBER"^^e:n , "TEXT"^^<IRI> }',
    'SELECT ?o { <IRI> ?p ?o FILTER(?o > NUMBER && ?o != <IRI> && REGEX(STR(?o), "TEXT", "i")) } LIMIT NUMBER',
    "SELECT ?o { ?s (<IRI>|^e:q)/!(<IRI>|e:r)* ?o } OFFSET NUMBER",
    "PREFIX e: <IRI> BASE <IRI> SELECT ?o FROM <IRI> FROM NAMED <g> { ?s e:p <relative> GRAPH <IRI> { ?s ?p NUMBER } }",
    'SELECT (GROUP_CONCAT(?x; separator="TEXT") AS ?y) (?x+NUMBER AS ?z) { VALUES ?x { <IRI> "TEXT" NUMBER UNDEF } }',
    'ASK { ?s e:NUMBER ?o . ?s e:%20NUMBER NUMBER.5 , NUMBER . FILTER NOT EXISTS { ?s e:q <IRI> } } # <IRI> "TEXT"',
    "CONSTRUCT { ?s ?p <IRI> } WHERE { ?s ?p [ e:q NUMBER ] OPTIONAL { <IRI> ?p ?o } MINUS { ?s ?p NUMBER } }",
    "SELECT ?o { { SELECT ?o { ?o ?p <IRI> } ORDER BY <IRI>(?o) } UNION { BIND(<IRI> AS ?o) } }",
    "DESCRIBE <IRI>",
]
UPDATE_SHAPES = [
    'INSERT DATA { <IRI> e:p "TEXT", NUMBER . GRAPH <IRI> { _:a e:p <IRI> } GRAPH <urn:a> { e:a e:p e:b } }',
    "DELETE { ?s e:p ?old } INSERT { ?s e:p NUMBER } WHERE { ?s e:p ?old FILTER (?s = <IRI>) } ; CLEAR GRAPH <IRI>",
    "WITH <IRI> DELETE { <IRI> ?p NUMBER } WHERE { } ; PREFIX e: <urn:other:> INSERT DATA { e:x e:p <IRI> }",
    "COPY <IRI> TO <urn:b> ; LOAD SILENT <IRI> INTO GRAPH <IRI>",
]


def filled(shape: str, constants: tuple[str, str, str]) -> str:
    iri, text, number = constants
    return shape.replace("<IRI>", f"<{iri}>").replace("TEXT", text).replace("NUMBER", number)


@pytest.mark.parametrize("shape", QUERY_SHAPES)
def test_queries_are_parsed_as_by_rdflib(shape: str) -> None:
    for constants in CONSTANTS:
        assert_as_by_rdflib(QUERIES, filled(shape, constants))


@pytest.mark.parametrize("shape", UPDATE_SHAPES)
def test_updates_are_parsed_as_by_rdflib(shape: str) -> None:
    for constants in CONSTANTS:
        assert_as_by_rdflib(UPDATES, filled(shape, constants))


def test_texts_of_one_shape_are_parsed_once() -> None:
    parsed: list[str] = []

    def parse(text: str, names: Any, base: str | None) -> Any:
        parsed.append(text)
        return QUERIES._parse(text, names, base)

    cache: ParseCache[Any] = ParseCache(parse)
    for number in range(5):
        cache.get(f'SELECT ?o {{ <urn:{number}> e:p "{number}", {number} }}', NAMES, None)
    assert len(parsed) == 1
    cache.get('SELECT ?o { <urn:1> e:p "1", 1 }', {"e": "urn:other:"}, None)  # the prefix stands for another IRI
    assert len(parsed) == 2


def test_long_texts_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "LONGEST", 60)
    cache: ParseCache[Any] = ParseCache(UPDATES._parse)
    short, long = (f'INSERT DATA {{ e:a e:p "{"x" * length}" }}' for length in (1, 60))
    assert cache.get(short, NAMES, None) is cache.get(short, NAMES, None)
    assert cache.get(long, NAMES, None) is not cache.get(long, NAMES, None)
    assert len(cache) == 1
    assert_as_by_rdflib(cache, long)


def test_equal_constants_have_one_place() -> None:
    """So a graph that is named twice is one graph, and one that is named differently is another."""
    same, other = (shape_of(f"INSERT DATA {{ GRAPH <urn:a> {{ }} GRAPH <urn:{each}> {{ }} }}") for each in "ab")
    assert same is not None
    assert other is not None
    assert same.text != other.text


def test_a_graph_may_also_be_named_by_a_prefix() -> None:
    text = "INSERT DATA { GRAPH <urn:e:g> { <urn:a> e:p 1 } GRAPH e:g { <urn:a> e:p 2 } }"
    (operation,) = UPDATES.get(text, NAMES, None).tree.algebra
    found = {str(graph): sorted(int(o) for _, _, o in each) for graph, each in operation.quads.items()}
    assert found == {"urn:e:g": [1, 2]}


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ?s { SERVICE <urn:a> { ?s ?p ?o } }",
        'SELECT ?s { ?s ?p "a\\"b" }',
        'SELECT ?s { ?s ?p """a""" }',
        "SELECT ?s { ?s ?p '''a''' }",
        "SELECT ?s { ?s <urn:\\u0041> ?o }",
    ],
)
def test_what_is_parsed_as_it_is(text: str) -> None:
    assert shape_of(text) is None
    assert_as_by_rdflib(QUERIES, text)


def test_prefixes_are_those_that_the_text_uses_and_does_not_declare_before() -> None:
    found = shape_of("PREFIX a: <urn:a> SELECT ?s { ?s a:p b:q ; a :C } # d:e")
    assert found is not None
    assert found.prefixes == {"b", ""}
    later = shape_of("INSERT DATA { a:x a:p 1 } ; PREFIX a: <urn:a> INSERT DATA { a:x a:p 1 }")
    assert later is not None
    assert later.prefixes == {"a"}


def test_an_error_is_about_the_text_itself() -> None:
    with pytest.raises(Exception, match="found end of text"):
        QUERIES.get("SELECT ?s { <urn:a> ?p ?o ", {}, None)
    with pytest.raises(Exception, match="Unknown namespace prefix : nothing"):
        QUERIES.get("SELECT ?s { <urn:a> nothing:p ?o }", {}, None)
