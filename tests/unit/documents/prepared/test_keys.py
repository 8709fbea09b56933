"""The generated function makes the entry that the general code makes, or reports that there are several."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import hypothesis.strategies as st
from hypothesis import given

from lowtide.documents.indexes.entries import MAX_VALUES, IndexEntries
from lowtide.documents.indexes.spec import Index
from lowtide.documents.prepared.keys import entries_function, entry_function

values = (
    st.none()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.sampled_from([True, b"x", Decimal("1.50"), {"x": 1}, [1, 2], [], "x" * 200])
)
names = st.sampled_from(("a", "b", "it's", '"', "\\", "é\n"))
keys = st.lists(st.tuples(names, st.sampled_from([1, -1])), min_size=1, max_size=3, unique_by=lambda each: each[0])


@given(keys, st.dictionaries(names, values))
def test_the_entry_is_that_of_the_general_code(keys: list[tuple[str, int]], document: dict[str, Any]) -> None:
    index = Index(name="i", keys=tuple(keys), keyspace="i")
    flat, general = IndexEntries(index), IndexEntries(index)
    general.only = None
    assert flat.only is not None
    found = entry_function(index.keys, MAX_VALUES)(document)
    assert found == flat.only(document)
    several = any(type(document.get(name)) is list for name, _ in keys)
    try:
        expected, special = general.of(document)
    except Exception:  # arrays at two paths
        assert found is None
        return
    assert found == (expected[0] if not several and not special else None)
    assert flat.of(document) == (expected, special)


def test_indexes_that_leave_out_documents_or_look_into_objects_have_none() -> None:
    assert IndexEntries(Index(name="i", keys=(("a.b", 1),), keyspace="i")).only is None
    assert IndexEntries(Index(name="i", keys=(("a", 1),), keyspace="i", sparse=True)).only is None


class Text(str):
    __slots__ = ()


@given(st.lists(keys, min_size=1, max_size=3), st.dictionaries(names, values, max_size=4))
def test_the_entries_of_a_given_document_are_those_of_each_index(
    indexes: list[list[tuple[str, int]]], document: dict[str, Any]
) -> None:
    made = entries_function(tuple((f"i{at}", tuple(each)) for at, each in enumerate(indexes)), MAX_VALUES)
    entries = made(document, b"key", b"value", lambda keyspace: keyspace.encode())
    if entries is not None:
        found = [entry_function(tuple(each), MAX_VALUES)(document) for each in indexes]
        assert entries == {b"i%d" % at + (each or b"?") + b"key": b"value" for at, each in enumerate(found)}


def test_of_a_given_document_only_plain_values_have_an_entry() -> None:
    """Others may be stored as another value: a tuple as an array, an instance of a subclass as its base type."""
    made = entries_function((("i", (("a", 1),)),), MAX_VALUES)
    for value in (None, 1, 1.5, "x", True, b"x"):
        assert made({"a": value}, b"key", b"", str.encode) is not None
    for other in ([1], (1,), {"x": 1}, Decimal(1), Text("x"), "x" * MAX_VALUES):
        assert made({"a": other}, b"key", b"", str.encode) is None
