"""The string operators of expressions."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from lowtide.errors import OperationFailure
from tests.unit.documents.aggregation.piping import same, value_of

CASES: list[tuple[Any, Any]] = [
    ({"$concat": []}, ""),
    ({"$concat": ["a", "b", "ü"]}, "abü"),
    ({"$concat": ["a", None]}, None),
    ({"$concat": ["a", "$missing"]}, None),
    ({"$toUpper": "straße"}, "STRASSE"),
    ({"$toUpper": None}, ""),
    ({"$toLower": "ÄB"}, "äb"),
    ({"$toLower": "$missing"}, ""),
    ({"$toUpper": 12.5}, "12.5"),
    ({"$toLower": datetime(2024, 1, 2, 3, 4, 5, 6789, UTC)}, "2024-01-02t03:04:05.006z"),
    ({"$substrCP": ["häuser", 1, 2]}, "äu"),
    ({"$substrCP": ["abc", 5, 2]}, ""),
    ({"$substrCP": [None, 0, 2]}, ""),
    ({"$substr": ["häuser", 0, 3]}, "hä"),
    ({"$substr": ["abc", 1, -1]}, "bc"),
    ({"$substrBytes": [1234, 1, 2]}, "23"),
    ({"$strLenCP": "häuser"}, 6),
    ({"$strLenBytes": "häuser"}, 7),
    ({"$strLenCP": ""}, 0),
    ({"$split": ["a-b--c", "-"]}, ["a", "b", "", "c"]),
    ({"$split": ["abc", "x"]}, ["abc"]),
    ({"$split": [None, "-"]}, None),
    ({"$trim": {"input": " \n a b\t\0"}}, "a b"),
    ({"$ltrim": {"input": "xxaxx", "chars": "x"}}, "axx"),
    ({"$rtrim": {"input": "xyaxy", "chars": "yx"}}, "xya"),
    ({"$trim": {"input": None}}, None),
    ({"$trim": {"input": "a", "chars": None}}, None),
    ({"$indexOfCP": ["häuser", "u"]}, 2),
    ({"$indexOfCP": ["abcabc", "c", 3]}, 5),
    ({"$indexOfCP": ["abcabc", "c", 0, 2]}, -1),
    ({"$indexOfCP": ["abc", "", 9]}, -1),
    ({"$indexOfCP": [None, "c"]}, None),
    ({"$strcasecmp": ["Abc", "aBD"]}, -1),
    ({"$strcasecmp": ["$missing", ""]}, 0),
    ({"$regexMatch": {"input": "Graz", "regex": "^g", "options": "i"}}, True),
    ({"$regexMatch": {"input": "Graz", "regex": "^g"}}, False),
    ({"$regexMatch": {"input": "Graz", "regex": re.compile("^g", re.IGNORECASE)}}, True),
    ({"$regexMatch": {"input": "Graz", "regex": re.compile("$")}}, True),
    ({"$regexMatch": {"input": None, "regex": "a"}}, False),
    ({"$regexMatch": {"input": "$missing", "regex": "a"}}, False),
    ({"$regexFind": {"input": "a12b", "regex": r"(\d)(x)?"}}, {"match": "1", "idx": 1, "captures": ["1", None]}),
    ({"$regexFind": {"input": "ab", "regex": r"\d"}}, None),
    (
        {"$regexFindAll": {"input": "a1b2", "regex": r"\d"}},
        [
            {"match": "1", "idx": 1, "captures": []},
            {"match": "2", "idx": 3, "captures": []},
        ],
    ),
    ({"$regexFindAll": {"input": None, "regex": "a"}}, []),
    ({"$replaceOne": {"input": "a.b.c", "find": ".", "replacement": "-"}}, "a-b.c"),
    ({"$replaceAll": {"input": "a.b.c", "find": ".", "replacement": "-"}}, "a-b-c"),
    ({"$replaceAll": {"input": "a", "find": None, "replacement": "-"}}, None),
]


@pytest.mark.parametrize(("expression", "wanted"), CASES, ids=repr)
def test_a_string_operator_gives_what_it_should(expression: Any, wanted: Any) -> None:
    assert same(value_of(expression), wanted)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ({"$concat": ["a", 1]}, r"\$concat: expected strings, got int 1"),
        ({"$toUpper": [[1]]}, r"\$toUpper: cannot convert list \[1\] to a string"),
        ({"$strLenCP": None}, r"\$strLenCP: expected strings, got NoneType"),
        ({"$strLenCP": "$missing"}, r"\$strLenCP: expected strings, got nothing"),
        ({"$substr": ["ü", 0, 1]}, r"\$substr: the range splits a character"),
        ({"$substrCP": ["abc", -1, 1]}, r"\$substrCP: the start must be an integer of at least 0"),
        ({"$split": ["a", ""]}, r"\$split: the separator must not be empty"),
        ({"$trim": {"chars": "a"}}, r"\$trim: 'input' is required"),
        ({"$trim": "a"}, r"\$trim: expected an object with input, chars"),
        ({"$indexOfCP": ["a", None]}, r"\$indexOfCP: expected strings"),
        ({"$regexMatch": {"input": "a", "regex": "("}}, r"\$regexMatch: '\(' is not a valid regular expression"),
        ({"$regexMatch": {"input": "a", "regex": "a", "options": "g"}}, r"unknown regular expression option 'g'"),
        ({"$regexMatch": {"input": "a", "regex": re.compile("a"), "options": "i"}}, "options cannot be given with it"),
        ({"$regexMatch": {"input": 1, "regex": "a"}}, r"expected strings, got int 1"),
        (re.compile("a"), "a regular expression is only allowed in"),
    ],
    ids=repr,
)
def test_a_string_operator_refuses_what_is_no_string(expression: Any, reason: str) -> None:
    with pytest.raises(OperationFailure, match=reason):
        value_of(expression)
