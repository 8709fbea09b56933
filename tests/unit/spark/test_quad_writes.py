"""Writes of statements, as Spark calls them: staged by tasks, added or removed in one transaction."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType
from rdflib import BNode, Literal, URIRef

import lowtide
from lowtide.errors import UsageError
from lowtide.sharing.loading import loader
from lowtide.sharing.loading.staged import claim
from lowtide.spark.options import SparkOptions
from lowtide.spark.schemas import CHANGE, STATEMENT, arrow_schema
from lowtide.spark.sink import StreamSink
from lowtide.spark.writing import BatchWriter
from tests.unit.spark.loading import Load
from tests.unit.spark.statements import AGE, ANN, BOB, GRAPH, KNOWS, STATEMENTS, row_of
from tests.unit.spark.streams import reader
from tests.unit.spark.streams import rows as change_rows

Rows = list[dict[str, Any]]
CHANGES = StructType([*STATEMENT, *CHANGE])


def write(path: Path, *parts: Rows, schema: StructType = STATEMENT, overwrite: bool = False, **options: str) -> None:
    """A whole write, of a task for each part."""
    made = BatchWriter(SparkOptions({"path": str(path), "quads": "people", **options}), schema, overwrite)
    messages: list[Any] = []
    for rows in parts:
        batch = pa.RecordBatch.from_pylist(rows, schema=arrow_schema(schema))
        messages.append(pickle.loads(pickle.dumps(made)).write(iter([batch])))
    pickle.loads(pickle.dumps(made)).commit(messages)


def statements(store: lowtide.Store, name: str = "people") -> set[tuple[Any, ...]]:
    return set(store.quads(name).match())


def rows_of(*quads: Any, inferred: bool = False) -> Rows:
    return [row_of(s, p, o, g[0] if g else None, inferred=inferred) for s, p, o, *g in quads]


def test_what_was_read_and_written_is_the_same(store: lowtide.Store) -> None:
    store.quads("others").add_many(STATEMENTS)
    store.quads("others").add((BOB, KNOWS, ANN), inferred=True)
    rows = Load(store.path, quads="others").rows()
    before = store.stats().last_commit
    write(store.path, rows[:5], [], rows[5:])
    assert store.stats().last_commit == before + 1
    with store.quads("others").reader() as others, store.quads("people").reader() as people:
        for inferred in (True, False):
            assert list(others.match(inferred=inferred)) == list(people.match(inferred=inferred))
    assert statements(store) == statements(store, "others")
    assert store.verify().ok


def test_a_store_is_made_where_none_is(tmp_path: Path) -> None:
    write(tmp_path / "new", rows_of((ANN, KNOWS, BOB)))
    with lowtide.open(tmp_path / "new") as store:
        assert statements(store) == {(ANN, KNOWS, BOB, None)}


def test_statements_that_are_there_are_not_added_twice(store: lowtide.Store) -> None:
    for mode in ("insert", "upsert"):
        write(store.path, rows_of((ANN, KNOWS, BOB), (ANN, KNOWS, BOB)), rows_of((ANN, KNOWS, BOB)), writeMode=mode)
    assert statements(store) == {(ANN, KNOWS, BOB, None)}
    found = change_rows(reader(store.path, CHANGES, quads="people", startingVersion=0))
    assert [row["_change_type"] for row in found] == ["insert"]


def test_statements_are_removed(store: lowtide.Store) -> None:
    store.quads("people").add_many(STATEMENTS)
    gone = [*STATEMENTS[:4], (URIRef("urn:nobody"), KNOWS, BOB, None), (ANN, AGE, Literal(42), GRAPH)]
    write(store.path, rows_of(*gone), rows_of(STATEMENTS[0]), writeMode="delete")
    assert statements(store) == set(STATEMENTS[4:])


def test_an_overwrite_replaces_everything(store: lowtide.Store) -> None:
    quads = store.quads("people")
    quads.add_many(STATEMENTS)
    quads.add((BOB, KNOWS, ANN), inferred=True)
    write(store.path, rows_of(STATEMENTS[0], (BOB, KNOWS, ANN)), rows_of(STATEMENTS[1], inferred=True), overwrite=True)
    assert statements(store) == {STATEMENTS[0], STATEMENTS[1], (BOB, KNOWS, ANN, None)}
    assert set(quads.match(inferred=True)) == {STATEMENTS[1]}
    write(store.path, [], overwrite=True)
    assert statements(store) == set()
    assert store.verify().ok


def test_a_change_feed_is_applied_by_its_last_changes(store: lowtide.Store) -> None:
    others = store.quads("others")
    for step in range(3):
        others.add_many(STATEMENTS)
        others.remove((ANN, None, None))
        others.add((ANN, AGE, Literal(step)))
    found = change_rows(reader(store.path, CHANGES, quads="others", startingVersion=0))
    write(store.path, found[::-1][::2], found[::-1][1::2], schema=CHANGES, writeMode="changes")
    assert statements(store) == statements(store, "others")


def test_columns_that_are_left_out_have_defaults(store: lowtide.Store) -> None:
    schema = StructType([STATEMENT[name] for name in ("s", "p", "o", "o_kind")])
    write(store.path, [{"s": "urn:ann", "p": "urn:knows", "o": "urn:bob", "o_kind": "iri"}], schema=schema)
    assert statements(store) == {(ANN, KNOWS, BOB, None)}
    assert not list(store.quads("people").match(inferred=True))


def test_a_write_is_done_once(store: lowtide.Store) -> None:
    for _ in range(2):
        write(store.path, rows_of((ANN, KNOWS, BOB)), txnAppId="app", txnVersion="1")
        store.quads("people").clear()
    assert statements(store) == set()
    store["people"].insert_one({"_id": 1})
    write(store.path, rows_of((ANN, KNOWS, BOB)), txnAppId="app", txnVersion="2")
    assert len(statements(store)) == 1


def test_a_stream_commits_each_batch_once(store: lowtide.Store) -> None:
    options = SparkOptions({"path": str(store.path), "quads": "people", "txnAppId": "stream"})
    for number, statement in ((0, STATEMENTS[0]), (1, STATEMENTS[1]), (1, STATEMENTS[2])):
        sink = StreamSink(options, STATEMENT, False)
        batch = pa.RecordBatch.from_pylist(rows_of(statement), schema=arrow_schema(STATEMENT))
        message = pickle.loads(pickle.dumps(sink)).write(iter([batch]))
        StreamSink(options, STATEMENT, False).commit([message], number)
    assert statements(store) == set(STATEMENTS[:2])


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"s": None}, "column 's': a term has no text"),
        ({"o_kind": "uri"}, "column 'o': the kind of the term 'urn:bob' is iri, blank, literal"),
        ({"o_datatype": "urn:d"}, "column 'o': only a literal has a datatype"),
        ({"s": "plain", "s_kind": "literal"}, "column 's': 'plain' is not a term of N-Triples"),
        ({"g": "urn:g", "g_kind": None}, "column 'g': the kind of the term 'urn:g'"),
        ({"o_kind": "literal", "o_language": "not a language"}, "column 'o': "),
    ],
)
def test_a_row_that_is_no_statement_fails_the_write(row: dict[str, Any], words: str, store: lowtide.Store) -> None:
    schema = StructType([StructField(each.name, each.dataType) for each in STATEMENT])
    with pytest.raises(UsageError, match=f"write to quads 'people' of the store .*: {words}"):
        write(store.path, rows_of((ANN, KNOWS, BNode())), [{**row_of(ANN, KNOWS, BOB, None), **row}], schema=schema)
    assert statements(store) == set()


@pytest.mark.parametrize(
    ("schema", "options", "words"),
    [
        (StructType([STATEMENT["s"]]), {}, "statements need the columns s, p, o, o_kind, and there is no 'p'"),
        (StructType([*STATEMENT, StructField("x", StringType())]), {}, "statements have the columns"),
        (STATEMENT, {"idField": "s"}, "option 'idField' has no meaning for a write to quads"),
        (STATEMENT, {"s": "<urn:a>"}, "option 's' has no meaning for a write to quads"),
        (STATEMENT, {"writeMode": "changes"}, "there is no|takes the rows of a change feed"),
        (StructType([*STATEMENT, StructField("_commit_version", LongType())]), {}, "statements have the columns"),
    ],
)
def test_what_cannot_be_written_is_refused(
    schema: StructType, options: dict[str, Any], words: str, store: lowtide.Store
) -> None:
    with pytest.raises(UsageError, match=words):
        write(store.path, schema=schema, **options)


@pytest.mark.parametrize("conflicts", [1, loader.ATTEMPTS])
def test_a_write_that_conflicts_is_repeated_and_at_last_runs_in_turn(
    conflicts: int, store: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    quads = store.quads("people")
    quads.add((ANN, KNOWS, BOB))
    left = [conflicts]

    def removing(directory: Path) -> None:
        claim(directory)
        if left[0]:
            left[0] -= 1
            quads.add((ANN, KNOWS, BOB))
            quads.remove((ANN, KNOWS, BOB))
            quads.add((BOB, AGE, Literal(left[0])))

    monkeypatch.setattr(loader, "claim", removing)
    monkeypatch.setattr(loader, "IMPATIENCE", float("inf"))
    write(store.path, rows_of((ANN, KNOWS, BOB)))
    assert left == [0]
    assert (ANN, KNOWS, BOB, None) in statements(store)
    assert len(statements(store)) == 1 + conflicts
