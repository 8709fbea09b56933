"""The commands for documents, on a store without an owner and beside an owner."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import lowtide
from tests.crash.stores import child, lines_of
from tests.support.warm import Started
from tests.unit.cli.commands import USERS, document, go_away, invoke, started

READING: dict[str, list[str]] = {
    "collections": ["collections", "STORE"],
    "find": ["find", "STORE", "users", '{"age": {"$gt": 30}}'],
    "find --explain": ["find", "STORE", "users", '{"city": "Oslo"}', "--explain"],
    "count": ["count", "STORE", "users"],
    "aggregate": ["aggregate", "STORE", "users", '{"$count": "n"}'],
    "sql": ["sql", "STORE", "select count(*) as n from users"],
    "indexes": ["indexes", "STORE", "users"],
    "schema": ["schema", "STORE", "users"],
    "export": ["export", "STORE", "users", "FILE.csv"],
}
WRITING: dict[str, list[str]] = {
    "insert": ["insert", "STORE", "users", '{"name": "Dan"}'],
    "update": ["update", "STORE", "users", '{"_id": 1}', '{"$inc": {"age": 1}}'],
    "delete": ["delete", "STORE", "users", '{"_id": 1}'],
    "indexes --create": ["indexes", "STORE", "users", "--create", "age"],
    "indexes --drop": ["indexes", "STORE", "users", "--drop", "city_1"],
    "schema --set": ["schema", "STORE", "users", "--set", "FILE.schema"],
    "schema --unset": ["schema", "STORE", "users", "--unset"],
    "import": ["import", "STORE", "people", "FILE.jsonl"],
}

OWNER = """
import json, sys
import lowtide
from tests.unit.cli.commands import USERS

with lowtide.open(sys.argv[1], durability="relaxed") as store:
    store.collection("users").insert_many(USERS)
    store.collection("users").create_index("city")
    print(json.dumps("ready"), flush=True)
    sys.stdin.read()
"""


@contextmanager
def owner(path: Path) -> Iterator[Started]:
    """A process that owns a shop."""
    with child(OWNER, path) as process:
        assert next(lines_of(process)) == "ready"
        yield process


def arguments(given: list[str], store: Path) -> list[str]:
    beside = store.parent / "file"
    (store.parent / "file.jsonl").write_text('{"_id": 1}\n{"_id": 2}\n')
    (store.parent / "file.schema").write_text('{"type": "object"}')
    return [each.replace("STORE", str(store)).replace("FILE", str(beside)) for each in given]


def found(store: Path, collection: str = "users", *more: object) -> list[dict[str, Any]]:
    result = invoke("find", store, collection, *more, "--json")
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize("name", [*READING, *WRITING])
def test_a_command_succeeds_in_words(name: str, shop: Path) -> None:
    result = invoke(*arguments({**READING, **WRITING}[name], shop))
    assert result.exit_code == 0, result.output
    assert result.stdout.strip()
    assert result.stderr == ""


@pytest.mark.parametrize("name", [*READING, *WRITING])
def test_a_command_succeeds_in_json(name: str, shop: Path) -> None:
    result = invoke(*arguments({**READING, **WRITING}[name], shop), "--json")
    assert result.exit_code == 0, result.output
    assert [type(json.loads(line)) for line in result.stdout.splitlines()].count(dict) >= 1
    assert result.stderr == ""


def test_every_command_works_beside_an_owner(tmp_path: Path) -> None:
    with owner(tmp_path / "shop"):
        for name, given in {**READING, **WRITING}.items():
            result = invoke(*arguments(given, tmp_path / "shop"))
            assert result.exit_code == 0, (name, result.output)
            assert result.stdout.strip() or name in WRITING, name


@pytest.mark.parametrize("name", [each for each in [*READING, *WRITING] if each not in ("collections", "sql")])
def test_a_collection_that_is_not_there_is_an_error(name: str, shop: Path) -> None:
    given = [each.replace("users", "usres") for each in arguments({**READING, **WRITING}[name], shop)]
    result = invoke(*given)
    if name in ("insert", "import", "indexes --create", "schema --set"):
        assert result.exit_code == 0, result.output
    else:
        assert result.exit_code == 2
        assert result.stderr == "lowtide: there is no collection 'usres'; there are users\n"


def test_find_takes_a_filter_fields_an_order_a_limit_and_a_skip(shop: Path) -> None:
    assert [each["_id"] for each in found(shop)] == [1, 2, 3]
    assert found(shop, "users", '{"city": "Oslo"}', "--fields", "name,-_id") == [{"name": "Ada"}, {"name": "Cleo"}]
    assert [each["_id"] for each in found(shop, "users", "--sort", "city,-age")] == [2, 1, 3]
    assert [each["_id"] for each in found(shop, "users", "--sort", "age", "--skip", 1, "--limit", 1)] == [1]
    assert found(shop, "users", "-q", '{"joined": {"$gte": {"$date": "2026-05-01T14:00:00+02:00"}}}') == [
        {**USERS[1], "joined": {"$date": "2026-05-01T12:00:00Z"}}
    ]


def test_find_explains_itself(shop: Path) -> None:
    plan = document(invoke("find", shop, "users", '{"city": "Oslo"}', "--explain", "--json"))
    assert "city_1" in json.dumps(plan)
    assert "city_1" in invoke("find", shop, "users", '{"city": "Oslo"}', "--explain").stdout


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["find", "STORE", "users", "{age: 3}"], "the filter is not valid JSON"),
        (["find", "STORE", "users", '{"age": {"$near": 3}}'], "$near"),
        (["find", "STORE", "users", "{}", "--filter", "{}"], "twice"),
        (["update", "STORE", "users", "{}", '{"$sett": {"a": 1}}'], "$sett"),
        (["update", "STORE", "users", "{}", '{"a": 1}'], "operators"),
        (["update", "STORE", "users", "{}", '{"a": 1}', "--replace", "--many"], "--many"),
        (["update", "STORE", "users", '{"_id": 1}', '{"$inc": {"name": 1}}'], "name"),
        (["insert", "STORE", "users", '{"_id": 9}', '{"_id": 1}'], "duplicate key"),
        (["insert", "STORE", "users", '{"_id": 1}'], "lowtide: duplicate key"),
        (["insert", "STORE", "users", "[]"], "no document"),
        (["insert", "STORE", "users", '{"a": {"$b": 1}}'], "$b"),
        (["aggregate", "STORE", "users", '[{"$out": "x"}]'], "$out"),
        (["indexes", "STORE", "users", "--create", "name", "--drop", "city_1"], "not both"),
        (["indexes", "STORE", "users", "--unique"], "need --create"),
        (["indexes", "STORE", "users", "--create", "joined", "--unique"], "duplicate key"),
        (["indexes", "STORE", "users", "--drop", "nonsense"], "nonsense"),
        (["schema", "STORE", "users", "--set", "-", "--unset"], "not both"),
    ],
)
def test_what_is_refused_is_told_in_a_line_of_words_and_changes_nothing(
    given: list[str], words: str, shop: Path
) -> None:
    before = found(shop)
    result = invoke(*arguments(given, shop))
    in_the_way = "duplicate key" in words or given[-1] == '{"$inc": {"name": 1}}'
    assert result.exit_code == (1 if in_the_way else 2)
    assert result.stdout == ""
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert found(shop) == before


def test_documents_are_inserted_updated_replaced_and_deleted(shop: Path) -> None:
    assert document(invoke("insert", shop, "users", f'[{{"_id": 4}}, {{"_id": {{"$uuid": "{KEY}"}}}}]', "--json")) == {
        "path": str(shop),
        "collection": "users",
        "inserted_ids": [4, {"$uuid": KEY}],
    }
    given = b'{"_id": 5,\n"n": 1}\n{"_id": 6}'
    assert document(invoke("insert", shop, "users", "-", "--json", input=given))["inserted_ids"] == [5, 6]
    changed = document(invoke("update", shop, "users", '{"_id": {"$gt": 3}}', '{"$set": {"n": 1}}', "--many", "--json"))
    assert (changed["matched"], changed["modified"], changed["upserted_id"]) == (3, 2, None)
    assert document(invoke("update", shop, "users", '{"_id": 4}', '{"m": 1}', "--replace", "--json"))["modified"] == 1
    assert found(shop, "users", '{"_id": 4}') == [{"_id": 4, "m": 1}]
    upserted = document(invoke("update", shop, "users", '{"_id": 7}', '{"$inc": {"n": 1}}', "--upsert", "--json"))
    assert upserted["upserted_id"] == 7
    assert document(invoke("delete", shop, "users", '{"n": 1}', "--json"))["deleted"] == 1
    assert document(invoke("delete", shop, "users", '{"n": 1}', "--many", "--json"))["deleted"] == 2
    assert (
        "none matched; inserted one"
        in invoke("update", shop, "users", '{"_id": 8}', "{}", "--replace", "--upsert").stdout
    )


KEY = "018f2f5e-6d1c-7000-8000-0123456789ab"


def test_array_filters_are_for_parts_of_arrays(shop: Path) -> None:
    invoke("insert", shop, "lists", '{"_id": 1, "n": [1, 5, 9]}')
    more = ["--array-filters", '[{"each": {"$gt": 3}}]']
    result = invoke("update", shop, "lists", '{"_id": 1}', '{"$set": {"n.$[each]": 0}}', *more)
    assert result.exit_code == 0, result.output
    assert found(shop, "lists") == [{"_id": 1, "n": [1, 0, 0]}]


def test_collections_and_indexes_are_listed_made_and_removed(shop: Path) -> None:
    made = invoke("indexes", shop, "users", "--create", "city,-age", "--unique", "--sparse", "--json")
    assert document(made)["created"] == "city_1_age_-1"
    partial = ["--create", "name", "--name", "old", "--partial", '{"age": {"$gt": 30}}']
    assert invoke("indexes", shop, "users", *partial).stdout == "users has the index old\n"
    known = document(invoke("indexes", shop, "users", "--json"))["indexes"]
    assert known["city_1_age_-1"]["key"] == [["city", 1], ["age", -1]]
    lines = invoke("indexes", shop, "users").stdout.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [
        *(["_id_", "_id"], ["city_1", "city"], ["city_1_age_-1", "city,-age"], ["old", "name"])
    ]
    assert "unique, sparse" in lines[3]
    assert 'only {"age": {"$gt": 30}}' in lines[4]
    assert invoke("indexes", shop, "users", "--drop", "old").exit_code == 0
    (users,) = document(invoke("collections", shop, "--json"))["collections"]
    assert users == {"name": "users", "documents": 3, "indexes": ["_id_", "city_1", "city_1_age_-1"]}
    with lowtide.open(shop.parent / "empty") as store:
        assert store.list_collection_names() == []
    assert invoke("collections", shop.parent / "empty").stdout == "no collections\n"


def test_a_schema_is_set_shown_kept_and_removed(shop: Path, tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text('{"properties": {"age": {"type": "integer", "minimum": 30}}}')
    assert invoke("schema", shop, "users").stdout == "users has no schema\n"
    result = document(invoke("schema", shop, "users", "--set", file, "--json"))
    assert [(each["_id"], each["path"]) for each in result["violations"]] == [(3, "age")]
    assert document(invoke("schema", shop, "users", "--json"))["schema"] == json.loads(file.read_text())
    assert '"minimum": 30' in invoke("schema", shop, "users").stdout
    refused = invoke("insert", shop, "users", '{"_id": 4, "age": 3}')
    assert refused.exit_code == 1
    assert "field 'age'" in refused.stderr
    assert invoke("schema", shop, "users", "--unset").exit_code == 0
    assert invoke("insert", shop, "users", '{"_id": 4, "age": 3}').exit_code == 0
    file.write_text('{"type": "nonsense"}')
    assert invoke("schema", shop, "users", "--set", file).exit_code == 2
    file.write_text('{"type": ')
    wrong = invoke("schema", shop, "users", "--set", "-", input=file.read_bytes())
    assert wrong.exit_code == 2
    assert "the schema is not valid JSON" in wrong.stderr


def test_sql_prints_columns_and_rows(shop: Path) -> None:
    result = invoke(
        "sql", shop, "select city, count(*) as n, max(joined) as last from users group by city order by city"
    )
    assert result.stdout.splitlines() == ["city    n  last", "Bergen  1  2026-05-01T12:00:00Z", "Oslo    2"]
    rows = invoke("sql", shop, "select name, joined from users where _id = 2", "--json").stdout
    assert json.loads(rows) == {"name": "Bob", "joined": {"$date": "2026-05-01T12:00:00Z"}}
    assert invoke("sql", shop, "select name from users where false").stdout == "no rows\n"
    kinds = "select date '2026-01-01' as d, time '12:00' as t, [1, 2] as l, {'a': 'x'} as o, 'nan'::double as n"
    assert json.loads(invoke("sql", shop, kinds, "--json").stdout) == {
        "d": "2026-01-01",
        "t": "12:00:00",
        "l": [1, 2],
        "o": {"a": "x"},
        "n": None,
    }
    for query in ("selct", "select * from usres"):
        wrong = invoke("sql", shop, query)
        assert wrong.exit_code in (1, 2)
        assert wrong.stderr.startswith("lowtide: ")
        assert "Traceback" not in wrong.stderr


@pytest.mark.parametrize("given", [["find", "--json"], ["find"], ["export"]])
def test_a_reader_that_goes_away_ends_it_quietly(given: list[str], tmp_path: Path) -> None:
    with lowtide.open(tmp_path / "shop", durability="relaxed") as store:
        store.collection("many").insert_many([{"_id": n, "text": "x" * 100} for n in range(5000)])
    with started(given[0], tmp_path / "shop", "many", *given[1:]) as process:
        go_away(process)
    with lowtide.open(tmp_path / "shop", read_only=True) as store:
        assert store.pins() == []


def test_the_shell_has_these_commands_too(shop: Path) -> None:
    text = (
        'find users {\n"age": {"$lt": 30}\n} --fields name\nupdate users {"_id": 1} {"$inc": {"age": 1}}\ncount users\n'
    )
    result = invoke("shell", shop, input=text)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == ['{"_id": 3, "name": "Cleo"}', "1 document of users matched, 1 changed", "3"]
