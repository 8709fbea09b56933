"""Property paths."""

from __future__ import annotations

import pytest
from rdflib import Variable
from rdflib.paths import InvPath, NegatedPath
from rdflib.plugins.sparql import prepareQuery

from lowtide.errors import UsageError
from lowtide.quads import Quads
from tests.unit.quads.sparql.conftest import Ask
from tests.unit.quads.sparql.generating import PREFIX, E
from tests.unit.quads.sparql.reading import ask_rows, statements

DATA = """
:a :p :b . :b :p :c . :c :p :a . :c :p :d . :d :q :e . :a :q :a . :e :r "leaf" .
:g { :x :p :y . :y :p :z . } :h { :y :p :w . }
"""

CASES = {
    "sequence": ("SELECT ?x { :a :p/:p ?x }", ["c"]),
    "inverse": ("SELECT ?x { :b ^:p ?x }", ["a"]),
    "sequence with an inverse": ("SELECT ?x { :a :p/^:p ?x }", ["a"]),
    "alternative": ("SELECT ?x { :a :p|:q ?x } ORDER BY ?x", ["a", "b"]),
    "alternative keeps duplicates": ("SELECT ?x { :a :p|:p ?x }", ["b", "b"]),
    "one or more": ("SELECT ?x { :a :p+ ?x } ORDER BY ?x", ["a", "b", "c", "d"]),
    "one or more, backward": ("SELECT ?x { ?x :p+ :d } ORDER BY ?x", ["a", "b", "c"]),
    "zero or more": ("SELECT ?x { :d :p* ?x }", ["d"]),
    "zero or more, backward": ("SELECT ?x { ?x :p* :d } ORDER BY ?x", ["a", "b", "c", "d"]),
    "zero or one": ("SELECT ?x { :a :p? ?x } ORDER BY ?x", ["a", "b"]),
    "both ends given": ("SELECT (COUNT(*) AS ?n) { :a :p+ :d }", ["1"]),
    "both ends given, not joined": ("SELECT (COUNT(*) AS ?n) { :d :p+ :a }", ["0"]),
    "neither end given": ("SELECT (COUNT(*) AS ?n) { ?x :p+ ?y }", ["12"]),
    "neither end given, from zero": ("SELECT (COUNT(*) AS ?n) { ?x :p* ?y }", ["15"]),
    "to itself": ("SELECT ?x { ?x :p+ ?x } ORDER BY ?x", ["a", "b", "c"]),
    "a repeated sequence": ("SELECT ?x { :a (:p/:p)+ ?x } ORDER BY ?x", ["a", "b", "c", "d"]),
    "a repeated alternative": ("SELECT ?x { :d (:q|:r)+ ?x } ORDER BY ?x", ["e", "leaf"]),
    "repeated, then a step": ("SELECT ?x { :a :p*/:q ?x } ORDER BY ?x", ["a", "e"]),
    "negated": ("SELECT ?x { :a !:p ?x }", ["a"]),
    "negated set": ("SELECT ?x { ?y !(:p|:q) ?x }", ["leaf"]),
    "from what a pattern has bound": ("SELECT ?x { ?y :q :e . ?y ^:p+ ?x } ORDER BY ?x", ["a", "b", "c"]),
    "a term that is in no statement has a path of length zero": ("SELECT ?x { :nowhere :p* ?x }", ["nowhere"]),
    "a value that is in no statement has none": ("SELECT ?x { VALUES ?x { :nowhere } ?x :p* ?y }", []),
    "inside of one graph": ("SELECT ?x { GRAPH :g { :x :p+ ?x } } ORDER BY ?x", ["y", "z"]),
    "inside of each graph": ("SELECT ?x { GRAPH ?g { ?y :p+ ?x } } ORDER BY ?x", ["w", "y", "z", "z"]),
}


@pytest.mark.parametrize("name", CASES)
def test_path(name: str, ask: Ask) -> None:
    text, wanted = CASES[name]
    assert ask(DATA, text) == [(each,) for each in wanted]


def test_a_path_over_the_union_crosses_graphs(ask: Ask) -> None:
    assert ask(DATA, "SELECT ?x { :x :p+ ?x } ORDER BY ?x", default_union=True) == [("w",), ("y",), ("z",)]


def test_a_long_chain_needs_no_recursion(ask: Ask) -> None:
    chain = " ".join(f":n{place} :next :n{place + 1} ." for place in range(3_000))
    assert ask(chain, "SELECT (COUNT(*) AS ?n) { :n0 :next+ ?x }") == [("3000",)]


def test_a_negated_inverse_is_refused_as_the_parser_loses_it(ask: Ask) -> None:
    with pytest.raises(UsageError, match="rdflib's parser does not keep"):
        ask(DATA, "SELECT ?x { :e !(^:p) ?x }")


def test_a_negated_inverse_that_is_prepared_by_hand_is_followed_backward(quads: Quads) -> None:
    quads.add_many(statements(DATA))
    prepared = prepareQuery(f"{PREFIX}SELECT ?x {{ :e :p ?x }}")
    part = prepared.algebra.p.p
    part["triples"] = [(E.e, NegatedPath(InvPath(E.p)), Variable("x"))]
    with quads.reader() as reader:
        assert [str(row.x) for row in ask_rows(reader, prepared)] == [str(E.d)]
