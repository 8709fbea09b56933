"""$project, $addFields, $unset and $replaceRoot."""

from __future__ import annotations

from typing import Any

import pytest

from lowtide.errors import OperationFailure
from tests.unit.documents.aggregation.piping import run, same

DOCUMENT: dict[str, Any] = {
    "_id": 1,
    "a": 2,
    "o": {"x": 1, "y": {"z": 2}},
    "list": [{"p": 1, "q": 2}, 3, [{"p": 4, "r": 5}], {"q": 6}],
}

CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"$project": {"a": 1}}, {"_id": 1, "a": 2}),
    ({"$project": {"missing": 1}}, {"_id": 1}),
    ({"$project": {"a": True, "_id": 0}}, {"a": 2}),
    ({"$project": {"a": 5, "_id": False}}, {"a": 2}),
    ({"$project": {"_id": 1}}, {"_id": 1}),
    ({"$project": {"o": 1, "a": 1}}, {"_id": 1, "a": 2, "o": {"x": 1, "y": {"z": 2}}}),
    ({"$project": {"o.x": 1}}, {"_id": 1, "o": {"x": 1}}),
    ({"$project": {"o": {"y": {"z": 1}}}}, {"_id": 1, "o": {"y": {"z": 2}}}),
    ({"$project": {"o.nothing": 1}}, {"_id": 1, "o": {}}),
    ({"$project": {"a.x": 1}}, {"_id": 1}),
    ({"$project": {"list.p": 1}}, {"_id": 1, "list": [{"p": 1}, [{"p": 4}], {}]}),
    ({"$project": {"_id": 0}}, {key: each for key, each in DOCUMENT.items() if key != "_id"}),
    ({"$project": {"list": 0, "o": 0}}, {"_id": 1, "a": 2}),
    ({"$project": {"list": 0, "o": 0, "_id": 1}}, {"_id": 1, "a": 2}),
    (
        {"$project": {"list.p": 0, "o.y.z": 0}},
        {
            "_id": 1,
            "a": 2,
            "o": {"x": 1, "y": {}},
            "list": [{"q": 2}, 3, [{"r": 5}], {"q": 6}],
        },
    ),
    ({"$project": {"b": {"$add": ["$a", 1]}}}, {"_id": 1, "b": 3}),
    ({"$project": {"_id": "$a"}}, {"_id": 2}),
    ({"$project": {"a": 1, "_id": {"$add": ["$_id", 9]}}}, {"_id": 10, "a": 2}),
    ({"$project": {"a": "$o.x", "_id": 0}}, {"a": 1}),
    ({"$project": {"text": "text", "_id": 0}}, {"text": "text"}),
    ({"$project": {"pair": ["$a", "$missing"], "_id": 0}}, {"pair": [2, None]}),
    ({"$project": {"gone": "$missing", "_id": 0}}, {}),
    ({"$project": {"one": {"$literal": 1}, "_id": 0}}, {"one": 1}),
    ({"$project": {"n.m": "$a", "_id": 0}}, {"n": {"m": 2}}),
    ({"$project": {"o": {"x": 1, "w": "$a"}, "_id": 0}}, {"o": {"x": 1, "w": 2}}),
    ({"$project": {"a": {"$cond": [False, 1, "$$REMOVE"]}}}, {"_id": 1}),
    ({"$project": {"_id": 0, "list.p": {"$literal": 0}}}, {"list": [{"p": 0}, {"p": 0}, [{"p": 0}], {"p": 0}]}),
    ({"$addFields": {"a": "$o.x"}}, {**DOCUMENT, "a": 1}),
    ({"$addFields": {"b": 1}}, {**DOCUMENT, "b": 1}),
    ({"$set": {"b": {"$sum": "$list.p"}}}, {**DOCUMENT, "b": 1}),
    ({"$addFields": {"a": "$$REMOVE"}}, {key: each for key, each in DOCUMENT.items() if key != "a"}),
    ({"$addFields": {"b": "$missing"}}, DOCUMENT),
    ({"$addFields": {"o.x": 9, "o.new": "$a"}}, {**DOCUMENT, "o": {"x": 9, "y": {"z": 2}, "new": 2}}),
    ({"$addFields": {"o": {"y": {"w": 1}}}}, {**DOCUMENT, "o": {"x": 1, "y": {"z": 2, "w": 1}}}),
    ({"$addFields": {"o": {"$literal": {"k": 1}}}}, {**DOCUMENT, "o": {"k": 1}}),
    ({"$addFields": {"a.b": 1}}, {**DOCUMENT, "a": {"b": 1}}),
    ({"$addFields": {"n.m": 1}}, {**DOCUMENT, "n": {"m": 1}}),
    (
        {"$addFields": {"list.p": 0}},
        {**DOCUMENT, "list": [{"p": 0, "q": 2}, {"p": 0}, [{"p": 0, "r": 5}], {"q": 6, "p": 0}]},
    ),
    ({"$addFields": {"a": "$o.x", "b": "$a"}}, {**DOCUMENT, "a": 1, "b": 2}),
    ({"$unset": "list"}, {key: each for key, each in DOCUMENT.items() if key != "list"}),
    ({"$unset": ["list", "o.y", "nothing"]}, {"_id": 1, "a": 2, "o": {"x": 1}}),
    ({"$replaceRoot": {"newRoot": "$o"}}, {"x": 1, "y": {"z": 2}}),
    ({"$replaceRoot": {"newRoot": {"$mergeObjects": [{"d": 0}, "$o"]}}}, {"d": 0, "x": 1, "y": {"z": 2}}),
    ({"$replaceWith": {"k": "$a"}}, {"k": 2}),
]


@pytest.mark.parametrize(("stage", "wanted"), CASES, ids=repr)
def test_a_stage_shapes_a_document_as_it_should(stage: dict[str, Any], wanted: dict[str, Any]) -> None:
    before = repr(DOCUMENT)
    assert [repr(each) for each in run([stage], [DOCUMENT])] == [repr(wanted)]
    assert repr(DOCUMENT) == before


@pytest.mark.parametrize("stage", [stage for stage, _ in CASES if "$replace" not in str(stage)], ids=repr)
def test_nothing_comes_of_nothing(stage: dict[str, Any]) -> None:
    assert run([stage], []) == []


@pytest.mark.parametrize(
    ("stage", "reason"),
    [
        ({"$project": {}}, "expected an object with at least one field"),
        ({"$project": 1}, "expected an object with at least one field"),
        ({"$project": {"a": 1, "b": 0}}, "'b': a projection cannot mix inclusion and exclusion"),
        ({"$project": {"a": 0, "b": "$x"}}, "'b': a projection cannot mix inclusion and exclusion"),
        ({"$project": {"_id": "$x", "a": 0}}, "'_id' cannot be computed"),
        ({"$project": {"a": {}}}, "the object at 'a' is empty"),
        ({"$project": {"a": 1, "a.b": 1}}, "'a.b' conflicts with 'a'"),
        ({"$project": {"a.b": 1, "a": 1}}, "'a' conflicts with another path"),
        ({"$project": {"a": {"b": 1}, "a.b": 1}}, "'a.b' conflicts with another path"),
        ({"$project": {"a..b": 1}}, "'a..b' is not a valid field path"),
        ({"$project": {"$a": 1}}, r"'\$a' is not a valid field path"),
        ({"$project": {"a": {"$nope": 1}}}, r"field 'a': unknown operator \$nope"),
        ({"$addFields": {}}, "expected an object with at least one field"),
        ({"$addFields": {"a": {"b": {"$nope": 1}}}}, r"field 'a.b': unknown operator \$nope"),
        ({"$set": {"a": {}}}, "the object at 'a' is empty"),
        ({"$unset": 1}, "expected a field path"),
        ({"$unset": []}, "expected a field path"),
        ({"$replaceRoot": "$o"}, "expected an object with newRoot"),
    ],
    ids=repr,
)
def test_a_shape_that_cannot_be_is_refused(stage: dict[str, Any], reason: str) -> None:
    (name,) = stage
    with pytest.raises(OperationFailure, match=rf"^stage 1 \(\{name}\): {reason}"):
        run([stage], [])


def test_a_root_that_is_no_object_is_refused() -> None:
    with pytest.raises(OperationFailure, match=r"stage 1 \(\$replaceRoot\): the new root must be an object, got int 2"):
        run([{"$replaceRoot": {"newRoot": "$a"}}], [DOCUMENT])
    with pytest.raises(OperationFailure, match="got nothing"):
        run([{"$replaceWith": "$missing"}], [DOCUMENT])


def test_set_is_another_name_for_add_fields() -> None:
    assert same(run([{"$set": {"x": 1}}], [DOCUMENT]), run([{"$addFields": {"x": 1}}], [DOCUMENT]))
