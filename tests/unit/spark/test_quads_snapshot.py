"""Statements as rows: every kind of term, in partitions, by patterns, at an instant."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import IntegerType, StringType, StructType
from rdflib import Literal, URIRef

import lowtide
from lowtide.errors import UsageError
from lowtide.spark.schemas import STATEMENT
from lowtide.spark.source import LowtideSource
from lowtide.store.opening import open_store
from tests.unit.spark.loading import Load, crossed, struct
from tests.unit.spark.statements import AGE, ANN, BLANK_GRAPH, BOB, GRAPH, KNOWS, STATEMENTS, row_of, sorted_rows


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with lowtide.open(tmp_path / "store") as store:
        store.quads("people").add_many(STATEMENTS)
    return tmp_path / "store"


def test_every_statement_is_a_row_with_its_kinds_datatype_and_language(path: Path) -> None:
    load = Load(path, quads="people")
    assert load.schema == STATEMENT
    assert sorted_rows(load.rows()) == sorted_rows([row_of(*each) for each in STATEMENTS])


def test_inferred_statements_are_told_apart(path: Path) -> None:
    with lowtide.open(path) as store:
        store.quads("people").add((BOB, KNOWS, ANN), inferred=True)
    found = [row for row in Load(path, quads="people").rows() if row["inferred"]]
    assert found == [row_of(BOB, KNOWS, ANN, None, inferred=True)]


def test_columns_can_be_left_out(path: Path) -> None:
    load = Load(path, StructType([STATEMENT["o"], STATEMENT["g"]]), quads="people")
    assert {(row["o"], row["g"]) for row in load.rows()} == {
        (str(o), None if g is None else str(g)) for _, _, o, g in STATEMENTS
    }
    load = Load(path, StructType([STATEMENT["inferred"]]), quads="people")
    assert load.rows() == [{"inferred": False}] * len(STATEMENTS)
    assert sum(
        batch.num_rows
        for part in Load(path, StructType(), quads="people").partitions
        for batch in Load(path, StructType(), quads="people").batches(part)
    ) == len(STATEMENTS)


@pytest.mark.parametrize(
    ("options", "pattern"),
    [
        ({"s": "<urn:ann>"}, (ANN, None, None, None)),
        ({"p": "<urn:knows>"}, (None, KNOWS, None, None)),
        ({"o": '"042"^^<http://www.w3.org/2001/XMLSchema#integer>'}, (None, None, STATEMENTS[7][2], None)),
        ({"s": "<urn:ann>", "o": '"Ann"@en-gb'}, (ANN, None, Literal("Ann", lang="en-GB"), None)),
        ({"g": "_:graph"}, (None, None, None, BLANK_GRAPH)),
        ({"p": "<urn:age>", "g": "<urn:graph>"}, (None, AGE, None, GRAPH)),
        ({"s": "<urn:nobody>"}, (URIRef("urn:nobody"), None, None, None)),
    ],
)
def test_a_pattern_reads_what_match_does(options: dict[str, Any], pattern: tuple[Any, ...], path: Path) -> None:
    with lowtide.open(path) as store:
        wanted = [row_of(*each) for each in store.quads("people").match(pattern)]
    assert sorted_rows(Load(path, quads="people", **options).rows()) == sorted_rows(wanted)


def test_the_default_graph_can_be_asked_for(path: Path) -> None:
    found = Load(path, quads="people", g="default").rows()
    assert sorted_rows(found) == sorted_rows([row_of(*each) for each in STATEMENTS if each[3] is None])


def test_parts_are_ranges_of_ids_and_have_everything_once(path: Path) -> None:
    many = [(URIRef(f"urn:s{n % 997}"), URIRef(f"urn:p{n % 5}"), Literal(n), None) for n in range(3000)]
    with lowtide.open(path) as store:
        store.quads("many").add_many(many)
        store.checkpoint()
    load = Load(path, quads="many", partitions=4, batchSize=100)
    assert len(load.partitions) == 4
    sizes = [sum(batch.num_rows for batch in load.batches(part)) for part in load.partitions]
    assert all(300 < each < 1300 for each in sizes), sizes
    assert {row["o"] for row in load.rows()} == {str(n) for n in range(3000)}
    by_predicate = Load(path, quads="many", partitions=3, p="<urn:p1>")
    assert len(by_predicate.partitions) > 1
    assert sorted(int(row["o"]) for row in by_predicate.rows()) == list(range(1, 3000, 5))


def test_a_load_reads_one_commit_whatever_is_written_and_collected_after_it(path: Path) -> None:
    with lowtide.open(path) as store:
        before = store.pin("before")
        load, again = Load(path, quads="people"), Load(path, quads="people", asOf="before")
        store.quads("people").clear()
        store.collect_garbage()
        store.checkpoint()
        assert len(load.rows()) == len(again.rows()) == len(STATEMENTS)
        assert len(Load(path, quads="people", asOf=before.ts).rows()) == len(STATEMENTS)
        assert Load(path, STATEMENT, quads="people").rows() == []


def test_only_the_quad_store_is_pinned(path: Path) -> None:
    Load(path, quads="people")
    with open_store(path, read_only=True) as store:
        (pin,) = [each for each in store.pins() if each.name.startswith("spark ")]
        assert pin.keyspaces is not None
        assert all(each == "lowtide/quads" or each.startswith("quads/people/") for each in pin.keyspaces)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"quads": "nobody"}, "has no quad store 'nobody'; it has 'people'"),
        ({"quads": "people", "collection": "people"}, "one collection, one keyspace or one quad store"),
        ({"quads": "people", "filter": "{}"}, "option 'filter' has no meaning for quads"),
        ({"quads": "people", "s": "ann"}, "option 's': 'ann' is not a term of N-Triples"),
        ({"quads": "people", "o": "default"}, "option 'o': 'default' is not a term"),
        ({"collection": "c", "s": "<urn:a>"}, "option 's' has no meaning but for quads"),
        ({"quads": "people", "startingVersion": "1"}, "has no meaning without readChangeFeed"),
    ],
)
def test_what_cannot_be_read_is_refused(options: dict[str, Any], words: str, path: Path) -> None:
    with pytest.raises(UsageError, match=words.replace("(", "\\(")):
        Load(path, **options)


def test_other_columns_are_refused(path: Path) -> None:
    for schema in (struct(name=StringType()), struct(s=IntegerType())):
        with pytest.raises(UsageError, match="statements have the columns s, s_kind"):
            Load(path, schema, quads="people")


def test_the_schema_fixes_the_commit_that_is_read(path: Path) -> None:
    source = crossed(LowtideSource(cast("dict[str, str]", CaseInsensitiveDict({"path": str(path), "quads": "people"}))))
    schema = source.schema()
    with lowtide.open(path) as store:
        store.quads("people").clear()
    reader = crossed(source).reader(schema)
    assert sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part)) == len(STATEMENTS)
