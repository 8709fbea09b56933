"""A collection's row: names, keyspaces, indexes, and the stored form."""

from __future__ import annotations

from typing import Any

import pytest

from lowtide.documents.catalog import CATALOG, CatalogRow, check_collection_name, encode_row, row_key, row_of
from lowtide.documents.indexes.spec import Index
from lowtide.errors import DocumentRefused, UsageError
from lowtide.values.codec import encode_value

CITY = Index(name="city_1", keys=(("city", 1),), keyspace="index/users/city_1")
AGE = Index(name="age_-1", keys=(("age", -1),), keyspace="index/users/age_-1", unique=True, multikey=True, long=True)


@pytest.mark.parametrize("name", ["users", "a", "system.users", "with space", "_id", "é" * 50, "x" * 100, "a.b.c"])
def test_names_of_collections(name: str) -> None:
    assert check_collection_name(name) == name


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        *(("", "non-empty string, not ''"), (None, "not None"), (b"users", "not b'users'"), (1, "not 1")),
        *(("a$b", "no \\$"), ("a/b", "no \\$, /"), ("a~1", "~"), ("a\x00", "NUL"), (".a", "dot"), ("a.", "dot")),
        *(("x" * 101, "100 bytes"), ("é" * 51, "100 bytes"), ("\ud800", "UTF-8")),
    ],
)
def test_names_that_cannot_be_one(name: Any, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        check_collection_name(name)


def test_a_collection_without_a_row_has_one_keyspace() -> None:
    row = row_of("users", None)
    assert row == CatalogRow(keyspace="documents/users")
    assert row.keyspaces == [CATALOG, "documents/users"]
    assert (row.indexes, row.entries, row.validator, row.exists) == ((), (), None, True)


def test_a_row_comes_back_from_its_stored_form() -> None:
    row = CatalogRow(
        keyspace="documents/u~2", indexes=(CITY, AGE), schema=encode_value({"type": "object"}), generation=2
    )
    assert row_of("users", encode_row(row)) == row
    assert row_of("users", encode_row(row)) is row_of("users", encode_row(row)), "what was compiled is kept"
    assert row_key("é") == "é".encode()


def test_indexes_are_added_replaced_and_removed() -> None:
    row = CatalogRow(keyspace="documents/users").with_index(CITY).with_index(AGE)
    assert [each.name for each in row.indexes] == ["city_1", "age_-1"]
    assert row.keyspaces == [CATALOG, "documents/users", CITY.keyspace, AGE.keyspace]
    assert row.index("age_-1") == AGE
    assert row.index("name") is None
    replaced = row.with_index(CITY.having(multikey=True))
    assert sorted(each.name for each in replaced.indexes) == ["age_-1", "city_1"]
    found = replaced.index("city_1")
    assert found is not None
    assert found.multikey
    assert row.index("city_1") == CITY, "a row never changes"
    assert [each.name for each in row.without_index("city_1").indexes] == ["age_-1"]
    assert [each.index for each in row.entries] == [CITY, AGE]


def test_a_name_that_is_free_again_has_a_keyspace_that_was_never_used() -> None:
    row = CatalogRow(keyspace="documents/users")
    freed = row.freed("users")
    again = freed.having(exists=True).freed("users")
    assert (freed.exists, freed.keyspace) == (False, "documents/users~1")
    assert again.keyspace == "documents/users~2"
    assert row.index_keyspace("city_1") == "index/users/city_1"
    assert freed.index_keyspace("city_1") == "index/users~1/city_1"


def test_points_are_the_indexes_that_lead_to_one_value() -> None:
    other = CITY.having(name="other", unique=True)
    row = CatalogRow(keyspace="documents/users").with_index(CITY).with_index(AGE).with_index(other)
    assert row.points == {"city": other}, "a unique one rather than another; none that descends"
    for change in ({"building": True}, {"partial": encode_value({"a": 1})}, {"keys": (("city", 1), ("age", 1))}):
        assert CatalogRow(keyspace="documents/users").with_index(CITY.having(**change)).points == {}


def test_the_schema_of_a_row_refuses() -> None:
    row = CatalogRow(keyspace="documents/users", schema=encode_value({"required": ["name"]}))
    assert row.validator is not None
    row.validator.check("users", {"_id": 1, "name": "Ann"})
    with pytest.raises(DocumentRefused):
        row.validator.check("users", {"_id": 1})
