"""Decoders of some fields: they return what a decoder of all fields does, without the others."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from lowtide.values.codec import decode_document, encode_document
from lowtide.values.partial import decoder_for
from lowtide.values.values import Document
from tests.unit.values.strategies import documents


@given(documents, st.data())
def test_some_fields_are_those_of_the_whole_document_in_its_order(document: Document, data: st.DataObject) -> None:
    named = frozenset(data.draw(st.sets(st.sampled_from([*document, "absent", "", "\ud800"]))))
    whole = encode_document(document)
    found = decoder_for(named)(whole)
    assert list(found.items()) == [each for each in decode_document(whole).items() if each[0] in named]


def test_all_fields_and_many_fields_are_decoded_as_a_whole() -> None:
    assert decoder_for(None) is decode_document
    assert decoder_for(frozenset(map(str, range(21)))) is decode_document
    assert decoder_for(frozenset(map(str, range(20)))) is not decode_document
