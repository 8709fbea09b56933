"""Raw figures of a comparison, and what is derived from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from statistics import median
from typing import Any

BASE = "lowtide"


@dataclass(frozen=True)
class Figure:
    """What one store did in one round of one workload."""

    workload: str
    peer: str
    round: int
    rate: float
    """Operations per second."""
    beside: float | None = None
    """Operations per second of the writer beside them."""
    settle_seconds: float = 0.0
    """The seconds of deferred work, done after the clock was stopped."""


@dataclass(frozen=True)
class Summary:
    """A median and the extremes it lies between."""

    middle: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Summary:
        return cls(median(values), min(values), max(values))


class Figures:
    """All figures of a run."""

    def __init__(self, figures: Iterable[Figure] = ()) -> None:
        self._by: dict[tuple[str, str], dict[int, Figure]] = {}
        for figure in figures:
            self.add(figure)

    def add(self, figure: Figure) -> None:
        self._by.setdefault((figure.workload, figure.peer), {})[figure.round] = figure

    def of(self, workload: str, peer: str) -> dict[int, Figure]:
        """By round."""
        return self._by.get((workload, peer), {})

    def peers(self) -> list[str]:
        return list(dict.fromkeys(peer for _, peer in self._by))

    def workloads(self) -> list[str]:
        return list(dict.fromkeys(workload for workload, _ in self._by))

    def rate(self, workload: str, peer: str) -> Summary | None:
        found = self.of(workload, peer).values()
        return Summary.of([figure.rate for figure in found]) if found else None

    def beside(self, workload: str, peer: str) -> Summary | None:
        rates = [figure.beside for figure in self.of(workload, peer).values() if figure.beside is not None]
        return Summary.of(rates) if rates else None

    def settle_seconds(self, workload: str, peer: str) -> Summary | None:
        found = self.of(workload, peer).values()
        return Summary.of([figure.settle_seconds for figure in found]) if found else None

    def ratio(self, workload: str, peer: str) -> Summary | None:
        """Lowtide relative to the peer: the median over the rounds of the ratio within each round.

        Pairing first is what makes it trustworthy on a busy machine: a slow minute slows both sides of one ratio.
        """
        return paired(self.of(workload, BASE), self.of(workload, peer))

    def as_data(self) -> dict[str, Any]:
        """Names once and a row for each figure: raw data that stay small."""
        names = [field.name for field in fields(Figure)]
        rows = [
            [round(value, 6 if name == "settle_seconds" else 1) if isinstance(value, float) else value
             for name, value in zip(names, astuple(figure), strict=True)]
            for by_round in self._by.values()
            for figure in by_round.values()
        ]  # fmt: skip
        return {"fields": names, "rows": rows}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Figures:
        return cls(Figure(**dict(zip(data["fields"], row, strict=True))) for row in data["rows"])


def paired(ours: Mapping[int, Figure], theirs: Mapping[int, Figure]) -> Summary | None:
    """The ratios of the rates within each round that both took part in."""
    ratios = [ours[number].rate / theirs[number].rate for number in ours.keys() & theirs.keys()]
    return Summary.of(ratios) if ratios else None
