"""Ids of terms: every term is restored from its id, no two terms share an id, and inlined values are in order."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rdflib import RDF, XSD, BNode, Literal, URIRef, Variable

from lowtide import UsageError
from lowtide.quads import ids
from lowtide.quads.hashing import DEFAULT_GRAPH, IdKind
from lowtide.quads.ids import FormulaName, decode_row, encode, inline_term, inline_value, kind_of, needs_row


def typed(text: str, datatype: URIRef) -> Literal:
    return Literal(text, datatype=datatype, normalize=False)


def back(term: Any) -> Any:
    id, row = encode(term)
    assert len(id) == 8
    assert needs_row(id) == (row is not None)
    return inline_term(id) if row is None else decode_row(kind_of(id), row)


TEXTS = st.text(max_size=12)
ZONES = st.sampled_from(["", "Z", "+00:00", "+01:00"])
NUMBERS = st.integers().map(str) | st.from_regex(r"[+-]?0?[0-9]{1,20}", fullmatch=True)
LITERALS = (
    TEXTS.map(Literal)
    | st.builds(typed, NUMBERS, st.just(XSD.integer))
    | st.builds(typed, st.sampled_from(["true", "false", "1", "0", "TRUE"]), st.just(XSD.boolean))
    | st.builds(typed, st.dates().map(date.isoformat) | TEXTS, st.just(XSD.date))
    | st.builds(
        typed,
        st.builds(
            lambda at, zone: at.isoformat() + zone, st.datetimes(), st.sampled_from(["", "Z", "+00:00", "+01:00"])
        )
        | TEXTS,
        st.just(XSD.dateTime),
    )
    | st.builds(typed, TEXTS, st.sampled_from([XSD.string, XSD.double, XSD.int, URIRef("urn:type")]))
    | st.builds(lambda text, lang: Literal(text, lang=lang), TEXTS, st.sampled_from(["en", "de-AT", "EN"]))
)
IRIS = TEXTS.map(lambda text: URIRef("urn:" + "".join(filter(str.isalnum, text))))
TERMS = LITERALS | IRIS | TEXTS.map(BNode) | TEXTS.filter(bool).map(Variable) | TEXTS.map(FormulaName)


@given(TERMS)
def test_a_term_comes_back(term: Any) -> None:
    found = back(term)
    assert found == term
    assert type(found) is type(term)
    assert str(found) == str(term)
    if isinstance(term, Literal):
        assert found.datatype == term.datatype
        assert (found.language or "") == (term.language or "").lower()
        assert found.value == term.value or term.value != term.value  # NaN
        assert found.ill_typed == term.ill_typed


@given(TERMS, TERMS)
def test_two_terms_have_two_ids(one: Any, other: Any) -> None:
    assert (encode(one).id == encode(other).id) == (one == other)


@pytest.mark.parametrize(
    "term", [Literal("a"), Literal("x" * 40), Literal("a", lang="en"), Literal("x" * 9, lang="de")]
)
def test_a_literal_is_as_its_constructor_makes_it(term: Literal) -> None:
    found = back(term)
    assert (found.value, found.language, found.datatype, found.ill_typed, found.n3()) == (
        term.value,
        term.language,
        term.datatype,
        term.ill_typed,
        term.n3(),
    )


SMALL = st.integers(-(1 << 59), (1 << 59) - 1)


@given(SMALL, SMALL)
def test_integers_are_in_order(one: int, other: int) -> None:
    first, second = encode(Literal(one)).id, encode(Literal(other)).id
    assert (first < second) == (one < other)
    assert inline_value(first) == one
    assert kind_of(first) is IdKind.INTEGER


@pytest.mark.parametrize("text", ["01", "+1", "-0", "1 ", "", str(1 << 59), str(-(1 << 59) - 1), "9" * 30, "١"])
def test_other_integers_are_hashed(text: str) -> None:
    assert kind_of(encode(typed(text, XSD.integer)).id) is IdKind.LITERAL


@given(st.datetimes(), st.datetimes(), st.sampled_from(["", "Z", "+00:00"]))
def test_times_are_in_order(one: datetime, other: datetime, zone: str) -> None:
    first, second = (encode(typed(each.isoformat() + zone, XSD.dateTime)).id for each in (one, other))
    assert (first < second) == (one < other)
    assert inline_value(first) == one


@given(st.dates(), st.dates())
def test_dates_are_in_order(one: date, other: date) -> None:
    first, second = (encode(typed(each.isoformat(), XSD.date)).id for each in (one, other))
    assert (first < second) == (one < other)
    assert inline_value(first) == one


@given(st.text(max_size=7), st.text(max_size=7))
def test_short_texts_are_in_order(one: str, other: str) -> None:
    texts = [each.encode() for each in (one, other)]
    if all(len(each) <= 7 and b"\x00" not in each for each in texts):
        first, second = encode(Literal(one)).id, encode(Literal(other)).id
        assert kind_of(first) is kind_of(second) is IdKind.SHORT_TEXT
        assert (first < second) == (texts[0] < texts[1])


def test_a_text_with_a_nul_or_half_a_pair_comes_back() -> None:
    for text in ("a\x00", "\x00", "\ud800", "long enough \udfff"):
        assert str(back(Literal(text))) == text
        assert str(back(BNode(text))) == text


def test_what_is_no_term_is_refused() -> None:
    for each in ("text", 5, None, ("a",)):
        with pytest.raises(UsageError, match="a term is a URIRef, BNode or Literal of rdflib"):
            encode(each)


def test_columns_say_what_ids_are() -> None:
    terms = [Literal(-5), Literal(7), URIRef("urn:a"), BNode("b"), Literal("x"), Literal("01", datatype=XSD.integer)]
    column = ids.column([encode(each).id for each in terms])
    assert ids.is_integer(column).tolist() == [True, True, False, False, False, True]
    assert ids.is_iri(column).tolist() == [False, False, True, False, False, False]
    assert ids.is_bnode(column).tolist() == [False, False, False, True, False, False]
    assert ids.is_literal(column).tolist() == [True, True, False, False, True, True]
    assert ids.integers(column[:2]).tolist() == [-5, 7]
    assert [ids.id_bytes(each) for each in column] == [encode(each).id for each in terms]
    assert ids.column([]).tolist() == []
    assert kind_of(DEFAULT_GRAPH) is IdKind.SPECIAL
    assert RDF.type == back(RDF.type)
