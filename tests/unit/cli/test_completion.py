"""What the shell offers at the end of a line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lowtide.cli.completion import OPERATORS, Known, Offer, command_of, offers
from lowtide.documents.aggregation import compile_pipeline
from lowtide.documents.filters import compile_filter
from lowtide.documents.updates import compile_update
from lowtide.errors import OperationFailure

KNOWN = Known(
    commands={
        "find": ("--limit", "--sort", "--skip"),
        "import": ("--format",),
        "inspect key": (),
        "inspect base": (),
        "sql": (),
        "update": (),
        "stats": (),
    },
    with_collection=frozenset({"find", "import", "update"}),
    with_file=frozenset({"import"}),
    collections=lambda: ["users", "uploads", "orders"],
    fields=lambda collection: ["_id", "age", "address.city", "agent"] if collection == "users" else [],
)


def texts(line: str) -> list[str]:
    """The line with each offer put to its end."""
    return [f"{line[: len(line) - each.length]}{each.text}" for each in offers(line, KNOWN)]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("f", ["find"]),
        ("  s", ["  sql", "  stats"]),
        ("ex", ["exit"]),
        ("ins", ["inspect key", "inspect base"]),
        ("inspect k", ["inspect key"]),
        ("find u", ["find uploads", "find users"]),
        ("find users --s", ["find users --skip", "find users --sort"]),
        ("find users --sort a", ["find users --sort address.city", "find users --sort age", "find users --sort agent"]),
        ("find users --sort _id,-ag", ["find users --sort _id,-age", "find users --sort _id,-agent"]),
        ('find users {"ag', ['find users {"age"', 'find users {"agent"']),
        ("find users {ag", ['find users {"age"', 'find users {"agent"']),
        ('find users {"age": {"$gt', ['find users {"age": {"$gt"', 'find users {"age": {"$gte"']),
        ("find users {age: {$mo", ['find users {age: {"$mod"']),
        ('update users {} {"$se', ['update users {} {"$set"', 'update users {} {"$setOnInsert"']),
        ('find orders {"ag', []),
        ("sql select * from us", ["sql select * from users"]),
        ("stats x", []),
        ("nonsense x", []),
        ("find users {} x", []),
        ('find users {"a"}x', []),
    ],
)
def test_what_fits_is_offered(line: str, offered: list[str]) -> None:
    assert texts(line) == offered


def test_a_quote_that_is_there_is_not_put_twice() -> None:
    assert [each.text for each in offers('find users {"agen', KNOWN, '": 1}')] == ["agent"]


def test_an_empty_line_is_offered_every_command() -> None:
    assert texts("") == [*KNOWN.commands, "help", "exit"]


def test_files_are_offered(tmp_path: Path) -> None:
    (tmp_path / "users.csv").touch()
    (tmp_path / "users.d").mkdir()
    line = f"import users {tmp_path}/us"
    assert texts(line) == [f"import users {tmp_path}/users.csv", f"import users {tmp_path}/users.d/"]
    assert list(offers("find users us", KNOWN)) == [] != [Offer("users", 2)]


def test_a_command_is_the_longest_that_fits() -> None:
    assert command_of("inspect key ", ["inspect", "inspect key"]) == "inspect key"
    assert command_of("inspect", ["inspect"]) is None


INNER = {"$options", "$each", "$slice", "$position"}
"""Operators that stand inside others."""


def refusals(operator: str) -> list[str]:
    """What each compiler has against an operator with an operand that may be wrong, without its name."""
    asked: list[tuple[Callable[[Any], object], Any]] = [
        (compile_filter, {"a": {operator: 1}}),
        (compile_filter, {operator: [{"a": 1}]}),
        (compile_update, {operator: {"a": 1}}),
        (compile_pipeline, [{operator: 1}]),
        (compile_pipeline, [{"$group": {"_id": None, "a": {operator: 1}}}]),
        (compile_pipeline, [{"$addFields": {"a": {operator: 1}}}]),
    ]
    found = []
    for compile, spec in asked:
        try:
            compile(spec)
        except OperationFailure as error:
            found.append(str(error).replace(operator, "", 1))
    return found


@pytest.mark.parametrize("operator", sorted({each for names in OPERATORS.values() for each in names} - INNER))
def test_each_operator_that_is_offered_exists(operator: str) -> None:
    unknown = refusals("$nonsense")
    assert len(unknown) == 6
    assert refusals(operator) != unknown
