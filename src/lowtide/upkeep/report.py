"""The result of an examination: checks by name, how much each examined, and the problems."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

RESTORE = "keep the files as they are and restore a backup"
REPORT = "this is a bug in Lowtide, not a fault of the disk: please report it with this text"

_KEPT = 50
"""Problems that one check reports in full; the rest are counted."""
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Problem:
    """A violated invariant: what it is, where it was found, and what to do."""

    what: str
    where: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}; {self.remedy}"


@dataclass(frozen=True, slots=True)
class Check:
    """One check: ``examined`` things of the kind ``unit``. ``found`` counts all problems, ``problems`` has the first
    of them. ``notes`` are no problems."""

    name: str
    unit: str
    examined: int
    found: int
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What ``verify`` found of the store in ``path``, when ``last_commit`` was the last one."""

    path: Path
    boundary: int
    last_commit: int
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        return self.found == 0

    @property
    def found(self) -> int:
        """How many problems there are."""
        return sum(check.found for check in self.checks)

    @property
    def problems(self) -> list[Problem]:
        """The problems that were kept word for word, at most a few dozen of each check."""
        return [problem for check in self.checks for problem in check.problems]

    def as_dict(self) -> dict[str, Any]:
        """The report in plain values, for JSON."""
        return {**asdict(self), "path": str(self.path), "ok": self.ok, "found": self.found}

    def __str__(self) -> str:
        lines = [f"{self.path}: commits up to {self.last_commit}, in the base up to {self.boundary}"]
        width = max((len(check.name) for check in self.checks), default=0)
        for check in self.checks:
            verdict = "ok" if check.found == 0 else f"{check.found} PROBLEM{'S' if check.found > 1 else ''}"
            lines.append(f"  {check.name:<{width}}  {check.examined:>10} {check.unit:<12} {verdict}")
            lines += [f"  {'':<{width}}  note: {note}" for note in check.notes]
        shown = self.problems[:_SHOWN]
        lines += [f"problem: {problem}" for problem in shown]
        if self.found > len(shown):
            lines.append(f"and {self.found - len(shown)} more")
        lines.append("everything is as it should be" if self.ok else f"{self.found} problems")
        return "\n".join(lines)


@dataclass(slots=True)
class Examination:
    """A check while it is made; used by one thread."""

    name: str
    unit: str
    examined: int = 0
    found: int = 0
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def problem(self, what: str, where: object, remedy: str = RESTORE) -> None:
        self.found += 1
        if len(self.problems) < _KEPT:
            self.problems.append(Problem(what, str(where), remedy))

    def note(self, text: str) -> None:
        self.notes.append(text)

    def check(self) -> Check:
        return Check(
            name=self.name,
            unit=self.unit,
            examined=self.examined,
            found=self.found,
            problems=tuple(self.problems),
            notes=tuple(self.notes),
        )
