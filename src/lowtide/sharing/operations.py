"""The operations that the owner of a store runs for other processes, by name; see ``sharing.service``."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from lowtide.observe.metrics import render
from lowtide.observe.stats import Stats
from lowtide.quads.checking import examine_quads
from lowtide.sharing.joined_commits import JoinedCommits
from lowtide.sharing.loading.loader import Loader
from lowtide.sharing.remote_line import JoinedLine
from lowtide.sharing.service import Handler
from lowtide.upkeep.backup import back_up
from lowtide.upkeep.basis import Running
from lowtide.upkeep.compact import compact
from lowtide.upkeep.inspect import inspect_base, inspect_key
from lowtide.upkeep.verify import verify_store


class WaitsForCommits(Protocol):
    """Waits for the next commit."""

    def wait(self, after: int, timeout: float | None = None, stopped: Callable[[], bool] = bool) -> int: ...


class OwnerParts(Protocol):
    """The owner's parts that other processes may use."""

    @property
    def waiters(self) -> WaitsForCommits: ...

    @property
    def running(self) -> Running: ...

    @property
    def loader(self) -> Loader: ...

    def checkpoint(self, *, hurry: bool = False) -> None: ...

    def collect(self) -> int: ...

    def stats(self) -> Stats: ...

    def pins_changed(self) -> None: ...

    @property
    def joined(self) -> JoinedCommits: ...

    @property
    def joined_line(self) -> JoinedLine: ...


def reported(report: Any) -> dict[str, Any]:
    """A report as text and as plain values, and whether everything was found in order."""
    return {"text": str(report), "data": msgspec.to_builtins(report, enc_hook=str), "ok": getattr(report, "ok", True)}


def handlers(parts: OwnerParts) -> dict[str, Handler]:
    """The operations, by name."""

    def checkpoint() -> int:
        parts.checkpoint(hurry=True)
        return parts.running.versions.boundary

    return {
        "hello": os.getpid,
        "checkpoint": checkpoint,
        "collect": parts.collect,
        "pins_changed": parts.pins_changed,
        "keyspace": lambda name: parts.joined.keyspace(name),
        "sync": lambda: parts.running.log.sync(),
        "take_turn": parts.joined_line.take_turn,
        "leave_turn": parts.joined_line.leave_turn,
        "give_way": parts.joined_line.give_way,
        "load": lambda job: parts.loader.load(job),
        "wait": lambda after, seconds: parts.waiters.wait(after, seconds),
        "stats": lambda: msgspec.to_builtins(parts.stats()),
        "metrics": lambda: render(parts.stats(), str(parts.running.path)),
        "verify": lambda: reported(verify_store(parts.running, (examine_quads,))),
        "inspect_key": lambda keyspace, key: reported(inspect_key(parts.running, keyspace, key)),
        "inspect_base": lambda: reported(inspect_base(parts.running)),
        "backup": lambda dest: reported(back_up(parts.running, dest, None)),
        "compact": lambda: reported(compact(parts.running)),
    }
