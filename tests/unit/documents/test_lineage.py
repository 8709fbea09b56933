"""Where the changes of a collection are: in its keyspaces, one after another, and where each ends."""

from __future__ import annotations

import pytest

import lowtide
from lowtide.documents.lineage import Lineage, Stretch, keyspace_at, lineage, replaced
from lowtide.feed.differences import Swap
from tests.conftest import OpenStore
from tests.support.parts import parts_of
from tests.unit.feed.stores import SHORT, fill, kept_from
from tests.unit.sharing.loading.jobs import load


def at(store: lowtide.Store, since: int) -> str | None:
    parts = parts_of(store)
    return keyspace_at(parts.feed, parts.reader.get_latest, "users", since)


def line(store: lowtide.Store, keyspace: str, since: int = 0, until: int | None = None) -> Lineage:
    return lineage(store._backend.feed, "users", keyspace, since, last(store) if until is None else until)


def last(store: lowtide.Store) -> int:
    return store.stats().last_commit


def loaded(store: lowtide.Store, _id: int) -> int:
    ts = load(store, "append", [{"_id": _id}], collection="users", bulk_bytes=0).ts
    parts_of(store).loader.finish()
    return ts


def test_a_collection_that_was_never_replaced_has_one_keyspace(store: lowtide.Store) -> None:
    users = store.collection("users")
    users.insert_one({"_id": 1})
    assert line(store, "documents/users") == ((Stretch("documents/users", 0, 1),), 1, "documents/users", None)
    users.create_index("city")
    users.set_schema({"type": "object"})
    users.drop()
    users.insert_one({"_id": 2})
    end = last(store)
    assert line(store, "documents/users") == ((Stretch("documents/users", 0, end),), end, "documents/users", None)
    assert {at(store, since) for since in range(end + 1)} == {"documents/users"}


def test_a_rename_away_and_a_rename_to_it_end_a_line(store: lowtide.Store) -> None:
    users = store.collection("users")
    users.insert_one({"_id": 1})
    users.rename("people")
    away = last(store)
    assert line(store, "documents/users") == (
        (Stretch("documents/users", 0, away - 1),),
        away - 1,
        "documents/users",
        away,
    )
    assert line(store, "documents/users", until=away - 1).replaced is None
    assert line(store, "documents/users~1", since=away).replaced is None
    store.collection("others").insert_one({"_id": 1})
    store.collection("others").rename("users")
    assert line(store, "documents/users~1", since=away).replaced == last(store)
    assert at(store, away - 1) == "documents/users"
    assert at(store, away) == "documents/users~1"
    assert at(store, last(store)) == "documents/others"


def test_a_load_goes_on_in_another_keyspace(store: lowtide.Store) -> None:
    store["users"].insert_one({"_id": 1})
    first = loaded(store, 2)
    second = loaded(store, 3)
    end = last(store)
    found = line(store, "documents/users")
    assert [(type(each), each[0]) for each in found.parts] == [
        (Stretch, "documents/users"),
        (Swap, first),
        (Stretch, "documents/users~1"),
        (Swap, second),
        (Stretch, "documents/users~2"),
    ]
    assert (found.until, found.keyspace, found.replaced) == (end, "documents/users~2", None)
    for since in range(end + 1):
        expected = "documents/users" if since < first else f"documents/users~{1 + (since >= second)}"
        assert at(store, since) == expected
        assert line(store, expected, since, since).parts == ()
    alone = line(store, "documents/users", first - 1, first)
    assert [type(each) for each in alone.parts] == [Swap]
    assert line(store, "documents/users", first - 2, first - 1).parts == (
        Stretch("documents/users", first - 2, first - 1),
    )


def test_a_load_after_a_rename_belongs_to_the_new_collection(store: lowtide.Store) -> None:
    store["users"].insert_one({"_id": 1})
    store["users"].rename("people")
    away = last(store)
    ts = loaded(store, 2)
    assert line(store, "documents/users").replaced == away
    assert line(store, "documents/users~1", since=away).keyspace == "documents/users~2"
    assert at(store, ts - 1) == "documents/users~1"
    store["users"].rename("elsewhere")
    assert line(store, "documents/users~1", since=away).replaced == last(store)
    assert at(store, ts) == "documents/users~2"


@pytest.mark.parametrize("images", [True, False])
def test_what_the_keyspace_was_at_the_start_is_told_by_the_log_or_not_known(
    open_store: OpenStore, images: bool
) -> None:
    store = open_store(before_images=images, **SHORT)
    store.collection("others").insert_one({"_id": 1})
    store.collection("others").rename("users")
    came = last(store)
    assert at(store, came) == "documents/others"
    store.collection("users").create_index("city")
    assert at(store, came) == "documents/others", "the log still has the rename"
    fill(store)
    store.checkpoint()
    assert kept_from(store) > came + 1
    store.collection("users").create_index("name")
    assert at(store, kept_from(store)) == ("documents/others" if images else None)


def test_the_keyspace_of_a_load_is_known_without_the_log_of_it(open_store: OpenStore) -> None:
    store = open_store(before_images=False, **SHORT)
    ts = loaded(store, 1)
    fill(store)
    store.checkpoint()
    assert kept_from(store) > ts + 1
    since = last(store)
    store.collection("users").create_index("name")
    assert at(store, since) == "documents/users~1"


def test_who_follows_is_told_what_to_do() -> None:
    assert str(replaced("users", 120)).startswith("collection 'users' was replaced as a whole at commit 120: ")
    assert "Start a new stream from its snapshot" in str(replaced("users", 120))
    assert "up to version 119, or from version 121 on" in str(replaced("users", 120))
