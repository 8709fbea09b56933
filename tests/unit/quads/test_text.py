"""The text and the parts of terms: every term of rdflib is restored unchanged."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rdflib import XSD, BNode, Literal, URIRef
from rdflib.plugins.parsers.ntriples import W3CNTriplesParser
from rdflib.term import Variable

from lowtide.errors import UsageError
from lowtide.quads.ids import FormulaName, encode
from lowtide.quads.parts import flat, parts_of, parts_of_row, parts_text, term_of_flat, term_of_parts
from lowtide.quads.text import quad_line, term_of_text, term_text

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
IRIS = st.builds(lambda text: URIRef(f"urn:{text}"), TEXTS)
BLANKS = st.builds(BNode, TEXTS.filter(bool))
DATATYPES = st.sampled_from([XSD.integer, XSD.string, XSD.date, XSD.double, URIRef("urn:of my own")])
LITERALS = st.one_of(
    st.builds(Literal, TEXTS),
    st.builds(lambda text, language: Literal(text, lang=language), TEXTS, st.sampled_from(["en", "de-AT"])),
    st.builds(lambda text, datatype: Literal(text, datatype=datatype, normalize=False), TEXTS, DATATYPES),
)
TERMS = st.one_of(IRIS, BLANKS, LITERALS)


def same(first: Any, second: Any) -> bool:
    """As rdflib has it, and in the type and the lexical form."""
    return type(first) is type(second) and first == second and str(first) == str(second)


@given(TERMS)
def test_a_term_comes_back_from_its_text(term: Any) -> None:
    text = term_text(term)
    assert "\n" not in text
    assert same(term_of_text(text), term)


@given(TERMS)
def test_a_term_comes_back_from_its_parts(term: Any) -> None:
    encoded = encode(term)
    parts = parts_of(term)
    kept = parts if parts.language is None else parts._replace(language=parts.language.lower())
    assert parts_of_row(encoded.id, encoded.row) == kept
    assert same(term_of_parts(parts), term)
    assert parts_text(parts) == term_text(term)
    text, kind, *others = flat(parts)
    assert others == [None, None]
    assert same(term_of_flat(text, kind), term)


@given(BLANKS, BLANKS)
def test_no_two_blank_nodes_have_the_same_text(first: BNode, second: BNode) -> None:
    assert (term_text(first) == term_text(second)) == (first == second)


@given(st.lists(st.tuples(IRIS, IRIS, st.one_of(IRIS, LITERALS)), max_size=5))
def test_rdflib_reads_the_lines(statements: list[Any]) -> None:
    class Sink:
        def __init__(self) -> None:
            self.found: list[Any] = []

        def triple(self, *statement: Any) -> None:
            self.found.append(statement)

    sink = Sink()
    W3CNTriplesParser(sink=sink).parsestring("".join(f"{quad_line(*each)}\n" for each in statements))  # type: ignore[arg-type]
    # rdflib brings what it reads into canonical form, such as 0 as a double.
    wanted = [(s, p, o.normalize() if isinstance(o, Literal) else o) for s, p, o in statements]
    assert [tuple(map(str, each)) for each in sink.found] == [tuple(map(str, each)) for each in wanted]


def test_formulas_have_a_text_of_their_own() -> None:
    for term, text in ((Variable("x"), "?x"), (FormulaName("_:f"), "{_:f}")):
        assert term_text(term) == text
        assert same(term_of_text(text), term)
        assert same(term_of_parts(parts_of(term)), term)
        assert parts_text(parts_of(term)) == text
    encoded = encode(Variable("x"))
    assert parts_of_row(encoded.id, encoded.row).kind == "variable"
    encoded = encode(FormulaName("_:f"))
    assert parts_of_row(encoded.id, encoded.row).kind == "formula"


@pytest.mark.parametrize(
    "text", ["", "urn:a", "<urn:a", "<urn:a b>", '"a', "'a'", '"a"@', '"a"^^urn:b', '"a"^^<urn:b>x', "_:", "?", "a b"]
)
def test_what_is_no_term_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not a term of N-Triples, such as <http://example.org/ann>"):
        term_of_text(text)


def test_wrong_escapes_are_told() -> None:
    with pytest.raises(UsageError, match="has no escape"):
        term_of_text('"\\x"')
    with pytest.raises(UsageError, match="there is no character"):
        term_of_text('"\\UFFFFFFFF"')
    assert term_of_text("_:lowtide-zz") == BNode("lowtide-zz")


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ((None, "iri", None, None), "a term has no text"),
        (("a", "uri", None, None), "is iri, blank, literal, variable, formula, not 'uri'"),
        (("a", "iri", "urn:d", None), "only a literal has a datatype or a language"),
        (("a", "blank", None, "en"), "only a literal has a datatype or a language"),
    ],
)
def test_parts_that_make_no_term_are_refused(parts: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        term_of_parts(parts)
