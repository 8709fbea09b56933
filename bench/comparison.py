"""What all comparisons of stores share: their duration, and their figures as tables and as a plot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from bench.drawing import label, make_figure, save
from bench.figures import BASE, Figures, Summary
from bench.promises import Line, Promises
from bench.report import shortened, times
from bench.section import Data, Grid, Plan

AnyLine = TypeVar("AnyLine", bound=Line)


@dataclass(frozen=True)
class Extent:
    """How much is measured."""

    rounds: int
    few: int
    """Rounds that slow stores take part in."""
    seconds: float
    """Of one store in one round."""
    documents: int

    def asked(self, plan: Plan, least: int = 1) -> Extent:
        """The same but for what the plan says itself, with no fewer documents than the work needs."""
        rounds = plan.rounds or self.rounds
        documents = max(plan.documents or self.documents, least)
        return Extent(rounds, min(rounds, self.few), plan.seconds or self.seconds, documents)

    def as_data(self) -> Data:
        return {
            "rounds": self.rounds,
            "rounds_of_slow_peers": self.few,
            "seconds": self.seconds,
            "documents": self.documents,
        }


def rounds_told(data: Data) -> str:
    """How many there were, and how long each took."""
    slow = [name for name, each in data["peers"].items() if each["slow"]]
    fewer = f" ({data['rounds_of_slow_peers']} for {', '.join(slow)})" if slow else ""
    return f"{data['rounds']} of {data['seconds']:g} s{fewer}"


def rounds_note(data: Data) -> str:
    return f"rounds, interleaved: {rounds_told(data)}."


def measured(figures: Figures, lines: Sequence[AnyLine]) -> list[AnyLine]:
    found = set(figures.workloads())
    return [line for line in lines if line.name in found]


def titled(line: Line) -> str:
    return line.title if line.unit == "operation" else f"{line.title}, {line.unit}s/s"


# -- tables -----------------------------------------------------------------------------------------------------------


def rates(figures: Figures, lines: Sequence[Line], note: str) -> Grid:
    """In brackets those of the writers beside, on a line that has such."""
    peers = figures.peers()
    rows = []
    for line in measured(figures, lines):
        cells = []
        for peer in peers:
            rate, beside = figures.rate(line.name, peer), figures.beside(line.name, peer)
            cells.append("–" if rate is None else shortened(rate.middle))
            if beside is not None:
                cells[-1] += f" ({shortened(beside.middle)})"
        rows.append((titled(line), *cells))
    return Grid("Operations per second, medians", ("work", *peers), rows, note)


def ratios(figures: Figures, promises: Promises) -> Grid:
    peers = [peer for peer in figures.peers() if peer != BASE]
    rows = [
        (titled(line), *(_ratio(figures.ratio(line.name, peer)) for peer in peers))
        for line in measured(figures, promises.lines)
    ]
    return Grid(
        f"Lowtide relative to each {promises.noun}: median of the paired ratios, least to most",
        ("work", *peers),
        rows,
        "Above 1, Lowtide is ahead. A ratio is of two measurements in the same round.",
    )


def ahead(figures: Figures, promises: Promises, title: str) -> list[Grid]:
    """Where Lowtide is behind: no table if that is nowhere."""
    rows = [
        (f"{each.workload.title}, {each.peer}: {each.why}", times(each.ratio.middle))
        for each in promises.peers_ahead(figures)
    ]
    headings = (f"work, {promises.noun}: reason", f"Lowtide / {promises.noun}")
    return [Grid(title, headings, rows)] if rows else []


def settling(figures: Figures, lines: Sequence[Line], work: str) -> list[Grid]:
    """The work that was deferred until afterwards. No table if nothing was written."""
    peers = figures.peers()
    rows = []
    for line in measured(figures, lines):
        if line.writes:
            settled = [figures.settle_seconds(line.name, peer) for peer in peers]
            rows.append((line.title, *("–" if s is None else f"{s.middle * 1e3:.0f}" for s in settled)))
    title = f"Work put off: milliseconds to come to rest after {work}, median"
    return [Grid(title, ("work", *peers), rows)] if rows else []


def _ratio(ratio: Summary | None) -> str:
    return "–" if ratio is None else f"{times(ratio.middle)} ({times(ratio.least)}..{times(ratio.most)})"


# -- plot -------------------------------------------------------------------------------------------------------------


def draw(
    figures: Figures, lines: Sequence[Line], colour: Callable[[str], str], title: str, directory: Path, name: str
) -> Path:
    """The ratios, a mark for each line and store."""
    peers = [peer for peer in figures.peers() if peer != BASE]
    shown = measured(figures, lines)[::-1]
    figure, (axes,) = make_figure(width=9, height=1.2 + 0.38 * len(shown))
    axes.axvline(1, color="black", linewidth=1)
    for at, peer in enumerate(peers):
        points = [(y, figures.ratio(line.name, peer)) for y, line in enumerate(shown)]
        known = [(y, ratio) for y, ratio in points if ratio is not None]
        if known:
            axes.plot(
                [ratio.middle for _, ratio in known],
                [y for y, _ in known],
                linestyle="none",
                marker="oDsv^P*X"[at % 8],
                color=colour(peer),
                alpha=0.85,
                label=peer,
            )
    axes.set_xscale("log")
    axes.set_yticks(range(len(shown)), [line.title for line in shown])
    axes.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    label(axes, title, "times as fast; right of 1 Lowtide is ahead")
    return save(figure, directory, name)
