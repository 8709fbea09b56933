"""The tables of docs/documents.md are complete, and their figures match the source."""

from __future__ import annotations

import inspect
import re
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import lowtide
from lowtide.documents import catalog
from lowtide.documents.aggregation import (
    accumulators,
    arithmetic,
    arrays,
    conditions,
    conversions,
    dates,
    expressions,
    folding,
    pipeline,
    strings,
)
from lowtide.documents.aggregation.pipeline import DEEPEST
from lowtide.documents.filters import compile as filters
from lowtide.documents.filters.operators import COMPARISONS
from lowtide.documents.indexes import build, entries, spec
from lowtide.documents.plans import planner
from lowtide.documents.updates import arrays as array_updates
from lowtide.documents.updates import compiler as updates
from lowtide.documents.watch import DocumentChange
from lowtide.values import cleaning, codec, ids
from tests.docs.documents import ROOT, section, table, unwrapped

PAGE = ROOT / "docs" / "documents.md"
EXPRESSIONS = {
    "itself": expressions.OPERATORS.keys() & {"$let", "$literal"},
    "arithmetic": arithmetic.OPERATORS.keys(),
    "sums and extremes": folding.OPERATORS.keys(),
    "conditions": conditions.OPERATORS.keys(),
    "arrays and objects": arrays.OPERATORS.keys(),
    "strings": strings.OPERATORS.keys(),
    "dates": dates.OPERATORS.keys(),
    "conversions": conversions.OPERATORS.keys(),
}
LIMITS = {
    "a document, encoded": f"{codec.MAX_DOCUMENT >> 20} MiB",
    "nesting of objects and arrays": f"{cleaning.MAX_DEPTH} levels",
    "nesting of a pipeline": f"{DEEPEST} levels",
    "an `_id`, encoded": f"{ids.MAX_ID} bytes",
    "a collection's name": f"{catalog.MAX_NAME} bytes of UTF-8",
    "an index's name": f"{spec.MAX_NAME} bytes of UTF-8",
    "paths in an index": f"{spec.MAX_PARTS}",
    "an index entry, encoded": f"{entries.MAX_VALUES} bytes",
    "entries of one document in one index": f"{entries.MOST_ENTRIES:,}",
    "combinations of values that a query looks up in an index": f"{planner.MOST_STRETCHES:,}",
}


def names_in(cells: list[str]) -> list[str]:
    return [name for cell in cells for name in re.findall(r"`(\$?\w+)`", cell)]


def column(title: str, index: int = 0) -> list[str]:
    return names_in([row[index] for row in table(section(PAGE, title))])


@pytest.mark.parametrize(
    ("title", "index", "known"),
    [
        (
            "Filters",
            0,
            {*COMPARISONS, *filters._OPERATORS, *filters._LOGICAL, "$regex", "$options", "$comment"},
        ),
        ("Updates", 0, set(updates._NAMES)),
        ("Aggregation", 0, set(pipeline.STAGES)),
        ("Accumulators", 1, set(accumulators.ACCUMULATORS)),
        ("Expressions", 1, set(expressions.OPERATORS)),
    ],
    ids=["filters", "updates", "stages", "accumulators", "expressions"],
)
def test_the_table_has_each_operator_of_the_source_and_no_other(title: str, index: int, known: set[str]) -> None:
    assert sorted(column(title, index)) == sorted(known)


def test_each_operator_of_expressions_is_in_the_row_of_its_kind() -> None:
    rows = {row[0]: set(names_in([row[1]])) for row in table(section(PAGE, "Expressions"))}
    assert rows == {kind: set(names) for kind, names in EXPRESSIONS.items()}


def test_the_modifiers_of_push_are_named() -> None:
    named = next(row[1] for row in table(section(PAGE, "Updates")) if "$push" in row[0])
    assert set(names_in([named])) == set(array_updates._MODIFIERS)


def test_each_method_of_a_collection_is_in_the_table() -> None:
    text = section(PAGE, "Where a statement runs")
    methods = table(text[text.index("| method") :])
    public = [name for name, member in inspect.getmembers(lowtide.Collection, inspect.isfunction) if name[0] != "_"]
    assert sorted(names_in([row[0] for row in methods])) == public


def test_each_method_of_a_cursor_is_named() -> None:
    text = section(PAGE, "Where a statement runs").partition("A **cursor**")[2]
    public = [name for name, member in inspect.getmembers(lowtide.Cursor, inspect.isfunction) if name[0] != "_"]
    assert [name for name in public if name != "close" and f"`{name}`" not in text] == []


def test_each_field_of_a_change_is_named() -> None:
    text = section(PAGE, "Watching")
    assert [name for name in DocumentChange.__dataclass_fields__ if f"`{name}`" not in text] == []
    change = DocumentChange(1, 0.0, "users", "insert", 7, {"_id": 7})
    for name in re.findall(r'`(?:change)?\["(\w+)"\]`', text):
        change[name]


def test_the_limits_are_those_of_the_source() -> None:
    assert {row[0].partition(":")[0]: row[1] for row in table(section(PAGE, "Limits"))} == LIMITS


def test_an_id_may_be_as_long_as_the_page_says() -> None:
    row = next(row[0] for row in table(section(PAGE, "Limits")) if "_id" in row[0])
    text, raw, digits = (int(figure) for figure in re.findall(r"(?<!-)\d+", row))
    for fits, beyond in (("é" * (text // 2) + "x" * (text % 2), "x" * (text + 1)), (b"x" * raw, b"x" * (raw + 1))):
        assert len(ids.id_key(fits)) == ids.MAX_ID
        with pytest.raises(lowtide.InvalidDocument):
            ids.id_key(beyond)
    assert len(ids.id_key(10**digits - 1)) == ids.MAX_ID


def test_the_size_of_a_step_is_that_of_the_source() -> None:
    assert f"the documents are entered, {build.STEP:,} in a transaction" in unwrapped(section(PAGE, "Indexes"))


SEEN: dict[str, tuple[list[Any], str]] = {
    "nothing but null": ([None], "null"),
    "bool": ([True, None], "bool"),
    "int": ([1, -(2**63)], "int64"),
    "float, with other numbers": ([1.5, 2, Decimal("0.1")], "double"),
    "Decimal, with int": ([Decimal("9.90"), 3], "decimal128(38, 2)"),
    "str, UUID": (["a", UUID(int=1)], "string"),
    "bytes": ([b"a"], "binary"),
    "datetime": ([datetime(2026, 1, 1)], "timestamp[us, tz=UTC]"),
    "dict": ([{"a": 1}, {"b": "x"}], "struct<a: int64, b: string>"),
    "list": ([[1], [2.5]], "list<item: double>"),
    "values of several of these, or numbers beyond 38 digits": ([1, "a"], "string"),
}


def test_each_type_of_a_column_is_what_the_table_says(tmp_path: Path) -> None:
    rows = {row[0]: row[1] for row in table(section(PAGE, "SQL and Arrow"))}
    assert list(rows) == list(SEEN)
    with lowtide.open(tmp_path / "store") as store:
        for number, (row, (seen, wanted)) in enumerate(SEEN.items()):
            collection = store.collection(f"c{number}")
            collection.insert_many({"v": value} for value in seen)
            field = collection.to_arrow(["v"]).schema.field("v")
            assert str(field.type) == wanted
            as_text = field.metadata is not None
            assert rows[row].startswith("JSON text" if as_text else wanted.partition("<")[0].partition("(")[0])
        beyond = store.collection("beyond")
        beyond.insert_many([{"v": 2**63}, {"v": 1}])
        assert str(beyond.to_arrow(["v"]).schema.field("v").type) in rows["int"]


def test_each_error_of_documents_is_named() -> None:
    text = PAGE.read_text()
    errors = [
        name
        for name in lowtide.__all__
        if inspect.isclass(error := getattr(lowtide, name))
        and issubclass(error, lowtide.InvalidDocument | lowtide.OperationFailure)
    ]
    assert len(errors) >= 7
    assert [name for name in errors if f"`{name}`" not in text] == []


def test_what_the_page_says_is_refused_is_refused(tmp_path: Path) -> None:
    """The differences that can be asked for in one line."""
    with lowtide.open(tmp_path / "store") as store:
        users = store.collection("users")
        users.insert_one({"_id": 1, "n": 1})
        for operator in ("$where", "$text", "$jsonSchema", "$expr"):
            with pytest.raises(lowtide.OperationFailure, match=re.escape(operator)):
                users.find({operator: {}})
        for operator in ("$geoWithin", "$near"):
            with pytest.raises(lowtide.OperationFailure, match=re.escape(operator)):
                users.find({"n": {operator: 1}})
        for stage in ("$merge", "$out", "$unionWith", "$graphLookup", "$setWindowFields"):
            assert f"`{stage}`" in section(PAGE, "Differences from PyMongo and MongoDB")
            with pytest.raises(lowtide.OperationFailure, match=re.escape(stage)):
                users.aggregate([{stage: {}}])
        with pytest.raises(lowtide.OperationFailure, match="pipeline"):
            users.update_one({}, [{"$set": {"n": 2}}])  # type: ignore[arg-type]
        with pytest.raises(lowtide.OperationFailure, match=r"\$ operators"):
            users.update_one({}, {"n": 2})
        for kind in ("text", "2dsphere", "hashed"):
            with pytest.raises(lowtide.OperationFailure, match="other index types are not supported"):
                users.create_index([("n", kind)])
        for name in ("$n", "a"):
            with pytest.raises(lowtide.InvalidDocument, match=r"\$"):
                users.insert_one({name: {"$n": 1}})
        assert users.find_one() == {"_id": 1, "n": 1}
