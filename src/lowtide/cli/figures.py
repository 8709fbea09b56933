"""``lowtide stats``, ``snapshots`` and ``metrics``: the store's figures, from its owner."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec

from lowtide.cli.arguments import Json, StorePath
from lowtide.cli.output import Output
from lowtide.cli.reach import CommandResult, ask, find_store, reading
from lowtide.observe.stats import Stats
from lowtide.system.quantities import size, span

NO_OWNER = "no process owns the store"

_BYTES = ("version_bytes", "log_bytes")
_LISTS = ("snapshots", "pins", "processes")


def stats(path: StorePath, json: Json = False) -> None:
    """Show the store's figures: commits, versions, history, log, checkpoints.

    Without an owner, the totals since the store was opened are 0.
    """
    store, output = find_store(path), Output(json)
    found = _stats_of(store)
    if json:
        output.document({"path": store, "owner": found.owner, **found.value})
        return
    figures = msgspec.convert(found.value, Stats)
    owner = NO_OWNER if found.owner is None else f"process {found.owner}"
    rows = [("path", str(store)), ("owner", owner), *((name, in_words(figures, name)) for name in names())]
    output.table(("figure", "value"), rows, none="")


def names() -> list[str]:
    return [each.name for each in fields(Stats)]


def in_words(figures: Stats, name: str) -> str:
    """Format one figure for people."""
    value: Any = getattr(figures, name)
    if value is None:
        return "none"
    if name in _LISTS:
        return str(len(value))
    if name in _BYTES:
        return f"{value} ({size(value)})"
    return span(value) if isinstance(value, float) else str(value)


def snapshots(path: StorePath, json: Json = False) -> None:
    """List the owner's live snapshots, oldest first: age, origin, and what each holds."""
    store, output = find_store(path), Output(json)
    found = _stats_of(store)
    live = msgspec.convert(found.value, Stats).snapshots if found.owner is not None else []
    if json:
        output.document({"path": store, "owner": found.owner, "snapshots": msgspec.to_builtins(live)})
        return
    output.table(
        ("commit", "age", "versions held", "bytes held", "opened at"),
        [(each.ts, span(each.age), each.versions_held, each.bytes_held, each.where) for each in live],
        none="no live snapshots" if found.owner is not None else f"{NO_OWNER}, so there are no live snapshots",
    )


def metrics(path: StorePath, json: Json = False) -> None:
    """Print the figures in Prometheus' text format, for a textfile collector."""
    store, output = find_store(path), Output(json)

    def here() -> str:
        with reading(store) as opened:
            return opened.metrics()

    found = ask(store, "metrics", here)
    if json:
        output.document({"path": store, "owner": found.owner, "metrics": found.value})
    else:
        print(found.value, end="")


def _stats_of(store: Path) -> CommandResult:
    """The figures as plain values."""

    def here() -> Any:
        with reading(store) as opened:
            return msgspec.to_builtins(opened.stats())

    return ask(store, "stats", here)
