"""What docs/documents.md and docs/isolation.md promise for documents at each isolation level."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lowtide
from tests.conftest import OpenStore

LEVELS = ["none", "read_committed", "snapshot_read", "snapshot", "serializable"]
BUFFERED = LEVELS[1:]
WEAK = LEVELS[1:3]
STRONG = LEVELS[3:]


@pytest.fixture
def store(open_store: OpenStore) -> lowtide.Store:
    """Ages 0, 10 .. 90 by ``_id`` 0 to 9."""
    store = open_store()
    store.collection("users").insert_many({"_id": number, "age": number * 10} for number in range(10))
    return store


def age_of(store: lowtide.Store, _id: int) -> Any:
    found = store.collection("users").find_one({"_id": _id})
    assert found is not None
    return found["age"]


@pytest.mark.parametrize("level", LEVELS)
def test_no_level_loses_an_update_within_a_statement(store: lowtide.Store, level: str) -> None:
    tx = store.begin(level)
    tx["users"].update_one({"_id": 1}, {"$inc": {"age": 1}})
    store["users"].update_one({"_id": 1}, {"$inc": {"age": 1}})
    if level == "none":
        tx.commit()
        assert age_of(store, 1) == 12
    else:
        with pytest.raises(lowtide.ConflictError, match="the document with _id 1 of collection 'users'"):
            tx.commit()
        assert age_of(store, 1) == 11


@pytest.mark.parametrize("level", BUFFERED)
def test_between_two_statements_the_weak_levels_let_the_last_writer_win(store: lowtide.Store, level: str) -> None:
    tx = store.begin(level)
    found = tx["users"].find_one({"_id": 1})
    assert found is not None
    store["users"].update_one({"_id": 1}, {"$inc": {"age": 1}})
    tx["users"].update_one({"_id": 1}, {"$set": {"age": found["age"] + 100}})
    if level in WEAK:
        tx.commit()
        assert age_of(store, 1) == 110
    else:
        with pytest.raises(lowtide.ConflictError):
            tx.commit()


@pytest.mark.parametrize("level", LEVELS)
def test_transactions_that_change_different_documents_do_not_conflict(store: lowtide.Store, level: str) -> None:
    store["users"].create_index("age")
    first, second = store.begin(level), store.begin(level)
    first["users"].update_one({"_id": 1}, {"$set": {"age": 5}})
    second["users"].update_one({"_id": 2}, {"$set": {"age": 5}})
    first.commit()
    second.commit()
    assert [user["_id"] for user in store["users"].find({"age": 5})] == [1, 2]


@pytest.mark.parametrize("level", STRONG)
def test_write_skew_is_refused_at_serializable_only(store: lowtide.Store, level: str) -> None:
    first, second = store.begin(level), store.begin(level)
    for tx, mine, other in ((first, 1, 2), (second, 2, 1)):
        assert tx["users"].find_one({"_id": other}) is not None
        tx["users"].update_one({"_id": mine}, {"$set": {"age": 0}})
    first.commit()
    if level == "serializable":
        with pytest.raises(lowtide.ConflictError):
            second.commit()
    else:
        second.commit()


@pytest.mark.parametrize("indexed", [True, False], ids=["by an index", "by the whole collection"])
def test_what_serializable_has_read_is_what_the_plan_has_read(store: lowtide.Store, indexed: bool) -> None:
    if indexed:
        store["users"].create_index("age")
    tx = store.begin("serializable")
    assert tx["users"].count_documents({"age": {"$lt": 30}}) == 3
    tx["notes"].insert_one({"young": 3})
    store["users"].insert_one({"_id": 10, "age": 100})
    if indexed:
        tx.commit()
    else:
        with pytest.raises(lowtide.ConflictError):
            tx.commit()


def test_a_document_that_comes_into_the_range_that_was_read_is_a_conflict(store: lowtide.Store) -> None:
    store["users"].create_index("age")
    tx = store.begin("serializable")
    assert tx["users"].count_documents({"age": {"$lt": 30}}) == 3
    tx["notes"].insert_one({"young": 3})
    store["users"].update_one({"_id": 9}, {"$set": {"age": 29}})
    with pytest.raises(lowtide.ConflictError):
        tx.commit()


@pytest.mark.parametrize("level", BUFFERED)
@pytest.mark.parametrize("change", ["index", "schema", "array"])
def test_who_writes_relies_on_indexes_and_schema_at_every_level(store: lowtide.Store, level: str, change: str) -> None:
    users = store["users"]
    users.create_index("tags")
    tx = store.begin(level)
    tx["users"].update_one({"_id": 1}, {"$set": {"age": 5}})
    if change == "index":
        users.create_index("age")
    elif change == "schema":
        users.set_schema({"properties": {"age": {"type": "integer"}}})
    else:
        users.insert_one({"tags": ["the", "first"]})
    with pytest.raises(lowtide.ConflictError):
        tx.commit()


@pytest.mark.parametrize("level", LEVELS)
def test_a_cursor_does_not_see_what_is_written_while_it_is_read(store: lowtide.Store, level: str) -> None:
    with store.transaction(level) as tx:
        met = 0
        for user in tx["users"].find({"age": {"$gte": 0}}):
            tx["users"].insert_one({"_id": 100 + user["_id"], "age": 1})
            met += 1
        assert met == 10
        assert tx["users"].count_documents({}) == 20


@pytest.mark.parametrize("level", LEVELS)
def test_update_many_that_fails_changes_nothing(store: lowtide.Store, level: str) -> None:
    store["users"].update_one({"_id": 7}, {"$set": {"age": "seventy"}})
    with store.transaction(level) as tx:
        with pytest.raises(lowtide.WriteError, match="_id 7"):
            tx["users"].update_many({}, {"$inc": {"age": 1}})
        assert tx["users"].find_one({"_id": 0}) == {"_id": 0, "age": 0}
    assert age_of(store, 0) == 0


def test_run_turns_a_concurrent_duplicate_into_a_plain_one(store: lowtide.Store) -> None:
    store["users"].create_index("email", unique=True, sparse=True)
    attempts = 0

    def register(tx: lowtide.Transaction) -> None:
        nonlocal attempts
        attempts += 1
        tx["users"].insert_one({"_id": "mine", "email": "x"})
        if attempts == 1:
            store["users"].insert_one({"_id": "theirs", "email": "x"})

    with pytest.raises(lowtide.DuplicateKeyError) as refusal:
        store.run(register)
    assert attempts == 2
    assert type(refusal.value) is lowtide.DuplicateKeyError
    assert refusal.value.details["_id"] == "theirs"


def test_a_cursor_is_named_with_the_line_that_made_it_read(store: lowtide.Store) -> None:
    here = Path(__file__).name
    cursor, results = store["users"].find(), store["users"].find()
    next(cursor)
    _ = next(iter(results))
    pipeline = store["users"].aggregate([])
    next(pipeline)
    held = store.stats().snapshots
    assert len(held) == 3
    assert all(here in each.where for each in held)
    for each in (cursor, results, pipeline):
        each.close()
    assert store.stats().snapshots == []


def test_a_duplicate_ends_its_statement_only(store: lowtide.Store) -> None:
    with store.transaction() as tx:
        with pytest.raises(lowtide.DuplicateKeyError):
            tx["users"].insert_one({"_id": 1})
        tx["users"].insert_one({"_id": "new"})
    assert store["users"].count_documents({}) == 11


def test_a_bulk_write_commits_what_was_not_refused(store: lowtide.Store) -> None:
    with pytest.raises(lowtide.BulkWriteError):
        store["users"].insert_many([{"_id": 20}, {"_id": 1}, {"_id": 21}])
    assert store["users"].count_documents({"_id": {"$gte": 20}}) == 1
    with pytest.raises(lowtide.BulkWriteError), store.transaction() as tx:
        tx["users"].insert_many([{"_id": 30}, {"_id": 1}])
    assert store["users"].count_documents({"_id": 30}) == 0


@pytest.mark.parametrize("level", ["read_committed", "snapshot_read", "snapshot", "serializable"])
@pytest.mark.parametrize("unique", [False, True])
def test_upserts_that_race_insert_twice_below_serializable_unless_an_index_is_unique(
    store: lowtide.Store, level: str, unique: bool
) -> None:
    if unique:
        store["counters"].create_index("name", unique=True)

    def upsert(tx: Any) -> None:
        tx["counters"].update_one({"name": "hits"}, {"$inc": {"n": 1}}, upsert=True)

    first, second = store.begin(level), store.begin(level)
    upsert(first)
    upsert(second)
    first.commit()
    if unique or level == "serializable":
        with pytest.raises(lowtide.ConflictError):
            second.commit()
        store.run(upsert, isolation=level)
        assert [each["n"] for each in store["counters"].find()] == [2]
    else:
        second.commit()
        assert [each["n"] for each in store["counters"].find()] == [1, 1]


def test_a_position_without_a_consumer_can_be_lost_with_the_next_checkpoint(open_store: OpenStore) -> None:
    store = open_store(segment_bytes=1 << 16)
    events = store["events"]
    with events.watch(since=0, timeout=0) as changes:
        events.insert_one({"_id": 0})
        assert [change.id for change in changes] == [0]
        place = changes.position
    consumer = store.consumer("kept", since=place)
    for number in range(1, 200):
        events.insert_one({"_id": number, "filling": "x" * 1000})
    store.checkpoint()
    with events.watch(since=place, timeout=0) as changes:
        assert len(list(changes)) == 199
    consumer.remove()
    for number in range(200, 400):
        events.insert_one({"_id": number, "filling": "x" * 1000})
    store.checkpoint()
    with pytest.raises(lowtide.ChangesLost), events.watch(since=place, timeout=0) as changes:
        list(changes)
