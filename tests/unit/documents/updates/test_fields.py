"""The operators that change one value, case by case."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from lowtide.documents.updates import compile_update
from lowtide.errors import InvalidDocument, OperationFailure, WriteError
from tests.unit.documents.updates.updating import NOW, exact, updated

BIG = 10**30
EAST = datetime(2030, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
"""The beginning of 2030 in UTC, in another time zone."""

SET: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({"a": 1}, {"a": 2}, {"a": 2}),
    ({"a": 1}, {"b": 2, "c": 3}, {"a": 1, "b": 2, "c": 3}),
    ({"a": 1}, {"a": 1}, {"a": 1}),
    ({"a": 1}, {"a": 1.0}, {"a": 1.0}),
    ({"a": 1}, {"a": True}, {"a": True}),
    ({"a": 0.0}, {"a": -0.0}, {"a": -0.0}),
    ({"a": Decimal("1.0")}, {"a": Decimal("1.00")}, {"a": Decimal("1.00")}),
    ({"a": None}, {"a": None}, {"a": None}),
    ({}, {"a": None}, {"a": None}),
    ({"a": {"x": 1, "y": 2}}, {"a": {"y": 2, "x": 1}}, {"a": {"y": 2, "x": 1}}),
    ({"a": {"x": 1}}, {"a": {"x": 1}}, {"a": {"x": 1}}),
    ({"a": {"x": 1}}, {"a": {"x": 1.0}}, {"a": {"x": 1.0}}),
    ({"a": [1, [2]]}, {"a": [1, [2]]}, {"a": [1, [2]]}),
    ({"a": [1, 2]}, {"a": (1, 3)}, {"a": [1, 3]}),
    ({"a": datetime(2030, 1, 1)}, {"a": datetime(2030, 1, 1, tzinfo=UTC)}, {"a": datetime(2030, 1, 1, tzinfo=UTC)}),
    ({"a": datetime(2030, 1, 1, tzinfo=UTC)}, {"a": EAST}, {"a": EAST}),
    ({"a": UUID(int=1)}, {"a": UUID(int=1)}, {"a": UUID(int=1)}),
    ({"a": {"b": 1, "c": 2}}, {"a.b": 5}, {"a": {"b": 5, "c": 2}}),
    ({}, {"a.b.c": 5}, {"a": {"b": {"c": 5}}}),
    ({}, {"a.b": 1, "z": 2, "a.c": 3}, {"a": {"b": 1, "c": 3}, "z": 2}),
    ({}, {"a.0.b": 5}, {"a": {"0": {"b": 5}}}),
    ({"a": {}}, {"a.0": 5}, {"a": {"0": 5}}),
    ({"a": []}, {"a.0": 5}, {"a": [5]}),
    ({"a": [1]}, {"a.3": 5}, {"a": [1, None, None, 5]}),
    ({"a": [1]}, {"a.2.b": 5}, {"a": [1, None, {"b": 5}]}),
    ({"a": [1]}, {"a.2": 5, "a.1": 4}, {"a": [1, 4, 5]}),
    ({"a": [[1], [2]]}, {"a.1.0": 5}, {"a": [[1], [5]]}),
    ({"a": [[1]]}, {"a.0.2": 5}, {"a": [[1, None, 5]]}),
    ({"a": [{"b": 1}]}, {"a.0.b": 2, "a.0.c": 3}, {"a": [{"b": 2, "c": 3}]}),
    ({"a": {"01": 1}}, {"a.01": 2}, {"a": {"01": 2}}),
    ({"a": 1}, {}, {"a": 1}),
]


@pytest.mark.parametrize(("document", "fields", "expected"), SET)
def test_set_writes_values_and_makes_what_is_missing_on_the_way(
    document: dict[str, Any], fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert exact(updated(document, {"$set": fields})) == exact(expected)


UNSET: list[tuple[dict[str, Any], str, dict[str, Any]]] = [
    ({"a": 1, "b": 2}, "a", {"b": 2}),
    ({"a": None}, "a", {}),
    ({"b": 2}, "a", {"b": 2}),
    ({"a": {"b": 1, "c": 2}}, "a.b", {"a": {"c": 2}}),
    ({"a": {"b": 1}}, "a.b", {"a": {}}),
    ({"a": 5}, "a.b", {"a": 5}),
    ({"a": None}, "a.b", {"a": None}),
    ({}, "a.b.c", {}),
    ({"a": [1, 2, 3]}, "a.1", {"a": [1, None, 3]}),
    ({"a": [1, None]}, "a.1", {"a": [1, None]}),
    ({"a": [1]}, "a.4", {"a": [1]}),
    ({"a": [1]}, "a.b", {"a": [1]}),
    ({"a": [{"b": 1}]}, "a.0.b", {"a": [{}]}),
    ({"a": [{"b": 1}]}, "a.b", {"a": [{"b": 1}]}),
]


@pytest.mark.parametrize(("document", "path", "expected"), UNSET)
def test_unset_takes_fields_away_and_leaves_null_in_arrays(
    document: dict[str, Any], path: str, expected: dict[str, Any]
) -> None:
    assert exact(updated(document, {"$unset": {path: ""}})) == exact(expected)


CALCULATED: list[tuple[dict[str, Any], str, Any, dict[str, Any]]] = [
    ({"a": 1}, "$inc", 2, {"a": 3}),
    ({"a": 1}, "$inc", -2, {"a": -1}),
    ({"a": 1}, "$inc", 0, {"a": 1}),
    ({"a": 1}, "$inc", 0.0, {"a": 1.0}),
    ({"a": 1.5}, "$inc", 1, {"a": 2.5}),
    ({"a": BIG}, "$inc", 1, {"a": BIG + 1}),
    ({"a": 2**63 - 1}, "$inc", 1, {"a": 2**63}),
    ({"a": Decimal("0.1")}, "$inc", 0.2, {"a": Decimal("0.3")}),
    ({"a": 0.2}, "$inc", Decimal("0.1"), {"a": Decimal("0.3")}),
    ({"a": Decimal("1E+40")}, "$inc", 1, {"a": Decimal(10**40 + 1)}),
    ({}, "$inc", 5, {"a": 5}),
    ({}, "$inc", Decimal("0.5"), {"a": Decimal("0.5")}),
    ({"a": 3}, "$mul", 4, {"a": 12}),
    ({"a": 3}, "$mul", 1, {"a": 3}),
    ({"a": 3}, "$mul", 0.5, {"a": 1.5}),
    ({"a": Decimal("1.10")}, "$mul", 3, {"a": Decimal("3.30")}),
    ({"a": BIG}, "$mul", BIG, {"a": BIG * BIG}),
    ({}, "$mul", 4, {"a": 0}),
    ({}, "$mul", 4.0, {"a": 0.0}),
    ({}, "$mul", Decimal(4), {"a": Decimal(0)}),
    ({"a": float("inf")}, "$inc", 1, {"a": float("inf")}),
    ({"a": 5}, "$min", 3, {"a": 3}),
    ({"a": 5}, "$min", 7, {"a": 5}),
    ({"a": 5}, "$min", 5.0, {"a": 5}),
    ({"a": 5}, "$min", None, {"a": None}),
    ({"a": 5}, "$min", "x", {"a": 5}),
    ({"a": None}, "$min", 5, {"a": None}),
    ({}, "$min", 5, {"a": 5}),
    ({"a": 5}, "$max", 7, {"a": 7}),
    ({"a": 5}, "$max", 3, {"a": 5}),
    ({"a": 5}, "$max", 5.0, {"a": 5}),
    ({"a": 5}, "$max", "x", {"a": "x"}),
    ({"a": None}, "$max", 5, {"a": 5}),
    ({"a": {"x": 1}}, "$max", [0], {"a": [0]}),
    ({"a": datetime(2030, 1, 1)}, "$max", datetime(2031, 1, 1), {"a": datetime(2031, 1, 1)}),
    ({}, "$max", {"x": [1]}, {"a": {"x": [1]}}),
    ({"a": 13}, "$bit", {"and": 10}, {"a": 8}),
    ({"a": 3}, "$bit", {"or": 5}, {"a": 7}),
    ({"a": 1}, "$bit", {"xor": 5}, {"a": 4}),
    ({"a": 1}, "$bit", {"or": 6, "and": 3}, {"a": 3}),
    ({"a": 7}, "$bit", {"or": 1}, {"a": 7}),
    ({}, "$bit", {"or": 6}, {"a": 6}),
    ({}, "$bit", {"and": 6}, {"a": 0}),
    ({"a": 1}, "$currentDate", True, {"a": NOW}),
    ({}, "$currentDate", {"$type": "date"}, {"a": NOW}),
    ({"a": NOW}, "$currentDate", {"$type": "timestamp"}, {"a": NOW}),
]


@pytest.mark.parametrize(("document", "operator", "operand", "expected"), CALCULATED)
def test_a_value_is_computed_from_the_one_before(
    document: dict[str, Any], operator: str, operand: Any, expected: dict[str, Any]
) -> None:
    assert exact(updated(document, {operator: {"a": operand}})) == exact(expected)
    inside = updated({"x": document}, {operator: {"x.a": operand}})
    assert exact(inside) == exact({"x": expected})


RENAMED: list[tuple[dict[str, Any], str, str, dict[str, Any]]] = [
    ({"a": 1, "b": 2}, "a", "c", {"b": 2, "c": 1}),
    ({"a": 1, "b": 2}, "a", "b", {"b": 1}),
    ({"b": 2}, "a", "b", {"b": 2}),
    ({"a": None}, "a", "b", {"b": None}),
    ({"a": {"x": 1}}, "a.x", "a.y", {"a": {"y": 1}}),
    ({"a": {"x": [1]}}, "a.x", "b.c", {"a": {}, "b": {"c": [1]}}),
    ({"a": {}}, "a.x.y", "b", {"a": {}}),
    ({"b": 5}, "a", "b.x", {"b": 5}),
    ({"a": [1]}, "a.5", "b", {"a": [1]}),
    ({"b": [1]}, "a", "b.0", {"b": [1]}),
]


@pytest.mark.parametrize(("document", "source", "target", "expected"), RENAMED)
def test_rename_moves_a_value_and_leaves_alone_what_is_missing(
    document: dict[str, Any], source: str, target: str, expected: dict[str, Any]
) -> None:
    assert exact(updated(document, {"$rename": {source: target}})) == exact(expected)


def test_renames_may_not_chase_each_other() -> None:
    with pytest.raises(OperationFailure, match="conflicts"):
        compile_update({"$rename": {"a": "b", "b": "c"}})


def test_set_on_insert_counts_only_when_inserting() -> None:
    update = {"$setOnInsert": {"made": 1, "a.b": 2}, "$set": {"n": 3}}
    assert updated({"_id": 1, "a": 5}, update) == {"_id": 1, "a": 5, "n": 3}
    assert updated({"_id": 1}, update, inserting=True) == {"_id": 1, "made": 1, "a": {"b": 2}, "n": 3}


def test_an_operand_is_never_shared_with_a_document() -> None:
    operand: dict[str, Any] = {"x": [1]}
    update = compile_update({"$set": {"a": operand}, "$push": {"b": operand}, "$max": {"c": operand}})
    operand["x"].append(2)
    first = update.apply({}, now=NOW)
    for each in (first["a"], first["b"][0], first["c"]):
        each["x"].append(3)
    assert update.apply({}, now=NOW) == {"a": {"x": [1]}, "b": [{"x": [1]}], "c": {"x": [1]}}


def test_only_the_way_of_a_change_is_copied() -> None:
    document = {"a": {"b": {"c": 1}, "d": {"e": 1}}, "f": [1]}
    after = updated(document, {"$set": {"a.b.c": 2}})
    assert after["f"] is document["f"]
    assert after["a"]["d"] is document["a"]["d"]  # type: ignore[index]


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"_id": 7, "a": "x"}, {"$inc": {"a": 1}}, r"field 'a': \$inc .* str 'x'.*_id 7"),
    ({"_id": 7, "a": None}, {"$inc": {"a": 1}}, "but the field is NoneType None"),
    ({"_id": 7, "a": True}, {"$inc": {"a": 1}}, "but the field is bool True"),
    ({"_id": 7, "a": {"b": []}}, {"$mul": {"a.b": 2}}, r"field 'a.b': \$mul"),
    ({"_id": 7, "a": 1.5}, {"$bit": {"a": {"or": 2}}}, r"\$bit requires an int, but the field is float 1.5"),
    ({"_id": 7, "a": True}, {"$bit": {"a": {"or": 2}}}, "but the field is bool"),
    ({"_id": 7, "a": 5}, {"$set": {"a.b": 2}}, "field 'a': cannot access or create field 'b' in int 5.*_id 7"),
    ({"_id": 7, "a": None}, {"$set": {"a.b": 2}}, "cannot access or create field 'b'"),
    (
        {"_id": 7, "a": {"b": "x"}},
        {"$inc": {"a.b.c.d": 2}},
        "field 'a.b': cannot access or create field 'c' in str 'x'",
    ),
    ({"_id": 7, "a": [1]}, {"$set": {"a.b": 2}}, "field 'a': cannot access or create field 'b' in an array"),
    ({"_id": 7, "a": [1]}, {"$set": {"a.00": 2}}, "cannot access or create field '00' in an array"),
    ({"_id": 7, "a": [1]}, {"$set": {"a.-1": 2}}, "cannot access or create field '-1' in an array"),
    ({"_id": 7, "a": [1]}, {"$set": {"a.9999999": 2}}, "more than 1,500,000 nulls"),
    ({"_id": 7, "a": float("inf")}, {"$inc": {"a": float("-inf")}}, "is NaN, which cannot be stored"),
    ({"_id": 7, "a": 10**400}, {"$inc": {"a": 1.5}}, "too large for a float"),
    ({"_id": 7, "a": Decimal("Infinity")}, {"$mul": {"a": 0}}, "is not an exact Decimal"),
    ({"_id": 7, "a": Decimal("1E+99999")}, {"$inc": {"a": 1}}, "is not an exact Decimal"),
    ({"_id": 7, "a": 5}, {"$rename": {"a.x": "b"}}, "cannot access or create field 'x' in int 5"),
    ({"_id": 7, "a": [{"x": 1}]}, {"$rename": {"a.x": "b"}}, "cannot access or create field 'x' in an array"),
    ({"_id": 7, "a": [{"x": 1}]}, {"$rename": {"a.0": "b"}}, "does not support arrays: 'a.0'"),
    ({"_id": 7, "a": [{"x": 1}]}, {"$rename": {"a.0.x": "b"}}, "passes through the array 'a'"),
    ({"_id": 7, "a": [1], "b": 2}, {"$rename": {"b": "a.0"}}, "does not support arrays: 'a.0'"),
    ({"_id": 7, "a": 1, "b": 2}, {"$rename": {"b": "a.x"}}, "cannot access or create field 'x'"),
    ({"_id": 7}, {"$set": {"_id": 8}}, "_id of a document cannot be changed to 8.*_id 7"),
    ({"_id": 7}, {"$set": {"_id.x": 8}}, "cannot access or create field 'x'"),
    ({"_id": {"x": 7}}, {"$set": {"_id.x": 8}}, "_id of a document cannot be changed"),
    ({"_id": 7}, {"$inc": {"_id": 1}}, "_id of a document cannot be changed"),
    ({"_id": 7}, {"$unset": {"_id": 1}}, "_id of a document cannot be removed"),
    ({"_id": 7}, {"$rename": {"_id": "a"}}, "_id of a document cannot be removed"),
    ({"_id": 7, "a": 8}, {"$rename": {"a": "_id"}}, "_id of a document cannot be changed"),
]


@pytest.mark.parametrize(("document", "update", "message"), REFUSED)
def test_an_update_that_does_not_fit_the_document_is_refused(
    document: dict[str, Any], update: dict[str, Any], message: str
) -> None:
    before = exact(document)
    with pytest.raises(WriteError, match=message):
        compile_update(update).apply(document, now=NOW)
    assert exact(document) == before


@pytest.mark.parametrize("value", [7, 7.0, Decimal("7.0")])
def test_an_id_may_be_set_to_what_it_is(value: Any) -> None:
    assert exact(updated({"_id": 7}, {"$set": {"_id": value}})) == exact({"_id": 7})
    assert exact(updated({"_id": 7}, {"$set": {"_id": value, "a": 1}})) == exact({"_id": 7, "a": 1})


def test_an_insert_may_give_an_id_which_comes_first() -> None:
    update = {"$set": {"a": 1}, "$setOnInsert": {"_id": 5}}
    assert exact(updated({"b": 2}, update, inserting=True)) == exact({"_id": 5, "b": 2, "a": 1})
    with pytest.raises(WriteError, match="cannot be changed"):
        updated({"_id": 4}, update, inserting=True)


@pytest.mark.parametrize(
    ("update", "message"),
    [
        ({"$inc": {"a": "x"}}, r"\$inc of 'a' requires a number, got str 'x'"),
        ({"$inc": {"a": True}}, "got bool"),
        ({"$mul": {"a": None}}, r"\$mul of 'a' requires a number"),
        ({"$bit": {"a": {}}}, r"\$bit of 'a' requires an object"),
        ({"$bit": {"a": 5}}, r"\$bit of 'a' requires an object"),
        ({"$bit": {"a": {"nand": 5}}}, "unknown operation 'nand'"),
        ({"$bit": {"a": {"or": 5.0}}}, r"\$bit of 'a': 'or' must be an int"),
        ({"$currentDate": {"a": {"$type": "time"}}}, r"\$currentDate of 'a' must be True"),
        ({"$currentDate": {"a": 1}}, r"\$currentDate of 'a' must be True"),
        ({"$rename": {"a": 5}}, "as a string"),
        ({"$rename": {"a": "a"}}, "must differ"),
        ({"$rename": {"a": "a.b"}}, "conflicts"),
        ({"$rename": {"a.$": "b"}}, "the names must not contain"),
        ({"$rename": {"a": "b.$[]"}}, "the names must not contain"),
        ({"$rename": {"a": ""}}, "empty part"),
    ],
)
def test_an_operand_of_the_wrong_kind_is_refused_before_any_document(update: dict[str, Any], message: str) -> None:
    with pytest.raises(OperationFailure, match=message):
        compile_update(update)


def test_what_cannot_be_stored_is_refused_with_its_path() -> None:
    with pytest.raises(InvalidDocument) as error:
        compile_update({"$set": {"a.b": {"c": [float("nan")]}}})
    assert error.value.path == "a.b.c.0"
