"""The report follows from its raw figures, and the README shows what the report says."""

from __future__ import annotations

import doctest
import importlib
import json
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from bench.__main__ import SECTIONS, chosen_sections, is_whole, parse
from bench.publish import BEGIN, END, README, RESULTS, Plots, draw, figures_of_readme
from bench.report import read_documents, report_markdown

LONGEST = 100_000  # bytes


DOCUMENTS = read_documents(RESULTS, SECTIONS)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Plots]:
    """The captions and files of all plots, and the directory of the files. They are empty: the tests of each section
    draw its plots, and drawing all of them takes a quarter of a minute."""

    def save(self: Figure, file: Path, **options: object) -> None:
        Path(file).touch()

    place = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", save)
        return place, draw(place, SECTIONS, DOCUMENTS)


def test_the_report_is_made_of_the_raw_figures_beside_it(drawn: tuple[Path, Plots]) -> None:
    place, plots = drawn
    assert (RESULTS / "README.md").read_text() == report_markdown(SECTIONS, DOCUMENTS, plots)
    figures = {f"{name}.json" for name in DOCUMENTS}
    assert {file.name for file in RESULTS.iterdir()} == {file.name for file in place.iterdir()} | figures | {
        "README.md"
    }


def test_no_plot_is_long() -> None:
    assert {file.name: file.stat().st_size for file in RESULTS.glob("*.svg") if file.stat().st_size > LONGEST} == {}


def test_the_readme_shows_the_figures_of_the_report(drawn: tuple[Path, Plots]) -> None:
    shown = README.read_text().partition(BEGIN)[2].partition(END)[0]
    assert shown.strip() == figures_of_readme(SECTIONS, DOCUMENTS, drawn[1])


def test_every_section_has_its_own_name_and_its_figures_are_kept_with_their_circumstances() -> None:
    names = [section.name for section in SECTIONS]
    assert len(set(names)) == len(names)
    for name in names:
        document = json.loads((RESULTS / f"{name}.json").read_text())
        assert document["section"] == name
        wanted = {"commit", "processor", "cores", "filesystem", "python", "lowtide", "peers"}
        assert wanted <= document["machine"].keys()


def test_a_missed_target_is_in_the_report_with_its_reason() -> None:
    section = next(section for section in SECTIONS if section.name == "compare")
    document = json.loads((RESULTS / "compare.json").read_text())
    rows = document["data"]["figures"]["rows"]
    for row in rows:
        if row[0] == "rmw":
            row[3] = 1.0 if row[1] == "lowtide" else 2.0
    text = report_markdown(SECTIONS, {"compare": document}, {})
    missed = [found for found in section.findings(document["data"]) if not found.met and "fsynced:" in found.target]
    assert len(missed) == 2
    for found in missed:
        assert f"| {found.target} | {found.measured} | **missed** |" in text
        assert found.why in text
    assert f"read-modify-write, fsynced, sqlite3: {missed[0].why} | 0.50 |" in text


SHOWING_BY_EXAMPLE = [
    "collections.people",
    "figures",
    "publish",
    "report",
    "spark.driver",
    "spark.rows",
    "spark.section",
    "spark.targets",
    "timing",
    "zipf",
]


@pytest.mark.parametrize("module", SHOWING_BY_EXAMPLE)
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
