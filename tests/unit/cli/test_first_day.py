"""What a new user tries first: sort orders as in other tools, files of other tools, complete help."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide.cli.app import COMMANDS
from lowtide.cli.expressions import order_of
from lowtide.errors import UsageError
from tests.unit.cli.commands import document, invoke
from tests.unit.cli.test_documents import found


@pytest.mark.parametrize("text", ["-age", "age:desc", "age:DESC", "age desc", "age : descending", "age:-1"])
def test_an_order_may_be_written_as_other_tools_write_it(text: str, shop: Path) -> None:
    result = invoke("find", shop, "users", "--sort", text, "--fields", "age,-_id")
    assert [json.loads(line)["age"] for line in result.stdout.splitlines()] == [41, 36, 29]


def test_an_order_that_says_two_things_is_refused() -> None:
    assert order_of("city:asc,age:1,name") == [("city", 1), ("age", 1), ("name", 1)]
    assert order_of('{"age:desc": 1}') == [("age:desc", 1)]
    assert order_of("a:b") == [("a:b", 1)]
    with pytest.raises(UsageError, match="gives 'age' two directions; write -age"):
        order_of("-age:desc")


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_what_stands_between_cells_is_seen_from_the_header(delimiter: str, shop: Path, tmp_path: Path) -> None:
    file = tmp_path / "weights.csv"
    rows = [["_id", '"weight, kg; or more"', "city"], ["1", "2.5", '"a|b"'], ["2", "", "Oslo"]]
    file.write_text("".join(delimiter.join(row) + "\n" for row in rows))
    assert invoke("import", shop, "weights", file).exit_code == 0
    assert found(shop, "weights") == [
        {"_id": 1, "weight, kg; or more": 2.5, "city": "a|b"},
        {"_id": 2, "city": "Oslo"},
    ]


def test_what_stands_between_cells_can_be_said(shop: Path, tmp_path: Path) -> None:
    file = tmp_path / "odd.csv"
    file.write_text("_id:a,b\n1:2\n")
    assert invoke("import", shop, "odd", file, "--delimiter", ":").exit_code == 0
    assert found(shop, "odd") == [{"_id": 1, "a,b": 2}]
    file.write_text("a;b\tc\n1;2\t3\n")
    assert invoke("import", shop, "tabs", file, "--delimiter", "tab").exit_code == 0
    assert [sorted(each)[1:] for each in found(shop, "tabs")] == [["a;b", "c"]]
    wrong = invoke("import", shop, "odd", file, "--delimiter", "::")
    assert (wrong.exit_code, "the delimiter '::' is not one character" in wrong.stderr) == (2, True)
    file.write_text("a;b\n1;2;3\n")
    many = invoke("import", shop, "odd", file)
    assert (many.exit_code, "or set the delimiter with --delimiter" in many.stderr) == (1, True)
    lines = invoke("import", shop, "odd", "-", "--delimiter", ";", input="{}\n")
    assert (lines.exit_code, "a delimiter is only for CSV" in lines.stderr) == (2, True)


TINY: dict[str, Any] = {
    "_default": {"1": {"name": "Ada", "born": {"$date": "1815-12-10T00:00:00Z"}}, "3": {"name": "Bob", "_id": "b"}},
    "pets": {"7": {"name": "Rex"}},
}


def tiny(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content))
    return path


def test_the_tables_of_a_tinydb_file_are_imported(shop: Path, tmp_path: Path) -> None:
    file = tiny(tmp_path / "db.json", TINY)
    result = invoke("import", shop, "people", file)
    assert (result.exit_code, result.stdout) == (0, "imported 2 documents into people, 1 document into pets\n")
    assert [each["_id"] for each in found(shop, "people")] == [1, "b"]
    assert found(shop, "pets") == [{"_id": 7, "name": "Rex"}]
    again = invoke("import", shop, "people", file, "--json", "--drop", "--batches", 1)
    assert document(again)["collections"] == {"people": 2, "pets": 1}
    refused = invoke("import", shop, "people", file)
    assert (refused.exit_code, "table _default, document 1" in refused.stderr) == (1, True)


def test_the_only_table_of_a_tinydb_file_goes_where_it_is_told(shop: Path, tmp_path: Path) -> None:
    file = tiny(tmp_path / "db.json", {"animals": TINY["pets"]})
    assert invoke("import", shop, "pets", file).stdout == "imported 1 document into pets\n"
    assert invoke("import", shop, "none", tiny(file, {"_default": {}})).stdout == "imported 0 documents into none\n"


@pytest.mark.parametrize(
    "content", [{"a": {"first": {}}}, {"a": {"1": 2}}, {"a": {"1": {}}, "b": 3}, {"a": {}}, [{"_default": {}}, {}]]
)
def test_what_is_no_tinydb_file_is_documents(content: Any, shop: Path, tmp_path: Path) -> None:
    file = tiny(tmp_path / "one.json", content)
    assert invoke("import", shop, "ones", file).exit_code == 0
    documents = [{name: value for name, value in each.items() if name != "_id"} for each in found(shop, "ones")]
    assert documents == (content if isinstance(content, list) else [content])


def test_a_tinydb_file_is_one_document_if_that_is_said(shop: Path, tmp_path: Path) -> None:
    file = tiny(tmp_path / "db.json", TINY)
    assert invoke("import", shop, "ones", file, "--format", "json").stdout == "imported 1 document into ones\n"


def test_importing_where_no_store_is_says_how_to_make_one(tmp_path: Path) -> None:
    for place in (tmp_path / "nowhere", tmp_path):
        result = invoke("import", place, "users", "-", input="{}\n")
        assert (result.exit_code, result.stderr) == (
            2,
            f"lowtide: there is no store in {place}; use --create to create it\n",
        )


def changes(*more: object) -> list[dict[str, Any]]:
    return [json.loads(line) for line in invoke("changes", *more, "--json").stdout.splitlines()]


def test_changes_show_documents(shop: Path) -> None:
    with lowtide.open(shop, durability="relaxed") as store:
        store["users"].update_one({"_id": 1}, {"$set": {"age": 37}})
        store["users"].delete_one({"_id": 3})
        store["gone"].insert_one({"_id": "x"})
        store["gone"].drop()
        store.keyspace("fruit").put(b"apple", b"red")
    words = [line.split("  ", 2)[2] for line in invoke("changes", shop).stdout.splitlines()]
    assert 'update  users  {"_id": 1, "name": "Ada", "age": 37, "city": "Oslo"}' in words
    assert 'delete  users  {"_id": 3}' in words
    assert 'insert  gone  {"_id": "x"}' in words
    assert "insert  fruit  apple  red" in words
    only = changes(shop, "--collection", "users")
    assert {each["collection"] for each in only} == {"users"}
    assert only[-2:] == [
        {**only[-2], "kind": "update", "_id": 1, "document": {"_id": 1, "name": "Ada", "age": 37, "city": "Oslo"}},
        {**only[-1], "kind": "delete", "_id": 3, "document": None},
    ]
    assert only[1]["document"]["joined"] == {"$date": "2026-05-01T12:00:00Z"}
    assert {"keyspace", "key", "value"} <= changes(shop, "-k", "documents/users")[0].keys()
    wrong = invoke("changes", shop, "-c", "nobody")
    assert (wrong.exit_code, "there is no collection 'nobody'" in wrong.stderr) == (2, True)
    assert invoke("changes", shop, "-c", "users", "-k", "fruit").exit_code == 2


def test_changes_show_documents_as_they_were(tmp_path: Path) -> None:
    with lowtide.open(tmp_path / "s", before_images=True) as store:
        store["users"].insert_one({"_id": 1, "age": 3})
        store["users"].update_one({"_id": 1}, {"$set": {"age": 4}})
    assert changes(tmp_path / "s", "--before", "-c", "users")[1]["before"] == {"_id": 1, "age": 3}
    text = invoke("changes", tmp_path / "s", "--before").stdout.splitlines()[1]
    assert text.endswith('update  users  {"_id": 1, "age": 4}  (was {"_id": 1, "age": 3})')


def test_the_help_lists_documents_first_and_whole_summaries() -> None:
    result = invoke("--help")
    titles = re.findall(r"^([A-Z][\w ]+):$", result.stdout, re.MULTILINE)
    assert titles == ["Options", *COMMANDS]
    assert titles[1] == "Documents"
    assert "..." not in result.stdout.replace("[ARGS]...", "")
    text = " ".join(result.stdout.split())
    for command in (each for group in COMMANDS.values() for each in group):
        assert " ".join((command.__doc__ or "").split("\n\n")[0].split()) in text


def test_help_in_the_shell_names_no_store(shop: Path) -> None:
    out = invoke("shell", shop, input="help find\nhelp inspect key\n").stdout
    assert "Usage: find [OPTIONS]" in out
    assert "Usage: inspect key [OPTIONS]" in out
    assert "PATH" not in out
    assert "COLLECTION" in out
    assert invoke("shell", shop, input="find users\n").exit_code == 0
