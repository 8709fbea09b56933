"""Raw figures, what follows from them, and how they are shown."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.peers import SETTINGS
from bench.workloads import WORKLOADS, Workload

BASE = "lowtide"


@dataclass(frozen=True)
class Figure:
    """What one store did in one round of one workload."""

    workload: str
    peer: str
    round: int
    rate: float  # operations per second
    beside: float | None  # operations per second of the writer beside them
    settle_seconds: float  # the work it had put off, done after the clock was stopped


@dataclass(frozen=True)
class Summary:
    """A median and the extremes it lies between."""

    middle: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Summary":
        return cls(median(values), min(values), max(values))


@dataclass(frozen=True)
class Target:
    """A promise: on this workload Lowtide is at least ``floor`` times as fast as the peer."""

    workload: str
    peer: str
    floor: float


TARGETS: tuple[Target, ...] = (
    Target("point-read", "sqlite3", 1.5),
    Target("point-read", "py-lmdb", 0.7),
    Target("fast-read", "py-lmdb", 1.0),
    Target("range", "py-lmdb", 0.8),
    Target("range", "sqlite3", 1.0),
    Target("scan", "py-lmdb", 0.8),
    Target("scan", "sqlite3", 1.0),
    Target("scan-list", "py-lmdb", 0.8),
    Target("scan-list", "sqlite3", 1.0),
    Target("batch", "py-lmdb", 0.8),
    Target("batch", "sqlite3", 1.0),
    Target("batch-ascending", "py-lmdb", 0.8),
    Target("batch-ascending", "sqlite3", 1.0),
    Target("rmw", "sqlite3", 1.2),
    Target("rmw-4", "sqlite3", 1.8),
    Target("rmw-unsynced", "sqlite3", 4.0),
    Target("rmw-unsynced", "py-lmdb", 1.2),
)


class Figures:
    """All figures of a run."""

    def __init__(self) -> None:
        self.all: list[Figure] = []

    def add(self, figure: Figure) -> None:
        self.all.append(figure)

    def _of(self, workload: str, peer: str) -> dict[int, Figure]:
        return {f.round: f for f in self.all if f.workload == workload and f.peer == peer}

    def rate(self, workload: str, peer: str) -> Summary | None:
        figures = self._of(workload, peer).values()
        return Summary.of([figure.rate for figure in figures]) if figures else None

    def beside(self, workload: str, peer: str) -> Summary | None:
        rates = [figure.beside for figure in self._of(workload, peer).values() if figure.beside is not None]
        return Summary.of(rates) if rates else None

    def settle_seconds(self, workload: str, peer: str) -> Summary | None:
        figures = self._of(workload, peer).values()
        return Summary.of([figure.settle_seconds for figure in figures]) if figures else None

    def ratio(self, workload: str, peer: str) -> Summary | None:
        """Lowtide relative to the peer: the median over the rounds of the ratio within each round.

        Pairing first is what makes it trustworthy on a busy machine: a slow minute slows both sides of one ratio.
        """
        ours, theirs = self._of(workload, BASE), self._of(workload, peer)
        ratios = [ours[number].rate / theirs[number].rate for number in ours.keys() & theirs.keys()]
        return Summary.of(ratios) if ratios else None

    def as_data(self) -> list[dict[str, object]]:
        return [asdict(figure) for figure in self.all]

    def verdicts(self) -> list[dict[str, object]]:
        """Every target that was measured, with its outcome."""
        found = []
        for target in TARGETS:
            ratio = self.ratio(target.workload, target.peer)
            if ratio is not None:
                found.append(asdict(target) | {"ratio": ratio.middle, "met": ratio.middle >= target.floor})
        return found


def shortened(value: float) -> str:
    """Three digits are more than the noise leaves meaningful.

    >>> shortened(181_234), shortened(5_234), shortened(17.2), shortened(1_250_000)
    ('181k', '5.2k', '17', '1.25M')
    """
    if value >= 999_500:
        return f"{value / 1e6:.2f}M"
    if value >= 9_950:
        return f"{value / 1e3:.0f}k"
    if value >= 995:
        return f"{value / 1e3:.1f}k"
    return f"{value:.0f}"


def make_console() -> Console:
    """Output that is not a terminal has no width of its own; the widest table needs this much."""
    console = Console()
    return console if console.is_terminal else Console(width=110)


def make_table(title: str, words: Sequence[str], numbers: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in words:
        table.add_column(heading)
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _times(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 9.995 else f"{ratio:.1f}"


def _rate_cell(figures: Figures, workload: Workload, peer: str) -> Text:
    rate = figures.rate(workload.name, peer)
    if rate is None:
        return Text("–", style="dim")
    text = Text(shortened(rate.middle), style="bold")
    beside = figures.beside(workload.name, peer)
    if beside is not None:
        text.append(f" ({shortened(beside.middle)})", style="not bold")
    return text.append(f"\n{shortened(rate.least)}..{shortened(rate.most)}", style="not bold dim")


def _ratio_cell(ratio: Summary | None) -> Text:
    if ratio is None:
        return Text("–", style="dim")
    text = Text(_times(ratio.middle), style="bold green" if ratio.middle >= 1 else "bold yellow")
    return text.append(f"\n{_times(ratio.least)}..{_times(ratio.most)}", style="not bold dim")


def rates_table(figures: Figures, peers: Sequence[str], rounds: int) -> Table:
    """The medians and extremes of all stores, with Lowtide's paired ratios to the others."""
    others = [peer for peer in peers if peer != BASE] if BASE in peers else []
    table = make_table(
        f"Operations per second: median of {rounds} rounds, least..most below it; then the paired ratios of {BASE}",
        ["work"],
        [*peers, *(f"/ {peer}" for peer in others)],
    )
    for workload in WORKLOADS:
        if not any(figure.workload == workload.name for figure in figures.all):
            continue
        title = Text(workload.title)
        if workload.unit != "operation":
            title.append(f", {workload.unit}s/s")
        cells = [_rate_cell(figures, workload, peer) for peer in peers]
        cells += [_ratio_cell(figures.ratio(workload.name, peer)) for peer in others]
        table.add_row(title, *cells)
    return table


def settle_table(figures: Figures, peers: Sequence[str], seconds: float) -> Table | None:
    """What the stores had put off when the clock stopped: the cost that a short measurement does not see."""
    title = f"Work put off: milliseconds to settle after {seconds:g} s of writing, median"
    table = make_table(title, ["work"], peers)
    for workload in WORKLOADS:
        settled = [figures.settle_seconds(workload.name, peer) for peer in peers]
        if workload.writes and any(settled):
            table.add_row(workload.title, *("–" if s is None else f"{s.middle * 1e3:.0f}" for s in settled))
    return table if table.row_count else None


def verdict(met: bool) -> Text:
    return Text("met", style="bold green") if met else Text("missed", style="bold red")


def targets_table(figures: Figures) -> Table | None:
    """Each target beside the ratio that was measured."""
    titles = {workload.name: workload for workload in WORKLOADS}
    table = make_table("Targets: median of the paired ratios", ["work", "against"], ["target", "measured", ""])
    for target in TARGETS:
        ratio = figures.ratio(target.workload, target.peer)
        if ratio is None:
            continue
        workload = titles[target.workload]
        table.add_row(
            workload.title,
            f"{target.peer} ({SETTINGS[target.peer, workload.durability]})",
            f">= {target.floor:.1f}",
            f"{ratio.middle:.2f}",
            verdict(ratio.middle >= target.floor),
        )
    return table if table.row_count else None
