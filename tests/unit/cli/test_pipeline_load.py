"""``lowtide pipeline load`` and ``replicate``: errors are reported before Spark is started."""

from __future__ import annotations

from pathlib import Path

import pytest

import lowtide
from lowtide.cli.pipeline_load import most_bad
from lowtide.errors import UsageError
from tests.unit.cli.commands import document, invoke


@pytest.mark.parametrize(
    ("text", "expected"), [(None, None), ("7", 7), ("0", 0), ("1%", 0.01), ("0.5", 0.5), ("100%", 1.0)]
)
def test_the_limit_of_bad_rows(text: str | None, expected: float | None) -> None:
    found = most_bad(text)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize("text", ["", "x", "x%", "1,5"])
def test_a_wrong_limit(text: str) -> None:
    with pytest.raises(UsageError, match="--max-bad takes a number of rows"):
        most_bad(text)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--map", "{"), "--map is not JSON"),
        (("--schema", "{7}"), "--schema is not JSON"),
        (("--max-bad", "many"), "--max-bad takes a number"),
        (("--option", "sep"), "--option takes NAME=VALUE"),
    ],
)
def test_a_wrong_option_is_refused(tmp_path: Path, options: tuple[str, ...], words: str) -> None:
    result = invoke("pipeline", "load", tmp_path / "store", "c", "rows.csv", *options)
    assert result.exit_code == 2
    assert words in result.stderr
    assert not (tmp_path / "store").exists()


def test_a_mapping_that_is_not_there(tmp_path: Path) -> None:
    result = invoke("pipeline", "load", tmp_path / "store", "c", "rows.csv", "--map", tmp_path / "none.json")
    assert result.exit_code == 1
    assert "none.json" in result.stderr


def test_a_store_is_replicated(tmp_path: Path) -> None:
    with lowtide.open(tmp_path / "a") as store:
        store["c"].insert_one({"_id": 1})
        store["d"].insert_one({"_id": 1})
    arguments = ("pipeline", "replicate", tmp_path / "a", tmp_path / "b", "--collection", "c", "--json")
    assert document(invoke(*arguments))["copied"] == 1
    with lowtide.open(tmp_path / "a") as store:
        store["c"].insert_one({"_id": 2})
    again = document(invoke(*arguments))
    assert (again["changes"], again["batches"], again["copied"]) == (1, 1, 0)
    with lowtide.open(tmp_path / "b") as copy:
        assert (copy["c"].count_documents({}), copy.list_collection_names()) == (2, ["c"])
    missing = invoke("pipeline", "replicate", tmp_path / "none", tmp_path / "b")
    assert (missing.exit_code, "does not exist" in missing.stderr) == (2, True)
