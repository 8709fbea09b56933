"""The document that an upsert starts from."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lowtide.documents.updates import seed_of
from lowtide.errors import OperationFailure
from tests.unit.documents.updates.updating import exact

SEEDS: list[tuple[dict[str, Any] | None, dict[str, Any]]] = [
    (None, {}),
    ({}, {}),
    ({"x": 1}, {"x": 1}),
    ({"x": None}, {"x": None}),
    ({"x": [1, 2]}, {"x": [1, 2]}),
    ({"x": (1, 2)}, {"x": [1, 2]}),
    ({"x": {"y": 1}}, {"x": {"y": 1}}),
    ({"x": {}}, {"x": {}}),
    ({"x": {"$eq": 1}}, {"x": 1}),
    ({"x": {"$eq": 1, "$gt": 0}}, {"x": 1}),
    ({"x": {"$in": [1]}}, {"x": 1}),
    ({"x": {"$all": [1]}}, {"x": 1}),
    ({"$and": [{"x": 1}, {"y": {"$eq": 2}}]}, {"x": 1, "y": 2}),
    ({"$and": [{"$and": [{"x": 1}]}], "z": 3}, {"x": 1, "z": 3}),
    ({"$or": [{"x": 1}]}, {"x": 1}),
    ({"$or": [{"x": 1}, {"x": 1}]}, {}),
    ({"$nor": [{"x": 1}]}, {}),
    ({"x": {"$gt": 1}}, {}),
    ({"x": {"$ne": 1}}, {}),
    ({"x": {"$in": [1, 2]}}, {}),
    ({"x": {"$in": []}}, {}),
    ({"x": {"$in": [re.compile("a")]}}, {}),
    ({"x": {"$all": [{"$elemMatch": {"y": 1}}]}}, {}),
    ({"x": {"$elemMatch": {"$eq": 1}}}, {}),
    ({"x": {"$exists": True}}, {}),
    ({"x": {"$not": {"$eq": 1}}}, {}),
    ({"x": re.compile("a")}, {}),
    ({"x.y": 1, "x.z": {"$eq": 2}}, {"x": {"y": 1, "z": 2}}),
    ({"x.0.y": 1}, {"x": {"0": {"y": 1}}}),
    ({"x": 1, "_id": 2}, {"_id": 2, "x": 1}),
    ({"_id.x": 1, "_id.y": 2}, {"_id": {"x": 1, "y": 2}}),
]


@pytest.mark.parametrize(("filter", "seed"), SEEDS)
def test_equality_in_the_filter_is_what_an_upsert_begins_with(
    filter: dict[str, Any] | None, seed: dict[str, Any]
) -> None:
    assert exact(seed_of(filter)) == exact(seed)


@pytest.mark.parametrize(
    "filter",
    [
        {"$and": [{"x": 1}, {"x": 1}]},
        {"$and": [{"x": {"$eq": 1}}, {"x": 2}]},
        {"x": {"$all": [1, 2]}},
        {"x": 1, "x.x": 1},
        {"x.x": 1, "x": {}},
        {"x": {"x": 1}, "x.y": 1},
        {"x": {"$eq": 1, "$in": [1]}},
    ],
)
def test_a_filter_that_gives_a_field_twice_is_no_seed(filter: dict[str, Any]) -> None:
    with pytest.raises(OperationFailure, match="two conditions on 'x"):
        seed_of(filter)
    assert seed_of({**filter, "_id": 3}, only_id=True) == {"_id": 3}


@pytest.mark.parametrize("filter", [{"_id": [1]}, {"_id": {"$eq": [1]}}, {"$and": [{"_id": 1}, {"_id": 1}]}])
def test_an_id_is_given_once_and_is_no_array(filter: dict[str, Any]) -> None:
    for only_id in (False, True):
        with pytest.raises(OperationFailure, match="_id"):
            seed_of(filter, only_id=only_id)


def test_a_seed_shares_nothing_with_the_filter() -> None:
    filter = {"x": {"y": [1]}}
    seed_of(filter)["x"]["y"].append(2)
    assert filter == {"x": {"y": [1]}}
