"""What a run reports: its exit code, the JSON, the page and the figures for Prometheus."""

from __future__ import annotations

import base64
import json
import re
import xml.etree.ElementTree as ElementTree
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from lowtide.pipeline.plots import bars, line
from lowtide.pipeline.runs.metrics import render, write_metrics
from lowtide.pipeline.runs.page import page_of
from lowtide.pipeline.runs.report import KEPT_REPORTS, RunFailed, RunReport, StepReport, write_report
from lowtide.pipeline.runs.runs import RunPlace, run_steps
from lowtide.pipeline.runs.schedule import RunStopped, Stop

EVIL = '<script>alert("1")</script>&\'\x07'
STATUS: dict[str, Any] = {
    "commit": 42,
    "rows": 120,
    "bytes": 4096,
    "files": 3,
    "tables": {
        "collections/orders": {"rows": 100, "bytes": 4000, "files": 2, "tail": 1, "open": 1, "closed": 0},
        f"collections/{EVIL}": {"rows": 20, "bytes": 96, "files": 1, "tail": 1, "open": 0, "closed": 0},
    },
    "runs": [
        {"at": "2026-05-01T12:00:00+00:00", "commit": 20, "rows": 70, "seconds": 2.0, "total": 70},
        {"at": "2026-05-01T13:00:00+00:00", "commit": 42, "rows": 50, "seconds": 1.0, "total": 120},
    ],
    "gaps": ["commits 3 to 5: no longer in the store's log"],
}


def report(*steps: StepReport, **values: Any) -> RunReport:
    given = {"status": STATUS, **values}
    return RunReport(
        store="/data/shop",
        archive="/data/archive",
        at=datetime(2026, 5, 1, 13, 0, tzinfo=UTC),
        seconds=3.25,
        steps=steps,
        **given,
    )


SKEW: dict[str, Any] = {
    "name": "write-skew",
    "transactions": [1, 2],
    "keys": ["x"],
    "witness": "T1 <- T2",
    "steps": [
        {"source": 1, "target": 2, "kind": "rw", "key": EVIL, "because": EVIL},
        {"source": 2, "target": 1, "kind": "rw", "key": "y", "because": "T2 missed y"},
    ],
}
ARCHIVED = StepReport("archive", "done", 2.5, {"commit": 42, "rows": 50, "gaps": []})


def test_a_run_where_all_is_well_ends_with_0() -> None:
    found = report(ARCHIVED, StepReport("vacuum", "done", 0.5, {"kept": 100, "dropped": 20}))
    assert (found.ok, found.exit_code, found.remarks) == (True, 0, ())
    assert (found.commit, found.rows, found.bytes, found.kept, found.dropped) == (42, 50, 4096, 100, 20)


@pytest.mark.parametrize(
    ("step", "remark"),
    [
        (StepReport("archive", "done", 1, {"gaps": ["commits 3 to 5: lost"]}), "gap: commits 3 to 5: lost"),
        (StepReport("load 1 into orders", "done", 1, {"quarantined": 7}), "7 rows quarantined"),
        (StepReport("audit", "done", 1, {"violations": ["G2-item"]}), "anomaly: G2-item"),
    ],
)
def test_a_run_that_found_something_ends_with_3(step: StepReport, remark: str) -> None:
    found = report(step)
    assert (found.ok, found.exit_code, found.remarks) == (True, 3, (remark,))


def test_a_run_with_a_failed_step_ends_with_1_whatever_else_it_found() -> None:
    found = report(StepReport("archive", "failed", 1, error="no room"), StepReport("audit", "not run"))
    assert (found.ok, found.exit_code) == (False, 1)


def test_the_json_has_every_figure(tmp_path: Path) -> None:
    found = report(ARCHIVED)
    paths = write_report(found, tmp_path / "reports", page_of(found))
    written = json.loads(paths[0].read_text())
    assert written == json.loads((tmp_path / "reports" / "latest.json").read_text())
    assert (written["commit"], written["rows"], written["exit_code"], written["kept"]) == (42, 50, 0, None)
    assert written["steps"][0]["seconds"] == 2.5
    assert sorted(each.suffix for each in (tmp_path / "reports").iterdir()) == [".html", ".html", ".json", ".json"]


def test_only_the_last_reports_stay(tmp_path: Path) -> None:
    for number in range(KEPT_REPORTS + 2):
        (tmp_path / f"run-20000101T0000{number:04}Z.json").touch()
    write_report(report(ARCHIVED), tmp_path, "")
    assert len(list(tmp_path.glob("run-*.json"))) == KEPT_REPORTS
    assert not (tmp_path / "run-20000101T00000000Z.json").exists()


class Page(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_the_page_stands_by_itself_and_runs_nothing() -> None:
    failed = StepReport("audit", "failed", 1, error=EVIL)
    page = Page(page_of(report(ARCHIVED, failed)))
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert page.links == []
    assert page.tags.count("svg") == 3
    assert any('<script>alert("1")</script>' in each for each in page.words)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (ARCHIVED, "Nothing needs attention"),
        (StepReport("archive", "done", 1, {"gaps": ["commits 3 to 5"]}), "gap: commits 3 to 5"),
        (StepReport("archive", "failed", 1, error="no room"), "archive: no room"),
        (StepReport("vacuum", "done", 1, {"kept": 9, "dropped": 1234}), "9 and 1,234"),
        (
            StepReport("audit", "done", 1, {"violations": ["write-skew"], "anomalies": [SKEW, SKEW]}),
            "T1 <- T2",
        ),
    ],
)
def test_the_page_says_what_the_run_found(step: StepReport, words: str) -> None:
    assert words in "".join(Page(page_of(report(step))).words)


def test_the_page_has_a_picture_of_the_shortest_cycle_of_each_name() -> None:
    page = page_of(report(StepReport("audit", "done", 1, {"violations": ["write-skew"], "anomalies": [SKEW, SKEW]})))
    assert Page(page).tags.count("img") == 1
    drawn = re.findall(r"data:image/svg\+xml;base64,([^\"]+)", page)
    ElementTree.fromstring(base64.b64decode(drawn[0]))


def test_the_page_of_a_run_before_the_first_archive_is_whole() -> None:
    assert "nothing yet" in page_of(report(StepReport("archive", "failed", 1, error="x"), status={}))


def test_plots_are_xml_and_draw_what_they_are_given() -> None:
    drawn = ElementTree.fromstring(bars("rows", [(EVIL, 10, "ten"), ("b", 5, "five"), ("none", 0, "0")]))
    widths = [float(each.get("width", "")) for each in drawn.iter("{http://www.w3.org/2000/svg}rect")]
    assert widths[0] == 2 * widths[1] > 0
    assert widths[2] == 0
    grown = ElementTree.fromstring(line("growth", [("a", 0), (EVIL, 50), ("c", 100)], "rows"))
    heights = [float(each.get("cy", "")) for each in grown.iter("{http://www.w3.org/2000/svg}circle")]
    assert heights[0] - heights[1] == pytest.approx(heights[1] - heights[2])
    assert heights[0] > heights[2]
    for empty in (bars("none", []), line("none", [], "rows"), line("one", [("a", 0)], "rows")):
        ElementTree.fromstring(empty)


def test_the_figures_are_in_the_format_of_prometheus(tmp_path: Path) -> None:
    found = report(ARCHIVED, StepReport("vacuum", "done", 0.5, {"kept": 100, "dropped": 20}))
    text = render(found)
    line_of = re.compile(r'(# (HELP|TYPE) \w+ .+|\w+\{(\w+="(\\.|[^"\\])*",?)*\} -?\d+(\.\d+)?)')
    assert [each for each in text.splitlines() if not line_of.fullmatch(each)] == []
    assert 'lowtide_pipeline_archived_commit{archive="/data/archive"} 42' in text
    assert 'lowtide_pipeline_vacuum_dropped_rows{archive="/data/archive"} 20' in text
    assert 'lowtide_pipeline_step_duration_seconds{archive="/data/archive",step="vacuum"} 0.5' in text
    assert 'lowtide_pipeline_gaps{archive="/data/archive"} 1' in text
    write_metrics(found, tmp_path / "lowtide.prom")
    assert [each.name for each in tmp_path.iterdir()] == ["lowtide.prom"]
    assert (tmp_path / "lowtide.prom").read_text() == text
    assert (tmp_path / "lowtide.prom").stat().st_mode & 0o777 == 0o644


def place(tmp_path: Path) -> RunPlace:
    return RunPlace("store", str(tmp_path / "archive"), str(tmp_path / "reports"), str(tmp_path / "lowtide.prom"))


def test_a_step_that_fails_ends_the_run_and_is_reported(tmp_path: Path) -> None:
    def broken(_: Any) -> dict[str, Any]:
        raise OSError("no room")

    with pytest.raises(RunFailed, match="the step two failed: OSError: no room") as caught:
        run_steps(place(tmp_path), {"one": lambda _: {}, "two": broken, "three": lambda _: {}})
    assert isinstance(caught.value.__cause__, OSError)
    states = {"one": "done", "two": "failed", "three": "not run"}
    assert {each.name: each.state for each in caught.value.report.steps} == states
    written = json.loads((tmp_path / "reports" / "latest.json").read_text())
    assert {each["name"]: each["state"] for each in written["steps"]} == states
    assert "lowtide_pipeline_run_exit_code" in (tmp_path / "lowtide.prom").read_text()


def test_a_run_that_is_told_to_end_does_so_after_the_step(tmp_path: Path) -> None:
    stop = Stop()
    told: list[str] = []

    def last(_: Any) -> dict[str, Any]:
        stop.request()
        return {}

    with pytest.raises(RunStopped):
        run_steps(place(tmp_path), {"one": last, "two": lambda _: {}}, progress=told.append, stop=stop)
    written = json.loads((tmp_path / "reports" / "latest.json").read_text())
    assert [each["state"] for each in written["steps"]] == ["done", "failed"]
