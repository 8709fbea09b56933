"""Plans and entries together, without a store: what a plan reads of an index leads to every document that matches."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import hypothesis.strategies as st
from hypothesis import event, example, given, settings

from lowtide.documents.filters import compile_filter
from lowtide.documents.indexes.entries import LONG, MULTIKEY, IndexEntries, document_key_of, entry_key, entry_value
from lowtide.documents.indexes.spec import Index, name_of
from lowtide.documents.plans.plan import Plan
from lowtide.documents.plans.planner import plan
from lowtide.documents.sorting import compile_sort
from lowtide.errors import WriteError
from lowtide.values.ordering import encode
from lowtide.values.values import Document
from tests.unit.values.strategies import documents, filters, paths

directions = st.sampled_from([1, -1])
parts = st.tuples(paths, directions)
keys = st.lists(parts, min_size=1, max_size=3, unique_by=lambda each: each[0]).map(tuple)
sorts = st.lists(parts, max_size=2, unique_by=lambda each: each[0])


class Held:
    """The entries of some documents in an index, as a store would have them."""

    def __init__(self, index: Index, some: list[Document]) -> None:
        entries, special = IndexEntries(index), 0
        self.rows: list[tuple[bytes, bytes]] = []
        self.documents: dict[bytes, Document] = {}
        for number, each in enumerate(some):
            key = encode(number)
            try:
                found, more = entries.of(each)
            except WriteError:
                continue  # two arrays side by side: such a document is not stored
            special |= more
            self.documents[key] = each
            self.rows += [(entry_key(index, values, key), entry_value(index, key)) for values in found]
        self.rows.sort()
        self.index = index.having(multikey=bool(special & MULTIKEY), long=bool(special & LONG))

    def read(self, by: Plan) -> list[bytes]:
        """The keys of the documents that a plan leads to, in its order, each once."""
        assert by.index is not None
        rows = reversed(self.rows) if by.reverse else self.rows
        wanted = [row for row in rows if self._is_wanted(row[0], by)]
        return list(dict.fromkeys(document_key_of(by.index, *row) for row in wanted))

    def _is_wanted(self, key: bytes, by: Plan) -> bool:
        if by.keys is not None:
            return key in by.keys
        return by.stretches is None or any(each.low <= key < each.high for each in by.stretches)


def check(some: list[Document], filter: Any, index_keys: Any, sort: Any, sparse: bool) -> None:
    held = Held(Index(name=name_of(index_keys), keys=index_keys, keyspace="k", sparse=sparse), some)
    compiled = compile_filter(filter)
    by = plan(compiled, tuple(sort), [held.index])
    if by.index is None:
        event("no index")
        return
    event("exact" if by.exact else "in order" if sort and by.ordered else "narrowed")
    matching = {key for key, each in held.documents.items() if compiled.matches(each)}
    found = held.read(by)
    assert matching <= set(found)
    if by.exact:
        assert matching == set(found)
    if by.stretches is not None:
        bounds = [bound for each in by.stretches for bound in (each.low, each.high)]
        assert bounds == sorted(bounds), "stretches follow each other, so none gives an entry twice"
    if sort and by.ordered:
        order = compile_sort(sort).key
        places = [order(held.documents[key]) for key in found if key in matching]
        assert all(not second < first for first, second in pairwise(places))


@settings(max_examples=200)
@given(st.lists(documents, max_size=5), filters, keys, sorts, st.booleans())
@example([{"a": None}, {}, {"a": 5}], {"a": {"$eq": None, "$exists": True}}, (("a", 1),), [], False)
@example([{"a": "ab", "b": 1}], {"a": {"$regex": "^a"}, "b": 1}, (("a", 1), ("b", 1)), [], False)
@example([{"a": [{"b": 1}, {"b": {"c": 2}}]}], {"a.b.c": None}, (("a.b.c", 1),), [], False)
@example([{"a": [1, 5]}], {"a": {"$gt": 3, "$lt": 2}}, (("a", 1),), [], False)
@example([{"a": [1, 9]}, {"a": 5}], {"a": {"$gt": 3}}, (("a", 1),), [("a", 1)], False)
def test_a_plan_leads_to_every_document_that_matches(
    some: list[Document], filter: Any, index_keys: Any, sort: Any, sparse: bool
) -> None:
    check(some, filter, index_keys, sort, sparse)


_flat = st.fixed_dictionaries({}, optional={"a": st.integers(0, 3) | st.none(), "b": st.integers(0, 3)})
_range = st.dictionaries(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), st.integers(0, 3), min_size=1, max_size=2)
_asked = (
    st.integers(0, 3) | st.none() | _range | st.lists(st.integers(0, 3), max_size=2).map(lambda each: {"$in": each})
)
_names = st.sampled_from(["a", "b"])


@settings(max_examples=150)
@given(
    st.lists(_flat, max_size=6),
    st.dictionaries(_names, _asked, max_size=2),
    st.lists(st.tuples(_names, directions), min_size=1, max_size=2, unique_by=lambda each: each[0]).map(tuple),
    st.lists(st.tuples(_names, directions), max_size=2, unique_by=lambda each: each[0]),
    st.booleans(),
)
def test_a_plan_over_plain_fields_is_complete_exact_and_in_order(
    some: list[Document], filter: Any, index_keys: Any, sort: Any, sparse: bool
) -> None:
    check(some, filter, index_keys, sort, sparse)
