"""``python -m bench.long_reader``: what one idle reader costs while everything it can see is overwritten.

The same updates run on a store with a reader that was opened before the first of them, and on one without. The reader
is a snapshot of the process that writes or, with ``--holder pin``, a pin for other processes. The two take turns, a
portion of updates each, so that what disturbs the machine disturbs both.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench import machine
from bench.report import make_console, make_table, shortened, verdict
from bench.variant import PAYLOAD_BYTES, Sample, Setup, Variant

MIB = 1 << 20
WITH, WITHOUT, WATERMARK = "reader", "no reader", "watermark"

Series = dict[str, list[Sample]]


@dataclass(frozen=True)
class Finding:
    """A target and what was measured for it."""

    target: str
    measured: str
    met: bool


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.long_reader", description=__doc__)
    parser.add_argument(
        "--updates",
        type=int,
        default=2_000_000,
        help="updates of each store; fewer than a million see few checkpoints (default %(default)s)",
    )
    parser.add_argument("--keys", type=int, default=100_000, help="keys in each store (default %(default)s)")
    parser.add_argument("--every", type=int, default=100_000, help="updates in a portion (default %(default)s)")
    parser.add_argument(
        "--collector",
        choices=("exact", "watermark"),
        default="exact",
        help="watermark: also run a store with the reader that keeps all versions younger than its oldest snapshot",
    )
    parser.add_argument(
        "--holder", choices=("snapshot", "pin"), default="snapshot", help="what the reader is (default %(default)s)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples and the circumstances here")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the samples (needs matplotlib)")
    parser.add_argument(
        "--directory", type=Path, help="where to put the stores, on a disk (default: the system's temporary directory)"
    )
    options = parser.parse_args(arguments)
    if options.updates < 4 * options.every:
        parser.error("--updates must be at least four portions: the quarters of the run are compared")
    return options


def run(variants: Sequence[Variant], updates: int, every: int, console: Console) -> Series:
    """Let the stores take turns until each has had its updates; who begins changes each time."""
    series: Series = {variant.setup.title: [] for variant in variants}
    portions = updates // every
    # No refresh thread: it would compete with the store that is being measured.
    progress = Progress(
        TextColumn("{task.description:<28}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        auto_refresh=False,
        transient=True,
    )
    with progress:
        task = progress.add_task("", total=portions * len(variants))
        for portion in range(portions):
            shift = portion % len(variants)
            for variant in (*variants[shift:], *variants[:shift]):
                progress.update(task, description=variant.setup.title)
                progress.refresh()
                series[variant.setup.title].append(variant.update(every))
                progress.advance(task)
    return series


def check_values(variants: Sequence[Variant]) -> None:
    for variant in variants:
        wrong = variant.wrong_values()
        if wrong:
            raise SystemExit(f"{variant.setup.title}: {wrong} values are not what they have to be")


# -- findings ---------------------------------------------------------------------------------------------------------


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
    """Relative to the store without the reader, portion by portion, and the median of that."""
    return median(one.rate / other.rate for one, other in zip(series[title], series[WITHOUT], strict=True))


def peak_disk_ratio(series: Series, title: str) -> float:
    # Peaks and not pairs: the two stores checkpoint at different moments, so their logs are of different length.
    return max(s.disk_bytes for s in series[title]) / max(s.disk_bytes for s in series[WITHOUT])


def findings(series: Series, keys: int, holder: str) -> list[Finding]:
    samples = series[WITH]
    # A version stays in memory for an update that no checkpoint covers yet, so the log must be able to account for it.
    fullest = max(samples, key=lambda s: s.versions * PAYLOAD_BYTES / max(s.log_bytes, 1))
    share = fullest.versions * PAYLOAD_BYTES / max(fullest.log_bytes, 1)
    history = max(s.history for s in samples)
    disk = peak_disk_ratio(series, WITH)
    throughput = throughput_ratio(series, WITH)
    least = 0.7 if holder == "pin" else 0.8
    slowdown = rate_drift(samples)
    memory_drift = peak_drift(samples, lambda s: s.resident_bytes)
    disk_drift = peak_drift(samples, lambda s: s.disk_bytes)
    return [
        Finding(
            "versions in memory: no more than the log not yet checkpointed accounts for",
            f"{shortened(fullest.versions)} versions, {share:.0%} of {fullest.log_bytes / MIB:.0f} MiB",
            share <= 1,
        ),
        Finding("history: at most one row per key", f"{shortened(history)} rows, {keys:,} keys", history <= keys),
        Finding("disk: at most 2.5x without the reader", f"{disk:.2f}x", disk <= 2.5),
        Finding(f"throughput: at least {least}x without the reader", f"{throughput:.2f}x", throughput >= least),
        Finding("throughput, last quarter: at least 0.8x the second", f"{slowdown:.2f}x", slowdown >= 0.8),
        Finding("memory, last quarter: at most 1.2x the second", f"{memory_drift:.2f}x", memory_drift <= 1.2),
        Finding("disk, last quarter: at most 1.2x the second", f"{disk_drift:.2f}x", disk_drift <= 1.2),
    ]


# -- presentation -----------------------------------------------------------------------------------------------------


def samples_table(series: Series, rows: int = 10) -> Table:
    """Some of the samples, at even distances and with the last."""
    headings = ("updates/s", "versions", "history", "log MiB", "memory MiB", "disk MiB")
    table = make_table("Over time", ["store"], ["updates", *headings])
    count = len(series[WITH])
    step = max(1, count // rows)
    for at in range(count - 1, -1, -step)[::-1]:
        row = [samples[at] for samples in series.values()]
        table.add_row(
            "\n".join(series),
            "\n".join(f"{s.updates:,}" for s in row),
            "\n".join(shortened(s.rate) for s in row),
            "\n".join(shortened(s.versions) for s in row),
            "\n".join(shortened(s.history) for s in row),
            "\n".join(f"{s.log_bytes / MIB:.0f}" for s in row),
            "\n".join(f"{s.resident_bytes / MIB:.0f}" for s in row),
            "\n".join(f"{s.disk_bytes / MIB:.0f}" for s in row),
            end_section=True,
        )
    return table


def findings_table(found: Sequence[Finding]) -> Table:
    table = make_table("Targets, with the reader", ["target"], ["measured", ""])
    for finding in found:
        table.add_row(finding.target, finding.measured, verdict(finding.met))
    return table


def plot(series: Series, file: Path) -> None:
    import matplotlib.pyplot as plt

    panels: tuple[tuple[str, Callable[[Sample], float]], ...] = (
        ("updates per second, thousands", lambda s: s.rate / 1e3),
        ("versions in memory, thousands", lambda s: s.versions / 1e3),
        ("resident memory, MiB", lambda s: s.resident_bytes / MIB),
        ("disk, MiB", lambda s: s.disk_bytes / MIB),
    )
    figure, grid = plt.subplots(2, 2, figsize=(10, 6), sharex=True, layout="constrained")
    for axes, (title, measure) in zip(grid.flat, panels, strict=True):
        for label, samples in series.items():
            axes.plot([s.updates / 1e6 for s in samples], [measure(s) for s in samples], label=label)
        axes.set_title(title, loc="left", fontsize="medium")
        axes.set_ylim(bottom=0)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in grid[-1]:
        axes.set_xlabel("updates, millions")
    grid.flat[0].legend(frameon=False)
    figure.savefig(file, dpi=150)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    console = make_console()
    setups = [Setup(WITH, options.holder), Setup(WITHOUT, "nobody")]
    if options.collector == "watermark":
        setups.append(Setup(WATERMARK, options.holder, collector="watermark"))
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lowtide-bench-", dir=options.directory)))
        try:
            machine.require_disk(place)
        except machine.MemoryFilesystem as error:
            console.print(str(error), style="red")
            return 2
        circumstances = machine.describe(place)
        variants = [
            stack.enter_context(Variant(place / f"store-{number}", setup, options.keys))
            for number, setup in enumerate(setups)
        ]
        series = run(variants, options.updates, options.every, console)
        check_values(variants)
    found = findings(series, options.keys, options.holder)
    console.print(samples_table(series))
    console.print(findings_table(found))
    if WATERMARK in series:
        console.print(
            f"The watermark collector with the same reader: {throughput_ratio(series, WATERMARK):.2f}x the throughput, "
            f"{peak_disk_ratio(series, WATERMARK):.2f}x the disk, {shortened(series[WATERMARK][-1].versions)} versions."
        )
    if options.json:
        document = {
            "machine": circumstances,
            "settings": {name: getattr(options, name) for name in ("updates", "keys", "every", "holder")},
            "samples": {title: [asdict(sample) for sample in samples] for title, samples in series.items()},
            "targets": [asdict(finding) for finding in found],
        }
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    if options.plot:
        plot(series, options.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
