"""Where a collection was given another keyspace."""

from __future__ import annotations

import pytest

import lowtide
from lowtide.documents.lineage import first_replacement, replaced
from tests.conftest import OpenStore
from tests.unit.feed.stores import SHORT, fill, kept_from


def found(store: lowtide.Store, keyspace: str, since: int = 0, known: bool = True) -> int | None:
    last = store.stats().last_commit
    return first_replacement(store._parts.feed, "users", keyspace, since, last, known=known)


def last(store: lowtide.Store) -> int:
    return store.stats().last_commit


def test_a_collection_that_was_never_replaced_has_none(store: lowtide.Store) -> None:
    users = store.collection("users")
    users.insert_one({"_id": 1})
    assert found(store, "documents/users") is None
    assert found(store, "documents/users", known=False) is None
    users.create_index("city")
    users.set_schema({"type": "object"})
    users.drop()
    users.insert_one({"_id": 2})
    assert found(store, "documents/users") is None
    assert found(store, "documents/users", known=False) is None


def test_a_rename_away_and_a_rename_to_it_are_found(store: lowtide.Store) -> None:
    users = store.collection("users")
    users.insert_one({"_id": 1})
    users.rename("people")
    away = last(store)
    assert found(store, "documents/users") == away
    assert found(store, "documents/users", since=away) is None
    store.collection("others").insert_one({"_id": 1})
    store.collection("others").rename("users")
    assert found(store, "documents/users~1", since=away) == last(store)


@pytest.mark.parametrize("images", [True, False])
def test_what_the_keyspace_was_at_the_start_is_told_by_the_log_or_taken_for_another(
    open_store: OpenStore, images: bool
) -> None:
    store = open_store(before_images=images, **SHORT)
    store.collection("others").insert_one({"_id": 1})
    store.collection("others").rename("users")
    came = last(store)
    assert found(store, "documents/others", known=False) == came
    assert found(store, "documents/others", since=came, known=False) is None
    store.collection("users").create_index("city")
    assert found(store, "documents/others", since=came, known=False) is None, "the log still has the rename"
    fill(store)
    store.checkpoint()
    assert kept_from(store) > came + 1
    store.collection("users").create_index("name")
    came = kept_from(store)
    assert (found(store, "documents/others", since=came, known=False) is None) == images
    assert found(store, "documents/others", since=came, known=True) is None


def test_who_follows_is_told_what_to_do() -> None:
    assert str(replaced("users", 120)).startswith("collection 'users' was replaced as a whole at commit 120: ")
    assert "start a new stream from its snapshot" in str(replaced("users", 120))
