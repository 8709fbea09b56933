"""The change feed of statements: what was inserted and deleted, once each, with terms that may be gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StructType
from rdflib import Literal, URIRef

import lowtide
from lowtide.errors import Error, UsageError
from lowtide.feed.ranges import ChangeRows
from lowtide.spark.quad_changes import told
from lowtide.spark.schemas import CHANGE, STATEMENT
from tests.conftest import OpenStore
from tests.unit.spark.statements import AGE, ANN, BOB, KNOWS, STATEMENTS, row_of, sorted_rows
from tests.unit.spark.streams import Query, reader, rows

SCHEMA = StructType([*STATEMENT, *CHANGE])
NAME = URIRef("urn:a-name-that-is-long-enough-to-be-hashed")


def changes(path: Path, since: int = 0, **options: object) -> list[tuple[Any, ...]]:
    """Kind, commit, object and whether inferred, of each change."""
    found = rows(reader(path, SCHEMA, quads="people", startingVersion=since, **options))
    return [(row["_change_type"], row["_commit_version"], row["o"], row["inferred"]) for row in found]


def test_every_statement_is_an_insert_with_all_its_parts(store: lowtide.Store) -> None:
    store.quads("people").add_many(STATEMENTS)
    found = rows(reader(store.path, SCHEMA, quads="people", startingVersion=0))
    wanted = [row_of(*each) for each in STATEMENTS]
    assert {row["_change_type"] for row in found} == {"insert"}
    assert sorted_rows([{name: row[name] for name in STATEMENT.names} for row in found]) == sorted_rows(wanted)


def test_adds_and_removals_are_told_once(store: lowtide.Store) -> None:
    quads = store.quads("people")
    quads.add((ANN, AGE, Literal(1)))
    quads.add((ANN, AGE, Literal(1)))  # which it has
    quads.add_many([(ANN, AGE, Literal(1)), (ANN, AGE, Literal(2))])
    store["others"].insert_one({"_id": 1})
    quads.remove((ANN, AGE, Literal(1)))
    quads.remove((ANN, AGE, Literal(1)))  # which it has no more
    quads.add((ANN, AGE, Literal(1)))
    found = changes(store.path)
    assert [(kind, o) for kind, _, o, _ in found] == [
        ("insert", "1"),
        ("insert", "2"),
        ("delete", "1"),
        ("insert", "1"),
    ]
    assert [commit for _, commit, _, _ in found] == sorted(commit for _, commit, _, _ in found)


def test_equal_adds_of_two_transactions_are_told_once(store: lowtide.Store) -> None:
    first, second = store.begin(), store.begin()
    for tx in (first, second):
        tx.quads("people").add((ANN, KNOWS, BOB))
    first.commit()
    second.commit()
    assert [kind for kind, *_ in changes(store.path)] == ["insert"]


@pytest.mark.parametrize("images", [False, True])
def test_an_inferred_statement_that_becomes_explicit_is_told_where_the_log_has_it(
    images: bool, open_store: OpenStore
) -> None:
    store = open_store(before_images=images)
    quads = store.quads("people")
    quads.add((ANN, AGE, Literal(1)), inferred=True)
    quads.add((ANN, AGE, Literal(1)))
    quads.add((ANN, AGE, Literal(1)), inferred=True)
    quads.remove((ANN, AGE, Literal(1)))
    first, *others = [(kind, inferred) for kind, _, _, inferred in changes(store.path)]
    assert first == ("insert", True)
    if images:
        assert others == [("delete", True), ("insert", False), ("delete", False)]
    else:
        assert others == [("delete", None)]


def test_terms_that_were_collected_since_are_found_in_the_log(store: lowtide.Store) -> None:
    quads = store.quads("people")
    quads.add((ANN, NAME, Literal("a name that is long enough")))
    quads.remove((ANN, NAME, None))
    wanted = changes(store.path)
    store.collect_garbage()
    assert changes(store.path) == wanted
    assert [kind for kind, *_ in wanted] == ["insert", "delete"]
    assert wanted[1][2] == "a name that is long enough"


def test_the_columns_may_be_chosen(store: lowtide.Store) -> None:
    store.quads("people").add((ANN, KNOWS, BOB))
    schema = StructType([STATEMENT["o"], CHANGE[0]])
    assert rows(reader(store.path, schema, quads="people", startingVersion=0)) == [
        {"o": "urn:bob", "_change_type": "insert"}
    ]
    for options in ({"s": "<urn:ann>"}, {"jsonColumns": "o"}):
        with pytest.raises(UsageError, match="has no meaning for changes of quads"):
            reader(store.path, SCHEMA, quads="people", startingVersion=0, **options)


def test_a_quad_store_that_never_was_has_no_changes(store: lowtide.Store) -> None:
    store["others"].insert_one({"_id": 1})
    assert changes(store.path) == []


def test_only_what_differs_is_told() -> None:
    kinds = ["insert", "update_preimage", "update_postimage", "update_preimage", "update_postimage", "update_postimage"]
    values: list[bytes | None] = [b"e", b"i", b"e", b"e", b"e", b"e"]
    found = told(ChangeRows([*kinds], [*range(6)], [0.0] * 6, [b"k"] * 6, values))
    assert list(zip(found.kinds, found.commits, found.values, strict=True)) == [
        ("insert", 0, b"e"),
        ("delete", 2, b"i"),
        ("insert", 2, b"e"),
    ]


def test_a_stream_begins_with_what_is_there_and_goes_on_with_changes(store: lowtide.Store) -> None:
    quads = store.quads("people")
    quads.add_many(STATEMENTS)
    query = Query(store.path, SCHEMA, quads="people")
    assert query.plan()  # its snapshot is pinned, with the terms
    quads.clear()
    store.collect_garbage()
    query.run()
    quads.add((BOB, NAME, Literal("another name that is long")))
    query.run()
    found = [row for batch in query.batches for part in batch for row in part]
    snapshot, later = found[: len(STATEMENTS)], found[len(STATEMENTS) :]
    assert sorted_rows([{name: row[name] for name in STATEMENT.names} for row in snapshot]) == sorted_rows(
        [row_of(*each) for each in STATEMENTS]
    )
    assert [row["_change_type"] for row in later] == ["delete"] * len(STATEMENTS) + ["insert"]
    assert later[-1]["o"] == "another name that is long"


def test_a_term_that_is_nowhere_is_told_of(store: lowtide.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.quads("people").add((ANN, NAME, BOB))
    monkeypatch.setattr("lowtide.spark.quad_changes._looked_up", lambda at, name, ids: [None] * len(ids))
    assert len(changes(store.path)) == 1
    monkeypatch.setattr("lowtide.spark.quad_changes.commits_in", lambda commits: iter(()))
    with pytest.raises(Error, match=r"has a term, with the id \w+, that was removed by collect_garbage\(\) since"):
        changes(store.path)
