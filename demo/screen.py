"""The terminal: a live panel where there is one, plain lines where there is not."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from demo.checks import Check

#: Shows the newest facts, and under them a picture made of characters.
Show = Callable[[Mapping[str, str], str], None]

#: Between two plain lines, in seconds: a log file is not an animation.
PLAIN_INTERVAL = 1.0
PLAIN_WIDTH = 110


class Screen:
    def __init__(self) -> None:
        # A character that the terminal's encoding lacks must not end the demo.
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="replace")
        terminal = sys.stdout.isatty()
        self._console = Console(
            force_terminal=terminal, width=None if terminal else PLAIN_WIDTH, highlight=False, soft_wrap=False
        )
        self.is_live = terminal and not self._console.is_dumb_terminal

    def act(self, title: str, text: str) -> None:
        self._console.print()
        self._console.print(Text(title, style="bold cyan"))
        self._console.print(Text(text))

    def note(self, text: str, style: str = "") -> None:
        self._console.print(Text(text, style=style))

    def check(self, check: Check) -> None:
        verdict = _verdict(check)
        # A long text is continued under its own beginning.
        indent = " " * (4 + len(verdict))
        text = textwrap.fill(f"{check.promise}: {check.seen}", self._console.width - len(indent) - 1)
        self._console.print(Text("  ") + verdict + Text("  " + text.replace("\n", "\n" + indent)))

    @contextmanager
    def panel(self, title: str) -> Iterator[Show]:
        if not self.is_live:
            lines = _PlainLines(self._console, title)
            yield lines.show
            lines.end()
            return
        with Live(console=self._console, refresh_per_second=10) as live:

            def show(facts: Mapping[str, str], picture: str) -> None:
                live.update(_framed(title, facts, picture))

            yield show

    def summary(self, checks: Sequence[Check]) -> None:
        table = Table(title="Promised and observed", title_justify="left", show_lines=False, expand=False)
        table.add_column("promised", overflow="fold")
        table.add_column("seen", overflow="fold")
        table.add_column("", no_wrap=True)
        for check in checks:
            table.add_row(Text(check.promise), Text(check.seen), _verdict(check))
        self._console.print()
        self._console.print(table)


class _PlainLines:
    """The facts in one line, at intervals and once more at the end."""

    def __init__(self, console: Console, title: str) -> None:
        self._console = console
        self._title = title
        self._latest: Mapping[str, str] | None = None
        self._due = time.monotonic() + PLAIN_INTERVAL

    def show(self, facts: Mapping[str, str], picture: str) -> None:
        self._latest = facts
        if time.monotonic() >= self._due:
            self.end()
            self._due = time.monotonic() + PLAIN_INTERVAL

    def end(self) -> None:
        if self._latest is not None:
            facts = "; ".join(f"{name} {value}" for name, value in self._latest.items())
            # Not wrapped: one update is one line of a log file.
            self._console.print(Text(f"  {self._title}: {facts}"), soft_wrap=True)
        self._latest = None


def _verdict(check: Check) -> Text:
    return Text("ok", "bold green") if check.held else Text("FAILED", "bold red")


def _framed(title: str, facts: Mapping[str, str], picture: str) -> Panel:
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="dim")
    rows.add_column()
    for name, value in facts.items():
        rows.add_row(name, Text(value))
    content: RenderableType = Group(rows, Text(picture, style="cyan")) if picture else rows
    return Panel(content, title=title, title_align="left", expand=False, padding=(0, 2))
