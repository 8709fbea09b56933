"""SQL over the collections of a source: which collections and columns it reads, and what it refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.columnar.table import to_table
from lowtide.documents.sql import SqlResult, query
from lowtide.errors import OperationFailure, UsageError
from lowtide.values.codec import encode_document

MOMENT = datetime(2026, 5, 1, 12, tzinfo=UTC)
USERS: list[dict[str, Any]] = [
    {"_id": 1, "name": "Ada", "age": 36, "home": {"city": "London"}, "tags": ["a", "b"], "vip": True},
    {"_id": 2, "name": "Bob", "age": 25, "home": {"city": "Oslo"}, "joined": MOMENT},
    {"_id": 3, "name": "Cyd", "age": 25, "nick": None},
]
ORDERS: list[dict[str, Any]] = [
    {"_id": "a", "user": 1, "total": Decimal("9.90"), "vip": None},
    {"_id": "b", "user": 1, "total": Decimal("0.10")},
    {"_id": "c", "user": 2, "total": Decimal("5.00")},
]


class Collections:
    """Documents as a source of tables, which notes what was asked of it."""

    def __init__(self, **documents: list[dict[str, Any]]) -> None:
        self.documents = documents
        self.asked: list[tuple[str, list[str] | None]] = []

    def collections(self) -> Sequence[str]:
        return list(self.documents)

    def table(self, name: str, columns: list[str] | None) -> pa.Table:
        self.asked.append((name, columns))
        stored = [encode_document(each) for each in self.documents[name]]
        return to_table(lambda: [stored], columns)

    def stream(self, name: str) -> None:
        """It can only be loaded: ``test_sql_streams`` is about what is read as a query runs."""


class Everything(Collections):
    """The same, with all columns always."""

    def table(self, name: str, columns: list[str] | None) -> pa.Table:
        return super().table(name, None)


def shop() -> Collections:
    return Collections(users=USERS, orders=ORDERS, empty=[], **{"odd name.s": [{"_id": 7}], "unread": [{"_id": 1}]})


@pytest.mark.parametrize(
    ("sql", "rows", "asked"),
    [
        ("select name from users where age > 30", [("Ada",)], {"users": {"_id", "name", "age"}}),
        ("select count(*) from users", [(3,)], {"users": {"_id"}}),
        ("select NAME from Users where AGE > 30", [("Ada",)], {"users": None}),
        ("select home.city from users where _id = 2", [("Oslo",)], {"users": {"_id", "home", "city"}}),
        ("select u.name from users u where u.joined = '2026-05-01 12:00Z'", [("Bob",)], {"users": ...}),
        ("select * from users where _id = 3", [(3, "Cyd", 25, None, None, None, None, None)], {"users": None}),
        ("from users select name order by name", [("Ada",), ("Bob",), ("Cyd",)], {"users": {"_id", "name"}}),
        ("select u from users u where u._id = 4", [], {"users": None}),
        ("select age * 2 from users where name = 'Ada'", [(72,)], {"users": {"_id", "age", "name"}}),
        ("select nick from users where _id = 1", [(None,)], {"users": None}),
        ('select _id from "odd name.s"', [(7,)], {"odd name.s": {"_id"}}),
        ("select * from empty", [], {"empty": None}),
        ("select 1 + 1", [(2,)], {}),
        ("with users as (select 1 as x) select x from users", [(1,)], {}),
        ("with users as (select name from users) select name from users limit 1", [("Ada",)], {"users": ...}),
        (
            "select name, sum(total) from users u join orders o on o.user = u._id group by name order by name",
            [("Ada", Decimal("10.00")), ("Bob", Decimal("5.00"))],
            {"users": {"name", "total", "o", "user", "u", "_id"}, "orders": ...},
        ),
        ("select unnest(tags) from users where _id = 1", [("a",), ("b",)], {"users": {"_id", "tags"}}),
        (
            "select name from users u where exists (select 1 from orders o where o.user = u._id and vip)",
            [],
            {"users": None, "orders": None},
        ),
        (
            "select name, (select max(total) from orders where user = users._id) from users where age < 30 order by 1",
            [("Bob", Decimal("5.00")), ("Cyd", None)],
            {"users": ..., "orders": ...},
        ),
        ("select x.user from (select user, total from orders) x where total > 9", [(1,)], {"orders": ...}),
        (
            "select age from users union select total from orders where false order by 1",
            [(25,), (36,)],
            {"users": ..., "orders": ...},
        ),
        ("select sum(age) from users", [(86,)], {"users": {"_id", "age"}}),
        ("describe select name from users", [("name", "VARCHAR", "YES", None, None, None)], {"users": None}),
        ("pivot users on age using count(*) group by vip order by vip", [(True, 0, 1), (None, 2, 0)], {"users": None}),
    ],
)
def test_queries_and_what_they_load(sql: str, rows: list[tuple[Any, ...]], asked: dict[str, Any]) -> None:
    source = shop()
    assert query(sql, None, source).fetchall() == rows
    last = dict(source.asked)
    assert set(last) == set(asked)
    for name, columns in asked.items():
        if columns is not ...:
            found = last[name]
            assert (None if found is None else set(found)) == columns
    everything = Everything(**shop().documents)
    assert query(sql, None, everything).fetchall() == rows, "leaving out columns changes nothing"


def test_an_empty_collection_has_every_column_that_is_asked_for() -> None:
    assert query("select name, age + 1 from empty where name = 'x'", None, shop()).fetchall() == []
    assert query("select count(*) from users left join empty on boss = name", None, shop()).fetchall() == [(3,)]


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("select name from users where age > ? and name < ?", [30, "B"]),
        ("select name from users where age > $age", {"age": 30}),
        ("with u as (select * from users) select name from u where age > ?", (30,)),
    ],
)
def test_parameters_are_values_not_text(sql: str, parameters: Any) -> None:
    source = shop()
    assert query(sql, parameters, source).fetchall() == [("Ada",)]
    assert {name for name, _ in source.asked} == {"users"}
    assert query("select count(*) from users where name = ?", ["' or true --"], shop()).fetchone() == (0,)


NAMES = st.sampled_from(["name", "age", "total", "vip", "nick", "user", "_id", "NAME", "u", "o", "city", "home"])


@settings(max_examples=40)
@given(st.lists(NAMES, min_size=1, max_size=3), NAMES, st.sampled_from(["", "u.", "o."]), st.integers(0, 4))
def test_leaving_out_columns_never_changes_what_is_found(names: list[str], by: str, of: str, form: int) -> None:
    listed = ", ".join(names)
    sql = [
        f"select {listed} from users u where {of}{by} is not null order by all",
        f"select {listed} from users u, orders o where {of}{by} is not null order by all",
        f"select {listed} from users u where exists (select 1 from orders o where {of}{by} is not null) order by all",
        f"select {listed} from users u where _id in (select {of}{by} from orders o) order by all",
        f"with u as (select {by} as x from orders) select {listed} from users join u on true order by all",
    ][form]

    def found(source: Collections) -> Any:
        try:
            return query(sql, None, source).fetchall()
        except OperationFailure as error:
            return str(error)

    outcome, full = found(shop()), found(Everything(**shop().documents))
    if isinstance(full, str) and "mbiguous" in full:
        return  # among all columns a name may be ambiguous that is not so among those that have values
    assert outcome == full


@pytest.mark.parametrize(
    "sql",
    [
        "insert into users values (1)",
        "update users set age = 1",
        "delete from users",
        "create table x as select * from users",
        "drop table users",
        "attach 'x.db'",
        "copy users to 'x.csv'",
        "install httpfs",
        "load httpfs",
        "set threads = 1",
        "pragma version",
        "begin",
        "call pragma_version()",
        "export database 'x'",
    ],
)
def test_what_is_no_query_is_refused_with_what_to_do_instead(sql: str, tmp_path: Path) -> None:
    source = shop()
    with pytest.raises(OperationFailure, match=r"read-only, so [A-Z_]+ cannot be run.*such as insert_one"):
        query(sql, None, source)
    assert source.asked == []


@pytest.mark.parametrize("sql", ["", "  ", "select 1; select 2", "select 1; drop table users"])
def test_one_statement_at_a_time(sql: str) -> None:
    with pytest.raises(OperationFailure, match="expected one SQL statement"):
        query(sql, None, shop())


def test_sql_cannot_reach_files_or_variables(tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n42\n")
    variable = pa.table({"a": [1]})
    assert variable.num_rows
    for sql in (
        f"select * from read_csv('{secret}')",
        f"select * from '{secret}'",
        f"select * from glob('{tmp_path}/*')",
    ):
        with pytest.raises(OperationFailure):
            query(sql, None, shop())
    for external in (False, True):
        with pytest.raises(OperationFailure, match="variable does not exist"):
            query("select * from variable", None, shop(), external=external)
    assert query(f"select a from read_csv('{secret}')", None, shop(), external=True).fetchall() == [(42,)]


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        (
            "select * from nobody",
            "nobody does not exist[^$]*The collections are: empty, odd name.s, orders, unread, users",
        ),
        ("select * from nobody where a = 1", "The collections are"),
        ("select nothing from users", 'column "nothing" not found'),
        ("selec 1", "syntax error"),
        ("select name + 1 from users", "Conversion Error|Binder Error"),
        ("select * from users where age = ?", "parameter"),
    ],
)
def test_errors_are_in_the_words_of_duckdb(sql: str, words: str) -> None:
    with pytest.raises(OperationFailure, match=words):
        query(sql, None, shop())


def test_collections_that_differ_by_case_must_be_named_exactly() -> None:
    source = Collections(Users=[{"_id": 1}], users=[{"_id": 2}])
    assert query("select _id from users", None, source).fetchall() == [(2,)]
    assert query('select _id from "Users"', None, source).fetchall() == [(1,)]
    with pytest.raises(OperationFailure, match=r"'USERS' is ambiguous; .* the collections Users, users"):
        query("select _id from USERS", None, source)
    with pytest.raises(OperationFailure, match="SQL cannot distinguish"):
        query("select a._id from users a, Users b", None, source)


def test_a_result_may_be_read_in_many_ways_and_again() -> None:
    found = query("select name, sum(age) over () as total, joined from users order by name", None, shop())
    assert found.columns == ["name", "total", "joined"]
    rows = [("Ada", 86, None), ("Bob", 86, MOMENT), ("Cyd", 86, None)]
    assert found.fetchall() == list(found) == found.fetchall() == rows
    assert [type(each) for each in found.fetchall()[0]] == [str, int, type(None)]
    assert [found.fetchone() for _ in range(4)] == [*rows, None]
    assert len(found) == 3
    assert found.to_arrow().column("name").to_pylist() == ["Ada", "Bob", "Cyd"]


def test_a_result_goes_to_data_frames() -> None:
    import pandas
    import polars

    found = query("select name, age from users order by name", None, shop())
    assert isinstance(found.to_pandas(), pandas.DataFrame)
    assert isinstance(found.to_polars(), polars.DataFrame)
    assert found.to_pandas()["age"].tolist() == found.to_polars()["age"].to_list() == [36, 25, 25]


def test_a_result_shows_itself_as_a_table() -> None:
    assert repr(query("select name, age, joined as j from users order by name", None, shop())).splitlines() == [
        "name  age  j",
        "----  ---  -------------------------",
        "Ada   36   null",
        "Bob   25   2026-05-01 12:00:00+00:00",
        "Cyd   25   null",
        "(3 rows)",
    ]
    many = repr(SqlResult(pa.table({"n": range(1000), "text": ["x" * 100] * 1000}))).splitlines()
    assert len(many) == 2 + 20 + 1
    assert many[-1] == "(1,000 rows, 20 shown)"
    assert max(map(len, many)) < 60


@pytest.mark.parametrize(("package", "words"), [("duckdb", "lowtide[sql]"), ("pyarrow", "lowtide[sql]")])
def test_without_the_libraries_the_error_says_what_to_install(package: str, words: str) -> None:
    program = f"""
import sys
sys.modules["{package}"] = None
from lowtide.documents.sql import query
from lowtide.errors import UsageError
try:
    query("select 1", None, None)
except UsageError as error:
    print(error)
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={**os.environ}
    )
    assert words in run.stdout


def test_a_data_frame_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    monkeypatch.setitem(sys.modules, "pandas", None)
    found = query("select 1", None, shop())
    with pytest.raises(UsageError, match="pip install polars"):
        found.to_polars()
    with pytest.raises(UsageError, match="pip install pandas"):
        found.to_pandas()


def test_what_is_no_query_and_what_are_no_parameters_is_refused() -> None:
    wrong: Any
    for wrong in (5, None, b"select 1"):
        with pytest.raises(OperationFailure, match="a query must be a string of SQL, got"):
            query(wrong, None, shop())
    for wrong in (5, "x"):
        with pytest.raises(OperationFailure, match="parameters must be a list, or a dict of names, got"):
            query("select ?", wrong, shop())
