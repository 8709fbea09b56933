"""A prepared plan equals the planner's plan, whatever values the shape was learned from and whatever values it gets."""

from __future__ import annotations

from collections import OrderedDict
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import hypothesis.strategies as st
import pytest
from hypothesis import given

from lowtide.documents.catalog import CatalogRow
from lowtide.documents.filters import compile_filter
from lowtide.documents.indexes.spec import Index
from lowtide.documents.plans.planner import SortKeys, plan
from lowtide.documents.prepared import bound, shapes
from lowtide.documents.prepared.bound import PreparedFilter
from lowtide.documents.prepared.shapes import prepare_filter
from lowtide.errors import InvalidDocument, OperationFailure
from lowtide.values.codec import encode_value

PATHS = ("_id", "a", "b", "c.d")
OPERATORS = ("$eq", "$gt", "$gte", "$lt", "$lte")

scalars = (
    st.integers(-3, 3)
    | st.sampled_from([2**53 + 1, -(2**70), 10**30])
    | st.sampled_from([0.0, -0.0, 1.0, 2.5, float("inf")])
    | st.sampled_from(["", "a", "b", "\x00", "é", "x" * 300])
    | st.booleans()
    | st.sampled_from([b"", b"a", b"y" * 250, UUID(int=7), datetime(2030, 1, 1), datetime(2031, 1, 1, tzinfo=UTC)])
)
others = st.none() | st.sampled_from([Decimal(1), [1, 2], [], {"x": 1}])
values = scalars | others
ranges = st.dictionaries(st.sampled_from(OPERATORS), values, min_size=1, max_size=3)
members = st.lists(scalars | values, max_size=4).map(lambda each: {"$in": each})
conditions = st.dictionaries(st.sampled_from(PATHS), scalars | values | ranges | members, max_size=3)
ids = st.integers(-3, 3) | st.sampled_from(["", "a", "\x00", b"a", 2**70, UUID(int=7), "x" * 300])
filters = conditions | st.builds(
    lambda several, more: {"_id": {"$in": several}, **more}, st.lists(ids, max_size=4), conditions
)
sorts = st.lists(
    st.tuples(st.sampled_from(PATHS), st.sampled_from([1, -1])), max_size=2, unique_by=lambda each: each[0]
).map(tuple)
keys = st.lists(
    st.tuples(st.sampled_from(PATHS), st.sampled_from([1, -1])),
    min_size=1,
    max_size=3,
    unique_by=lambda each: each[0],
).map(tuple)
options = st.fixed_dictionaries(
    {},
    optional={
        "unique": st.booleans(),
        "sparse": st.booleans(),
        "multikey": st.booleans(),
        "long": st.booleans(),
        "building": st.booleans(),
        "partial": st.sampled_from([encode_value({"a": {"$gt": 0}}), encode_value({"b": 1})]),
    },
)
indexes = st.lists(st.tuples(keys, options), max_size=3)


def made(given: list[tuple[Any, dict[str, Any]]]) -> CatalogRow:
    found = [Index(name=f"i{at}", keys=keys, keyspace=f"i{at}", **more) for at, (keys, more) in enumerate(given)]
    return CatalogRow(keyspace="documents/x", indexes=tuple(found))


@given(st.lists(filters, min_size=1, max_size=6), sorts, st.lists(indexes, min_size=1, max_size=2), st.booleans())
def test_a_prepared_plan_is_that_of_the_planner(
    asked: list[dict[str, Any]], sort: SortKeys, catalogs: list[Any], limited: bool
) -> None:
    rows = [made(each) for each in catalogs]
    for filter in asked:
        prepared = prepare_filter(filter)
        compiled = compile_filter(filter)
        assert prepared.conjuncts == compiled.conjuncts
        assert (prepared.complete, len(prepared.alternatives)) == (compiled.complete, 0)
        for row in rows:
            if isinstance(prepared, PreparedFilter):
                found = prepared.plan(row, sort, limited)
                assert found is None or found == plan(compiled, sort, row.indexes, limited=limited)


@given(filters, st.lists(st.dictionaries(st.sampled_from(("_id", "a", "b")), values), max_size=4))
def test_a_prepared_filter_matches_the_same_documents(filter: dict[str, Any], documents: list[dict[str, Any]]) -> None:
    prepared, compiled = prepare_filter(filter), compile_filter(filter)
    for document in documents:
        assert prepared.matches(document) == compiled.matches(document)
        assert prepared.position(document) == compiled.position(document)


@pytest.mark.parametrize("value", [1, 1.5, "x", True, b"x", UUID(int=1), datetime(2030, 1, 1)])
def test_filters_for_plain_values_have_a_shape_of_each_type(value: Any) -> None:
    first, second = prepare_filter({"a": value}), prepare_filter({"a": value})
    assert isinstance(first, PreparedFilter)
    assert isinstance(second, PreparedFilter)
    assert first.shape is second.shape
    other = prepare_filter({"a": 7 if type(value) is not int else "7"})
    assert isinstance(other, PreparedFilter)
    assert other.shape is not first.shape


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "value", [None, Decimal(1), [1], {"x": 1}, Text("x"), {"$in": [1]}, {"$gt": None}, {"$gt": 1, "$lt": "x"}, {}]
)
def test_filters_for_other_values_have_none(value: Any) -> None:
    assert not isinstance(prepare_filter({"a": value}), PreparedFilter)


@pytest.mark.parametrize("bad", [None, 1.0, [1], {"x": 1}, Text("x"), True])
def test_an_in_of_ids_has_a_shape_and_one_of_other_values_has_none(bad: Any) -> None:
    first, second = prepare_filter({"_id": {"$in": [1, "x", b"x"]}}), prepare_filter({"_id": {"$in": []}})
    assert isinstance(first, PreparedFilter)
    assert isinstance(second, PreparedFilter)
    assert first.shape is second.shape
    assert not isinstance(prepare_filter({"_id": {"$in": [1, bad]}}), PreparedFilter)
    assert not isinstance(prepare_filter({"a": {"$in": [1]}}), PreparedFilter)
    assert not isinstance(prepare_filter({"_id": {"$in": [1], "$gt": 0}}), PreparedFilter)


@pytest.mark.parametrize("bad", [float("nan"), "\ud800", {"$gt": float("nan")}, {"$eq": "\ud800"}])
def test_a_bad_value_is_refused_although_its_shape_is_known(bad: Any) -> None:
    for good in ({"a": 1.0}, {"a": "x"}, {"a": {"$gt": 1.0}}, {"a": {"$eq": "x"}}):
        prepare_filter(good)
    with pytest.raises(InvalidDocument):
        prepare_filter({"a": bad})


def test_a_bad_member_is_refused_although_its_shape_is_known() -> None:
    prepare_filter({"_id": {"$in": ["x", "y"]}})
    with pytest.raises(InvalidDocument):
        prepare_filter({"_id": {"$in": ["x", "\ud800"]}})


def test_an_invalid_filter_is_refused_each_time() -> None:
    for _ in range(2):
        with pytest.raises(OperationFailure, match=r"\$unknown"):
            prepare_filter({"a": {"$unknown": 1}})


def test_the_filter_may_be_changed_after_the_call() -> None:
    given = {"a": {"$gt": 1}}
    prepared = prepare_filter(given)
    given["a"]["$gt"] = 100
    assert prepared.matches({"a": 2})
    several = {"_id": {"$in": [1, 2]}}
    prepared = prepare_filter(several)
    several["_id"]["$in"].append(3)
    assert not prepared.matches({"_id": 3})


def test_the_shapes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "_MOST_SHAPES", 8)
    monkeypatch.setattr(bound, "_MOST_LOOKUPS", 8)
    row = made([])
    for number in range(50):
        found = prepare_filter({f"field {number}": 1})
        assert isinstance(found, PreparedFilter)
        found.plan(row, (), False)
        assert len(shapes._shapes) <= 4096
    assert len(row.lookups) <= 8


@given(st.lists(filters, min_size=1, max_size=8))
def test_a_filter_is_bound_to_its_own_values_whatever_came_before(asked: list[dict[str, Any]]) -> None:
    """The last filter with the same paths may have had other operators, types or values that are not plain."""
    for filter in asked:
        try:
            compiled = compile_filter(filter)
        except (InvalidDocument, OperationFailure):
            with pytest.raises((InvalidDocument, OperationFailure)):
                prepare_filter(filter)
            continue
        prepared = prepare_filter(filter)
        assert prepared.conjuncts == compiled.conjuncts
        if type(prepared) is PreparedFilter:
            shapes._last.clear()
            unbound = prepare_filter(filter)
            assert type(unbound) is PreparedFilter
            assert (unbound.shape, unbound.values) == (prepared.shape, prepared.values)
            assert list(map(type, unbound.values)) == list(map(type, prepared.values))


@pytest.mark.parametrize(
    "other",
    [
        {"a": 1.0, "b": {"$gt": "x"}},
        {"a": True, "b": {"$gt": "x"}},
        {"a": 1, "b": {"$lt": "x"}},
        {"a": 1, "b": {"$gt": "x", "$lt": "y"}},
        {"a": 1, "b": {}},
        {"a": 1, "b": "x"},
        {"a": {"$gt": 1}, "b": {"$gt": "x"}},
        {"a": 1, "b": {"$gt": "\ud800"}},
        {"a": 1, "b": OrderedDict({"$gt": "x"})},
    ],
)
def test_a_filter_of_another_shape_is_not_bound(other: dict[str, Any]) -> None:
    known = prepare_filter({"a": 5, "b": {"$gt": "y"}})
    assert type(known) is PreparedFilter
    assert known.shape.bind is not None
    assert known.shape.bind({"a": 6, "b": {"$gt": "\u00e9"}}) == (6, "\u00e9")
    assert known.shape.bind(other) is None


@pytest.mark.parametrize("several", [[1, "\ud800"], ["x", None], [True], [1.0], [[1]], [Decimal(1)]])
def test_other_values_than_ids_are_not_bound(several: list[Any]) -> None:
    known = prepare_filter({"_id": {"$in": [1, "x", b"x", UUID(int=7)]}})
    assert type(known) is PreparedFilter
    assert known.shape.bind is not None
    assert known.shape.bind({"_id": {"$in": several}}) is None
    given = [1, "x"]
    bound = known.shape.bind({"_id": {"$in": given}})
    given.clear()
    assert bound == ((1, "x"),)
