"""The rules for targets of a comparison, and for reasons why a store is ahead, for any lines and stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from bench.figures import BASE, Figures, Summary
from bench.section import Finding


class Line(Protocol):
    """What is known of a workload where its figures are shown."""

    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def unit(self) -> str: ...

    @property
    def writes(self) -> bool: ...


@dataclass(frozen=True)
class Ahead:
    """A line where another store is faster."""

    workload: Line
    peer: str
    ratio: Summary
    why: str


@dataclass(frozen=True)
class Promises:
    """Of all lines of a comparison."""

    lines: Sequence[Line]
    ahead: frozenset[str]
    """The lines on which Lowtide is to be ahead of every store that has no floor of its own there."""
    floors: Mapping[tuple[str, str], float]
    """By line and store, where the floor is not that of the line: Lowtide is at least this many times as fast."""
    reasons: Mapping[tuple[str, str], str]
    """Why a store is ahead: by line and store, or by line alone, with no store."""
    noun: str = "peer"
    """What the others are called."""

    def floor(self, workload: str, peer: str) -> float | None:
        """What Lowtide's ratio to this store is to be at least; None where nothing is promised."""
        return self.floors.get((workload, peer), 1.0 if workload in self.ahead else None)

    def reason(self, workload: str, peer: str) -> str:
        return self.reasons.get((workload, peer)) or self.reasons[workload, ""]

    def peers_ahead(self, figures: Figures) -> list[Ahead]:
        """Every line on which the median of the ratios is below one."""
        return [
            Ahead(line, peer, ratio, self.reason(line.name, peer))
            for line in self.lines
            for peer, ratio in _ratios(figures, line).items()
            if ratio.middle < 1
        ]

    def findings(self, figures: Figures) -> list[Finding]:
        """Every promise that was measured, with its outcome."""
        found = []
        for line in self.lines:
            ratios = {peer: ratio.middle for peer, ratio in _ratios(figures, line).items()}
            particular = {peer: ratio for peer, ratio in ratios.items() if (line.name, peer) in self.floors}
            found += [self._particular(line, peer, ratio) for peer, ratio in particular.items()]
            others = {peer: ratio for peer, ratio in ratios.items() if peer not in particular}
            if line.name in self.ahead and others:
                found.append(self._every_other(line, others))
        return found

    def _particular(self, line: Line, peer: str, ratio: float) -> Finding:
        wanted = self.floors[line.name, peer]
        met = ratio >= wanted
        why = "" if ratio >= 1 and met else self.reason(line.name, peer)
        return Finding(f"{line.title}: at least {wanted:.1f}x {peer}", f"{ratio:.2f}x", met, why)

    def _every_other(self, line: Line, ratios: Mapping[str, float]) -> Finding:
        closest = min(ratios, key=lambda peer: ratios[peer])
        behind = [peer for peer in ratios if ratios[peer] < 1]
        other = "other " if any(name == line.name for name, _ in self.floors) else ""
        return Finding(
            f"{line.title}: ahead of every {other}{self.noun}",
            f"{ratios[closest]:.2f}x {closest}, the closest",
            not behind,
            "; ".join(f"{peer}: {self.reason(line.name, peer)}" for peer in behind),
        )


def _ratios(figures: Figures, line: Line) -> dict[str, Summary]:
    """Lowtide relative to each other store that was measured on this line."""
    ratios = {peer: figures.ratio(line.name, peer) for peer in figures.peers() if peer != BASE}
    return {peer: ratio for peer, ratio in ratios.items() if ratio is not None}
