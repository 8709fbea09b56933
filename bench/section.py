"""A section of the benchmark: a run that returns raw data, and the parts of the report made from them.

Measuring and showing are separate: ``run`` returns plain data, which are stored in bench/results as JSON, and the
tables, plots and findings are made from those alone. So a report can be made again, and changed, without a new run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

Data = dict[str, Any]
"""What a section measured: JSON and nothing else."""


@dataclass(frozen=True)
class Plan:
    """How a section is to be run."""

    place: Path
    """An empty directory on a disk, of this section's own."""
    quick: bool
    """A rough answer: all sections together take about five minutes."""
    step: Callable[[str, float], None]
    """Tell the progress bar what goes on, and which share of this section is done."""
    only: frozenset[str] = frozenset()
    """Names of workloads, in a section that has several; empty for all of them."""
    peers: frozenset[str] = frozenset()
    """Names of stores, in a section that compares them; empty for all that are installed."""
    rounds: int | None = None
    seconds: float | None = None
    documents: int | None = None
    """Each in the place of a section's own number, where it has such a one."""


@dataclass(frozen=True)
class Grid:
    """A table, for the terminal and for Markdown alike."""

    title: str
    headings: tuple[str, ...]
    """The first names what stands in a row; the others are numbers."""
    rows: Sequence[tuple[str, ...]]
    note: str = ""


@dataclass(frozen=True)
class Finding:
    """A target, and what was measured for it."""

    target: str
    measured: str
    met: bool
    why: str = ""
    """Where a target is missed or a peer is ahead: the reason."""


class Skipped(Exception):
    """Raised if a section cannot run here. Its text says what is missing."""


class Section(Protocol):
    """One part of the benchmark."""

    name: str
    """For the command line and the files, such as ``latency``."""
    title: str

    def run(self, plan: Plan) -> Data:
        """Measure; Skipped says that it cannot be done here."""

    def grids(self, data: Data) -> list[Grid]:
        """The tables of the report."""

    def findings(self, data: Data) -> list[Finding]:
        """The targets of this section."""

    def plot(self, data: Data, directory: Path) -> list[tuple[str, Path]]:
        """Draw SVG files into the directory; answer each with its caption."""
