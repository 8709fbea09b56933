"""A JSON Schema defines what a collection's documents look like, and errors say where a document does not match."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.documents.schema import Violation, compile_schema
from lowtide.errors import DocumentRefused, OperationFailure

MOMENT = datetime(2026, 5, 1, tzinfo=UTC)
PERSON = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "age": {"type": "integer", "minimum": 0},
        "tags": {"type": "array", "items": {"type": "string"}},
        "home": {"type": "object", "required": ["city"]},
    },
}


def test_a_fitting_document_passes() -> None:
    document = {"_id": 1, "name": "Ada", "age": 36, "tags": ["a"], "home": {"city": "London"}, "more": None}
    validator = compile_schema(PERSON)
    validator.check("people", document)
    assert validator.violations(document) == []


def test_a_refusal_names_collection_path_and_reason() -> None:
    with pytest.raises(DocumentRefused, match=r"collection 'people' refuses .* field 'age': -1 is less than") as caught:
        compile_schema(PERSON).check("people", {"_id": 1, "name": "Ada", "age": -1})
    assert caught.value.path == "age"
    assert caught.value.reason == "-1 is less than the minimum of 0"


def test_violations_come_in_the_order_of_the_document_with_what_is_missing_last() -> None:
    validator = compile_schema(PERSON)
    document = {"tags": ["a", 2, "c", 4], "home": {}, "age": "old"}
    expected = ["tags.1", "tags.3", "home.city", "age", "name"]
    assert [each.path for each in validator.violations(document)] == expected
    backwards = dict(reversed(document.items()))
    assert [each.path for each in validator.violations(backwards)] == ["age", "home.city", "tags.1", "tags.3", "name"]
    with pytest.raises(DocumentRefused) as caught:
        validator.check("people", backwards)
    assert caught.value.path == "age"


def test_what_concerns_the_whole_document_has_an_empty_path() -> None:
    [violation] = compile_schema({"maxProperties": 1}).violations({"_id": 1, "b": 2})
    assert violation.path == ""
    assert "too many properties" in violation.reason
    with pytest.raises(DocumentRefused, match="the document: "):
        compile_schema({"maxProperties": 1}).check("c", {"_id": 1, "b": 2})


@pytest.mark.parametrize(
    ("value", "types"),
    [
        (None, {"null"}),
        (True, {"boolean"}),
        (7, {"integer", "number"}),
        (-(2**70), {"integer", "number"}),
        (1.0, {"integer", "number"}),
        (1.5, {"number"}),
        (Decimal("1.50"), {"number"}),
        (Decimal("2.00"), {"integer", "number"}),
        (Decimal("Infinity"), {"number"}),
        ("x", {"string"}),
        (b"x", {"string"}),
        (UUID(int=1), {"string"}),
        (MOMENT, {"string"}),
        (MOMENT.replace(tzinfo=None), {"string"}),
        ([1], {"array"}),
        ({"a": 1}, {"object"}),
    ],
)
def test_each_value_has_its_types(value: Any, types: set[str]) -> None:
    for word in ("null", "boolean", "integer", "number", "string", "array", "object"):
        fits = not compile_schema({"properties": {"v": {"type": word}}}).violations({"v": value})
        assert fits == (word in types), word


@pytest.mark.parametrize(
    ("rule", "fits", "does_not"),
    [
        ({"minLength": 2}, ["ab", b"ab", MOMENT, UUID(int=0), 1], ["a", b"a"]),
        ({"maxLength": 1}, ["a", b"a", MOMENT, UUID(int=0)], ["ab", b"ab"]),
        ({"pattern": "^a"}, ["ab", b"b", MOMENT, UUID(int=0), 4], ["ba"]),
        ({"minimum": 1.5}, [Decimal("1.5"), 2**80, Decimal("Infinity"), "x"], [Decimal("1.4"), 1, 1.4]),
        ({"exclusiveMaximum": 2}, [Decimal("1.99"), True], [Decimal(2), 2**64, 2.0]),
        ({"multipleOf": 0.1}, [0.3, 1, Decimal("1e300"), Decimal("-0.70"), 0], [Decimal("0.05"), 0.25, float("inf")]),
        ({"multipleOf": 3}, [3, Decimal(9), -6, 3 * 10**5000, "x"], [Decimal(10), Decimal("3e-9"), 4]),
        ({"multipleOf": 7}, [Decimal("7e999999"), Decimal(0)], [Decimal("1e999999"), Decimal("7e-999999")]),
        ({"enum": [1, "a", None]}, [1, Decimal(1), "a", None], [2, "b", True]),
        ({"const": {"a": [1]}}, [{"a": [1]}, {"a": [1.0]}], [{"a": [True]}, {"a": []}]),
        ({"uniqueItems": True}, [[1, 2, "1", MOMENT, b"1"], [1, True]], [[1, 1.0], [MOMENT, MOMENT]]),
        ({"format": "date-time"}, ["not a date", MOMENT], []),
        ({"additionalProperties": False, "properties": {"a": {}}}, [{"a": 1}], [{"b": 1}]),
        ({"anyOf": [{"type": "string"}, {"minimum": 5}]}, [MOMENT, 6], [4]),
    ],
)
def test_words_know_the_values_of_documents(rule: dict[str, Any], fits: list[Any], does_not: list[Any]) -> None:
    validator = compile_schema({"properties": {"v": rule}})
    for value in fits:
        assert validator.violations({"v": value}) == [], value
        validator.check("c", {"v": value})
    for value in does_not:
        assert [each.path.split(".")[0] for each in validator.violations({"v": value})] == ["v"], value


@given(
    st.integers(-(10**6), 10**6), st.integers(-6, 6), st.integers(1, 10**4), st.integers(-4, 4), st.sampled_from((0, 1))
)
def test_multiples_are_those_of_exact_arithmetic(
    digits: int, exponent: int, by: int, by_exponent: int, make: int
) -> None:
    number, divisor = Decimal(digits).scaleb(exponent), Decimal(by).scaleb(by_exponent)
    if make:
        number *= divisor
    found = compile_schema({"properties": {"v": {"multipleOf": float(divisor)}}}).violations({"v": number})
    assert bool(found) == bool(Fraction(number) % Fraction(divisor))


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "strin"}, "at 'type': 'strin' is not one of"),
        ({"properties": {"a": {"minLength": -1}}}, "at 'properties.a.minLength': -1 is less than"),
        ({"properties": {"a": {"pattern": "("}}}, "at 'properties.a.pattern'"),
        ({"required": "name"}, "at 'required': 'name' is not of type 'array'"),
        ({"$ref": "#/$defs/none"}, "reference '#/\\$defs/none' cannot be resolved"),
        ({"properties": {"a": {"items": {"$ref": "https://example.org/x"}}}}, "cannot be resolved"),
        ({"$schema": "https://example.org/own"}, r"has the unknown \$schema"),
        ({"$schema": "http://json-schema.org/draft-03/schema#"}, r"has the unknown \$schema"),
        ({"properties": {"bsonType": {"bsonType": "int"}}}, "bsonType 'int' is not part of JSON Schema"),
        ({"$jsonSchema": {"type": "object"}}, r"without MongoDB's \$jsonSchema"),
        (["type"], "a JSON Schema must be a dict, got list"),
    ],
)
def test_a_bad_schema_is_refused_with_what_is_wrong(schema: Any, words: str) -> None:
    with pytest.raises(OperationFailure, match=words):
        compile_schema(schema)


def test_a_schema_that_never_ends_is_no_crash() -> None:
    validator = compile_schema({"$ref": "#"})
    with pytest.raises(OperationFailure, match="refers to itself endlessly"):
        validator.check("c", {})
    with pytest.raises(OperationFailure, match="refers to itself endlessly"):
        validator.violations({})


def test_references_lead_inside_the_schema() -> None:
    tree = {"$defs": {"node": {"properties": {"kids": {"items": {"$ref": "#/$defs/node"}}}, "required": ["n"]}}}
    validator = compile_schema({**tree, "$ref": "#/$defs/node"})
    document = {"n": 1, "kids": [{"n": 2}, {"kids": [{}]}]}
    assert [each.path for each in validator.violations(document)] == ["kids.1.kids.0.n", "kids.1.n"]


@pytest.mark.parametrize("draft", ["draft-04", "draft-06", "draft-07"])
def test_older_drafts_are_followed(draft: str) -> None:
    schema = {"$schema": f"http://json-schema.org/{draft}/schema#", "items": [{"type": "number"}], "required": ["a"]}
    assert compile_schema({"properties": {"v": {}}, **schema}).violations({}) == [
        Violation("a", "it is required, but missing")
    ]


def test_a_later_change_of_the_given_dict_changes_nothing() -> None:
    given_schema: dict[str, Any] = {"properties": {"a": {"type": "string"}}}
    validator = compile_schema(given_schema)
    given_schema["properties"]["a"]["type"] = "integer"
    validator.check("c", {"a": "text"})
    assert validator.schema == {"properties": {"a": {"type": "string"}}}


def test_a_long_value_does_not_make_a_long_reason() -> None:
    [violation] = compile_schema({"properties": {"a": {"type": "integer"}}}).violations({"a": "x" * 100_000})
    assert len(violation.reason) < 400
    assert violation.reason.endswith("is not of type 'integer'")


def test_documents_do_not_need_the_library() -> None:
    program = "import sys, lowtide.documents.schema; print('jsonschema' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_without_the_library_the_error_says_what_to_install() -> None:
    program = """
import sys
sys.modules["jsonschema"] = None
from lowtide.documents.schema import compile_schema
from lowtide.errors import UsageError
try:
    compile_schema({})
except UsageError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "pip install 'lowtide[schema]'" in run.stdout
