"""A store's figures in Prometheus' text exposition format, version 0.0.4.

Every number in :class:`Stats` is a family here, with the label ``store``. Of the live snapshots only the oldest few
have series of their own, so that a program that leaks snapshots does not flood the collector with series.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from lowtide.observe.stats import ProcessStats, SnapshotStats, Stats

MOST_SNAPSHOTS = 10
"""Snapshots that have series of their own, the oldest first."""

Number = int | float


@dataclass(frozen=True, slots=True)
class Family:
    """One metric of the store: its name, kind and description, the field of ``Stats`` that it is read from, and the
    value to show when that field is None; if ``absent`` is None too, the metric is left out."""

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    field: str
    absent: Number | None = None


FAMILIES = (
    Family("lowtide_last_commit", "gauge", "Timestamp of the last commit.", "last_commit"),
    Family(
        "lowtide_low_water_mark",
        "gauge",
        "Timestamp of the oldest live snapshot, or of the last commit if there is none.",
        "low_water_mark",
    ),
    Family("lowtide_boundary", "gauge", "Timestamp up to which the base holds everything.", "boundary"),
    Family("lowtide_versions", "gauge", "Versions in memory.", "versions"),
    Family("lowtide_chains", "gauge", "Keys that the versions in memory belong to.", "chains"),
    Family(
        "lowtide_version_bytes", "gauge", "Bytes of the keys and values of the versions in memory.", "version_bytes"
    ),
    Family("lowtide_history_versions", "gauge", "Superseded versions on disk.", "history"),
    Family("lowtide_log_bytes", "gauge", "Bytes of log that are kept.", "log_bytes"),
    Family("lowtide_snapshots", "gauge", "Live snapshots.", "snapshots"),
    Family("lowtide_pins", "gauge", "Pins.", "pins"),
    Family("lowtide_processes", "gauge", "Processes that have the store open to write.", "processes"),
    Family("lowtide_collected_versions_total", "counter", "Versions dropped since the store was opened.", "collected"),
    Family("lowtide_checkpoints_total", "counter", "Checkpoints made since the store was opened.", "checkpoints"),
    Family("lowtide_checkpoint_failures_total", "counter", "Checkpoints that failed.", "checkpoint_failures"),
    Family("lowtide_collect_failures_total", "counter", "Collections that failed.", "collect_failures"),
    Family("lowtide_failed", "gauge", "1 if the store no longer accepts commits, else 0.", "failure", 0),
    Family("lowtide_commits_total", "counter", "Commits since the store was opened.", "commits"),
    Family("lowtide_conflicts_total", "counter", "Commits that were refused since the store was opened.", "conflicts"),
    Family("lowtide_snapshots_expired_total", "counter", "Snapshots that max_snapshot_age ended.", "expired"),
    Family(
        "lowtide_last_checkpoint_duration_seconds",
        "gauge",
        "How long the last checkpoint took; absent before the first.",
        "last_checkpoint_seconds",
    ),
)

_OLDEST = "lowtide_oldest_snapshot_age_seconds"

_OF_SNAPSHOTS: tuple[tuple[str, str, Callable[[SnapshotStats], Number]], ...] = (
    ("lowtide_snapshot_age_seconds", "Age of one of the oldest snapshots.", lambda each: each.age),
    (
        "lowtide_snapshot_held_versions",
        "Superseded versions that are kept because of its timestamp alone.",
        lambda each: each.versions_held,
    ),
    (
        "lowtide_snapshot_held_bytes",
        "Bytes of the superseded versions that are kept because of its timestamp alone.",
        lambda each: each.bytes_held,
    ),
)


_OF_PROCESSES: tuple[tuple[str, Literal["gauge", "counter"], str, Callable[[ProcessStats], Number]], ...] = (
    ("lowtide_process_commits_total", "counter", "Commits of one process.", lambda each: each.commits),
    (
        "lowtide_process_conflicts_total",
        "counter",
        "Commits of one process that were refused.",
        lambda each: each.conflicts,
    ),
    (
        "lowtide_process_held_versions",
        "gauge",
        "Superseded versions that are kept because of one joined process alone.",
        lambda each: each.versions_held,
    ),
)


def render(stats: Stats, store: str) -> str:
    """The exposition of ``stats``, for the store in the directory ``store``."""
    own = {"store": store}
    lines: list[str] = []
    for family in FAMILIES:
        value = _number(getattr(stats, family.field), family.absent)
        if value is not None:
            lines += family_lines(family.name, family.kind, family.help, [(own, value)])
    oldest = max((each.age for each in stats.snapshots), default=0.0)
    lines += family_lines(_OLDEST, "gauge", "Age of the oldest live snapshot; 0 if there is none.", [(own, oldest)])
    listed = _oldest(stats.snapshots)
    for name, text, value_of in _OF_SNAPSHOTS:
        series = [({**own, "ts": str(each.ts), "where": each.where}, value_of(each)) for each in listed]
        lines += family_lines(name, "gauge", text, series) if series else []
    for name, kind, text, figure_of in _OF_PROCESSES:
        series = [({**own, "pid": str(each.pid), "role": each.role}, figure_of(each)) for each in stats.processes]
        lines += family_lines(name, kind, text, series) if series else []
    return "\n".join(lines) + "\n"


def _number(value: object, absent: Number | None) -> Number | None:
    """A list as its length, a text as 1, and None as ``absent``."""
    if value is None:
        return absent
    if isinstance(value, list):
        return len(value)
    return value if isinstance(value, int | float) else 1


def _oldest(snapshots: Iterable[SnapshotStats]) -> list[SnapshotStats]:
    """Return the oldest few. Snapshots opened by one line at one commit share a series, shown for the oldest."""
    found: dict[tuple[int, str], SnapshotStats] = {}
    for each in sorted(snapshots, key=lambda each: each.age, reverse=True):
        found.setdefault((each.ts, each.where), each)
    return list(found.values())[:MOST_SNAPSHOTS]


def family_lines(name: str, kind: str, text: str, series: Iterable[tuple[Mapping[str, str], Number]]) -> list[str]:
    """The lines of one metric: its description, its kind, and a line for each series, by its labels."""
    lines = [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
    for labels, value in series:
        inside = ",".join(f'{label}="{_escape(content)}"' for label, content in labels.items())
        lines.append(f"{name}{{{inside}}} {value}")
    return lines


def _escape(content: str) -> str:
    """A label's value, escaped. Characters that UTF-8 cannot encode, for example in a file path, become question
    marks."""
    plain = content.encode(errors="replace").decode()
    return plain.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
