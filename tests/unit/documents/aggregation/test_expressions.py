"""Field paths, variables, literals, objects and arrays."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

from lowtide.documents.aggregation import compile_pipeline
from lowtide.documents.aggregation.expressions import OPERATORS
from lowtide.errors import InvalidDocument, OperationFailure
from tests.unit.documents.aggregation.piping import NOTHING, NOW, run, same, value_of

DOCUMENT: dict[str, Any] = {
    "a": 1,
    "null": None,
    "o": {"x": {"y": 2}, "list": [1, 2]},
    "list": [{"b": 1}, {"b": [2, 3]}, {"c": 4}, 5, [{"b": 6}]],
    "deep": [{"l": [{"v": 1}, {"v": 2}]}, {"l": {"v": 3}}, {"l": 4}],
}

CASES: list[tuple[Any, Any]] = [
    ("$a", 1),
    ("$missing", NOTHING),
    ("$null", None),
    ("$o.x.y", 2),
    ("$o.x.z", NOTHING),
    ("$a.x", NOTHING),
    ("$null.x", NOTHING),
    ("$null.x.y", NOTHING),
    ("$o.list", [1, 2]),
    ("$o.list.0", []),
    ("$list.b", [1, [2, 3]]),
    ("$list.0", []),
    ("$list.nothing", []),
    ("$deep.l.v", [[1, 2], 3]),
    ("$$ROOT.a", 1),
    ("$$CURRENT.o.x", {"y": 2}),
    ("$$ROOT", DOCUMENT),
    ("$$REMOVE", NOTHING),
    ("$$NOW", NOW),
    ("text", "text"),
    ("", ""),
    (7, 7),
    (True, True),
    (None, None),
    ({}, {}),
    ({"x": "$a", "y": {"z": "$missing"}, "w": [1]}, {"x": 1, "y": {}, "w": [1]}),
    (["$a", "$missing", "x"], [1, None, "x"]),
    ([], []),
    ({"$literal": "$a"}, "$a"),
    ({"$literal": {"$add": [1, "$a"]}}, {"$add": [1, "$a"]}),
    ({"$let": {"vars": {"x": "$a", "y": 2}, "in": {"$add": ["$$x", "$$y", "$a"]}}}, 4),
    ({"$let": {"vars": {"o": "$o"}, "in": "$$o.x.y"}}, 2),
    ({"$let": {"vars": {"x": 1}, "in": {"$let": {"vars": {"x": 2, "y": "$$x"}, "in": ["$$x", "$$y"]}}}}, [2, 1]),
    ({"$let": {"vars": {"x": "$missing"}, "in": "$$x"}}, NOTHING),
    (("$a", 2), [1, 2]),
    (OrderedDict(x=1), {"x": 1}),
]


@pytest.mark.parametrize(("expression", "wanted"), CASES, ids=repr)
def test_an_expression_gives_what_it_should(expression: Any, wanted: Any) -> None:
    assert same(value_of(expression, DOCUMENT), wanted)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ({"$nope": 1}, r"unknown operator \$nope"),
        ({"$add": [1, {"$nope": 1}]}, r"\$add: unknown operator \$nope"),
        ({"x": {"y": {"$nope": 1}}}, r"unknown operator \$nope"),
        ({"$add": [1], "$abs": 2}, r"\$add is next to '\$abs'"),
        ({"$add": [1], "x": 2}, r"\$add is next to 'x'"),
        ({"x": 1, "$add": [1]}, r"'\$add' is not a valid field name"),
        ({"a.b": 1}, r"'a.b' is not a valid field name"),
        ("$$nope", r"unknown variable \$\$nope; in scope are \$\$CURRENT"),
        ("$", "'' is not a valid field path"),
        ("$a..b", "'a..b' is not a valid field path"),
        ("$a.", "'a.' is not a valid field path"),
        ("$a.$b", r"'a.\$b' is not a valid field path"),
        ({"$let": {"vars": {"ROOT": 1}, "in": 1}}, r"\$let: 'ROOT' is not a valid variable name"),
        ({"$let": {"vars": {"a-b": 1}, "in": 1}}, r"\$let: 'a-b' is not a valid variable name"),
        ({"$let": {"vars": 1, "in": 1}}, r"\$let: vars must be an object"),
        ({"$let": {"vars": {}}}, r"\$let: 'in' is required"),
    ],
    ids=repr,
)
def test_an_expression_that_cannot_be_is_refused_with_its_stage(expression: Any, reason: str) -> None:
    with pytest.raises(OperationFailure, match=rf"^stage 1 \(\$replaceWith\): .*{reason}|^stage 1 .*: {reason}"):
        run([{"$replaceWith": {"is": expression}}], [])


def test_a_value_that_no_document_can_hold_is_refused_with_its_place() -> None:
    with pytest.raises(InvalidDocument, match=r"stage 1\.\$addFields\.x"):
        run([{"$addFields": {"x": float("nan")}}], [])


def test_what_the_user_gave_may_change_afterwards() -> None:
    literal = [1]
    pipeline = compile_pipeline([{"$addFields": {"x": {"$literal": literal}}}])
    literal.append(2)
    assert list(pipeline.run([{}])) == [{"x": [1]}]


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_is_in_a_table(name: str) -> None:
    """The tables of this directory name each operator at least once."""
    texts = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert f'"{name}":' in texts
