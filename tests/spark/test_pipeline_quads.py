"""Quad stores in an archive: any archived instant can be read, compared, restored, and queried with SPARQL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rdflib import Literal, URIRef

import lowtide
from lowtide import pipeline
from lowtide.pipeline.archive.statements import statement_id
from lowtide.quads.sparql import query
from tests.conftest import OpenStore
from tests.spark.archives import forget_the_log
from tests.unit.spark.statements import AGE, ANN, BOB, GRAPH, KNOWS, STATEMENTS, row_of, sorted_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = URIRef("urn:a-name-that-is-long-enough-to-be-hashed")
LONG = Literal("a text that is long enough to be hashed")


@pytest.fixture
def store(open_store: OpenStore) -> lowtide.Store:
    return open_store("library")


def statements(store: lowtide.Store, name: str = "people") -> dict[tuple[Any, ...], bool]:
    """The statements, and whether each is inferred."""
    quads = store.quads(name)
    return {**dict.fromkeys(quads.match(inferred=False), False), **dict.fromkeys(quads.match(inferred=True), True)}


def rows(frame: Any) -> list[dict[str, Any]]:
    return sorted_rows([{k: v for k, v in row.asDict().items() if k != "_id"} for row in frame.collect()])


def wanted(found: dict[tuple[Any, ...], bool]) -> list[dict[str, Any]]:
    return sorted_rows([row_of(s, p, o, g, inferred=inferred) for (s, p, o, g), inferred in found.items()])


def changed(store: lowtide.Store, step: int) -> None:
    """Commits of every kind: adds, equal adds, removals, inferred statements that become explicit, collected terms."""
    quads = store.quads("people")
    quads.add_many(STATEMENTS[step % 5 :])
    quads.add((BOB, KNOWS, ANN), inferred=step % 2 == 0)
    quads.add((BOB, URIRef(f"urn:step-{step}"), Literal(f"a text of step {step}, long enough to be hashed")))
    quads.remove((ANN, AGE, None, None))
    quads.add((ANN, AGE, Literal(step), GRAPH))
    quads.remove((BOB, URIRef(f"urn:step-{step - 1}"), None))
    store.collect_garbage()


def test_every_archived_instant_is_what_the_store_was(
    spark: SparkSession, store: lowtide.Store, tmp_path: Path
) -> None:
    archive, states = tmp_path / "archive", {}
    store["books"].insert_one({"_id": 1})
    for step in range(4):
        changed(store, step)
        states[store.stats().last_commit] = statements(store)
        if step in (0, 2, 3):
            pipeline.archive(spark, store.path, archive)
    for commit, state in states.items():
        assert rows(pipeline.as_of(spark, archive, commit, quads="people")) == wanted(state)
    first, *_, last = states
    assert rows_of_table(pipeline.local.as_of(archive, first, quads="people")) == wanted(states[first])
    different = pipeline.diff(spark, archive, first, last, quads="people").collect()
    assert {bytes(row["_id"]) for row in different if row["_kind"] == "insert"} == {
        statement_id(each) for each in states[last] if each not in states[first]
    }
    assert {bytes(row["_id"]) for row in different if row["_kind"] == "delete"} == {
        statement_id(each) for each in states[first] if each not in states[last]
    }
    for commit in (first, last):
        pipeline.restore(spark, archive, tmp_path / f"at-{commit}", at=commit)
        with lowtide.open(tmp_path / f"at-{commit}") as restored:
            assert statements(restored) == states[commit]
            assert restored.list_quads() == ["people"]
            assert restored["books"].count_documents({}) == 1
            assert restored.verify().ok
            with restored.quads("people").reader() as reader:
                found: Any = query(reader, "SELECT ?o { ?s <urn:knows> ?o . ?o <urn:name> ?n }")
                assert {row[0] for row in found} == set(asked(states[commit]))


def asked(state: dict[tuple[Any, ...], bool]) -> list[Any]:
    named = {s for s, p, _, g in state if p == URIRef("urn:name") and g is None}
    return [o for _, p, o, g in state if p == KNOWS and g is None and o in named]


def rows_of_table(table: Any) -> list[dict[str, Any]]:
    return sorted_rows([{k: v for k, v in row.items() if k != "_id"} for row in table.to_pylist()])


def test_a_table_has_the_columns_of_a_read_and_no_index_has_a_table(
    spark: SparkSession, store: lowtide.Store, tmp_path: Path
) -> None:
    store.quads("people").add((ANN, KNOWS, BOB))
    store.keyspace("plain").put(b"k", b"v")
    report = pipeline.archive(spark, store.path, tmp_path / "archive")
    assert set(report.to_dict()["tables"]) == {"keyspaces/plain", "quads/people"}
    frame = pipeline.as_of(spark, tmp_path / "archive", None, quads="people")
    assert set(frame.columns) == {"_id", *row_of(ANN, KNOWS, BOB, None)}
    (row,) = frame.collect()
    assert bytes(row["_id"]) == statement_id((ANN, KNOWS, BOB))
    with pytest.raises(pipeline.NotArchived, match="does not know the quad store 'peeple': did you mean 'people'"):
        pipeline.as_of(spark, tmp_path / "archive", None, quads="peeple")
    with pytest.raises(lowtide.UsageError, match="only one of them"):
        pipeline.as_of(spark, tmp_path / "archive", None, "books", quads="people")


def test_the_history_of_a_statement_goes_on_after_its_terms_were_collected(
    spark: SparkSession, store: lowtide.Store, tmp_path: Path
) -> None:
    quads, archive = store.quads("people"), tmp_path / "archive"
    quads.add((ANN, NAME, LONG))
    pipeline.archive(spark, store.path, archive)
    quads.remove((ANN, NAME, LONG))
    store.collect_garbage()
    quads.add((BOB, NAME, Literal("added and removed between two runs, and collected")))
    quads.remove((BOB, None, None))
    store.collect_garbage()
    pipeline.archive(spark, store.path, archive)
    found = pipeline.history(spark, archive, quads="people", id=statement_id((ANN, NAME, LONG))).collect()
    assert [(row["_kind"], row["o"]) for row in found] == [("insert", str(LONG)), ("delete", None)]
    others = [row for row in pipeline.history(spark, archive, quads="people").collect() if row["s"] == "urn:bob"]
    assert [row["o"] for row in others] == ["added and removed between two runs, and collected"]


def test_an_archive_that_lost_the_log_goes_on_with_a_snapshot(
    spark: SparkSession, store: lowtide.Store, tmp_path: Path
) -> None:
    archive = tmp_path / "archive"
    changed(store, 0)
    pipeline.archive(spark, store.path, archive)
    first, before = store.stats().last_commit, statements(store)
    forget_the_log(store)
    changed(store, 1)
    pipeline.archive(spark, store.path, archive)
    assert rows(pipeline.as_of(spark, archive, None, quads="people")) == wanted(statements(store))
    assert rows(pipeline.as_of(spark, archive, first, quads="people")) == wanted(before)


def test_compaction_and_vacuum_keep_what_they_must(spark: SparkSession, store: lowtide.Store, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    for step in range(3):
        changed(store, step)
        pipeline.archive(spark, store.path, archive)
    state = statements(store)
    pipeline.compact(spark, archive)
    assert rows(pipeline.as_of(spark, archive, None, quads="people")) == wanted(state)
    report = pipeline.vacuum(spark, archive, keep="0d")
    assert report.dropped > 0
    assert rows(pipeline.as_of(spark, archive, None, quads="people")) == wanted(state)


def test_prefixes_and_created_graphs_come_back(spark: SparkSession, store: lowtide.Store, tmp_path: Path) -> None:
    quads = store.quads("people")
    quads.add((ANN, KNOWS, BOB))
    quads.prefixes.bind("ex", "http://example.org/")
    quads.created.create(GRAPH)
    pipeline.archive(spark, store.path, tmp_path / "archive")
    pipeline.restore(spark, tmp_path / "archive", tmp_path / "again")
    with lowtide.open(tmp_path / "again") as again:
        assert again.quads("people").prefixes.items() == quads.prefixes.items()
        assert again.quads("people").created.names() == [GRAPH]


def test_what_is_left_of_the_log_is_recovered_with_its_statements(
    spark: SparkSession, store: lowtide.Store, tmp_path: Path
) -> None:
    changed(store, 0)
    pipeline.archive(spark, store.path, tmp_path / "archive")
    store.quads("people").prefixes.bind("ex", "http://example.org/")
    for step in (1, 2):
        changed(store, step)
    state = statements(store)
    store.close()
    report = pipeline.recover(spark, tmp_path / "again", log=store.path / "log", archive=tmp_path / "archive")
    assert report.stopped is None
    with lowtide.open(tmp_path / "again") as again:
        assert statements(again) == state
        assert dict(again.quads("people").prefixes.items())["ex"] == URIRef("http://example.org/")
        assert again.verify().ok


def test_a_recovery_stops_at_a_statement_whose_term_is_nowhere(
    spark: SparkSession, store: lowtide.Store, tmp_path: Path
) -> None:
    quads = store.quads("people")
    quads.add((ANN, NAME, LONG))
    quads.remove((ANN, NAME, LONG))
    pipeline.archive(spark, store.path, tmp_path / "archive")
    store["books"].insert_one({"_id": 1})
    quads.add((ANN, NAME, LONG))  # whose terms are in the dictionary still, and so not in this commit
    store.close()
    report = pipeline.recover(spark, tmp_path / "again", log=store.path / "log", archive=tmp_path / "archive")
    assert report.stopped is not None
    assert "adds a statement to the quad store 'people' whose term" in report.stopped
    with lowtide.open(tmp_path / "again") as again:
        assert again["books"].count_documents({}) == 1
        assert again.list_quads() == []
