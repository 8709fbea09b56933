"""What a run of the whole pipeline did: step by step, as figures, JSON, and files that a scheduler keeps."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal

from lowtide.errors import Error

DONE: Final = "done"
FAILED: Final = "failed"
NOT_RUN: Final = "not run"
State = Literal["done", "failed", "not run"]

SUCCEEDED, FAILURE, ATTENTION = 0, 1, 3
"""Exit codes: all is well; a step failed; all is done, but a person should look."""

KEPT_REPORTS: Final = 100
"""Reports that stay in a directory."""


@dataclass(frozen=True)
class StepReport:
    """One step: what it is called, how it ended, how long it took, and what it reported of itself."""

    name: str
    state: State
    seconds: float = 0.0
    detail: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "state": self.state,
            "seconds": round(self.seconds, 3),
            "error": self.error,
            "detail": dict(self.detail),
        }


@dataclass(frozen=True)
class RunReport:
    """A run of the pipeline. ``status`` is the archive after it, as ``pipeline.status`` tells it."""

    store: str
    archive: str
    at: datetime
    seconds: float
    steps: tuple[StepReport, ...]
    status: Mapping[str, Any] = field(default_factory=dict)

    def step(self, name: str) -> StepReport | None:
        """The step with this name; None if the run had none."""
        return next((each for each in self.steps if each.name == name), None)

    def _figure(self, step: str, name: str, default: Any) -> Any:
        found = self.step(step)
        value = default if found is None else found.detail.get(name)
        return default if value is None else value

    @property
    def ok(self) -> bool:
        """Whether every step was done."""
        return all(each.state == DONE for each in self.steps)

    @property
    def commit(self) -> int:
        """The commit that the archive has reached."""
        return int(self._figure("archive", "commit", self.status.get("commit", 0)))

    @property
    def rows(self) -> int:
        """The versions that the run added."""
        return int(self._figure("archive", "rows", 0))

    @property
    def bytes(self) -> int:
        """The bytes of the archive's files after the run."""
        return int(self.status.get("bytes", 0))

    @property
    def kept(self) -> int | None:
        """The versions that vacuum kept; None if it did not run."""
        found: int | None = self._figure("vacuum", "kept", None)
        return found

    @property
    def dropped(self) -> int | None:
        """The versions that vacuum removed; None if it did not run."""
        found: int | None = self._figure("vacuum", "dropped", None)
        return found

    @property
    def gaps(self) -> tuple[str, ...]:
        """What this run found to be lost."""
        return tuple(self._figure("archive", "gaps", ()))

    @property
    def anomalies(self) -> tuple[str, ...]:
        """The anomalies that the audit found and the level forbids."""
        return tuple(self._figure("audit", "violations", ()))

    @property
    def quarantined(self) -> int:
        """The rows that the loads put aside."""
        return sum(int(each.detail.get("quarantined", 0)) for each in self.steps if each.name.startswith("load"))

    @property
    def notes(self) -> tuple[str, ...]:
        """What is good to know, and nothing to look at: where the archive, or some of its tables, began."""
        began = self._figure("archive", "began", None)
        if began is None:
            return ()
        return (f"what this run began to follow begins with commit {began}: the store no longer had what came before",)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Why a person should look, though everything was done; empty if all is well."""
        found = [f"gap: {each}" for each in self.gaps]
        found += [f"{self.quarantined} rows quarantined"] if self.quarantined else []
        found += [f"anomaly: {each}" for each in self.anomalies]
        return tuple(found)

    @property
    def exit_code(self) -> int:
        """0 if all is well, 1 if a step failed, 3 if all is done but there are remarks."""
        return FAILURE if not self.ok else ATTENTION if self.remarks else SUCCEEDED

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, for JSON."""
        return {
            "store": self.store,
            "archive": self.archive,
            "at": self.at.isoformat(),
            "seconds": round(self.seconds, 3),
            "ok": self.ok,
            "exit_code": self.exit_code,
            "commit": self.commit,
            "rows": self.rows,
            "bytes": self.bytes,
            "kept": self.kept,
            "dropped": self.dropped,
            "gaps": list(self.gaps),
            "anomalies": list(self.anomalies),
            "quarantined": self.quarantined,
            "remarks": list(self.remarks),
            "notes": list(self.notes),
            "steps": [each.to_dict() for each in self.steps],
            "status": dict(self.status),
        }

    def __str__(self) -> str:
        lines = [f"{each.name}: {each.state}{_after(each)}" for each in self.steps]
        lines += [*self.remarks, *self.notes]
        return "\n".join([*lines, f"{self.archive}: at commit {self.commit}, {self.rows} versions added"])


def _after(step: StepReport) -> str:
    if step.error is not None:
        return f" after {step.seconds:.1f} s: {step.error}"
    return f" in {step.seconds:.1f} s" if step.state == DONE else ""


class RunFailed(Error):
    """A step of a run failed. What was done before is kept; ``report`` says what, and the cause is ``__cause__``.
    Run again."""

    def __init__(self, message: str, report: RunReport) -> None:
        self.report = report
        super().__init__(message)


def write_report(report: RunReport, directory: str | os.PathLike[str], page: str) -> tuple[Path, Path]:
    """Write a report as JSON and as a page into a directory, named by its time, and as ``latest``; whole or not at all.
    Older ones go, once there are more than 100. Returns the two paths."""
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    stamp = report.at.strftime("%Y%m%dT%H%M%S.%fZ")
    text = json.dumps(report.to_dict(), indent=2, default=str)
    found = (folder / f"run-{stamp}.json", folder / f"run-{stamp}.html")
    for path, content in zip(found, (text, page), strict=True):
        replace_file(path, content)
        replace_file(folder / f"latest{path.suffix}", content)
    for suffix in ("json", "html"):
        for old in sorted(folder.glob(f"run-*.{suffix}"))[:-KEPT_REPORTS]:
            old.unlink(missing_ok=True)
    return found


def replace_file(path: Path, content: str) -> None:
    """Write a file so that readers see the old one or the new one, and nothing in between."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_text(content, encoding="utf-8", errors="backslashreplace")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
