"""Import and export of collections: from files and to files, completely or not at all."""

from __future__ import annotations

import csv
import gzip
import json
import resource
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide.engine.checkpoint.helper import Helper
from lowtide.values.extended import dumps
from tests.crash.stores import wait_until
from tests.support.patience import PATIENCE
from tests.unit.cli.commands import USERS, command, document, environment, invoke, run
from tests.unit.cli.test_documents import found

MANY = [{"_id": n, "n": n % 7, "text": "x" * 200} for n in range(10_000)]
"""More than is read at once."""


def write(path: Path, lines: list[Any]) -> Path:
    path.write_bytes(b"".join(each if isinstance(each, bytes) else dumps(each) + b"\n" for each in lines))
    return path


def names(store: Path) -> list[str]:
    return [each["name"] for each in document(invoke("collections", store, "--json"))["collections"]]


@pytest.mark.parametrize("suffix", ["jsonl", "json", "jsonl.gz", "csv", "parquet"])
def test_what_is_exported_and_imported_again_is_the_same(suffix: str, shop: Path, tmp_path: Path) -> None:
    file = tmp_path / f"users.{suffix}"
    assert document(invoke("export", shop, "users", file, "--json"))["exported"] == 3
    types = ["--types", "joined=datetime"] if suffix == "csv" else []
    result = invoke("import", shop, "copy", file, *types, "--json")
    assert result.exit_code == 0, result.output
    assert document(result) == {
        "path": str(shop),
        "collection": "copy",
        "file": str(file),
        "imported": 3,
        "commits": 1,
    }
    assert found(shop, "copy") == found(shop, "users")
    with lowtide.open(shop, read_only=True) as store:
        assert list(store.collection("copy").find()) == USERS


def test_one_transaction_is_brought_to_the_base_without_a_helper_process(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    checkpoint = Helper.checkpoint

    def noted(*given: Any) -> Any:
        made.append(1)
        return checkpoint(*given)

    monkeypatch.setattr(Helper, "checkpoint", noted)
    file = write(tmp_path / "many.jsonl", MANY)
    for target in (shop, tmp_path / "new"):
        assert invoke("import", target, "many", file, "--create").exit_code == 0
        assert document(invoke("count", target, "many", "--json"))["count"] == len(MANY)
    assert not made
    assert invoke("import", shop, "again", file, "--batches", len(MANY)).exit_code == 0
    assert made, "beside further batches a helper is faster"


def test_a_pipe_carries_them_too(shop: Path) -> None:
    for format in ("jsonl", "json", "csv"):
        out = invoke("export", shop, "users", "--format", format).stdout
        result = invoke("import", shop, f"copy_{format}", "-", "--format", format, input=out)
        assert result.exit_code == 0, result.output
        assert result.stdout == f"imported 3 documents into copy_{format}\n"
    assert found(shop, "copy_json") == found(shop, "copy_jsonl") == found(shop, "users")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"_id": 7, "a": }\n', "line 7, column 17: "),
        (b'{"_id": 7, "at": {"$date": "soon"}}\n', "line 7, field 'at': "),
        (b'{"_id": 3}\n', "line 7: duplicate key"),
        (b'{"_id": 7, "a": {"$b": 1}}\n', "line 7: field 'a.$b'"),
        (b'{"_id": [1]}\n', "line 7: "),
        (b"[]\n", "line 7: a document must be an object"),
    ],
)
@pytest.mark.parametrize("more", [[], ["--drop"], ["--upsert"]])
def test_a_bad_line_leaves_nothing_behind(line: bytes, words: str, more: list[str], shop: Path, tmp_path: Path) -> None:
    if "duplicate" in words and more == ["--upsert"]:
        return
    file = write(tmp_path / "a.jsonl", [*({"_id": n} for n in range(1, 7)), line, {"_id": 8}])
    if more == ["--drop"]:
        before = found(shop)
        result = invoke("import", shop, "users", file, *more)
        assert found(shop) == before
    else:
        result = invoke("import", shop, "new", file, *more)
        assert names(shop) == ["users"]
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith(f"lowtide: {file}, {words}")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("line", [b"nonsense\n", {"_id": 17}])
def test_a_bad_line_at_the_end_of_a_long_file_leaves_nothing_behind_either(
    line: Any, shop: Path, tmp_path: Path
) -> None:
    file = write(tmp_path / "a.jsonl", [*MANY, line])
    result = invoke("import", shop, "many", file)
    assert result.exit_code == 1
    assert f"{file}, line 10001" in result.stderr
    assert names(shop) == ["users"]
    assert invoke("import", shop, "users", write(tmp_path / "b.jsonl", [*MANY[10:], line]), "--drop").exit_code == 1
    assert [each["_id"] for each in found(shop)] == [1, 2, 3]


def test_with_batches_what_came_before_a_bad_line_is_in_and_the_message_says_how_much(
    shop: Path, tmp_path: Path
) -> None:
    file = write(tmp_path / "a.jsonl", [*MANY[:2500], b"nonsense\n", *MANY[2500:]])
    result = invoke("import", shop, "many", file, "--batches", 1000)
    assert result.exit_code == 1
    first, second = result.stderr.splitlines()
    assert "line 2501" in first
    count = document(invoke("count", shop, "many", "--json"))["count"] if "many" in names(shop) else 0
    assert count % 1000 == 0
    assert second.startswith(f"{count:,} documents before that are in many")
    again = write(tmp_path / "a.jsonl", MANY)
    assert document(invoke("import", shop, "many", again, "--batches", 3000, "--upsert", "--json"))["commits"] == 4
    assert document(invoke("count", shop, "many", "--json"))["count"] == 10_000


def test_an_import_in_batches_that_is_interrupted_says_how_far_it_came(shop: Path) -> None:
    with subprocess.Popen(
        command("import", shop, "many", "-", "--batches", 10),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"".join(dumps(each) + b"\n" for each in MANY[:25]))
        process.stdin.flush()
        with lowtide.open(shop, read_only=True) as store:
            wait_until(lambda: store.collection("many").count_documents({}) == 20)
        process.send_signal(signal.SIGINT)
        words = process.stderr.read().decode()
        assert process.wait(PATIENCE) == 130
    assert words.startswith("lowtide: interrupted\n20 documents before that are in many, committed in 2 transactions;")


def test_an_id_may_come_from_a_field_and_replace_what_is_there(shop: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("key,name\n1,Zoe\n9,Yan\n")
    assert "duplicate key" in invoke("import", shop, "users", file, "--id-field", "key").stderr
    assert invoke("import", shop, "users", file, "--id-field", "key", "--upsert").exit_code == 0
    assert found(shop, "users", '{"_id": {"$in": [1, 9]}}') == [{"_id": 1, "name": "Zoe"}, {"_id": 9, "name": "Yan"}]
    file.write_text("key,name\n1,Zoe\n,Yan\n")
    wrong = invoke("import", shop, "users", file, "--id-field", "key", "--drop")
    assert "line 3, field 'key'" in wrong.stderr
    assert len(found(shop)) == 4
    assert invoke("import", shop, "users", file, "--drop").exit_code == 0
    assert [each.get("key") for each in found(shop)] == [1, None]


def test_drop_replaces_the_collection_and_keeps_no_document_of_it(shop: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", [{"_id": 3, "name": "Zoe"}])
    for more in ([], ["--batches", "1"]):
        assert invoke("import", shop, "users", file, "--drop", *more).exit_code == 0
        assert found(shop) == [{"_id": 3, "name": "Zoe"}]


def test_a_file_that_cannot_be_there_or_be_read_is_told_of(shop: Path, tmp_path: Path) -> None:
    for given, code, words in (
        ([tmp_path / "no.jsonl"], 1, "No such file"),
        ([tmp_path / "no.txt"], 2, "--format"),
        ([tmp_path, "--format", "json"], 1, "Is a directory"),
        ([tmp_path / "x.csv", "--types", "a=nonsense"], 2, "is not a column type"),
    ):
        result = invoke("import", shop, "users", *given)
        assert result.exit_code == code
        assert words in result.stderr
        assert len(result.stderr.splitlines()) == 1


def test_import_makes_a_store_only_if_it_is_told_to(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", [{"_id": 1}])
    assert invoke("import", tmp_path / "new", "users", file).exit_code == 2
    assert not (tmp_path / "new").exists()
    assert invoke("import", tmp_path / "new", "users", file, "--create").exit_code == 0
    assert invoke("import", tmp_path / "new", "more", file, "--create").exit_code == 0
    assert names(tmp_path / "new") == ["more", "users"]


def test_an_export_takes_a_filter_fields_and_an_order(shop: Path, tmp_path: Path) -> None:
    more = ["--filter", '{"city": "Oslo"}', "--fields", "name,age,-_id", "--sort", "age"]
    assert invoke("export", shop, "users", tmp_path / "a.csv", *more).exit_code == 0
    assert (tmp_path / "a.csv").read_text() == "name,age\nCleo,29\nAda,36\n"
    invoke("export", shop, "users", tmp_path / "b.json.gz", *more)
    assert json.loads(gzip.decompress((tmp_path / "b.json.gz").read_bytes())) == [
        {"name": "Cleo", "age": 29},
        {"name": "Ada", "age": 36},
    ]
    rows = list(csv.DictReader(invoke("export", shop, "users", "--format", "csv").stdout.splitlines()))
    assert [row["joined"] for row in rows] == ["", "2026-05-01T12:00:00Z", ""]


def test_an_export_that_fails_leaves_the_old_file(store: lowtide.Store, tmp_path: Path) -> None:
    store.collection("many").insert_many([{"_id": n, "text": "x" * 1000} for n in range(5000)])
    target = tmp_path / "out" / "many.jsonl"
    target.parent.mkdir()
    target.write_text("old")
    result = subprocess.run(
        command("export", tmp_path / "store", "many", target),
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, 2 << 20)),
    )
    assert result.returncode == 1
    assert result.stderr == "lowtide: File too large\n"
    assert target.read_text() == "old"
    assert list(target.parent.iterdir()) == [target]


def test_an_export_works_beside_an_owner(store: lowtide.Store, tmp_path: Path) -> None:
    store.collection("many").insert_many(MANY)
    result = run("export", tmp_path / "store", "many", tmp_path / "many.jsonl", "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["exported"] == len(MANY)
