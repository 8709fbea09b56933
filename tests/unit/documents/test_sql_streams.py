"""SQL reads only what it needs of a collection, and finds the same as over tables of all documents."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lowtide
from lowtide.columnar import columns, streaming
from lowtide.documents.sql import query
from lowtide.documents.sql_tables import CollectionTables
from lowtide.errors import OperationFailure

MOMENT = datetime(2026, 5, 1, 12, tzinfo=UTC)
IDS = [UUID(int=number << 64) for number in range(3)]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lowtide.Store]:
    with lowtide.open(tmp_path_factory.mktemp("sql") / "s", durability="relaxed") as opened:
        yield opened


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many documents each batch had that a query read, the samples included."""
    sizes: list[int] = []
    stored = CollectionTables.stored

    def counted(self: CollectionTables, name: str, filter: Any) -> Iterator[list[bytes]]:
        for batch in stored(self, name, filter):
            sizes.append(len(batch))
            yield batch

    monkeypatch.setattr(CollectionTables, "stored", counted)
    return sizes


class Loaded:
    """The collections of a snapshot as tables of all documents and all columns."""

    def __init__(self, snapshot: lowtide.Snapshot) -> None:
        self._snapshot = snapshot

    def collections(self) -> Sequence[str]:
        return self._snapshot.list_collection_names()

    def table(self, name: str, columns: list[str] | None) -> pa.Table:
        return self._snapshot.collection(name).to_arrow(None)

    def stream(self, name: str) -> None:
        return None


def both(store: lowtide.Store, sql: str, parameters: Any = None) -> tuple[Any, Any]:
    """What a query finds, and what it finds over whole tables: names, types and rows, or that it fails."""

    def outcome(run: Any) -> Any:
        try:
            found = run()
        except OperationFailure as error:
            return str(error).partition(":")[0]
        return found.columns, [str(each) for each in found.to_arrow().schema.types], found.fetchall()

    with store.snapshot() as snapshot:
        streamed = outcome(lambda: snapshot.sql(sql, parameters))
        return streamed, outcome(lambda: query(sql, parameters, Loaded(snapshot)))


def filled(store: lowtide.Store, name: str, documents: list[dict[str, Any]], *indexed: str) -> None:
    store[name].drop()
    store[name].insert_many(documents)
    for each in indexed:
        store[name].create_index(each)


@pytest.fixture(scope="module")
def orders(store: lowtide.Store) -> lowtide.Store:
    filled(
        store,
        "orders",
        [
            {
                "_id": number,
                "user": number % 500,
                "total": number / 4,
                "city": "Oslo" if number % 2 else "Rome",
                "when": MOMENT + timedelta(seconds=number),
                "price": Decimal(number).scaleb(-2),
            }
            for number in range(10_000)
        ],
        "user",
        "when",
        "price",
        "total",
    )
    return store


def test_a_limit_stops_the_scan(orders: lowtide.Store, read: list[int]) -> None:
    assert orders.sql("select * from orders limit 2").to_arrow().column("_id").to_pylist() == [0, 1]
    assert sum(read) <= 2 * 8192


@pytest.mark.parametrize(
    ("condition", "parameters", "count", "most"),
    [
        ("_id = 9000", None, 1, 1),
        ("_id = ?", [9000], 1, 1),
        ("_id in (1, 9000, 99999)", None, 2, 2),
        ("_id between 8500 and 8509", None, 10, 10),
        ("_id >= 9990 and city = 'Oslo'", None, 5, 10),
        ('"user" = 7', None, 20, 20),
        ("\"user\" = 7 and city = 'Rome'", None, 0, 20),
        ('"user" is null', None, 0, 0),
        ("\"when\" < timestamptz '2026-05-01 12:00:05Z'", None, 5, 5),
        ("price = 12.34", None, 1, 1),
        ("total < 0.5", None, 2, 3),
        ("total = 10", None, 1, 1),
    ],
)
def test_a_condition_on_an_indexed_field_reads_what_the_index_leads_to(
    orders: lowtide.Store, read: list[int], condition: str, parameters: Any, count: int, most: int
) -> None:
    streamed, loaded = both(orders, f"select _id, city from orders where {condition}", parameters)
    assert streamed == loaded
    assert len(streamed[2]) == count
    sample, *rest = read
    assert sample == 8192
    assert sum(rest) <= most


def test_a_condition_that_holds_for_most_documents_reads_all_in_one_go(
    orders: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lowtide.documents.sql_tables._MOST_FETCHED", 1000)
    streamed, loaded = both(orders, 'select count(*), min(_id) from orders where "user" > 3')
    assert streamed == loaded
    assert streamed[2] == [(9920, 4)]


def test_the_columns_of_a_query_are_all_that_is_made(orders: lowtide.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[list[str]] = []

    class Columns(columns.Columns):
        def __init__(self, schema: pa.Schema, **more: Any) -> None:
            made.append(schema.names)
            super().__init__(schema, **more)

    monkeypatch.setattr(streaming, "Columns", Columns)
    orders.sql("select sum(total) from orders where city = 'Oslo'")
    orders.sql("select TOTAL from Orders where _id = 5")
    assert [set(each) for each in made] == [{"total", "city"}, {"total", "_id"}]


def test_a_document_that_does_not_fit_the_sample_is_found_right(store: lowtide.Store) -> None:
    """The types of the first thousand are not those of all: a later one has another type, or another field."""
    documents: list[dict[str, Any]] = [{"_id": number, "a": number} for number in range(3000)]
    filled(store, "odd", [*documents, {"_id": 3000, "a": "text", "rare": 1}])
    for sql in (
        "select * from odd",
        "select * exclude (_id) from odd",
        "select max(a) from odd",
        "select rare from odd where rare is not null",
        "select _id as rare, a from odd order by rare desc limit 3",
        "select count(rare) from odd",
        "from odd o select o where o._id = 3000",
    ):
        streamed, loaded = both(store, sql)
        assert streamed == loaded, sql
    assert store.sql("select a from odd limit 1").fetchall() == [(0,)]


def test_a_column_of_text_that_turns_out_to_be_numbers_is_found_right(
    store: lowtide.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers that no decimal holds are JSON text, but beside a float they are doubles."""
    monkeypatch.setattr(streaming, "SAMPLE", 1)
    filled(store, "tiny", [{"_id": 0, "a": Decimal("1e-320")}, {"_id": 1, "a": 0.5}])
    for sql in ("select * from tiny", "select a from tiny", "select x.a from tiny x join tiny y on x._id <= y._id"):
        streamed, loaded = both(store, sql)
        assert streamed == loaded, sql
        assert streamed[1][-1] == "double"


def test_ids_that_are_uuids_are_found_by_their_text(store: lowtide.Store) -> None:
    filled(store, "things", [{"n": number} for number in range(5)] + [{"_id": str(IDS[1]), "n": 9}])
    wanted = store["things"].find_one({"n": 3})
    assert wanted is not None
    assert store.sql("select n from things where _id = ?", [str(wanted["_id"])]).fetchall() == [(3,)]
    assert store.sql("select n from things where _id in (?, 'x')", [str(IDS[1])]).fetchall() == [(9,)]


def test_what_fails_while_it_is_read_is_raised_as_it_is(orders: lowtide.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = CollectionTables.stored

    def failing(self: CollectionTables, name: str, filter: Any) -> Iterator[list[bytes]]:
        for number, batch in enumerate(stored(self, name, filter)):
            if number:
                raise lowtide.SnapshotExpired("it has expired")
            yield batch

    monkeypatch.setattr(CollectionTables, "stored", failing)
    with pytest.raises(lowtide.SnapshotExpired, match="it has expired"):
        orders.sql("select sum(total) from orders")


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "integers": st.integers(-3, 3) | st.sampled_from([2**53, 2**53 + 1, -(2**63)]),
    "numbers": st.integers(-3, 3)
    | st.sampled_from([0.5, -0.0, 2.0, 0.1, float("inf"), 2**53 + 1, Decimal("0.1"), Decimal("1e-320")]),
    "decimals": st.integers(-3, 3) | st.sampled_from([Decimal("0.1"), Decimal("2.50"), Decimal(-2)]),
    "texts": st.sampled_from(["", "a", "b", "é", "a'b", '"', "null", *map(str, IDS), *IDS]),
    "moments": st.sampled_from(
        [MOMENT, MOMENT.replace(tzinfo=None), MOMENT.astimezone(timezone(timedelta(hours=3))), datetime(1, 1, 1)]
    ),
    "flags": st.booleans(),
    "mixed": st.sampled_from([1, "1", "a", True, 1.5, [1], {"x": 1}, MOMENT, b"\x00", Decimal(1), [], {}]),
    "lists": st.lists(st.integers(0, 2), max_size=2),
}
CONSTANTS = {
    "integers": ["0", "1", "-3", "9007199254740993", "1.5", "2.0"],
    "numbers": ["0", "0.1", "2", "'nan'::double", "1e-320", "9007199254740992", "-1.5"],
    "decimals": ["0.1", "2.5", "-2", "3", "0.10"],
    "texts": ["''", "'a'", "'é'", "'a''b'", "'\"'", f"'{IDS[0]}'", f"'{IDS[1]}'"],
    "moments": ["timestamptz '2026-05-01 12:00:00Z'", "timestamptz '2000-01-01 00:00:00Z'"],
    "flags": ["true", "false"],
    "mixed": ["'1'", "'a'", "'true'", "1"],
    "lists": ["[1]", "[]"],
}
OPERATORS = ["=", "<", "<=", ">", ">=", "<>"]


@st.composite
def asked(draw: st.DrawFn) -> tuple[list[dict[str, Any]], str]:
    """Documents with the fields a and b, and a query with conditions on them; there is an index on a."""
    kinds = {name: draw(st.sampled_from(sorted(VALUES))) for name in ("a", "b")}
    values = {name: draw(st.lists(st.none() | VALUES[kind], min_size=1, max_size=8)) for name, kind in kinds.items()}
    chance = random.Random(draw(st.integers(0, 2**16)))
    documents: list[dict[str, Any]] = []
    for number in range(draw(st.integers(1, 25))):
        fields = {name: chance.choice(values[name]) for name in values if chance.random() < 0.9}
        documents.append({"_id": number, **fields})
    conditions = []
    for _ in range(draw(st.integers(0, 3))):
        column = draw(st.sampled_from(["_id", "a", "b"]))
        constants = st.sampled_from(CONSTANTS[kinds[column]] if column != "_id" else ["0", "3", "7", "12.0"])
        one, two, operator = draw(constants), draw(constants), draw(st.sampled_from(OPERATORS))
        forms = [
            f"{column} {operator} {one}",
            f"{one} {operator} {column}",
            f"{column} in ({one}, {two})",
            f"{column} between {one} and {two}",
            f"{column} is null",
            f"{column} is not null",
            f"not ({column} {operator} {one})",
            f"({column} = {one} or b is null)",
        ]
        conditions.append(draw(st.sampled_from(forms)))
    shown = draw(st.sampled_from(["*", "_id, a", "b", "count(*) as n", "* exclude (b)", "min(a) as b, max(_id) as x"]))
    where = f" where {' and '.join(conditions)}" if conditions else ""
    return documents, f"select {shown} from t{where}"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked(), st.sampled_from(["", " limit 2", " limit 1 offset 3", " order by _id desc limit 3"]))
def test_what_is_found_is_the_same_as_over_whole_tables(
    store: lowtide.Store, question: tuple[list[dict[str, Any]], str], end: str
) -> None:
    """The sample is the whole collection here, so the types are the same however little is read."""
    documents, sql = question
    end = "" if "(" in sql.partition(" from ")[0] and "exclude" not in sql else end
    filled(store, "t", documents, "a")
    streamed, loaded = both(store, sql + end)
    assert streamed == loaded


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked(), st.integers(1, 5))
def test_the_types_are_those_of_all_documents_if_all_are_read(
    store: lowtide.Store, question: tuple[list[dict[str, Any]], str], sample: int
) -> None:
    """Here the sample is a few documents, and no index leads to fewer than all."""
    documents, sql = question
    sql = sql.partition(" where ")[0]
    filled(store, "t", documents)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streaming, "SAMPLE", sample)
        streamed, loaded = both(store, f"{sql} where b is null or b is not null")
    assert streamed == loaded


def test_a_query_that_stops_early_leaves_no_snapshot_open(tmp_path: Path) -> None:
    with lowtide.open(tmp_path / "s") as opened:
        opened["t"].insert_many({"_id": number} for number in range(3000))
        opened.sql("select * from t limit 1")
        assert opened.stats().snapshots == []
