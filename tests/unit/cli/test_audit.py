"""The exit code of ``lowtide audit`` says whether the level is kept, and its output shows why, as text or JSON."""

from __future__ import annotations

import gc
import json
from pathlib import Path

import pytest

from lowtide.audit import History, Row, write_rows
from lowtide.audit.anomalies import MEANINGS
from lowtide.audit.history import _converted
from tests.unit.audit.histories import SMALLEST
from tests.unit.cli.commands import invoke


@pytest.fixture
def skewed(tmp_path: Path) -> Path:
    """A history with a write skew."""
    path = tmp_path / "history.jsonl"
    write_rows(path, rows_of("write-skew"))
    return path


def rows_of(name: str) -> list[Row]:
    return list(_converted(row for rows in SMALLEST[name] for row in rows))


def test_what_the_level_allows_is_shown_and_the_exit_code_is_0(skewed: Path) -> None:
    result = invoke("audit", skewed, "--level", "snapshot")
    assert result.exit_code == 0
    assert "SNAPSHOT: holds" in result.stdout
    assert "allowed:\nwrite-skew" in result.stdout


def test_what_the_level_forbids_makes_the_exit_code_1(skewed: Path) -> None:
    result = invoke("audit", skewed)
    assert result.exit_code == 1
    assert "SERIALIZABLE: violated" in result.stdout
    assert "PROSCRIBED:\nwrite-skew" in result.stdout


def test_json_is_one_document(skewed: Path) -> None:
    result = invoke("audit", skewed, "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["violations"] == ["write-skew"]
    assert document["anomalies"][0]["name"] in MEANINGS


def test_several_files_are_one_history(tmp_path: Path, skewed: Path) -> None:
    whole = skewed.read_text().splitlines(keepends=True)
    parts = tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    for part, lines in zip(parts, (whole[::2], whole[1::2]), strict=True):
        part.write_text("".join(lines))
    assert invoke("audit", *parts, "--json").stdout == invoke("audit", skewed, "--json").stdout
    assert len(History.load(*parts).transactions) == 3


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["missing.jsonl"], "does not exist"),
        (["history.jsonl", "--level", "repeatable"], "unknown isolation level 'repeatable'"),
        (["broken.jsonl"], "broken.jsonl, line 2: "),
    ],
)
def test_a_wrong_request_is_told_with_exit_code_2(
    tmp_path: Path, skewed: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], complaint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.jsonl").write_text('{"tx": 1, "op": "commit"}\nno JSON\n')
    result = invoke("audit", *arguments)
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert result.stdout == ""
    assert gc.isenabled()
