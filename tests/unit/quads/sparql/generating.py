"""Random small graphs and queries, as text."""

from __future__ import annotations

from hypothesis import strategies as st
from rdflib import BNode, Literal, Namespace
from rdflib.term import Identifier

E = Namespace("http://example.org/")
PREFIX = "PREFIX : <http://example.org/>\n"
NODES = ("a", "b", "c", "d")
PREDICATES = ("p", "q", "r")
VALUES = ("1", "2", "3", '"x"', '"y"@en', "1.5", "true")
VARIABLES = ("?u", "?v", "?w", "?x")

Triple = tuple[Identifier, Identifier, Identifier]
Statement = tuple[Identifier, Identifier, Identifier, Identifier | None]


def literal(text: str) -> Literal:
    """The literal of a text of ``VALUES``."""
    known: dict[str, Literal] = {
        '"x"': Literal("x"),
        '"y"@en': Literal("y", lang="en"),
        "1.5": Literal("1.5", datatype="http://www.w3.org/2001/XMLSchema#decimal"),
        "true": Literal(True),
    }
    return known[text] if text in known else Literal(int(text))


def _triple(s: str, p: str, o: str) -> tuple[Identifier, Identifier, Identifier]:
    subject = BNode("node") if s == "_" else E[s]
    return subject, E[p], literal(o) if o in VALUES else BNode("node") if o == "_" else E[o]


triples = st.builds(
    _triple, st.sampled_from((*NODES, "_")), st.sampled_from(PREDICATES), st.sampled_from((*NODES, "_", *VALUES))
)
graphs = st.lists(triples, max_size=14, unique=True)

nodes = st.sampled_from([f":{name}" for name in NODES])
variables = st.sampled_from(VARIABLES)
predicates = st.sampled_from([f":{name}" for name in PREDICATES])
steps = st.one_of(predicates, st.builds("^{}".format, predicates))
paths = st.one_of(
    st.builds("{}/{}".format, steps, steps),
    st.builds("({}|{})".format, steps, steps),
    st.builds("{}*".format, predicates),
    st.builds("{}+".format, predicates),
    st.builds("{}?".format, predicates),
    st.builds("({}/{})+".format, predicates, predicates),
    st.builds("({}|^{})*".format, predicates, predicates),
    st.builds("!{}".format, predicates),
    st.builds("!({}|{})".format, predicates, predicates),
)
patterns = st.one_of(
    st.builds(
        "{} {} {} .".format,
        st.one_of(variables, variables, nodes),
        st.one_of(predicates, predicates, predicates, variables),
        st.one_of(variables, variables, variables, nodes, st.sampled_from(VALUES)),
    )
)
path_patterns = st.builds("{} {} {} .".format, st.one_of(variables, nodes), paths, st.one_of(variables, nodes))
plain_blocks = st.lists(patterns, min_size=1, max_size=3).map(" ".join)
path_blocks = st.lists(st.one_of(patterns, path_patterns), min_size=1, max_size=3).map(" ".join)
comparisons = st.builds(
    "{} {} {}".format,
    variables,
    st.sampled_from(("=", "!=", "<", "<=", ">", ">=")),
    st.one_of(variables, st.sampled_from(VALUES), nodes),
)
tests = st.one_of(
    comparisons,
    comparisons,
    st.builds("BOUND({})".format, variables),
    st.builds("isIRI({})".format, variables),
    st.builds("isLiteral({})".format, variables),
    st.builds("isBlank({})".format, variables),
    st.builds("{} IN (1, :a, {})".format, variables, variables),
    st.builds('REGEX(STR({}), "a|1")'.format, variables),
)
conditions = st.recursive(
    tests,
    lambda inner: st.one_of(
        st.builds("({} && {})".format, inner, inner),
        st.builds("({} || {})".format, inner, inner),
        st.builds("!({})".format, inner),
    ),
    max_leaves=3,
)
filters = st.builds("FILTER({})".format, conditions)
exists = st.builds(
    "FILTER {}EXISTS {{ {} }}".format, st.sampled_from(("", "NOT ")), st.builds("{} {}".format, plain_blocks, filters)
)
values = st.one_of(
    st.builds("VALUES {} {{ {} {} }}".format, variables, nodes, st.sampled_from(VALUES)),
    st.builds("VALUES (?u ?v) {{ ({} {}) (UNDEF {}) }}".format, nodes, nodes, nodes),
)
binds = st.builds("BIND({} AS ?z)".format, st.one_of(variables, st.builds("{} + 1".format, variables)))


def _groups(blocks: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.builds("{} OPTIONAL {{ {} }}".format, blocks, inner),
            st.builds("{} OPTIONAL {{ {} {} }}".format, blocks, blocks, filters),
            st.builds("{{ {} }} UNION {{ {} }}".format, inner, inner),
            st.builds("{} MINUS {{ {} }}".format, inner, blocks),
            st.builds("{} {}".format, inner, filters),
            st.builds("{} {}".format, blocks, exists),
            st.builds("{} {{ {} }}".format, blocks, inner),
            st.builds("{} {}".format, inner, values),
            st.builds("{} {}".format, blocks, binds),
            st.builds("{} {{ SELECT DISTINCT ?u ?v {{ {} }} }}".format, blocks, inner),
        )

    return st.recursive(blocks, larger, max_leaves=3)


aggregates = st.sampled_from(
    (
        "(COUNT(*) AS ?n)",
        "(COUNT(?v) AS ?n)",
        "(COUNT(DISTINCT ?v) AS ?n)",
        "(MIN(?v) AS ?n)",
        "(MAX(?v) AS ?n)",
    )
)
sums = st.sampled_from(("(SUM(?v) AS ?n)", "(AVG(?v) AS ?n)", "(SUM(DISTINCT ?v) AS ?n)"))
heads = st.sampled_from(("SELECT *", "SELECT ?u ?v", "SELECT DISTINCT ?u", "SELECT DISTINCT ?v ?w"))
selects = st.builds("{} {{ {} }}".format, heads, _groups(plain_blocks)).map(PREFIX.__add__)
path_selects = st.builds("SELECT DISTINCT * {{ {} }}".format, _groups(path_blocks)).map(PREFIX.__add__)
grouped = st.one_of(
    st.builds("SELECT ?u {} {{ {} }} GROUP BY ?u".format, aggregates, plain_blocks),
    st.builds("SELECT ?u {} {{ {} FILTER(isNUMERIC(?v)) }} GROUP BY ?u".format, sums, plain_blocks),
).map(PREFIX.__add__)
