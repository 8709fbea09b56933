"""``lowtide top``: the owner's figures, live in a terminal."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.live import Live

from lowtide.cli.arguments import Json, StorePath
from lowtide.cli.figures import NO_OWNER
from lowtide.cli.frame import draw, lines
from lowtide.cli.output import Output
from lowtide.cli.reach import connected, find_store, settings
from lowtide.cli.samples import Sample, View, recent, view
from lowtide.errors import Error
from lowtide.observe.stats import Stats
from lowtide.sharing.owner import OwnerSilent

_PAUSE = 0.05
"""The longest wait, in seconds, before the keyboard is polled again."""


def top(
    path: StorePath,
    interval: Annotated[
        float, typer.Option("--interval", "-i", metavar="SECONDS", min=0.05, help="The time between two samples.")
    ] = 1.0,
    once: Annotated[
        bool, typer.Option("--once", help="Print one frame, after one interval, and exit; the default in a pipe.")
    ] = False,
    json: Json = False,
) -> None:
    """Watch the store live: commits, conflicts, snapshots, pins, versions, log, checkpoints. q ends."""
    store, output = find_store(path), Output(json)
    if once or json or not output.is_terminal:
        _print_one(store, output, interval)
    else:
        _watch(store, interval)


def _print_one(store: Path, output: Output, interval: float) -> None:
    """Take two samples, since a rate needs two, and print one frame."""
    samples = [sample(store)]
    if samples[0].stats is not None:
        time.sleep(interval)
        samples.append(sample(store))
    frame = view(str(store), samples)
    output.answer(frame.as_plain(), "\n".join(lines(frame)))


def _watch(store: Path, interval: float) -> None:
    console = Console()
    samples: list[Sample] = []

    def next_frame() -> View:
        samples.append(sample(store))
        samples[:] = recent(samples, samples[-1].at)
        return view(str(store), samples)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # the terminal is restored on exit
    with _keys() as pressed, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            due = time.monotonic() + interval
            live.update(draw(next_frame(), console.height), refresh=True)
            while (left := due - time.monotonic()) > 0:
                if pressed(min(left, _PAUSE)) in ("q", "Q"):
                    return


def sample(store: Path) -> Sample:
    """The owner's figures now, or why there are none. A store without an owner is not opened."""
    try:
        with connected(store) as owner:
            if owner is None:
                return Sample(time.monotonic(), trouble=f"{NO_OWNER}; waiting for the next owner")
            connection, process = owner
            figures = msgspec.convert(connection.ask("stats", timeout=settings.patience), Stats)
            return Sample(time.monotonic(), process, figures)
    except OwnerSilent:
        return Sample(time.monotonic(), trouble="the owner does not answer: it is stopped or hangs; waiting")
    except Error as error:
        return Sample(time.monotonic(), trouble=f"{error}; waiting")


def _no_key(seconds: float) -> str:
    time.sleep(seconds)
    return ""


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """A function that waits for a key for some seconds, and returns it, or nothing. Without a keyboard it only
    waits."""
    if not sys.stdin.isatty():
        yield _no_key
        return
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    tty.setcbreak(keyboard)

    def pressed(seconds: float) -> str:
        ready, _, _ = select.select([keyboard], [], [], seconds)
        return os.read(keyboard, 1).decode(errors="replace") if ready else ""

    try:
        yield pressed
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
