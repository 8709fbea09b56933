"""Functions from source text."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from lowtide.documents.prepared.source import function, literal


@given(st.text())
def test_a_literal_is_the_name(name: str) -> None:
    assert function("name()", [f"return {literal(name)}"])() == name
