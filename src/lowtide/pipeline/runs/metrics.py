"""A run's figures in Prometheus' text format, for the node exporter's collector of text files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from lowtide.observe.metrics import Number, family_lines
from lowtide.pipeline.runs.report import DONE, RunReport, replace_file

_Series = Iterable[tuple[Mapping[str, str], Number]]


def render(report: RunReport) -> str:
    """The exposition of a run: all of them gauges, which tell of the last run."""
    own = {"archive": report.archive}
    tables: Mapping[str, Mapping[str, int]] = report.status.get("tables", {})
    by_table = [({**own, "table": name}, each) for name, each in tables.items()]
    families: list[tuple[str, str, _Series]] = [
        (
            "run_timestamp_seconds",
            "When the last run ended, in seconds since the epoch.",
            [(own, round(report.at.timestamp() + report.seconds, 3))],
        ),
        ("run_duration_seconds", "How long the last run took.", [(own, round(report.seconds, 3))]),
        ("run_exit_code", "0 done, 1 failed, 3 done with remarks.", [(own, report.exit_code)]),
        (
            "step_duration_seconds",
            "How long each step took.",
            [({**own, "step": each.name}, round(each.seconds, 3)) for each in report.steps],
        ),
        (
            "step_done",
            "1 if the step was done, else 0.",
            [({**own, "step": each.name}, int(each.state == DONE)) for each in report.steps],
        ),
        ("archived_commit", "The commit that the archive has reached.", [(own, report.commit)]),
        ("archived_rows", "Versions that the last run added.", [(own, report.rows)]),
        (
            "gaps",
            "Gaps of the archive: ranges of commits that were lost.",
            [(own, len(report.status.get("gaps", report.gaps)))],
        ),
        ("anomalies", "Anomalies that the last audit found and the level forbids.", [(own, len(report.anomalies))]),
        ("quarantined_rows", "Rows that the loads of the last run put aside.", [(own, report.quarantined)]),
        ("table_rows", "Versions in a table.", [(labels, each["rows"]) for labels, each in by_table]),
        ("table_bytes", "Bytes of a table's files.", [(labels, each["bytes"]) for labels, each in by_table]),
        ("table_files", "Files of a table.", [(labels, each["files"]) for labels, each in by_table]),
    ]
    if report.kept is not None and report.dropped is not None:
        families.append(("vacuum_kept_rows", "Versions that the last vacuum kept.", [(own, report.kept)]))
        families.append(("vacuum_dropped_rows", "Versions that the last vacuum removed.", [(own, report.dropped)]))
    lines: list[str] = []
    for name, text, series in families:
        lines += family_lines(f"lowtide_pipeline_{name}", "gauge", text, series)
    return "\n".join(lines) + "\n"


def write_metrics(report: RunReport, path: str | os.PathLike[str]) -> None:
    """Write the exposition to a file, by renaming, so that a collector never reads half of it."""
    file = Path(path)
    replace_file(file, render(report))
    file.chmod(0o644)  # the collector is another user
