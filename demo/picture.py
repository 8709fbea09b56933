"""Act 9: versions kept against commits, for both collectors, as a PNG."""

from __future__ import annotations

from pathlib import Path

import matplotlib

# Before pyplot is imported: there may be no display.
matplotlib.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter, MaxNLocator

from demo.long_reader import Course

EXACT, WATERMARK = "#0b7285", "#e8590c"


def save_picture(target: Path, exact: Course, watermark: Course, keys: int) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    figure, (both, near) = plt.subplots(1, 2, figsize=(11, 4.2), width_ratios=(3, 2), layout="constrained")
    figure.suptitle("Versions kept while one snapshot stays open", fontsize=13, fontweight="bold")

    for course, colour, name in ((watermark, WATERMARK, "low-water mark"), (exact, EXACT, "exact")):
        commits, versions = zip(*course.kept, strict=True)
        both.plot(commits, versions, color=colour, linewidth=2, label=f"{name}: {course.with_reader:,} at the end")
    both.set_title("both collectors", fontsize=10)
    both.legend(frameon=False, loc="upper left")

    commits, versions = zip(*exact.kept, strict=True)
    near.plot(commits, versions, color=EXACT, linewidth=2, label="exact")
    near.axhline(2 * keys, color="grey", linestyle="--", linewidth=1, label=f"twice the {keys} keys: the bound at rest")
    near.set_title("the exact collector, enlarged", fontsize=10)
    near.legend(frameon=False, loc="lower right")

    for axes in (both, near):
        axes.set_xlabel("commits since the snapshot was opened")
        axes.set_ylabel("versions kept")
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        # Few ticks, because their long labels would overlap.
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.3)
    figure.savefig(target, dpi=120)
    plt.close(figure)
