"""The section ``spark``: what its figures look like as tables, findings and a plot."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

from bench.drawing import label, make_figure, save
from bench.figures import BASE, Figures, Summary
from bench.report import shortened, times
from bench.section import Data, Finding, Grid, Plan
from bench.spark.jobs import ALONE, ARROW, CACHED, FILL, GROWTH, LINES, PARQUET, SCAN, TUPLES, Timing
from bench.spark.running import FULL, QUICK, measure
from bench.spark.session import CORES
from bench.spark.streams import LATENCY, STREAM
from bench.spark.targets import TITLES, figures_of, findings, growth, nanoseconds_per_row, ratio, timings_of

PEERS = (BASE, PARQUET, LINES, ARROW, TUPLES)
COLOURS = dict(zip(PEERS, ("C0", "C2", "C4", "C1", "C3"), strict=True))
_NONE = "–"


def percentile(values: list[float], share: float) -> float:
    """The least value that so large a share of them does not exceed.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 0.5), percentile([1.0, 2.0, 3.0, 4.0], 0.95)
    (2.0, 4.0)
    """
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


class Spark:
    name = "spark"
    title = "A data source of Spark"
    workloads = (*TITLES, GROWTH, STREAM, LATENCY)

    def run(self, plan: Plan) -> Data:
        return measure(plan, QUICK if plan.quick else FULL)

    # -- tables --

    def grids(self, data: Data) -> list[Grid]:
        timings = timings_of(data)
        return [
            *self._seconds(data, timings),
            *self._ratios(timings),
            *self._growth(timings),
            *self._streams(data),
            *self._failed(data),
        ]

    def _seconds(self, data: Data, timings: list[Timing]) -> list[Grid]:
        jobs: dict[tuple[str, str], list[Timing]] = {}
        for each in timings:
            if each.line != GROWTH:
                jobs.setdefault((each.line, each.peer), []).append(each)
        rows = []
        for line, title in TITLES.items():
            for peer in PEERS:
                if found := jobs.get((line, peer)):
                    seconds = Summary.of([each.seconds for each in found])
                    rows.append(
                        (
                            f"{title}: {peer}",
                            f"{seconds.middle:.3f}",
                            f"{seconds.least:.3f}..{seconds.most:.3f}",
                            shortened(found[0].documents / seconds.middle),
                            f"{median(each.load_seconds for each in found):.3f}",
                        )
                    )
        versions = data["versions"]
        note = (
            f"{data['documents']:,} documents of six typed columns, about 120 bytes, to the noop sink; "
            f"{data['written']:,} are written, from Parquet files to an empty store and to other Parquet files. "
            f"{CORES} partitions but for the line with one, local[{CORES}] of Spark {versions['spark']} on Java "
            f"{versions['java']}, one session. Medians of {data['rounds']} interleaved rounds ({data['few']} of "
            "writes) after one that warms up and checks the rows. Without the columnar cache, but for the two lines "
            "that name it. documents/s counts those in the source, also where few are asked for. load() is with the "
            "schema given, and not in the seconds beside it; the planning of partitions is. sqlite3 is read by two "
            "small sources in Python, of which one yields Arrow batches and one tuples."
        )
        headings = ("work: source", "s", "least..most", "documents/s", "load(), s")
        return [Grid("Seconds of each job", headings, rows, note)] if rows else []

    def _ratios(self, timings: list[Timing]) -> list[Grid]:
        figures = figures_of(timings)
        others = PEERS[1:]
        rows = []
        for line, title in TITLES.items():
            if figures.of(line, BASE) and line != ALONE:
                # The others have no cache: what fills it, or is read from it, is a full scan of theirs.
                against = SCAN if line in (FILL, CACHED) else line
                rows.append((title, *(_told(ratio(figures, (line, BASE), (against, peer))) for peer in others)))
        note = "Above 1, Lowtide is ahead. A ratio is of two measurements in the same round."
        shown = [row for row in rows if any(cell != _NONE for cell in row[1:])]
        title = "Lowtide relative to each source: median of the paired ratios, least to most"
        return [Grid(title, ("work", *others), shown, note)] if shown else []

    def _growth(self, timings: list[Timing]) -> list[Grid]:
        costs = nanoseconds_per_row(timings)
        if not costs:
            return []
        rows = [(f"{size:,}", f"{cost:.0f}", f"{cost * size / 1e9:.2f}") for size, cost in costs.items()]
        note = "What every job costs, however few its rows, weighs on the smallest."
        if len(costs) > 1:
            note = f"A row of a larger store costs at most {times(growth(costs))} times one of a smaller. {note}"
        return [Grid("Full scan by the size of the store", ("documents", "ns a row", "s"), rows, note)]

    def _streams(self, data: Data) -> list[Grid]:
        rows = []
        if stream := data.get(STREAM):
            rates = Summary.of([stream["changes"] / each["seconds"] for each in stream["rounds"]])
            rows.append(
                (
                    f"{stream['changes']:,} changes in commits of {stream['commit_length']:,}, Trigger.AvailableNow",
                    f"{shortened(rates.middle)} changes/s",
                    f"{shortened(rates.least)}..{shortened(rates.most)}",
                )
            )
        if latency := data.get(LATENCY):
            found = latency["milliseconds"]
            rows.append(
                (
                    f"a commit until foreachBatch saw it; trigger of {latency['trigger_milliseconds']} ms",
                    f"p50 {percentile(found, 0.5):.0f} ms, p95 {percentile(found, 0.95):.0f} ms",
                    f"{min(found):.0f}..{max(found):.0f} ms, of {len(found)}",
                )
            )
        note = (
            "The changes are committed by a process that goes on owning the store. Throughput is of the whole query, "
            "from its start to its end, to the noop sink."
        )
        return [Grid("Streams of the change feed", ("stream", "median", "least..most"), rows, note)] if rows else []

    def _failed(self, data: Data) -> list[Grid]:
        rows = [
            (f"{TITLES.get(each['line'], each['line'].removeprefix('spark-'))}: {each['peer']}", each["why"])
            for each in data["failed"].values()
        ]
        return [Grid("Failed, and not measured", ("work: source", "error"), rows)] if rows else []

    def findings(self, data: Data) -> list[Finding]:
        return findings(data)

    # -- plot --

    def plot(self, data: Data, directory: Path) -> list[tuple[str, Path]]:
        timings = timings_of(data)
        figure, (left, right) = make_figure(2, width=5.8, height=3.8)
        _draw_jobs(left, figures_of(timings), {each.line: each.documents for each in timings})
        _draw_growth(right, nanoseconds_per_row(timings))
        caption = f"{data['documents']:,} documents read by Spark, and the cost of a row by the size of the store."
        return [(caption, save(figure, directory, self.name))]


def _told(found: Summary | None) -> str:
    return _NONE if found is None else f"{times(found.middle)} ({times(found.least)}..{times(found.most)})"


def _draw_jobs(axes: Any, figures: Figures, documents: dict[str, int]) -> None:
    """A bar for each job, in seconds."""
    bars = []
    for line, title in TITLES.items():
        for peer in PEERS:
            rate = figures.rate(line, peer)
            if rate is not None:
                bars.append((f"{title}: {peer}", documents[line] / rate.middle, COLOURS[peer]))
    bars.reverse()
    drawn = axes.barh([name for name, _, _ in bars], [s for _, s, _ in bars], color=[colour for _, _, colour in bars])
    axes.bar_label(drawn, fmt="%.2f", fontsize="x-small", padding=2)
    axes.tick_params(axis="y", labelsize="x-small")
    label(axes, "to the noop sink", "seconds")


def _draw_growth(axes: Any, costs: dict[int, float]) -> None:
    if costs:
        axes.plot(list(costs), list(costs.values()), marker="o", color=COLOURS[BASE])
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
    label(axes, "full scan by size", "documents in the store", "nanoseconds a row")


SECTION = Spark()
