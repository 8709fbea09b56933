"""``python -m bench.long_reader``: what one idle reader costs while everything it can see is overwritten.

The same updates run on a store with a reader that was opened before the first update, on one without a reader, on one
with the reader and a collector that keeps everything younger than its oldest snapshot, and on the peers with a reader
each. The reader is a snapshot of the writing process or, with ``--holder pin``, a pin for other processes. All stores
take turns, a portion of updates each, so that a disturbance affects all. A store that has used up its disk or its time
ends there: its growth is then obvious.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

from bench.drawing import label, make_figure, save
from bench.held import Holder, installed_peers
from bench.section import Data, Finding, Grid, Plan
from bench.variant import PAYLOAD_BYTES, Sample, Setup, Variant

MIB = 1 << 20
WITH, WITHOUT, WATERMARK = "reader", "no reader", "reader, watermark collector"
LEAST_THROUGHPUT: dict[Holder, float] = {"snapshot": 0.9, "pin": 0.7}

Series = dict[str, list[Sample]]


@dataclass(frozen=True)
class Scale:
    updates: int
    keys: int
    every: int  # updates in a portion
    disk_bytes: int = 3_000_000_000
    seconds: float = 60.0  # of one store's updates
    checkpoint_bytes: int = 64 << 20

    def __post_init__(self) -> None:
        if self.updates < 4 * self.every:
            raise ValueError("there must be at least four portions of updates: the quarters of the run are compared")


FULL = Scale(2_000_000, 100_000, 100_000)
QUICK = Scale(100_000, 5_000, 12_500, disk_bytes=300_000_000, seconds=3.0, checkpoint_bytes=2 << 20)


def setups(holder: Holder, checkpoint_bytes: int) -> list[Setup]:
    return [
        Setup(WITH, holder, checkpoint_bytes=checkpoint_bytes),
        Setup(WITHOUT, "nobody", checkpoint_bytes=checkpoint_bytes),
        Setup(WATERMARK, holder, collector="watermark", checkpoint_bytes=checkpoint_bytes),
        *(Setup(f"{name} with a reader", "snapshot", name) for name in installed_peers()),
    ]


def measure(plan: Plan, scale: Scale, holder: Holder) -> Data:
    """Let the stores take turns until each has had its updates, or its limit. The first store changes each time."""
    with ExitStack() as stack:
        variants = []
        for number, setup in enumerate(setups(holder, scale.checkpoint_bytes)):
            plan.step(f"loading: {setup.title}", 0.0)
            variants.append(stack.enter_context(Variant(plan.place / f"store-{number}", setup, scale.keys)))
        series: Series = {variant.setup.title: [] for variant in variants}
        stopped: dict[str, str] = {}
        portions = scale.updates // scale.every
        for portion in range(portions):
            shift = portion % len(variants)
            for variant in (*variants[shift:], *variants[:shift]):
                title = variant.setup.title
                if title not in stopped:
                    plan.step(title, portion / portions)
                    series[title].append(variant.update(scale.every))
                    if reason := _exhausted(series[title], scale):
                        stopped[title] = reason
        for variant in variants:
            plan.step(f"checking: {variant.setup.title}", 1.0)
            if wrong := variant.wrong_values():
                raise SystemExit(f"{variant.setup.title}: {wrong} values are not what they have to be")
    return {
        "settings": asdict(scale) | {"holder": holder},
        "samples": {title: [asdict(sample) for sample in samples] for title, samples in series.items()},
        "stopped": stopped,
    }


def _exhausted(samples: Sequence[Sample], scale: Scale) -> str:
    if samples[-1].disk_bytes > scale.disk_bytes:
        return f"{scale.disk_bytes / 1e9:g} GB of disk"
    if sum(sample.seconds for sample in samples) > scale.seconds:
        return f"{scale.seconds:g} s"
    return ""


def series_of(data: Data) -> Series:
    return {title: [Sample(**sample) for sample in samples] for title, samples in data["samples"].items()}


# -- what follows from the samples ------------------------------------------------------------------------------------


def quarter(samples: Sequence[Sample], number: int) -> Sequence[Sample]:
    length = len(samples)
    return samples[length * (number - 1) // 4 : length * number // 4]


def rate_drift(samples: Sequence[Sample]) -> float:
    """The last quarter of the run relative to the second; the first is for warming up."""
    return median(s.rate for s in quarter(samples, 4)) / median(s.rate for s in quarter(samples, 2))


def peak_drift(samples: Sequence[Sample], measure: Callable[[Sample], int]) -> float:
    """As above for what rises from one checkpoint to the next and then falls: only its peaks can be compared."""
    return max(map(measure, quarter(samples, 4))) / max(map(measure, quarter(samples, 2)))


def throughput_ratio(series: Series, title: str) -> float:
    """Relative to the store without the reader: updates in the time of all portions that both had.

    Not portion by portion: a checkpoint that falls into one and not into the other would decide it.
    """
    pairs = list(zip(series[title], series[WITHOUT], strict=False))
    return sum(other.seconds for _, other in pairs) / sum(one.seconds for one, _ in pairs)


def peak_disk_ratio(series: Series, title: str) -> float:
    # Peaks and not pairs: the two stores checkpoint at different moments, so their logs are of different length.
    return max(s.disk_bytes for s in series[title]) / max(s.disk_bytes for s in series[WITHOUT])


def findings(series: Series, keys: int, holder: Holder) -> list[Finding]:
    samples = series[WITH]
    # A version stays in memory for an update that no checkpoint covers yet, so the log must be able to account for it.
    fullest = max(samples, key=lambda s: s.versions * PAYLOAD_BYTES / max(s.log_bytes, 1))
    share = fullest.versions * PAYLOAD_BYTES / max(fullest.log_bytes, 1)
    history = max(s.history for s in samples)
    disk = peak_disk_ratio(series, WITH)
    throughput = throughput_ratio(series, WITH)
    least = LEAST_THROUGHPUT[holder]
    slowdown = rate_drift(samples)
    memory_drift = peak_drift(samples, lambda s: s.resident_bytes)
    disk_drift = peak_drift(samples, lambda s: s.disk_bytes)
    return [
        Finding(
            "versions in memory: no more than the log not yet checkpointed accounts for",
            f"{fullest.versions:,} versions, {share:.0%} of {fullest.log_bytes / MIB:.0f} MiB",
            share <= 1,
        ),
        Finding("history: at most one row per key", f"{history:,} rows, {keys:,} keys", history <= keys),
        Finding("disk: at most 2.5x without the reader", f"{disk:.2f}x", disk <= 2.5),
        Finding(f"throughput: at least {least}x without the reader", f"{throughput:.2f}x", throughput >= least),
        Finding("throughput, last quarter: at least 0.8x the second", f"{slowdown:.2f}x", slowdown >= 0.8),
        Finding("memory, last quarter: at most 1.2x the second", f"{memory_drift:.2f}x", memory_drift <= 1.2),
        Finding("disk, last quarter: at most 1.2x the second", f"{disk_drift:.2f}x", disk_drift <= 1.2),
    ]


# -- the section ------------------------------------------------------------------------------------------------------


class LongReader:
    name = "long_reader"
    title = "One idle reader, while everything it sees is overwritten"

    def __init__(self, holder: Holder = "snapshot", scale: Scale | None = None) -> None:
        self._holder = holder
        self._scale = scale

    def run(self, plan: Plan) -> Data:
        return measure(plan, self._scale or (QUICK if plan.quick else FULL), self._holder)

    def grids(self, data: Data) -> list[Grid]:
        return [_ends(data), _course(data)]

    def findings(self, data: Data) -> list[Finding]:
        settings = data["settings"]
        return findings(series_of(data), settings["keys"], settings["holder"])

    def plot(self, data: Data, directory: Path) -> list[tuple[str, Path]]:
        panels: tuple[tuple[str, Callable[[Sample], float]], ...] = (
            ("updates per second, thousands", lambda s: s.rate / 1e3),
            ("versions in memory, thousands", lambda s: s.versions / 1e3),
            ("resident memory, MiB", lambda s: s.resident_bytes / MIB),
            ("disk, MiB", lambda s: s.disk_bytes / MIB),
        )
        figure, grid = make_figure(2, 2)
        for axes, (title, measured) in zip(grid, panels, strict=True):
            for name, samples in series_of(data).items():
                style = "-" if name in (WITH, WITHOUT, WATERMARK) else "--"
                axes.plot([s.updates / 1e6 for s in samples], [measured(s) for s in samples], style, label=name)
            axes.set_ylim(bottom=0)
            label(axes, title, "updates, millions")
        grid[0].legend(frameon=False, fontsize="x-small")
        caption = "An idle reader beside updates: Lowtide, with its two collectors, and the peers."
        return [(caption, save(figure, directory, self.name))]


def _ends(data: Data) -> Grid:
    """Each store at the end of its run."""
    series = series_of(data)
    rows: list[tuple[str, ...]] = []
    for title, samples in series.items():
        last = samples[-1]
        rows.append(
            (
                title,
                f"{last.updates:,}",
                f"{last.updates / sum(s.seconds for s in samples) / 1e3:.0f}k",
                f"{samples[0].rate / 1e3:.0f}k -> {last.rate / 1e3:.0f}k",
                f"{samples[0].disk_bytes / MIB:,.0f} -> {last.disk_bytes / MIB:,.0f}",
                f"{max(s.resident_bytes for s in samples) / MIB:,.0f}",
                f"{last.versions + last.history:,}" if last.log_bytes else "–",
                data["stopped"].get(title, ""),
            )
        )
    headings = (
        "store",
        "updates",
        "updates/s",
        "first -> last",
        "disk MiB",
        "memory MiB",
        "versions kept",
        "stopped at",
    )
    settings = data["settings"]
    note = (
        f"Updates of {settings['keys']:,} keys in transactions of 100, unsynced; the reader is a {settings['holder']}."
    )
    return Grid("One idle reader", headings, rows, note)


def _course(data: Data, rows: int = 10) -> Grid:
    """Some of the samples of Lowtide's stores, at even distances and with the last."""
    found: list[tuple[str, ...]] = []
    for title, samples in series_of(data).items():
        if title not in (WITH, WITHOUT, WATERMARK):
            continue
        step = max(1, len(samples) // rows)
        found += [
            (
                title,
                f"{s.updates:,}",
                f"{s.rate / 1e3:.0f}k",
                f"{s.versions:,}",
                f"{s.history:,}",
                *(f"{size / MIB:.0f}" for size in (s.log_bytes, s.resident_bytes, s.disk_bytes)),
            )
            for s in samples[::-1][::step][::-1]
        ]
    headings = ("store", "updates", "updates/s", "versions", "history", "log MiB", "memory MiB", "disk MiB")
    return Grid("Over time", headings, found)


SECTION = LongReader()


def main(arguments: Sequence[str] | None = None) -> None:
    from bench import alone

    parser = argparse.ArgumentParser(prog="python -m bench.long_reader", description=__doc__, add_help=False)
    parser.add_argument("--holder", choices=("snapshot", "pin"), default="snapshot")
    parser.add_argument("--updates", type=int, help="of each store; fewer than a million see few checkpoints")
    parser.add_argument("--keys", type=int, default=FULL.keys)
    parser.add_argument("--every", type=int, default=FULL.every, help="updates in a portion")
    options, rest = parser.parse_known_args(arguments)
    scale = None
    if options.updates:
        try:
            scale = replace(FULL, updates=options.updates, keys=options.keys, every=options.every)
        except ValueError as error:
            parser.error(str(error))
    alone.run(LongReader(options.holder, scale), rest)


if __name__ == "__main__":
    main()
