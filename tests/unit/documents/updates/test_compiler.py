"""The form that an update must have, checked before it is applied to any document."""

from __future__ import annotations

from collections import OrderedDict
from types import MappingProxyType
from typing import Any

import pytest

from lowtide.documents.updates import compile_update
from lowtide.errors import OperationFailure
from tests.unit.documents.updates.updating import NOW, exact, updated


@pytest.mark.parametrize(
    ("update", "message"),
    [
        ({}, r"update only works with \$ operators"),
        ({"a": 1}, r"update only works with \$ operators.*'a'.*replace_one"),
        ({"$set": {"a": 1}, "b": 2}, r"update only works with \$ operators.*'b'"),
        ({5: {"a": 1}}, r"update only works with \$ operators"),
        ({"$sett": {"a": 1}}, r"unknown update operator '\$sett'.*\$set,"),
        ({"$set": 5}, r"\$set requires an object of fields.*int 5"),
        ({"$set": [["a", 1]]}, r"\$set requires an object of fields"),
        ({"$set": {5: 1}}, "field names must be strings"),
        ({"$set": {"": 1}}, "empty part"),
        ({"$set": {"a.": 1}}, "empty part"),
        ({"$set": {".a": 1}}, "empty part"),
        ({"$inc": {"a..b": 1}}, r"\$inc: the path 'a..b' has an empty part"),
        ({"$set": {"$a": 1}}, r"must not begin with \$"),
        ({"$set": {"a.$b": 1}}, r"must not begin with \$"),
        ({"$set": {"a.$[b": 1}}, r"must not begin with \$"),
        ({"$set": {".".join("a" * 101): 1}}, "101 parts; the maximum is 100"),
        (5, "an update must be a dict"),
        ("$set", "an update must be a dict"),
        (None, "an update must be a dict"),
        ([{"$set": {"a": 1}}], "pipeline"),
    ],
)
def test_what_is_no_update_is_refused(update: Any, message: str) -> None:
    with pytest.raises(OperationFailure, match=message):
        compile_update(update)


@pytest.mark.parametrize(
    ("update", "place"),
    [
        ({"$set": {"a": 1, "a.b": 2}}, "a"),
        ({"$set": {"a.b": 1, "a": 2}}, "a"),
        ({"$set": {"a.b.c": 1}, "$unset": {"a.b": 2}}, "a.b"),
        ({"$set": {"a": 1}, "$inc": {"a": 2}}, "a"),
        ({"$set": {"a": 1}, "$setOnInsert": {"a": 2}}, "a"),
        ({"$push": {"a": 1}, "$pull": {"a": 2}}, "a"),
        ({"$set": {"a.$": 1}, "$inc": {"a.$.b": 2}}, "a.$"),
        ({"$rename": {"a": "b"}, "$set": {"b": 2}}, "b"),
        ({"$rename": {"a": "b"}, "$set": {"a.c": 2}}, "a"),
    ],
)
def test_an_update_may_change_a_place_only_once(update: dict[str, Any], place: str) -> None:
    with pytest.raises(OperationFailure) as error:
        compile_update(update)
    assert f"conflicts with another change at {place!r}" in str(error.value)


def test_paths_that_only_look_alike_do_not_conflict() -> None:
    update = {"$set": {"a.b": 1, "ab": 2, "a.bc": 3}, "$inc": {"a.c": 4}}
    assert updated({}, update) == {"a": {"b": 1, "bc": 3, "c": 4}, "ab": 2}


@pytest.mark.parametrize(
    "update",
    [MappingProxyType({"$set": {"a": 5}}), OrderedDict({"$set": MappingProxyType({"a": 5})}), {"$set": {"a": 5}}],
)
def test_any_mapping_is_an_update(update: Any) -> None:
    assert compile_update(update).apply({}, now=NOW) == {"a": 5}


@pytest.mark.parametrize("operator", ["$set", "$inc", "$push", "$rename", "$pull"])
def test_an_operator_without_fields_changes_nothing(operator: str) -> None:
    assert updated({"a": 1}, {operator: {}}) == {"a": 1}


@pytest.mark.parametrize(
    ("update", "fields"),
    [
        ({"$set": {"a": 1}}, {"a"}),
        ({"$inc": {"a": 1, "b": 1}}, {"a", "b"}),
        ({"$set": {"a.b.c": 1, "a.d": 1}, "$unset": {"z": 1}}, {"a", "z"}),
        ({"$rename": {"a.b": "c.d"}, "$setOnInsert": {"e": 1}}, {"a", "c", "e"}),
        ({"$set": {"a.$[].b": 1}}, {"a"}),
    ],
)
def test_an_update_tells_which_fields_it_may_change(update: dict[str, Any], fields: set[str]) -> None:
    assert compile_update(update).fields == frozenset(fields)


@pytest.mark.parametrize("value", [5, -5, 0, 0.0, -0.0, 2.5, None, True, "x", b"x"])
@pytest.mark.parametrize("old", [5, 5.0, 0, 0.0, -0.0, None, True, 1, "x", b"x", [5], {"x": 5}])
def test_the_short_way_for_flat_updates_does_what_the_long_one_does(old: Any, value: Any) -> None:
    for document in ({"_id": 1, "a": old}, {"_id": 1}):
        short = updated(document, {"$set": {"a": value}})
        long = updated(document, {"$set": {"a": value}, "$unset": {"none": ""}})
        assert exact(short) == exact(long)
        if type(value) is int and type(document.get("a", 0)) in (int, float):
            short = updated(document, {"$inc": {"a": value, "b": 2}})
            long = updated(document, {"$inc": {"a": value, "b": 2}, "$unset": {"none": ""}})
            assert exact(short) == exact(long)


def test_a_compiled_update_no_longer_depends_on_the_given_one() -> None:
    given = {"$inc": {"a": 1}}
    compiled = compile_update(given)
    given["$inc"]["a"] = 100
    assert compiled.apply({"a": 1}, now=NOW) == {"a": 2}
    assert compiled.apply({"a": 1.5}, now=NOW) == {"a": 2.5}
