"""The benchmark of the pipeline: its histories are valid, and its findings follow from its figures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import lowtide
from bench.pipeline.cpu import CpuMeter
from bench.pipeline.jobs import BATCH, COLLECTION, FEED_BYTES, UPDATES, fill, record
from bench.pipeline.section import QUICK, SECTION, WORK
from bench.section import Plan
from lowtide.audit import History, audit


def figures(versions: int, **more: Any) -> dict[str, Any]:
    """What is measured at one size, with nothing amiss."""
    found: dict[str, Any] = {f"{name} seconds": versions * 1e-5 for name in (*WORK, "fill", "feed to Parquet")}
    found |= {f"{name} cpu": versions * 2e-5 for name in WORK}
    found |= {f"{name} driver": 200 << 20 for name in WORK}
    found |= {f"{name} shuffled": versions * 20 for name in WORK}
    found |= {"versions": versions, "files": 100, "history files": 2, "bytes": versions * 10, "heap": 80 << 20}
    return found | {"as_of seconds": 1.5, "plain seconds": 1.0, "as_of ratio": 1.5, "history seconds": 0.1} | more


def test_a_history_of_the_benchmark_is_right(tmp_path: Path) -> None:
    assert record(tmp_path / "history.jsonl", 4_000) == 1_000
    report = audit(History.load(tmp_path / "history.jsonl"), "serializable")
    assert (report.ok, report.names) == (True, [])


def test_a_store_of_the_benchmark_has_as_many_versions_as_it_says(tmp_path: Path) -> None:
    versions = UPDATES * BATCH * 2
    fill(str(tmp_path / "store"), versions)
    with lowtide.open(tmp_path / "store", feed_bytes=FEED_BYTES) as store:
        assert sum(1 for _ in store.changes()) == versions
        assert store[COLLECTION].count_documents({"count": UPDATES - 1}) == BATCH * 2


def test_the_findings_follow_from_the_figures(tmp_path: Path) -> None:
    data = {"figures": [figures(10_000), figures(100_000)], "cores": 2}
    assert [each for each in SECTION.findings(data) if not each.met] == []
    assert len(SECTION.grids(data)) == 6
    slow = {"archive seconds": 4.0, "archive cpu": 8.0, "as_of ratio": 2.5, "history files": 6}
    slow |= {"audit driver": 300 << 20}
    missed = {
        each.target
        for each in SECTION.findings({"figures": [figures(10_000), figures(100_000, **slow)]})
        if not each.met
    }
    assert {each.split(":")[0] for each in missed} == {
        "archive at 100,000 versions",
        "as_of the newest at 100,000 versions",
        "history of one document at 100,000 versions",
        "archive",
        "audit",
    }


def test_what_was_not_measured_is_a_dash_and_has_no_finding() -> None:
    last = {name: value for name, value in figures(100_000).items() if not name.startswith("audit")}
    data = {"figures": [figures(10_000), last], "cores": 2}
    assert not any("audit" in each.target for each in SECTION.findings(data))
    assert [row[-1] for row in SECTION.grids(data)[1].rows] == ["10.0", "–"]
    begun = {"figures": [figures(10_000), {"versions": 100_000, "fill seconds": 3.0}], "cores": 2}
    assert {each.target.split(" at ")[-1].split(":")[0] for each in SECTION.findings(begun)} == {"10,000 versions"}
    assert [grid.rows[1][-1] for grid in SECTION.grids(begun)] == ["–", "–", "–", "– of –", "–", "–"]


def test_cpu_time_is_that_of_this_process_and_its_children_also_if_nobody_waits_for_them() -> None:
    """The kernel forgets the time of a process whose parent ignores its end, as Spark's daemon does."""
    busy = "while __import__('time').process_time() < 1: pass"
    parent = (
        "import signal, subprocess, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); "
        f"child = subprocess.Popen([sys.executable, '-c', {busy!r}]); child.wait(); input()"
    )
    with CpuMeter() as meter, subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE) as process:
        process.communicate(b"\n")
    assert meter.seconds >= 0.5


def test_the_sizes_are_those_that_were_asked_for(tmp_path: Path) -> None:
    from bench.pipeline.section import _sizes

    def plan(**options: Any) -> Plan:
        return Plan(tmp_path, options.pop("quick", False), lambda doing, share: None, **options)

    assert _sizes(plan(quick=True)) == QUICK
    assert _sizes(plan(documents=1_000_000)) == (100_000, 1_000_000)
    assert _sizes(plan(documents=10_000)) == (10_000,)
