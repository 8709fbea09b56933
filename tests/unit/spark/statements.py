"""Statements of every kind, and their rows."""

from __future__ import annotations

from typing import Any

from rdflib import XSD, BNode, Literal, URIRef

ANN, BOB, KNOWS, AGE, NAME = (URIRef(f"urn:{each}") for each in ("ann", "bob", "knows", "age", "name"))
GRAPH, BLANK_GRAPH = URIRef("urn:graph"), BNode("graph")
STATEMENTS: list[tuple[Any, Any, Any, Any]] = [
    (ANN, KNOWS, BOB, None),
    (ANN, KNOWS, BNode("b1"), None),
    (BNode("b1"), NAME, Literal("somebody, whose name is long"), None),
    (ANN, NAME, Literal("Ann"), None),
    (ANN, NAME, Literal("Ann", lang="en-GB"), None),
    (ANN, NAME, Literal("Ann", datatype=XSD.string), None),
    (ANN, AGE, Literal(42), None),
    (ANN, AGE, Literal("042", datatype=XSD.integer, normalize=False), None),
    (ANN, AGE, Literal("42.0", datatype=XSD.decimal, normalize=False), GRAPH),
    (ANN, URIRef("urn:born"), Literal("1984-05-01", datatype=XSD.date), GRAPH),
    (ANN, URIRef("urn:alive"), Literal(True), BLANK_GRAPH),
    (BOB, NAME, Literal("Bob \u00e9 \U0001f600\n\t\"'\\"), BLANK_GRAPH),
    (Literal("a subject", lang="en"), BNode("p"), Literal(""), None),
]


def row_of(s: Any, p: Any, o: Any, g: Any, *, inferred: bool | None = False) -> dict[str, Any]:
    """The row of a statement, made by hand."""
    kinds = {URIRef: "iri", BNode: "blank", Literal: "literal", type(None): None}
    literal = o if isinstance(o, Literal) else None
    return {
        "s": s.n3() if isinstance(s, Literal) else str(s),
        "s_kind": kinds[type(s)],
        "p": str(p),
        "p_kind": kinds[type(p)],
        "o": str(o),
        "o_kind": kinds[type(o)],
        "o_datatype": str(literal.datatype) if literal is not None and literal.datatype is not None else None,
        "o_language": literal.language.lower() if literal is not None and literal.language is not None else None,
        "g": None if g is None else str(g),
        "g_kind": kinds[type(g)],
        "inferred": inferred,
    }


def sorted_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: [str(each) for each in row.values()])
