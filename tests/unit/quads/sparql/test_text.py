"""String functions give the same answers as rdflib's evaluation."""

from __future__ import annotations

import pytest
from rdflib import Graph, Literal
from rdflib.namespace import XSD

from lowtide.quads import Quads
from tests.unit.quads.sparql.generating import PREFIX, E
from tests.unit.quads.sparql.reading import ask_rows, solutions

TERMS = (
    Literal("apple"),
    Literal("Apple pie that is longer"),
    Literal("apple", lang="en"),
    Literal("apple", datatype=XSD.string),
    Literal(1),
    E.apple,
    Literal(""),
)


@pytest.mark.parametrize(
    "test",
    [
        'REGEX(?o, "^app")',
        'REGEX(?o, "^APP", "i")',
        'REGEX(?o, "e$", "x")',
        'REGEX(STR(?o), "pp")',
        'CONTAINS(?o, "pp")',
        'STRSTARTS(?o, "app")',
        'STRENDS(?o, "le")',
        'STRENDS(?o, "le"@en)',
        '!CONTAINS(?o, "pp")',
        'CONTAINS(?none, "pp") || isIRI(?o)',
    ],
)
def test_a_test_of_strings(test: str, quads: Quads) -> None:
    memory = Graph()
    for term in TERMS:
        memory.add((E.a, E.p, term))
    quads.add_many((E.a, E.p, term) for term in TERMS)
    text = f"{PREFIX}SELECT ?o {{ :a :p ?o FILTER({test}) }}"
    with quads.reader() as reader:
        assert solutions(ask_rows(reader, text)) == solutions(memory.query(text))
