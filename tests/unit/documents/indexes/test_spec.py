"""The specification of an index: the forms of its keys, its name, and the information that it shows."""

from __future__ import annotations

from typing import Any

import pytest

from lowtide.documents.indexes.spec import Index, name_of, parse_keys
from lowtide.errors import OperationFailure
from lowtide.values.codec import encode_value


@pytest.mark.parametrize(
    ("keys", "parts"),
    [
        ("city", [("city", 1)]),
        ("address.city", [("address.city", 1)]),
        ([("city", 1)], [("city", 1)]),
        ([("city", 1), ("age", -1)], [("city", 1), ("age", -1)]),
        ((("city", -1),), [("city", -1)]),
        ([["city", -1]], [("city", -1)]),
        (["city", ("age", -1)], [("city", 1), ("age", -1)]),
        ({"city": 1, "age": -1}, [("city", 1), ("age", -1)]),
        ([("a.0.b", 1)], [("a.0.b", 1)]),
        ([("city", 1.0)], [("city", 1)]),
        ([(f"f{number}", 1) for number in range(32)], [(f"f{number}", 1) for number in range(32)]),
    ],
    ids=lambda each: str(each)[:40],
)
def test_keys_in_each_of_pymongos_forms(keys: Any, parts: list[tuple[str, int]]) -> None:
    found = parse_keys(keys)
    assert found == tuple(parts)
    assert all(type(direction) is int for _, direction in found)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        *(([], "1 to 32 fields"), ({}, "1 to 32 fields"), (None, "1 to 32 fields"), (b"city", "1 to 32 fields")),
        ([(f"f{number}", 1) for number in range(33)], "1 to 32 fields"),
        *(
            ("", "not a valid field path"),
            ("a..b", "not a valid field path"),
            (".a", "not a valid field path"),
            ("a.", "not a valid field path"),
            ("$a", "not a valid field path"),
        ),
        *(
            ([("a.$b", 1)], "not a valid field path"),
            ([(1, 1)], "not a valid field path"),
            ({"": 1}, "not a valid field path"),
        ),
        *(([("a", 2)], "direction of 'a'"), ([("a", "text")], "direction of 'a'"), ([("a", True)], "direction of 'a'")),
        *(
            ([("a", 0)], "direction of 'a'"),
            ([("a", None)], "direction of 'a'"),
            ({"a": "2dsphere"}, "other index types are not supported"),
        ),
        *(([("a", 1, 2)], "pair of path and direction"), ([3], "pair of path and direction")),
        ([("a", 1), ("a", -1)], "can occur only once"),
    ],
    ids=lambda each: str(each)[:40],
)
def test_keys_that_make_no_index(keys: Any, reason: str) -> None:
    with pytest.raises(OperationFailure, match=reason):
        parse_keys(keys)


def test_the_name_is_mongodbs() -> None:
    assert name_of((("city", 1),)) == "city_1"
    assert name_of((("address.city", 1), ("age", -1))) == "address.city_1_age_-1"


def test_an_index_shows_what_was_asked_for_and_its_state() -> None:
    plain = Index(name="city_1", keys=(("city", 1), ("age", -1)), keyspace="k")
    assert plain.information() == {"key": [("city", 1), ("age", -1)]}
    assert plain.paths == ("city", "age")
    full = plain.having(unique=True, sparse=True, multikey=True, building=True, partial=encode_value({"a": {"$gt": 1}}))
    assert full.information() == {
        "key": [("city", 1), ("age", -1)],
        "unique": True,
        "sparse": True,
        "multikey": True,
        "building": True,
        "partialFilterExpression": {"a": {"$gt": 1}},
    }
    assert full.partial_filter is not None
    assert full.partial_filter.matches({"a": 2})
    assert not full.partial_filter.matches({"a": 1})


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        *(({"name": "x"}, True), ({"keyspace": "x"}, True), ({"multikey": True}, True), ({"building": True}, True)),
        *(({"unique": True}, False), ({"sparse": True}, False), ({"partial": b"x"}, False)),
        *(({"keys": (("a", -1),)}, False), ({"long": True}, True)),
    ],
    ids=str,
)
def test_two_indexes_ask_for_the_same_whatever_their_state(changes: dict[str, Any], same: bool) -> None:
    index = Index(name="a_1", keys=(("a", 1),), keyspace="k")
    assert index.same_as(index.having(**changes)) is same
