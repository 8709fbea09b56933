"""The report is what its raw figures say, and the README shows what the report says."""

from __future__ import annotations

import doctest
import importlib
import json
import shutil
from pathlib import Path

import pytest

from bench.__main__ import SECTIONS, chosen_sections, is_whole, parse
from bench.publish import BEGIN, END, README, RESULTS, draw, figures_of_readme, publish
from bench.report import read_documents

LONGEST_PLOT = 100_000  # bytes


@pytest.fixture(scope="module")
def again(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report, made once more from a copy of the raw figures."""
    place = tmp_path_factory.mktemp("results")
    for file in RESULTS.glob("*.json"):
        shutil.copy(file, place)
    publish(place, SECTIONS)
    return place


def test_the_report_is_made_of_the_raw_figures_beside_it(again: Path) -> None:
    assert (RESULTS / "README.md").read_text() == (again / "README.md").read_text()
    names = {file.name for file in again.iterdir()}
    assert {file.name for file in RESULTS.iterdir()} == names
    assert all((RESULTS / name).stat().st_size < LONGEST_PLOT for name in names if name.endswith(".svg"))


def test_the_readme_shows_the_figures_of_the_report(tmp_path: Path) -> None:
    shown = README.read_text().partition(BEGIN)[2].partition(END)[0]
    documents = read_documents(RESULTS, SECTIONS)
    assert shown.strip() == figures_of_readme(SECTIONS, documents, draw(tmp_path, SECTIONS, documents))


def test_every_section_has_its_own_name_and_its_figures_are_kept_with_their_circumstances() -> None:
    names = [section.name for section in SECTIONS]
    assert len(set(names)) == len(names)
    for name in names:
        document = json.loads((RESULTS / f"{name}.json").read_text())
        assert document["section"] == name
        wanted = {"commit", "processor", "cores", "filesystem", "python", "lowtide", "peers"}
        assert wanted <= document["machine"].keys()


def test_a_missed_target_is_in_the_report_with_its_reason(tmp_path: Path) -> None:
    section = next(section for section in SECTIONS if section.name == "compare")
    document = json.loads((RESULTS / "compare.json").read_text())
    rows = document["data"]["figures"]["rows"]
    for row in rows:
        if row[0] == "rmw":
            row[3] = 1.0 if row[1] == "lowtide" else 2.0
    (tmp_path / "compare.json").write_text(json.dumps(document))
    text = publish(tmp_path, SECTIONS).read_text()
    missed = [found for found in section.findings(document["data"]) if not found.met and "fsynced:" in found.target]
    assert len(missed) == 2
    for found in missed:
        assert f"| {found.target} | {found.measured} | **missed** |" in text
        assert found.why in text
    assert f"read-modify-write, fsynced, sqlite3: {missed[0].why} | 0.50 |" in text


@pytest.mark.parametrize("module", ["figures", "publish", "report", "timing", "zipf"])
def test_the_examples_in_the_docstrings_are_true(module: str) -> None:
    assert doctest.testmod(importlib.import_module(f"bench.{module}")).failed == 0


def test_only_names_sections_and_workloads() -> None:
    assert [section.name for section, _ in chosen_sections(["bank", "rmw", "rmw-4"])] == ["compare", "bank"]
    assert [only for _, only in chosen_sections(["bank", "rmw", "rmw-4"])] == [{"rmw", "rmw-4"}, frozenset()]
    assert len(chosen_sections([])) == len(SECTIONS)


@pytest.mark.parametrize(
    ("arguments", "whole"),
    [
        ([], True),
        (["--only", "bank"], True),
        (["--only", "rmw"], False),
        (["--quick"], False),
        (["--rounds", "1"], False),
        (["--peers", "sqlite3"], False),
    ],
)
def test_a_rough_or_partial_run_does_not_replace_what_was_published(arguments: list[str], whole: bool) -> None:
    assert is_whole(parse(arguments)) is whole
