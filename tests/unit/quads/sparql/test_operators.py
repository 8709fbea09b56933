"""Each operator of the algebra, on data small enough to count by hand."""

from __future__ import annotations

import pytest

from tests.unit.quads.sparql.conftest import Ask

PEOPLE = """
:ann a :Person ; :knows :bob, :cid ; :age 42 ; :name "Ann" .
:bob a :Person ; :knows :cid ; :age 17 ; :name "Bob" .
:cid a :Person ; :age 30 .
:rex a :Dog ; :age 3 ; :name "Rex" .
:g { :ann :likes :rex . :bob :likes :ann . }
:h { :ann :likes :bob . }
"""

CASES = {
    "one pattern": ("SELECT ?x { ?x a :Dog }", [("rex",)]),
    "no solution": ("SELECT ?x { ?x a :Cat }", []),
    "star": ('SELECT ?x ?a { ?x a :Person ; :name "Ann" ; :age ?a }', [("ann", "42")]),
    "chain": ("SELECT ?x ?z { ?x :knows ?y . ?y :knows ?z }", [("ann", "cid")]),
    "the same variable twice": ("SELECT ?x { ?x :knows ?x }", []),
    "a constant pattern": ("SELECT ?x { :ann :knows :bob . ?x a :Dog }", [("rex",)]),
    "a constant pattern that fails": ("SELECT ?x { :bob :knows :ann . ?x a :Dog }", []),
    "optional": (
        "SELECT ?x ?n { ?x a :Person OPTIONAL { ?x :name ?n } } ORDER BY ?x",
        [("ann", "Ann"), ("bob", "Bob"), ("cid", None)],
    ),
    "optional with a filter": (
        "SELECT ?x ?n { ?x :age ?a OPTIONAL { ?x :name ?n FILTER(?a > 18) } } ORDER BY ?x",
        [("ann", "Ann"), ("bob", None), ("cid", None), ("rex", None)],
    ),
    "union": ("SELECT ?x { { ?x a :Dog } UNION { ?x :age 17 } } ORDER BY ?x", [("bob",), ("rex",)]),
    "minus": ("SELECT ?x { ?x a :Person MINUS { ?x :knows ?y } }", [("cid",)]),
    "minus that shares nothing": ("SELECT ?x { ?x a :Dog MINUS { ?y :knows ?z } }", [("rex",)]),
    "filter": ("SELECT ?x { ?x :age ?a FILTER(?a >= 18 && ?a < 40) }", [("cid",)]),
    "filter by a string": ('SELECT ?x { ?x :name ?n FILTER(?n = "Rex") }', [("rex",)]),
    "filter by an IRI": ("SELECT ?x { ?x :knows ?y FILTER(?y = :bob) }", [("ann",)]),
    "filter by another IRI": ("SELECT ?x { :ann :knows ?x FILTER(?x != :bob) }", [("cid",)]),
    "filter by an IRI that is not stored": ("SELECT ?x { ?x :knows ?y FILTER(?y = :zoe) }", []),
    "filter by a function": ('SELECT ?x { ?x :name ?n FILTER(STRSTARTS(?n, "R")) }', [("rex",)]),
    "an error is not true": ("SELECT ?x { ?x :name ?n FILTER(?n + 1 > 0) }", []),
    "an error or true is true": ("SELECT ?x { ?x a :Dog FILTER(?none > 0 || true) }", [("rex",)]),
    "not an error is an error": ("SELECT ?x { ?x a :Dog FILTER(!(?none > 0)) }", []),
    "not (an error and false) is true": ("SELECT ?x { ?x a :Dog FILTER(!(?none > 0 && false)) }", [("rex",)]),
    "bound": ("SELECT ?x { ?x a :Person OPTIONAL { ?x :name ?n } FILTER(!BOUND(?n)) }", [("cid",)]),
    "kinds of terms": (
        "SELECT DISTINCT ?p { :rex ?p ?o FILTER(isIRI(?o)) }",
        [("http://www.w3.org/1999/02/22-rdf-syntax-ns#type",)],
    ),
    "bind": ("SELECT ?x ?b { ?x a :Dog ; :age ?a BIND(?a + 1 AS ?b) }", [("rex", "4")]),
    "bind of an error": ("SELECT ?x ?b { ?x a :Dog ; :name ?n BIND(?n + 1 AS ?b) }", [("rex", None)]),
    "a filter on what bind has bound": ("SELECT ?x { ?x :age ?a BIND(?a * 2 AS ?b) FILTER(?b = 60) }", [("cid",)]),
    "values": ("SELECT ?x ?a { VALUES ?x { :ann :rex :zoe } ?x :age ?a } ORDER BY ?x", [("ann", "42"), ("rex", "3")]),
    "values with a place that is not bound": (
        "SELECT ?x ?a { ?x :age ?a VALUES (?x ?a) { (:ann UNDEF) (UNDEF 3) (:bob 3) } } ORDER BY ?x",
        [("ann", "42"), ("rex", "3")],
    ),
    "distinct": ("SELECT DISTINCT ?t { ?x a ?t } ORDER BY ?t", [("Dog",), ("Person",)]),
    "reduced": ("SELECT REDUCED ?t { ?x a ?t } ORDER BY ?t", [("Dog",), ("Person",)]),
    "order, down": ("SELECT ?a { ?x :age ?a } ORDER BY DESC(?a)", [("42",), ("30",), ("17",), ("3",)]),
    "order by two": (
        "SELECT ?t ?a { ?x a ?t ; :age ?a } ORDER BY DESC(?t) ?a",
        [("Person", "17"), ("Person", "30"), ("Person", "42"), ("Dog", "3")],
    ),
    "order by an expression": ("SELECT ?a { ?x :age ?a } ORDER BY (0 - ?a)", [("42",), ("30",), ("17",), ("3",)]),
    "what is not bound comes first": (
        "SELECT ?n { ?x a :Person OPTIONAL { ?x :name ?n } } ORDER BY ?n OFFSET 1",
        [("Ann",), ("Bob",)],
    ),
    "limit": ("SELECT ?a { ?x :age ?a } ORDER BY ?a LIMIT 2", [("3",), ("17",)]),
    "limit and offset": ("SELECT ?a { ?x :age ?a } ORDER BY ?a LIMIT 2 OFFSET 1", [("17",), ("30",)]),
    "limit 0": ("SELECT ?a { ?x :age ?a } LIMIT 0", []),
    "exists": ("SELECT ?x { ?x a :Person FILTER EXISTS { ?x :knows ?y } } ORDER BY ?x", [("ann",), ("bob",)]),
    "not exists": ("SELECT ?x { ?x a :Person FILTER NOT EXISTS { ?x :knows ?y } }", [("cid",)]),
    "exists whose filter sees the solution": (
        "SELECT ?x { ?x :age ?a FILTER NOT EXISTS { ?y :age ?b FILTER(?b > ?a) } }",
        [("ann",)],
    ),
    "exists with an optional": (
        "SELECT ?x { ?x a :Person FILTER EXISTS { ?x :age ?a OPTIONAL { ?x :name ?n } FILTER(!BOUND(?n)) } }",
        [("cid",)],
    ),
    "exists in an expression": (
        "SELECT ?x { ?x :age ?a FILTER(?a = 3 || EXISTS { ?x :knows :bob }) } ORDER BY ?x",
        [("ann",), ("rex",)],
    ),
    "exists in bind": ("SELECT ?x ?e { ?x a :Dog BIND(EXISTS { ?x :knows ?y } AS ?e) }", [("rex", "false")]),
    "exists that is selected": (
        "SELECT ?x (EXISTS { ?x :knows/:knows ?y } AS ?e) { ?x a :Person } ORDER BY ?x",
        [("ann", "true"), ("bob", "false"), ("cid", "false")],
    ),
    "subquery": (
        "SELECT ?x ?n { ?x :age ?m { SELECT (MAX(?a) AS ?m) { ?y :age ?a } } OPTIONAL { ?x :name ?n } }",
        [("ann", "Ann")],
    ),
    "a subquery hides what it does not select": (
        "SELECT ?x ?a { ?x a :Dog { SELECT ?x { ?x :age ?a } } }",
        [("rex", None)],
    ),
    "a limit inside": ("SELECT ?x { { SELECT ?x { ?x :age ?a } ORDER BY ?a LIMIT 2 } ?x a :Person }", [("bob",)]),
    "a filter does not see what is outside": ("SELECT ?x { ?x a :Dog { ?y :age ?a FILTER(?x = ?x) } }", []),
    "a named graph": ("SELECT ?x { GRAPH :g { ?x :likes ?y } } ORDER BY ?x", [("ann",), ("bob",)]),
    "a graph as a variable": (
        "SELECT ?g ?x { GRAPH ?g { ?x :likes ?y } ?y a :Person } ORDER BY ?g",
        [("g", "bob"), ("h", "ann")],
    ),
    "optional inside of a graph": (
        "SELECT ?g ?x ?z { GRAPH ?g { ?x :likes ?y OPTIONAL { ?y :likes ?z } } } ORDER BY ?g ?x",
        [("g", "ann", None), ("g", "bob", "rex"), ("h", "ann", None)],
    ),
    "minus inside of a graph": (
        "SELECT ?g ?x { GRAPH ?g { ?x :likes ?y MINUS { ?x :likes :rex } } } ORDER BY ?g",
        [("g", "bob"), ("h", "ann")],
    ),
    "an empty group in a graph": ("SELECT ?g { GRAPH ?g { } } ORDER BY ?g", [("g",), ("h",)]),
    "a graph joined with patterns outside": (
        "SELECT ?x ?a { GRAPH ?g { :ann :likes ?x } ?x :age ?a } ORDER BY ?a",
        [("rex", "3"), ("bob", "17")],
    ),
    "from": ("SELECT ?x FROM :g FROM :h { ?x :likes ?y } ORDER BY ?x", [("ann",), ("ann",), ("bob",)]),
    "from named": ("SELECT ?g ?x FROM NAMED :h { GRAPH ?g { ?x :likes ?y } }", [("h", "ann")]),
    "from named has no default graph": ("SELECT ?x FROM NAMED :h { ?x :likes ?y }", []),
    "a blank node is a variable": ("SELECT ?n { [] a :Dog ; :name ?n }", [("Rex",)]),
    "count": ("SELECT (COUNT(*) AS ?n) { ?x a :Person }", [("3",)]),
    "count of nothing": ("SELECT (COUNT(*) AS ?n) { ?x a :Cat }", [("0",)]),
    "groups": (
        "SELECT ?t (COUNT(?x) AS ?n) (SUM(?a) AS ?s) { ?x a ?t ; :age ?a } GROUP BY ?t ORDER BY ?t",
        [("Dog", "1", "3"), ("Person", "3", "89")],
    ),
    "having": ("SELECT ?t { ?x a ?t } GROUP BY ?t HAVING(COUNT(?x) > 1)", [("Person",)]),
    "distinct count": ("SELECT (COUNT(DISTINCT ?y) AS ?n) { ?x :knows ?y }", [("2",)]),
    "average": ("SELECT (AVG(?a) AS ?m) { ?x a :Dog ; :age ?a }", [("3",)]),
    "least and greatest": (
        "SELECT (MIN(?a) AS ?l) (MAX(?n) AS ?g) { ?x :age ?a OPTIONAL { ?x :name ?n } }",
        [("3", "Rex")],
    ),
    "least IRI": ("SELECT (MIN(?x) AS ?l) { ?x :age ?a }", [("ann",)]),
    "a sum with what is no number": ("SELECT (SUM(?o) AS ?s) { :ann ?p ?o }", []),
    "sample": ("SELECT (SAMPLE(?x) AS ?s) { ?x a :Dog }", [("rex",)]),
    "concatenation": (
        'SELECT (GROUP_CONCAT(?n; SEPARATOR="-") AS ?s) { { SELECT ?n { ?x :name ?n } ORDER BY ?n } }',
        [("Ann-Bob-Rex",)],
    ),
    "group by an expression": (
        "SELECT ?o (COUNT(*) AS ?n) { ?x :age ?a } GROUP BY (?a > 18 AS ?o) ORDER BY ?o",
        [("false", "2"), ("true", "2")],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_query(name: str, ask: Ask) -> None:
    text, wanted = CASES[name]
    assert ask(PEOPLE, text) == wanted


def test_the_default_graph_may_be_the_union_of_all(ask: Ask) -> None:
    text = "SELECT ?x ?y { ?x :likes ?y } ORDER BY ?x ?y"
    assert ask(PEOPLE, text) == []
    assert ask(PEOPLE, text, default_union=True) == [("ann", "bob"), ("ann", "rex"), ("bob", "ann")]


def test_a_triple_of_two_graphs_is_one_in_their_union(ask: Ask) -> None:
    data = ":a :p :b . :g { :a :p :b . } :h { :a :p :b . }"
    assert ask(data, "SELECT ?x { ?x :p ?y }", default_union=True) == [("a",)]
    assert ask(data, "SELECT ?x FROM :g FROM :h { ?x :p ?y }") == [("a",)]


def test_a_graph_can_be_the_default_graph(ask: Ask) -> None:
    from tests.unit.quads.sparql.generating import E

    assert ask(PEOPLE, "SELECT ?x { :ann :likes ?x }", context=E.h) == [("bob",)]
