"""What an audit in pieces found: the same as ``lowtide.audit`` says, with witnesses that stand by themselves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from lowtide.audit.anomalies import MEANINGS
from lowtide.audit.verdict import AuditVerdict
from lowtide.engine import Isolation
from lowtide.pipeline.audit.pictures import picture
from lowtide.pipeline.audit.records import Anomaly

_SHOWN = 3
"""Witnesses of each anomaly that the report prints."""


@dataclass(frozen=True)
class AuditReport(AuditVerdict):
    """What an audit found.

    ``anomalies`` are the shortest witnesses of each name, most severe first; ``counts`` is the number of witnesses by
    name. ``unplaced`` writes and ``unresolved`` reads are those about which the history does not say enough. ``pieces``
    is how many pieces of the history could have a cycle, ``largest`` how many transactions the largest had.
    """

    level: Isolation
    transactions: int
    committed: int
    operations: int
    anomalies: list[Anomaly]
    counts: dict[str, int]
    unplaced: int = 0
    unresolved: int = 0
    pieces: int = 0
    largest: int = 0

    @property
    def names(self) -> list[str]:
        """The anomalies that were found, each once, the gravest first."""
        return [name for name in MEANINGS if name in self.counts]

    def of(self, name: str) -> list[str]:
        """The witnesses of one anomaly, in words, the shortest first."""
        return [each.witness for each in self.anomalies if each.name == name]

    def __str__(self) -> str:
        lines = [
            f"{self.transactions} transactions, {self.committed} of them committed, {self.operations} operations",
            f"{self.pieces} pieces where a cycle might be, {self.largest} transactions in the largest",
            self._summary(),
        ]
        for name in self.names:
            lines.append(f"\n{self._judged(name)}, {self.counts[name]} found, the shortest:")
            lines += self.of(name)[:_SHOWN]
        return "\n".join(lines + self._last_lines())

    def to_dict(self) -> dict[str, Any]:
        """The report as a JSON document."""
        return {
            "level": self.level.name,
            "ok": self.ok,
            "transactions": self.transactions,
            "committed": self.committed,
            "operations": self.operations,
            "names": self.names,
            "violations": self.violations,
            "allowed_at": self.allowed_at,
            "counts": {name: self.counts[name] for name in self.names},
            "anomalies": msgspec.to_builtins(self.anomalies),
            "unplaced_writes": self.unplaced,
            "unresolved_reads": self.unresolved,
            "pieces": self.pieces,
            "largest_piece": self.largest,
        }

    def draw(self, directory: str | Path) -> list[Path]:
        """Write a picture (SVG) of the shortest witness of each anomaly that is a cycle, and say where."""
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        drawn = []
        for name in self.names:
            cycle = next((each for each in self.anomalies if each.name == name and each.steps), None)
            if cycle is not None:
                drawn.append(folder / f"{name}.svg")
                drawn[-1].write_text(picture(cycle), encoding="utf-8")
        return drawn
