"""What a command prints: JSON for scripts, tables on a terminal, plain columns in a pipe.

Only results go to standard output. Progress goes to standard error, and only if that is a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from lowtide.cli.words import as_json, clean

Tell = Callable[[str], None]
"""Called with a description of the current step."""
Advance = Callable[[int, str], None]
"""Called with how much of the total is done, and a description."""


class Output:
    """Where the results of one command go."""

    def __init__(self, json: bool) -> None:
        self.json = json
        self._console = Console(highlight=False)

    @property
    def is_terminal(self) -> bool:
        return self._console.is_terminal

    @property
    def width(self) -> int:
        """The columns of the terminal."""
        return self._console.width

    def document(self, value: object) -> None:
        """Print the one JSON document of a command."""
        print(as_json(value, indent=2 if self.is_terminal else None))

    def line(self, value: object) -> None:
        """Print one of a command's JSON documents on a line, and flush."""
        print(as_json(value), flush=True)

    def say(self, text: str, *, flush: bool = False) -> None:
        """Print text; control characters are escaped."""
        print("\n".join(map(clean, text.split("\n"))), flush=flush)

    def answer(self, value: object, text: str) -> None:
        """Print the result of a command: the one JSON document, or the text for it."""
        if self.json:
            self.document(value)
        else:
            self.say(text)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[object]], *, none: str) -> None:
        """Print a table, or the text ``none`` if it is empty. Numbers are right-aligned."""
        if not rows:
            self.say(none)
            return
        cells = [[clean(str(cell)) for cell in row] for row in rows]
        right = [all(isinstance(row[index], int | float) for row in rows) for index in range(len(columns))]
        if self.is_terminal:
            self._console.print(rich_table(columns, cells, right))
        else:
            for line in aligned([list(columns), *cells], right):
                print(line)


def rich_table(columns: Sequence[str], cells: Sequence[Sequence[str]], right: Sequence[bool]) -> Table:
    """The table for a terminal. Cells are plain text, without markup."""
    table = Table(header_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column, to_the_right in zip(columns, right, strict=True):
        table.add_column(column, justify="right" if to_the_right else "left", overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    return table


def aligned(rows: Sequence[Sequence[str]], right: Sequence[bool]) -> list[str]:
    """The rows as lines of text, with aligned columns."""
    widths = [max(len(row[index]) for row in rows) for index in range(len(right))]
    return [
        "  ".join(
            cell.rjust(width) if to_the_right else cell.ljust(width)
            for cell, width, to_the_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in rows
    ]


@contextmanager
def busy(what: str) -> Iterator[Tell]:
    """Show, on a terminal, what is running and for how long; removed when it is done."""
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield lambda _: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(clean(what), total=None)
        yield lambda step: progress.update(task, description=clean(f"{what}: {step}"))


@contextmanager
def measured(what: str, total: int | None) -> Iterator[Advance]:
    """Show, on a terminal, how much is done; removed when it is done. Without a total there is no bar."""
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield lambda done, words: None
        return
    bar: tuple[ProgressColumn, ...] = (BarColumn(), TextColumn("{task.percentage:>3.0f} %")) if total else ()
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), *bar, TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(clean(what), total=total)

        def advance(done: int, words: str) -> None:
            progress.update(task, completed=done, description=clean(f"{what}: {words}"))

        yield advance
