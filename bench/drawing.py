"""Drawing for all sections: one style, and files that differ only if the data differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def make_figure(columns: int = 1, rows: int = 1, *, width: float = 5.0, height: float = 3.4) -> tuple[Any, list[Any]]:
    """A figure with its axes, row by row."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    figure, grid = plt.subplots(
        rows, columns, figsize=(columns * width, rows * height), layout="constrained", squeeze=False
    )
    for axes in grid.flat:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(True, alpha=0.25)
    return figure, list(grid.flat)


def label(axes: Any, title: str, across: str, upwards: str = "") -> None:
    axes.set_title(title, loc="left", fontsize="medium")
    axes.set_xlabel(across)
    axes.set_ylabel(upwards)


def save(figure: Any, directory: Path, name: str) -> Path:
    """Write ``name``.svg, without a date and with ids that are the same each time."""
    import matplotlib
    import matplotlib.pyplot as plt

    file = directory / f"{name}.svg"
    with matplotlib.rc_context({"svg.hashsalt": name}):
        figure.savefig(file, metadata={"Date": None})
    plt.close(figure)
    return file
