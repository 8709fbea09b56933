"""Drawing a frame of ``lowtide top``, for a terminal or as plain lines."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from lowtide.cli.output import aligned, rich_table
from lowtide.cli.samples import View, rate_in_words, sparkline
from lowtide.cli.words import clean
from lowtide.system.quantities import size, span

_SNAPSHOTS = ("snapshot at", "age", "versions held", "bytes held", "opened at")
_PINS = ("pin", "commit", "age", "expires in", "versions held", "bytes held", "taken by")
_PROCESSES = ("process", "role", "commits/s", "conflicts/s", "versions held", "program")
_RIGHT = {"snapshot at", "commit", "versions held", "process", "commits/s", "conflicts/s"}


def lines(view: View) -> list[str]:
    """The frame as plain text."""
    figures = [[each.label, clean(each.value), sparkline(each.trend)] for each in view.figures]
    found = [clean(f"{view.path}: {view.state}")]
    if figures:
        found += aligned(figures, [False] * 3)
    for heading, rows in _tables(view):
        if rows:
            found += ["", *aligned([list(heading), *rows], [each in _RIGHT for each in heading])]
    return found


def draw(view: View, height: int) -> RenderableType:
    """The frame for a terminal of this height. Rows that do not fit are counted."""
    head = Text.assemble(
        ("lowtide top  ", "bold cyan"),
        clean(view.path),
        "  ",
        (clean(view.state), "green" if view.live else "bold red"),
    )
    figures = Table.grid(padding=(0, 2))
    for each in view.figures:
        alarm = "FAILED" in each.label or "FAILED" in each.value
        figures.add_row(
            Text(each.label, style="bold"),
            Text(clean(each.value), style="bold red" if alarm else "" if view.live else "dim"),
            Text(sparkline(each.trend), style="cyan"),
        )
    parts: list[RenderableType] = [head, Text(), figures]
    room = max(2, height - len(view.figures) - 9)
    for heading, rows in _tables(view):
        if rows:
            shown = rows[: max(1, room // 2)]
            parts += [Text(), rich_table(heading, shown, [each in _RIGHT for each in heading])]
            if len(rows) > len(shown):
                parts.append(Text(f"and {len(rows) - len(shown)} more", style="dim"))
    return Group(*parts, Text(), Text("q ends", style="dim"))


def _tables(view: View) -> list[tuple[tuple[str, ...], list[list[str]]]]:
    snapshots = [
        [str(each.ts), span(each.age), str(each.versions_held), size(each.bytes_held), clean(each.where)]
        for each in view.snapshots
    ]
    pins = [
        [
            clean(each.name),
            str(each.ts),
            span(each.age),
            span(each.expires_in),
            str(each.versions_held),
            size(each.bytes_held),
            clean(each.owner),
        ]
        for each in view.pins
    ]
    processes = [
        [
            str(each.process.pid),
            each.process.role,
            rate_in_words(each.commits_per_second),
            rate_in_words(each.conflicts_per_second),
            str(each.process.versions_held),
            clean(each.process.program),
        ]
        for each in view.processes
    ]
    return [(_PROCESSES, processes), (_SNAPSHOTS, snapshots), (_PINS, pins)]
