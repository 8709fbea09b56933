"""$lookup and $facet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.documents.aggregation import compile_pipeline
from lowtide.documents.filters import compile_filter
from lowtide.errors import OperationFailure
from tests.unit.documents.aggregation.piping import filter_of, run, same

ORDERS: list[dict[str, Any]] = [
    {"_id": 1, "user": "a", "total": 5},
    {"_id": 2, "user": "b", "total": 7},
    {"_id": 3, "user": "a", "total": 9},
    {"_id": 4, "user": None, "total": 1},
    {"_id": 5, "total": 2},
    {"_id": 6, "user": ["a", "c"], "total": 3},
]
LOOKUP = {"from": "orders", "localField": "k", "foreignField": "user", "as": "found"}


def found(document: dict[str, Any], lookup: dict[str, Any] = LOOKUP) -> list[Any]:
    (joined,) = run([{"$lookup": lookup}], [document], {"orders": ORDERS})
    assert {**joined, "found": 0} == {**document, "found": 0}
    return [each["_id"] for each in joined["found"]]


@pytest.mark.parametrize(
    ("document", "wanted"),
    [
        ({"k": "a"}, [1, 3, 6]),
        ({"k": "b"}, [2]),
        ({"k": "z"}, []),
        ({"k": None}, [4, 5]),
        ({}, [4, 5]),
        ({"k": ["b", "c"]}, [2, 6]),
        ({"k": ["a", "c", "a"]}, [1, 3, 6]),
        ({"k": []}, []),
        ({"k": [None, "b"]}, [2, 4, 5]),
        ({"k": 1}, []),
        ({"k": "a", "found": "replaced"}, [1, 3, 6]),
    ],
    ids=repr,
)
def test_a_lookup_finds_the_documents_with_the_same_value(document: dict[str, Any], wanted: list[int]) -> None:
    assert found(document) == wanted


def test_a_lookup_reads_both_paths_through_objects_and_arrays() -> None:
    lookup = {"from": "o", "localField": "items.id", "foreignField": "keys.k", "as": "x.y"}
    others: dict[str, list[dict[str, Any]]] = {
        "o": [{"_id": 1, "keys": [{"k": 1}, {"k": 2.0}]}, {"_id": 2, "keys": {"k": 3}}, {"_id": 3}]
    }
    (joined,) = run([{"$lookup": lookup}], [{"items": [{"id": 2}, {"id": 9}], "x": {"z": 1}}], others)
    assert joined["x"] == {"z": 1, "y": [others["o"][0]]}


values = st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from([1.0, "a", ""])
keys = st.fixed_dictionaries({}, optional={"k": values | st.lists(values, max_size=3)})


@given(local=st.lists(keys, max_size=20), foreign=st.lists(keys, max_size=8))
def test_a_lookup_is_a_filter_for_each_document(local: list[dict[str, Any]], foreign: list[dict[str, Any]]) -> None:
    lookup = {"from": "f", "localField": "k", "foreignField": "k", "as": "found"}
    for document, joined in zip(local, run([{"$lookup": lookup}], local, {"f": foreign}), strict=True):
        value = document.get("k")
        matches = compile_filter({"k": {"$in": value if isinstance(value, list) else [value]}}).matches
        assert same(joined["found"], [each for each in foreign if matches(each)])


def test_a_lookup_asks_for_the_values_of_many_documents_at_once_but_begins_with_one() -> None:
    asked: list[Mapping[str, Any]] = []

    def foreign(name: str, filter: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
        assert name == "orders"
        asked.append(filter)
        return filter_of(ORDERS, filter)

    results = compile_pipeline([{"$lookup": LOOKUP}]).run(({"k": n} for n in range(100)), foreign)
    next(results)
    assert asked == [{"user": {"$eq": 0}}]
    assert len(list(results)) == 99
    assert len(asked) == 7


PIPELINE = {
    "from": "orders",
    "let": {"least": "$least"},
    "pipeline": [{"$match": {"$expr": {"$gte": ["$total", "$$least"]}}}, {"$project": {"total": 1}}],
    "as": "found",
}


def test_a_lookup_runs_a_pipeline_with_variables_of_the_document() -> None:
    joined = run([{"$lookup": PIPELINE}], [{"least": 7}, {"least": 9}, {"least": 99}], {"orders": ORDERS})
    assert [each["found"] for each in joined] == [
        [{"_id": 2, "total": 7}, {"_id": 3, "total": 9}],
        [{"_id": 3, "total": 9}],
        [],
    ]


def test_a_lookup_runs_a_pipeline_over_what_the_fields_have_found() -> None:
    assert found({"k": "a", "least": 4}, {**LOOKUP, **PIPELINE}) == [1, 3]
    assert found({"k": "a"}, {**LOOKUP, "pipeline": [{"$sort": {"total": -1}}, {"$limit": 1}]}) == [3]


def test_variables_reach_lookups_inside_a_lookup() -> None:
    inner = {"from": "orders", "pipeline": [{"$match": {"$expr": {"$eq": ["$_id", "$$id"]}}}], "as": "in"}
    outer = {"from": "orders", "let": {"id": "$id"}, "pipeline": [{"$limit": 1}, {"$lookup": inner}], "as": "found"}
    joined = run([{"$lookup": outer}], [{"id": 2}, {"id": 3}], {"orders": ORDERS})
    assert [each["found"][0]["in"][0]["_id"] for each in joined] == [2, 3]


def test_a_pipeline_that_depends_on_no_document_reads_once_and_its_filter_goes_to_the_collection() -> None:
    asked: list[Mapping[str, Any]] = []

    def foreign(name: str, filter: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
        asked.append(filter)
        return filter_of(ORDERS, filter)

    lookup = {"from": "orders", "pipeline": [{"$match": {"total": {"$gt": 6}}}, {"$project": {"_id": 1}}], "as": "f"}
    first, second = compile_pipeline([{"$lookup": lookup}]).run([{}, {}], foreign)
    assert first == second == {"f": [{"_id": 2}, {"_id": 3}]}
    assert asked == [{"total": {"$gt": 6}}]
    first["f"][0]["_id"] = "changed"
    assert second["f"][0]["_id"] == 2


FACETS: dict[str, list[dict[str, Any]]] = {
    "count": [{"$count": "n"}],
    "users": [{"$unwind": "$user"}, {"$sortByCount": "$user"}],
    "top": [{"$sort": {"total": -1}}, {"$limit": 2}, {"$project": {"total": 1}}],
    "all": [],
}


@given(documents=st.lists(st.fixed_dictionaries({"_id": st.integers(), "user": values, "total": st.integers()})))
def test_facets_are_their_pipelines_alone(documents: list[dict[str, Any]]) -> None:
    (facets,) = run([{"$facet": FACETS}], documents)
    assert same(facets, {name: run(stages, documents) for name, stages in FACETS.items()})


def test_facets_share_nothing() -> None:
    (facets,) = run([{"$facet": {"a": [], "b": []}}], [{"l": [1]}])
    facets["a"][0]["l"].append(2)
    facets["a"][0]["x"] = 1
    assert facets["b"] == [{"l": [1]}]


@pytest.mark.parametrize(
    ("stage", "reason"),
    [
        ({"$lookup": 1}, r"stage 1 \(\$lookup\): expected an object with from, as"),
        ({"$lookup": {"from": "o", "as": "x"}}, "expected localField and foreignField, or a pipeline"),
        (
            {"$lookup": {"from": "o", "as": "x", "localField": "a"}},
            "localField and foreignField must be given together",
        ),
        ({"$lookup": {**LOOKUP, "let": {}}}, "let requires a pipeline"),
        ({"$lookup": {**LOOKUP, "localField": "$k"}}, r"localField must be a name that does not begin with \$"),
        ({"$lookup": {**LOOKUP, "from": 1}}, r"from must be a name"),
        ({"$lookup": {**LOOKUP, "on": 1}}, "unknown operand 'on'"),
        ({"$lookup": {**PIPELINE, "let": {"Least": 1}}}, "'Least' is not a valid variable name"),
        (
            {"$lookup": {**PIPELINE, "let": {}}},
            r"stage 1 \(\$lookup\): pipeline: stage 1 \(\$match\): .*unknown variable \$\$least",
        ),
        ({"$lookup": {**PIPELINE, "pipeline": 1}}, "pipeline: a pipeline must be a list of stages"),
        ({"$facet": {}}, "expected an object of names and pipelines"),
        ({"$facet": {"a": 1}}, "pipeline 'a': a pipeline must be a list of stages"),
        ({"$facet": {"a.b": []}}, "'a.b' is not a valid field name"),
        ({"$facet": {"a": [{"$facet": {"b": []}}]}}, r"pipeline 'a': \$facet cannot be used inside"),
        ({"$facet": {"a": [{}, {"$nope": 1}]}}, r"pipeline 'a': stage 1 must be an object"),
        ({"$facet": {"a": [{"$skip": 1}, {"$nope": 1}]}}, r"pipeline 'a': stage 2: unknown stage \$nope"),
    ],
    ids=repr,
)
def test_a_join_that_cannot_be_is_refused(stage: dict[str, Any], reason: str) -> None:
    with pytest.raises(OperationFailure, match=reason):
        run([stage], [])


def test_a_lookup_needs_other_collections() -> None:
    with pytest.raises(OperationFailure, match="lookup from 'orders'"):
        list(compile_pipeline([{"$lookup": LOOKUP}]).run([{}]))
