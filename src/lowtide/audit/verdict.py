"""What a report of an audit says about its level, however its anomalies were found."""

from __future__ import annotations

from abc import ABC, abstractmethod

from lowtide.audit.levels import PROSCRIBED, levels_without
from lowtide.engine import Isolation


class AuditVerdict(ABC):
    """The anomalies that were found, judged by an isolation level."""

    level: Isolation
    unplaced: int
    unresolved: int

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """The anomalies found, each once, most severe first."""

    @property
    def violations(self) -> list[str]:
        """The anomalies found that the level forbids."""
        return [name for name in self.names if name in PROSCRIBED[self.level]]

    @property
    def ok(self) -> bool:
        """Whether the level allows the history."""
        return not self.violations

    @property
    def allowed_at(self) -> list[str]:
        """The levels that allow all anomalies found."""
        return [level.name for level in levels_without(set(self.names))]

    def _judged(self, name: str) -> str:
        """Return whether the level forbids an anomaly, as the report prints it."""
        return "PROSCRIBED" if name in PROSCRIBED[self.level] else "allowed"

    def _summary(self) -> str:
        return f"{self.level.name}: {'violated' if self.violations else 'holds'}"

    def _last_lines(self) -> list[str]:
        lines = [f"\nwhat was found is allowed at: {', '.join(self.allowed_at) or 'no level'}"]
        if self.unplaced or self.unresolved:
            lines.append(
                f"not known: the place of {self.unplaced} writes in the order of their key, "
                f"and what {self.unresolved} reads of nothing saw"
            )
        return lines
