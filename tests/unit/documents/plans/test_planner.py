"""Which index answers a query: by equality, range, order and prefix, and never one that lacks documents."""

from __future__ import annotations

from typing import Any

import pytest

from lowtide.documents.filters import compile_filter
from lowtide.documents.indexes.spec import Index, name_of, parse_keys
from lowtide.documents.plans.plan import KeyStretch, Plan
from lowtide.documents.plans.planner import MOST_MERGED, MOST_STRETCHES, plan
from lowtide.errors import OperationFailure
from lowtide.values.codec import encode_value
from lowtide.values.ordering import AFTER_ALL, encode, inverted


def index(keys: Any, partial: Any = None, **options: Any) -> Index:
    parts = parse_keys(keys)
    encoded = encode_value(partial) if partial is not None else None
    return Index(**{"name": name_of(parts), "keys": parts, "keyspace": "k", "partial": encoded, **options})


def planned(filter: Any, sort: Any = (), indexes: Any = (), hint: Any = None, *, limited: bool = False) -> Plan:
    return plan(compile_filter(filter), tuple(sort), indexes, hint, limited=limited)


def used(found: Plan) -> str:
    """The name of what a plan reads."""
    stage = found.described()
    inner = stage
    while "inputStage" in inner:
        inner = inner["inputStage"]
    return str(inner.get("indexName") or stage["stage"])


A, B = index("a"), index("b")
A_B, A_DOWN_B = index(["a", "b"]), index([("a", 1), ("b", -1)])
A_B_C = index(["a", "b", "c"])
UNIQUE = index("a", unique=True, name="unique")


@pytest.mark.parametrize(
    ("filter", "sort", "indexes", "expected"),
    [
        # nothing that serves
        *(({}, [], [A], "COLLSCAN"), ({"c": 1}, [], [A, B], "COLLSCAN"), ({"b": 1}, [], [A_B], "COLLSCAN")),
        *(({"a": {"$ne": 1}}, [], [A], "COLLSCAN"), ({"a": {"$exists": True}}, [], [A], "COLLSCAN")),
        *(({"a": {"$nin": [1]}}, [], [A], "COLLSCAN"), ({"a": {"$not": {"$gt": 1}}}, [], [A], "COLLSCAN")),
        *(({"$nor": [{"a": 1}]}, [], [A], "COLLSCAN"), ({"a": {"$mod": [2, 0]}}, [], [A], "COLLSCAN")),
        # by equality, by range
        *(({"a": 1}, [], [A, B], "a_1"), ({"b": 1}, [], [A, B], "b_1"), ({"a": None}, [], [A], "a_1")),
        *(({"a": {"$in": [1, 2]}}, [], [A], "a_1"), ({"a": {"$gt": 1}}, [], [A], "a_1")),
        *(({"a": {"$exists": False}}, [], [A], "a_1"), ({"a": {"$elemMatch": {"$gt": 1}}}, [], [A], "a_1")),
        *(({"$and": [{"a": 1}, {"c": 2}]}, [], [A], "a_1"), ({"a": [1, 2]}, [], [A], "a_1")),
        # equality before range, more parts before fewer, fewer useless parts before more
        *(({"a": {"$gt": 1}, "b": 1}, [], [A, B], "b_1"), ({"a": 1, "b": 1}, [], [A, B, A_B], "a_1_b_1")),
        *(({"a": 1, "b": {"$gt": 1}}, [], [A, A_B], "a_1_b_1"), ({"a": 1}, [], [A_B_C, A_B, A], "a_1")),
        *(({"a": {"$gt": 1}, "b": 1}, [], [A_B], "a_1_b_1"), ({"a": 1, "c": 1}, [], [A_B_C], "a_1_b_1_c_1")),
        *(({"a": 1}, [], [A, UNIQUE], "unique"), ({"a": {"$gt": 1}}, [], [A, index("b", unique=True)], "a_1")),
        # _id is as good as a unique index
        *(({"_id": 1}, [], [A], "_id_"), ({"_id": 1, "a": 1}, [], [A], "_id_"), ({"_id": {"$gt": 1}}, [], [A], "_id_")),
        *(({"_id": {"$gt": 1}, "a": 1}, [], [A], "a_1"), ({"_id": {"$in": [1, 2]}, "a": 1}, [], [A], "_id_")),
        # for the order alone
        *(
            ({}, [("a", 1)], [A, B], "a_1"),
            ({}, [("a", -1)], [A], "a_1"),
            ({}, [("a", 1), ("b", 1)], [A, A_B], "a_1_b_1"),
        ),
        *(({}, [("b", 1)], [A_B], "COLLSCAN"), ({}, [("a", 1), ("b", -1)], [A_B], "COLLSCAN")),
        *(({}, [("_id", 1)], [A], "COLLSCAN"), ({"c": 1}, [("a", 1)], [A], "a_1")),
        *(({"a": 1}, [("b", 1)], [A, A_B], "a_1_b_1"), ({"a": 1}, [("b", 1)], [B, A], "a_1")),
        # one that is still being built
        *(
            ({"a": 1}, [], [A.having(building=True)], "COLLSCAN"),
            ({}, [("a", 1)], [A.having(building=True)], "COLLSCAN"),
        ),
    ],
    ids=str,
)
def test_which_index_is_picked(filter: Any, sort: Any, indexes: list[Index], expected: str) -> None:
    assert used(planned(filter, sort, indexes)) == expected


def test_stretches_are_merged_up_to_a_number() -> None:
    few = planned({"a": {"$in": list(range(MOST_MERGED))}}, [("b", 1)], [A_B])
    assert few.merged == tuple(len(encode(number)) for number in range(MOST_MERGED))
    assert few.described()["inputStage"]["stage"] == "SORT_MERGE"
    many = planned({"a": {"$in": list(range(MOST_MERGED + 1))}}, [("b", 1)], [A_B])
    assert (many.merged, many.ordered) == ((), False)
    assert planned({"a": {"$in": [1, 2]}}, [], [A_B]).merged == ()


@pytest.mark.parametrize(
    ("filter", "sort", "which", "ordered", "reverse"),
    [
        *(({}, [("a", 1)], A, True, False), ({}, [("a", -1)], A, True, True), ({}, [("a", 1)], A_B, True, False)),
        *(({}, [("a", -1), ("b", -1)], A_B, True, True), ({}, [("a", -1), ("b", 1)], A_DOWN_B, True, True)),
        *(({}, [("a", 1), ("b", -1)], A_DOWN_B, True, False), ({"a": 1}, [("b", -1)], A_B, True, True)),
        *(({"a": 1}, [("a", -1), ("b", 1)], A_B, True, False), ({"a": 1}, [("b", 1), ("a", -1)], A_B, True, False)),
        *(({"a": 1, "b": 2}, [("c", -1)], A_B_C, True, True), ({"a": 1, "b": 2}, [("a", 1)], A_B_C, True, False)),
        *(({"a": {"$gt": 1}}, [("a", -1)], A, True, True), ({"a": 1}, [("c", 1)], A_B_C, False, False)),
        *(({"a": {"$gt": 1}}, [("b", 1)], A_B, False, False), ({"a": {"$in": [1, 2]}}, [("b", 1)], A_B, True, False)),
        *(
            ({"a": {"$in": [1, 2]}}, [("b", -1)], A_B, True, True),
            ({"a": {"$in": [1, 2]}}, [("a", 1)], A, False, False),
        ),
        *(
            ({"a": {"$in": [1, 2]}}, [("a", 1), ("b", 1)], A_B, False, False),
            ({"a": {"$in": [1, 2]}}, [("b", 1)], A_B.having(multikey=True), False, False),
            ({"a": {"$in": [1, 2]}}, [("b", 1)], A_B.having(long=True), False, False),
            ({"a": {"$in": ["x" * 600, "y"]}}, [("b", 1)], A_B, False, False),
            ({"a": {"$in": [1, 2]}}, [("c", 1)], A_B_C, False, False),
            ({"a": {"$in": [1, 2]}, "b": {"$gt": 1}}, [("b", -1)], A_B, True, True),
            ({"a": 3, "b": {"$in": [1, 2]}}, [("a", 1), ("c", 1)], A_B_C, True, False),
        ),
        *(({"a": {"$in": [1]}}, [("b", 1)], A_B, True, False), ({"a": 1}, [("b", 1)], A, False, False)),
        *(
            ({"a": 1}, [("b", 1)], A_B.having(multikey=True), False, False),
            ({"a": 1}, [("b", 1)], A_B.having(long=True), False, False),
        ),
        *(
            ({"a": 1}, [], A.having(multikey=True), True, False),
            ({"a": {"$gt": 1}}, [], A.having(long=True), True, False),
        ),
    ],
    ids=str,
)
def test_the_order_that_an_index_gives(filter: Any, sort: Any, which: Index, ordered: bool, reverse: bool) -> None:
    found = planned(filter, sort, [which])
    assert used(found) == which.name
    assert (found.ordered, found.reverse) == (ordered, reverse)


@pytest.mark.parametrize("which", [A.having(multikey=True), A.having(long=True)])
def test_an_index_without_an_order_is_not_read_for_it(which: Index) -> None:
    assert used(planned({}, [("a", 1)], [which])) == "COLLSCAN"


@pytest.mark.parametrize(
    ("sort", "ordered", "reverse"),
    [
        *(([], True, False), ([("_id", 1)], True, False), ([("_id", -1)], True, True), ([("a", 1)], False, False)),
        *(([("_id", -1), ("a", 1)], True, True), ([("a", 1), ("_id", 1)], False, False)),
    ],
    ids=str,
)
def test_the_documents_themselves_are_in_the_order_of_their_id(sort: Any, ordered: bool, reverse: bool) -> None:
    found = planned({"_id": {"$gt": 1}}, sort)
    assert (found.ordered, found.reverse) == (ordered, reverse)
    assert planned({"_id": 5}, sort).ordered, "one document is in any order"


def between(found: Plan) -> list[tuple[bytes, bytes]]:
    assert found.stretches is not None
    return [(each.low, each.high) for each in found.stretches]


def test_the_parts_of_an_index_that_are_read() -> None:
    one, two, x = encode(1), encode(2), encode("x")
    assert between(planned({"a": 1}, indexes=[A])) == [(one, one + AFTER_ALL)]
    assert between(planned({"a": {"$in": [2, 1]}}, indexes=[A])) == [(one, one + AFTER_ALL), (two, two + AFTER_ALL)]
    assert between(planned({"a": 1, "b": "x"}, indexes=[A_B])) == [(one + x, one + x + AFTER_ALL)]
    ((low, high),) = between(planned({"a": {"$gte": 1, "$lt": 2}}, indexes=[A]))
    assert (low, high) == (one, two)
    ((low, high),) = between(planned({"a": 1, "b": {"$lt": 2}}, indexes=[A_DOWN_B]))
    assert low > one + inverted(two)
    assert low < one + inverted(one) < high
    pairs = between(planned({"a": {"$in": [1, 2]}, "b": {"$gt": 1}}, indexes=[A_B]))
    assert len(pairs) == 2
    assert pairs == sorted(pairs)
    assert planned({"a": {"$in": []}}, indexes=[A]).ranges == 0
    assert planned({"a": {"$gt": 5, "$lt": 3}}, indexes=[A]).ranges == 0, "nothing can be both"


def test_the_very_keys_are_read_where_they_are_known() -> None:
    assert planned({"_id": {"$in": [2, 1, "x"]}}).keys == (encode(1), encode(2), encode("x"))
    assert planned({"_id": "x" * 300}).keys == (), "too long to be one"
    assert planned({"a": 1}, indexes=[UNIQUE]).keys == (encode(1),)
    assert planned({"a": {"$in": [1, 2]}}, indexes=[UNIQUE]).keys == (encode(1), encode(2))
    both = index(["a", "b"], unique=True)
    assert planned({"a": 1, "b": 2}, indexes=[both]).keys == (encode(1) + encode(2),)
    assert planned({"a": 1}, indexes=[both]).keys is None, "a part of the key is none"
    assert planned({"a": {"$gt": 1}}, indexes=[UNIQUE]).keys is None
    assert planned({"a": "x" * 500}, indexes=[UNIQUE]).keys is None, "keys that are cut are looked at"


def test_several_conditions_on_a_field_that_may_be_an_array_are_not_joined() -> None:
    filter = {"a": {"$gt": 1, "$lt": 5}}
    ((low, high),) = between(planned(filter, indexes=[A]))
    assert low > encode(1)
    assert high == encode(5)
    multikey = planned(filter, indexes=[A.having(multikey=True)])
    ((low, high),) = between(multikey)
    assert low <= encode(1) or high > encode(10**9), "two elements may do it, one each"
    assert multikey.repeats
    assert not multikey.exact
    ((low, high),) = between(planned({"a": {"$elemMatch": {"$gt": 1, "$lt": 5}}}, indexes=[A.having(multikey=True)]))
    assert low > encode(1)
    assert high == encode(5)
    narrow = planned({"a": {"$gt": 1, "$eq": 3}}, indexes=[A.having(multikey=True)])
    assert between(narrow) == [(encode(3), encode(3) + AFTER_ALL)], "the one that narrows the most is taken"


@pytest.mark.parametrize(
    ("filter", "which", "exact"),
    [
        *(
            ({"a": 1}, A, True),
            ({"a": {"$gt": 1, "$lt": 5}}, A, True),
            ({"a": None}, A, True),
            ({"a": 1, "b": 1}, A_B, True),
        ),
        *(
            ({"a": 1, "c": 1}, A, False),
            ({"a": 1, "c": {"$exists": True}}, A, False),
            ({"a": 1, "b": {"$ne": 1}}, A_B, False),
        ),
        *(({"a": 1}, A.having(multikey=True), False), ({"a": [1]}, A, False), ({"a": "x" * 400}, A, False)),
        *(
            ({"a": {"$exists": False}}, A, False),
            ({"a": {"$regex": "^x"}}, A, False),
            ({"a": {"$in": [1, 2]}}, A, True),
        ),
        *(({"a": 1, "$or": [{"b": 1}, {"c": 1}]}, A, False), ({"a": 1, "c": 3}, A_B_C, False)),
    ],
    ids=str,
)
def test_when_entries_say_it_all(filter: Any, which: Index, exact: bool) -> None:
    found = planned(filter, indexes=[which])
    assert used(found) == which.name
    assert found.exact is exact


@pytest.mark.parametrize(
    ("filter", "exact"),
    [
        ({"_id": 1}, True),
        ({"_id": {"$gt": 1}}, True),
        ({"_id": 1, "a": 1}, False),
        ({"_id": {"$ne": 1}}, False),
        ({}, False),
    ],
    ids=str,
)
def test_when_the_ids_say_it_all(filter: Any, exact: bool) -> None:
    assert planned(filter).exact is exact


@pytest.mark.parametrize(
    ("keys", "filter", "sort", "serves"),
    [
        *(("a", {"a": 1}, [], True), ("a", {"a": None}, [], False), ("a", {"a": {"$in": [1, None]}}, [], False)),
        *(("a", {"a": {"$in": [1, 2]}}, [], True), ("a", {"a": {"$exists": False}}, [], False)),
        *(
            ("a", {"a": {"$gt": 1}}, [], True),
            ("a", {}, [("a", 1)], False),
            ("a", {"a": {"$exists": True}}, [("a", 1)], True),
        ),
        *((["a", "b"], {"a": None, "b": 1}, [], True), (["a", "b"], {"a": None}, [], False)),
        *(("a", {"a": {"$exists": True}}, [], True), ("a", {"a": {"$exists": True}, "c": 1}, [], True)),
        *(("a", {"a": {"$exists": True}}, [("c", 1)], True), ("a", {"a": {"$exists": True}}, [("_id", 1)], False)),
        *(("a", {"c": {"$exists": True}}, [], False), ("a", {"a": {"$ne": 1}}, [], False)),
        *((["a", "b"], {"a": {"$exists": True}}, [], True), (["a", "b"], {"b": {"$exists": True}}, [], False)),
        *(("a", {"a": {"$regex": "^x"}}, [], True), ("a", {"$or": [{"a": 1}, {"b": 1}]}, [("a", 1)], False)),
    ],
    ids=str,
)
def test_a_sparse_index_serves_what_asks_for_one_of_its_fields(keys: Any, filter: Any, sort: Any, serves: bool) -> None:
    sparse = index(keys, sparse=True)
    assert used(planned(filter, sort, [sparse])) == (sparse.name if serves else "COLLSCAN")


@pytest.mark.parametrize(
    ("which", "filter", "exact"),
    [
        (index("a", sparse=True), {"a": {"$exists": True}}, True),
        (index([("a", -1)], sparse=True), {"a": {"$exists": True}}, True),
        (index("a", sparse=True).having(multikey=True), {"a": {"$exists": True}}, False),
        (index("a", sparse=True), {"a": {"$exists": True}, "c": {"$exists": True}}, False),
        (index("a", sparse=True), {"a": {"$exists": True, "$ne": 1}}, False),
        (index("a", sparse=True), {"a": {"$exists": True, "$gt": 1}}, False),
        (index(["a", "b"], sparse=True), {"a": {"$exists": True}}, False),
    ],
    ids=str,
)
def test_when_the_entries_of_a_sparse_index_say_that_a_field_is_there(which: Index, filter: Any, exact: bool) -> None:
    found = planned(filter, indexes=[which])
    assert used(found) == which.name
    assert found.exact is exact


@pytest.mark.parametrize("sort", [[], [("a", 1)]])
def test_what_narrows_goes_before_a_sparse_index_whose_field_is_there(sort: Any) -> None:
    sparse = index("a", sparse=True)
    assert used(planned({"a": {"$exists": True}, "b": 1}, sort, [sparse, B])) == "b_1"
    assert used(planned({"a": {"$exists": True}, "_id": {"$gt": 1}}, sort, [sparse])) == "_id_"


@pytest.mark.parametrize(
    ("partial", "filter", "serves"),
    [
        *(({"b": 1}, {"a": 1, "b": 1}, True), ({"b": 1}, {"a": 1}, False), ({"b": 1}, {"a": 1, "b": 1.0}, True)),
        *(
            ({"b": 1}, {"a": 1, "b": True}, False),
            ({"b": True}, {"a": 1, "b": 1}, False),
            ({"b": 1}, {"a": 1, "b": 2}, False),
        ),
        *(({"b": {"$gt": 5}}, {"a": 1, "b": {"$gt": 5}}, True), ({"b": {"$gt": 5}}, {"a": 1, "b": {"$gt": 7}}, True)),
        *(({"b": {"$gt": 5}}, {"a": 1, "b": {"$gte": 5}}, False), ({"b": {"$gt": 5}}, {"a": 1, "b": 6}, True)),
        *(
            ({"b": {"$gt": 5}}, {"a": 1, "b": {"$in": [6, 7]}}, True),
            ({"b": {"$gt": 5}}, {"a": 1, "b": {"$in": [5, 7]}}, False),
        ),
        *(
            ({"b": {"$gt": 5}}, {"a": 1, "b": {"$gt": "x"}}, False),
            ({"b": {"$gt": 5, "$lt": 9}}, {"a": 1, "b": 7}, True),
        ),
        *(
            ({"b": {"$gt": 5, "$lt": 9}}, {"a": 1, "b": {"$gt": 5}}, False),
            ({"b": {"$exists": True}}, {"a": 1, "b": 1}, True),
        ),
        *(
            ({"b": {"$exists": True}}, {"a": 1, "b": None}, False),
            ({"b": {"$exists": True}}, {"a": 1, "b": {"$gt": 1}}, True),
        ),
        *(
            ({"b": {"$exists": False}}, {"a": 1, "b": {"$exists": False}}, True),
            ({"b": {"$exists": False}}, {"a": 1, "b": None}, False),
        ),
        *(({"b": None}, {"a": 1, "b": {"$exists": False}}, True), ({"b": {"$in": [1, 2]}}, {"a": 1, "b": 2}, True)),
        *(({"b": {"$in": [1, 2]}}, {"a": 1, "b": {"$in": [2, 3]}}, False), ({"b": [1]}, {"a": 1, "b": [1]}, True)),
        *(
            ({"a": {"$gt": 0}}, {"a": 1}, True),
            ({"a": {"$gt": 0}}, {"a": 0}, False),
            ({"b": [1]}, {"a": 1, "b": 1}, False),
        ),
        *(
            ({"b": 1}, {"a": 1, "$or": [{"b": 1}, {"b": 1, "c": 2}]}, False),
            ({"b": 1}, {"$and": [{"a": 1}, {"b": 1}]}, True),
        ),
    ],
    ids=str,
)
def test_a_partial_index_serves_what_implies_its_filter(partial: Any, filter: Any, serves: bool) -> None:
    assert used(planned(filter, indexes=[index("a", partial)])) == ("a_1" if serves else "COLLSCAN")


def test_each_branch_of_an_or_has_a_plan_of_its_own() -> None:
    found = planned({"$or": [{"a": 1}, {"b": 1}, {"_id": 7}]}, indexes=[A, B])
    assert [used(each) for each in found.branches] == ["a_1", "b_1", "_id_"]
    assert found.repeats
    assert found.ordered
    assert not found.exact
    assert found.described()["stage"] == "SUBPLAN"
    assert not found.reads_everything


@pytest.mark.parametrize(
    ("filter", "sort", "limited", "expected"),
    [
        ({"$or": [{"a": 1}, {"c": 1}]}, [], False, "COLLSCAN"),
        ({"$or": [{"a": 1}, {"b": 1}], "_id": 3}, [], False, "_id_"),
        ({"$or": [{"a": 1}, {"b": 1}], "c": 3}, [], False, "SUBPLAN"),
        ({"$or": [{"a": 1}, {"b": 1}]}, [("a", 1)], False, "SUBPLAN"),
        ({"$or": [{"a": 1}, {"b": 1}]}, [("a", 1)], True, "a_1"),
        ({"$or": [{"a": 1}, {"$and": [{"b": 1}, {"c": 2}]}]}, [], False, "SUBPLAN"),
        ({"$or": [{"a": 1}, {"$or": [{"b": 1}, {"a": 2}]}]}, [], False, "SUBPLAN"),
    ],
    ids=str,
)
def test_when_branches_are_read(filter: Any, sort: Any, limited: bool, expected: str) -> None:
    found = planned(filter, sort, [A, B], limited=limited)
    assert used(found) == expected
    assert found.ordered or expected == "SUBPLAN"


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        *(("a_1", "a_1"), ((("a", 1),), "a_1"), ("a_1_b_1", "a_1_b_1"), ((("a", 1), ("b", 1)), "a_1_b_1")),
        *(("_id_", "_id_"), ((("_id", 1),), "_id_"), ("$natural", "COLLSCAN"), ((("$natural", -1),), "COLLSCAN")),
    ],
    ids=str,
)
def test_a_hint_is_followed(hint: Any, expected: str) -> None:
    filter = {"_id": 1} if expected == "_id_" else {"a": 1, "b": 1, "_id": 1}
    found = planned(filter, [("c", 1)], [A, A_B], hint)
    assert used(found) == expected
    assert found.reverse is (hint == (("$natural", -1),))
    assert found.ordered is (expected == "_id_")


def test_a_hint_is_followed_where_the_index_does_not_narrow() -> None:
    found = planned({"c": 1}, indexes=[A], hint="a_1")
    assert used(found) == "a_1"
    assert found.stretches is None


@pytest.mark.parametrize(
    ("hint", "which", "reason"),
    [
        *(
            ("b_1", A, "no such index is ready; the ready indexes are '_id_', 'a_1'"),
            ((("a", -1),), A, "no such index"),
        ),
        *(
            ("a_1", A.having(building=True), "the ready indexes are '_id_'$"),
            ("a_1", index("a", sparse=True), "does not contain all documents"),
        ),
        ("a_1", index("a", {"b": 1}), "does not contain all documents"),
    ],
    ids=str,
)
def test_a_hint_that_cannot_be_followed_is_an_error(hint: Any, which: Index, reason: str) -> None:
    with pytest.raises(OperationFailure, match=reason):
        planned({"c": 1}, indexes=[which], hint=hint)


def test_too_many_stretches_leave_further_parts_to_the_filter() -> None:
    few, many = list(range(30)), list(range(40))
    assert planned({"a": {"$in": few}, "b": {"$in": few}}, indexes=[A_B]).ranges == 900
    found = planned({"a": {"$in": many}, "b": {"$in": many}}, indexes=[A_B])
    assert (found.ranges, found.exact) == (40, False)
    assert used(planned({"a": {"$in": list(range(MOST_STRETCHES + 1))}}, indexes=[A])) == "COLLSCAN"


def test_stretches_of_values_that_may_be_cut_do_not_meet() -> None:
    texts = ["x" * 400 + each for each in "abc"]
    found = planned({"a": {"$in": texts}}, indexes=[A])
    ((low, high),) = between(found)
    assert low == encode(texts[0])[: len(low)]
    assert low < encode(texts[0])[:273] + b"\xff" * 17 < high
    assert not found.exact


def test_a_plan_describes_itself_in_mongodbs_words() -> None:
    assert Plan().described() == {"stage": "COLLSCAN", "direction": "forward"}
    assert Plan(keys=(b"a", b"b"), reverse=True).described() == {
        "stage": "IDSCAN",
        "indexName": "_id_",
        "direction": "backward",
        "ranges": 2,
    }
    scan = {"stage": "IXSCAN", "indexName": "a_1_b_-1", "keyPattern": {"a": 1, "b": -1}, "isMultiKey": False}
    scan |= {"isUnique": False, "direction": "forward", "ranges": 1}
    assert Plan(A_DOWN_B, stretches=(KeyStretch(b"", b"x"),)).described() == {"stage": "FETCH", "inputStage": scan}
    assert (Plan().ranges, Plan(stretches=()).ranges, Plan().reads_everything) == (1, 0, True)
    assert not Plan(A).reads_everything
