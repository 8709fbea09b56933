"""Cursors: what they return, what may be set before they start, and which instant they hold for how long."""

from __future__ import annotations

import gc
from itertools import islice
from typing import Any

import pytest

import lowtide
from lowtide import OperationFailure, UsageError
from lowtide.documents.cursor import Cursor, parse_hint


@pytest.fixture
def users(store: lowtide.Store) -> lowtide.Collection:
    """Six documents, in two cities."""
    found = store.collection("users")
    found.insert_many([{"_id": each, "city": "ab"[each % 2], "age": 10 * (each // 2)} for each in range(6)])
    return found


def ids(found: Any) -> list[Any]:
    return [each["_id"] for each in found]


@pytest.mark.parametrize(
    ("chain", "expected"),
    [
        (lambda cursor: cursor, [0, 1, 2, 3, 4, 5]),
        (lambda cursor: cursor.sort("_id", -1), [5, 4, 3, 2, 1, 0]),
        (lambda cursor: cursor.sort("age"), [0, 1, 2, 3, 4, 5]),
        (lambda cursor: cursor.sort([("city", 1), ("age", -1)]), [4, 2, 0, 5, 3, 1]),
        (lambda cursor: cursor.sort({"city": -1, "_id": -1}), [5, 3, 1, 4, 2, 0]),
        (lambda cursor: cursor.sort("age", lowtide.DESCENDING).limit(3), [4, 5, 2]),
        (lambda cursor: cursor.sort("age").sort("_id", -1), [5, 4, 3, 2, 1, 0]),
        (lambda cursor: cursor.skip(4), [4, 5]),
        (lambda cursor: cursor.skip(9), []),
        (lambda cursor: cursor.limit(2), [0, 1]),
        (lambda cursor: cursor.limit(-2), [0, 1]),
        (lambda cursor: cursor.limit(0), [0, 1, 2, 3, 4, 5]),
        (lambda cursor: cursor.limit(2).skip(3), [3, 4]),
        (lambda cursor: cursor.sort("_id", -1).skip(1).limit(2), [4, 3]),
        (lambda cursor: cursor.sort([("age", -1), ("_id", 1)]).skip(2).limit(2), [2, 3]),
        (lambda cursor: cursor.hint("$natural"), [0, 1, 2, 3, 4, 5]),
        (lambda cursor: cursor.hint([("$natural", -1)]), [5, 4, 3, 2, 1, 0]),
        (lambda cursor: cursor.hint("_id_").hint(None), [0, 1, 2, 3, 4, 5]),
    ],
)
def test_sort_skip_limit_and_hint(users: lowtide.Collection, chain: Any, expected: list[int]) -> None:
    cursor = users.find()
    assert chain(cursor) is cursor
    assert ids(cursor) == expected


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("limit", [0, 1, 3, 10])
@pytest.mark.parametrize("skip", [0, 2, 10])
def test_skip_and_limit_cut_the_same_order_with_and_without_an_index(
    users: lowtide.Collection, indexed: bool, limit: int, skip: int
) -> None:
    if indexed:
        users.create_index([("city", 1), ("age", -1)])
    everything = [4, 2, 0, 5, 3, 1]
    found = ids(users.find(sort=[("city", 1), ("age", -1)], skip=skip, limit=limit))
    assert found == everything[skip:][: limit or None]


@pytest.mark.parametrize(
    ("misuse", "reason"),
    [
        *(
            (lambda cursor: cursor.skip(-1), "skip must be an integer of at least 0"),
            (lambda cursor: cursor.skip("1"), "skip"),
        ),
        *((lambda cursor: cursor.skip(True), "skip"), (lambda cursor: cursor.limit(1.5), "limit must be an integer")),
        *((lambda cursor: cursor.limit(None), "limit"), (lambda cursor: cursor.sort("a", 2), "1")),
        *(
            (lambda cursor: cursor.to_list(-1), "length"),
            (lambda cursor: cursor.to_list(0), "length must be at least 1"),
        ),
        *(
            (lambda cursor: cursor.hint([("a", 3)]), "direction"),
            (lambda cursor: cursor.hint("nope").to_list(), "no such"),
        ),
    ],
)
def test_what_makes_no_sense_is_refused(users: lowtide.Collection, misuse: Any, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        misuse(users.find())


@pytest.mark.parametrize(
    "change",
    [
        *(lambda cursor: cursor.sort("age"), lambda cursor: cursor.skip(1)),
        *(lambda cursor: cursor.limit(1), lambda cursor: cursor.hint("_id_")),
    ],
)
def test_a_cursor_that_has_begun_or_ended_is_not_changed(users: lowtide.Collection, change: Any) -> None:
    cursor = users.find()
    next(cursor)
    with pytest.raises(UsageError, match="the cursor has already started"):
        change(cursor)
    cursor.close()
    with pytest.raises(UsageError, match="the cursor has already started"):
        change(cursor)
    assert len(ids(change(cursor.rewind()))) > 0


def test_results_come_one_by_one_and_then_no_more(users: lowtide.Collection) -> None:
    cursor = users.find({"city": "a"})
    assert [next(cursor)["_id"], cursor.next()["_id"], next(cursor)["_id"]] == [0, 2, 4]
    assert cursor.alive
    with pytest.raises(StopIteration):
        next(cursor)
    assert not cursor.alive
    assert list(cursor) == []
    with pytest.raises(StopIteration):
        next(cursor)


def test_ways_of_iterating_take_up_where_the_other_stopped(users: lowtide.Collection) -> None:
    cursor = users.find()
    assert next(cursor)["_id"] == 0
    assert ids(cursor.to_list(2)) == [1, 2]
    assert ids(cursor.to_list(1)) == [3]
    assert ids(cursor) == [4, 5]
    assert cursor.to_list() == []


def test_a_loop_that_is_left_can_be_taken_up_again(store: lowtide.Store, users: lowtide.Collection) -> None:
    cursor = users.find()
    for each in cursor:
        if each["_id"] == 1:
            break
    assert len(store.stats().snapshots) == 1
    assert next(cursor)["_id"] == 2
    assert ids(islice(cursor, 2)) == [3, 4]
    assert ids(cursor) == [5]
    assert store.stats().snapshots == []


def test_to_list_gives_what_is_there(users: lowtide.Collection) -> None:
    assert ids(users.find().to_list(100)) == [0, 1, 2, 3, 4, 5]
    assert ids(users.find().to_list(None)) == [0, 1, 2, 3, 4, 5]


def test_a_clone_is_the_same_query_not_begun(users: lowtide.Collection) -> None:
    cursor = users.find({"city": "a"}, {"city": 1}).sort("_id", -1).skip(1).limit(1).hint("_id_")
    next(cursor)
    assert cursor.clone().to_list() == [{"_id": 2, "city": "a"}]
    assert list(cursor) == []
    cursor.close()
    assert ids(cursor.clone().sort("_id").limit(0)) == [2, 4]


def test_rewound_it_begins_anew_at_a_later_instant(users: lowtide.Collection) -> None:
    cursor = users.find({"city": "a"})
    next(cursor)
    users.insert_one({"_id": 6, "city": "a"})
    assert cursor.rewind() is cursor
    assert ids(cursor) == [0, 2, 4, 6]
    assert ids(cursor.rewind()) == [0, 2, 4, 6], "also after its end"


def test_it_reads_the_instant_of_its_first_result(users: lowtide.Collection) -> None:
    cursor = users.find()
    users.insert_one({"_id": 6})
    next(cursor)
    users.delete_many({})
    users.insert_one({"_id": 7})
    assert ids(cursor) == [1, 2, 3, 4, 5, 6]
    assert ids(users.find()) == [7]


def test_its_snapshot_is_held_while_it_runs_and_no_longer(store: lowtide.Store, users: lowtide.Collection) -> None:
    cursor = users.find()
    assert store.stats().snapshots == []
    next(cursor)
    (held,) = store.stats().snapshots
    assert __file__.rpartition("/")[2] in str(held.where), "the line that opened it is the caller's"
    list(cursor)
    assert store.stats().snapshots == []


@pytest.mark.parametrize("end", ["close", "with", "drop", "rewind", "exhaust", "list"])
def test_every_end_lets_go_of_the_snapshot(store: lowtide.Store, users: lowtide.Collection, end: str) -> None:
    cursor: Cursor | None = users.find()
    assert cursor is not None
    next(cursor)
    assert len(store.stats().snapshots) == 1
    if end == "close":
        cursor.close()
        cursor.close()
        assert not cursor.alive
        assert list(cursor) == []
    elif end == "with":
        with cursor as same:
            assert same is cursor
    elif end == "drop":
        cursor = None
        gc.collect()
    elif end == "rewind":
        cursor.rewind()
    elif end == "exhaust":
        assert len(list(islice(cursor, 10))) == 5
    else:
        cursor.to_list()
    assert store.stats().snapshots == []


def test_a_cursor_that_never_began_holds_nothing_and_stays_closed(
    store: lowtide.Store, users: lowtide.Collection
) -> None:
    with users.find() as cursor:
        pass
    assert not cursor.alive
    assert list(cursor) == []
    assert store.stats().snapshots == []


def test_an_error_on_the_way_lets_go_of_the_snapshot(store: lowtide.Store, users: lowtide.Collection) -> None:
    with pytest.raises(OperationFailure):
        users.find().hint("nope").to_list()
    gc.collect()
    assert store.stats().snapshots == []


def test_in_a_transaction_it_sees_the_writes_that_were_there_when_it_began(
    store: lowtide.Store, users: lowtide.Collection
) -> None:
    with store.transaction() as tx:
        mine = tx["users"]
        mine.delete_one({"_id": 0})
        cursor = mine.find()
        assert next(cursor)["_id"] == 1
        mine.insert_one({"_id": 9})
        mine.delete_many({"_id": {"$lt": 5}})
        assert ids(cursor) == [2, 3, 4, 5]
        assert ids(mine.find()) == [5, 9]
        for each in mine.find():
            mine.insert_one({"_id": each["_id"] + 100})  # it does not meet what its own loop writes
        assert ids(mine.find()) == [5, 9, 105, 109]


@pytest.mark.parametrize("keys", [None, "n", [("n", -1)]], ids=str)
def test_in_a_transaction_it_goes_on_unmoved_by_what_is_written_meanwhile(store: lowtide.Store, keys: Any) -> None:
    """Also where an index leads to documents that are fetched later."""
    store["many"].insert_many([{"_id": each, "n": each} for each in range(1500)])
    if keys is not None:
        store["many"].create_index(keys)
    with store.transaction() as tx:
        mine = tx["many"]
        cursor = mine.find({"n": {"$gte": 10}})
        first = next(cursor)
        mine.update_many({}, {"$inc": {"n": 10_000}})
        mine.delete_many({"_id": {"$gte": 50}})
        found = [first, *cursor]
        assert sorted(ids(found)) == list(range(10, 1500))
        assert all(each["n"] == each["_id"] for each in found)
        assert mine.count_documents({"n": {"$gte": 10}}) == 50


@pytest.mark.parametrize("level", [each.value for each in lowtide.Isolation])
def test_at_every_level_it_reads_one_instant(store: lowtide.Store, users: lowtide.Collection, level: str) -> None:
    with store.transaction(level) as tx:
        cursor = tx["users"].find()
        next(cursor)
        users.delete_many({})
        assert ids(cursor) == [1, 2, 3, 4, 5]


def test_after_the_end_of_its_transaction_it_is_of_no_use(store: lowtide.Store, users: lowtide.Collection) -> None:
    tx = store.begin()
    cursor = tx["users"].find()
    next(cursor)
    fresh = tx["users"].find()
    tx.commit()
    with pytest.raises(UsageError, match="cannot be used any more"):
        fresh.to_list()


def test_of_a_snapshot_it_ends_with_it(store: lowtide.Store, users: lowtide.Collection) -> None:
    with store.snapshot() as snapshot:
        cursor = snapshot["users"].find()
        users.delete_many({})
        assert len(cursor.to_list()) == 6
        assert len(store.stats().snapshots) == 1, "a cursor of a snapshot needs none of its own"
    with pytest.raises(UsageError):
        cursor.rewind().to_list()


def test_what_it_gives_is_the_callers(users: lowtide.Collection) -> None:
    for each in users.find():
        each["city"] = {"changed": True}
    assert {each["city"] for each in users.find()} == {"a", "b"}


def test_explain_tells_what_was_touched(users: lowtide.Collection) -> None:
    plan = users.find({"city": "a"}).sort("age").explain()
    assert plan["queryPlanner"] == {
        "namespace": "users",
        "winningPlan": {
            "stage": "SORT",
            "sortPattern": {"age": 1},
            "inputStage": {"stage": "COLLSCAN", "direction": "forward"},
        },
    }
    assert plan["executionStats"] == {"nReturned": 3, "totalKeysExamined": 0, "totalDocsExamined": 6}
    users.create_index([("city", 1), ("age", 1)])
    plan = users.find({"city": "a"}).sort("age").limit(2).explain()
    assert plan["queryPlanner"]["winningPlan"]["stage"] == "FETCH"
    assert plan["executionStats"]["nReturned"] == 2
    assert plan["executionStats"]["totalDocsExamined"] == 2
    plan = users.find({"_id": {"$in": [1, 2, 99]}}).explain()
    assert plan["queryPlanner"]["winningPlan"] == {
        "stage": "IDSCAN",
        "indexName": "_id_",
        "direction": "forward",
        "ranges": 3,
    }
    assert plan["executionStats"]["totalDocsExamined"] == 2


def test_explain_leaves_the_cursor_as_it_is(store: lowtide.Store, users: lowtide.Collection) -> None:
    cursor = users.find().limit(2)
    cursor.explain()
    assert store.stats().snapshots == []
    assert ids(cursor.sort("_id", -1)) == [5, 4]


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        *((None, None), ("a_1", "a_1"), ("$natural", "$natural"), ([("a", 1)], (("a", 1),)), ({"a": -1}, (("a", -1),))),
        *(([("$natural", -1)], (("$natural", -1),)), ({"$natural": 1}, (("$natural", 1),))),
    ],
)
def test_forms_of_hints(hint: Any, expected: Any) -> None:
    assert parse_hint(hint) == expected


def test_results_of_a_pipeline_hold_their_snapshot_until_their_end(
    store: lowtide.Store, users: lowtide.Collection
) -> None:
    results = users.aggregate([{"$match": {"city": "a"}}, {"$project": {"age": 1}}])
    assert next(results) == {"_id": 0, "age": 0}
    users.delete_many({})
    assert len(store.stats().snapshots) == 1
    assert results.to_list(1) == [{"_id": 2, "age": 10}]
    assert list(results) == [{"_id": 4, "age": 20}]
    assert store.stats().snapshots == []
    with users.aggregate([]) as results:
        assert len(store.stats().snapshots) == 1
    assert store.stats().snapshots == []
    assert list(results) == []
    results.close()
    dropped = users.aggregate([])
    del dropped
    gc.collect()
    assert store.stats().snapshots == []


@pytest.mark.parametrize(("part", "expected"), [(slice(2, 2), []), (slice(0, 0), []), (slice(9, 12), [])])
def test_a_slice_may_be_empty(users: lowtide.Collection, part: slice, expected: list[int]) -> None:
    cursor = users.find().sort("_id")
    assert cursor[part] is cursor
    assert ids(cursor.clone()) == expected
    assert cursor.explain()["executionStats"]["nReturned"] == 0
    assert cursor.to_list() == expected
    assert ids(cursor.clone().limit(1)) == ids(users.find().sort("_id").skip(part.start).limit(1))


@pytest.mark.parametrize("index", [slice(2, 1), slice(-1, 2), slice(0, 2, 1), -1])
def test_an_index_that_no_result_can_have_is_an_index_error(users: lowtide.Collection, index: Any) -> None:
    with pytest.raises(IndexError):
        users.find()[index]


def test_a_cursor_tells_what_it_asks_for_and_how_far_it_is(users: lowtide.Collection) -> None:
    cursor = users.find({"age": {"$gte": 10}}, sort=[("age", -1)], skip=1, limit=2, hint="_id_")
    asked = "<cursor of collection 'users', filter={'age': {'$gte': 10}}, sort=[('age', -1)], skip=1, limit=2"
    assert repr(cursor) == f"{asked}, hint='_id_', not begun>"
    next(cursor)
    assert repr(cursor) == f"{asked}, hint='_id_', open>"
    cursor.close()
    assert repr(cursor) == f"{asked}, hint='_id_', closed>"
    assert repr(users.find()) == "<cursor of collection 'users', not begun>"
    assert repr(users.find()[1:1]) == "<cursor of collection 'users', skip=1, empty, not begun>"
    assert len(repr(users.find({"_id": {"$in": list(range(1000))}}))) < 300


def test_results_of_a_pipeline_tell_what_they_are(users: lowtide.Collection) -> None:
    results = users.aggregate([])
    assert repr(results) == "<results of aggregate on collection 'users', open>"
    results.close()
    assert repr(results) == "<results of aggregate on collection 'users', closed>"


def test_a_pipeline_explains_what_is_read_and_what_each_stage_gives(users: lowtide.Collection) -> None:
    users.create_index("city")
    results = users.aggregate(
        [
            {"$match": {"city": "a"}},
            {"$sort": {"age": 1}},
            {"$unwind": "$age"},
            {"$group": {"_id": "$age", "n": {"$sum": 1}}},
            {"$limit": 2},
        ]
    )
    first, *others = results.explain()["stages"]
    assert first["nReturned"] == 3
    assert first["$cursor"]["executionStats"] == {"nReturned": 3, "totalKeysExamined": 3, "totalDocsExamined": 3}
    winning = first["$cursor"]["queryPlanner"]["winningPlan"]
    assert (winning["stage"], winning["inputStage"]["inputStage"]["indexName"]) == ("SORT", "city_1")
    assert others == [
        {"$unwind": "$age", "nReturned": 3},
        {"$group": {"_id": "$age", "n": {"$sum": 1}}, "nReturned": 2},  # no more were asked for
        {"$limit": 2, "nReturned": 2},
    ]
    assert len(list(results)) == 2


def test_a_pipeline_explains_itself_with_the_writes_of_its_transaction(
    store: lowtide.Store, users: lowtide.Collection
) -> None:
    lookup = {"from": "users", "localField": "age", "foreignField": "age", "as": "same"}
    with store.transaction() as tx:
        tx["users"].insert_one({"_id": 9, "age": 10})
        stages = tx["users"].aggregate([{"$match": {"age": 10}}, {"$lookup": lookup}, {"$unwind": "$same"}]).explain()
    assert [each["nReturned"] for each in stages["stages"]] == [3, 3, 9]


@pytest.mark.parametrize("keys", ["n", [("n", -1)], "o.n", ["n", "city"]])
def test_what_exists_is_found_and_counted_by_a_sparse_index(users: lowtide.Collection, keys: Any) -> None:
    bodies: list[dict[str, Any]] = [
        {"n": None},
        {"n": 1},
        {"n": []},
        {"n": [1, 2]},
        {"o": {"n": 1}},
        {"o": [{}, {"n": 2}]},
        {"o": [{}]},
        {"o": 5},
    ]
    path = keys if isinstance(keys, str) else "n"
    for number, body in enumerate(bodies, 100):
        users.insert_one({"_id": number, **body})
        for _ in range(2):
            found = ids(users.find({path: {"$exists": True}}, hint="$natural"))
            assert sorted(ids(users.find({path: {"$exists": True}}))) == found
            assert users.count_documents({path: {"$exists": True}}) == len(found)
            users.create_index(keys, sparse=True)
    (name,) = set(users.index_information()) - {"_id_"}
    plan = users.find({path: {"$exists": True}}).explain()
    assert plan["queryPlanner"]["winningPlan"]["inputStage"]["indexName"] == name
    assert plan["executionStats"]["totalDocsExamined"] < 14
