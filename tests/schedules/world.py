"""The store that schedules run on: with scheduled locks, without a background thread, and examined at the end."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import lowtide
from lowtide.engine.log.frame import Commit
from lowtide.engine.log.reader import read_commits
from lowtide.store.owned import OwnedStore
from lowtide.upkeep.verify import verify_store
from tests.support.clocks import ManualClock
from tests.support.parts import parts_of

MAX_AGE = 1000.0


class World:
    """A store with scheduled locks, used for one schedule after the other."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.clock = ManualClock()
        self.store = self._open()
        self.uses = 0

    def _open(self) -> lowtide.Store:
        return lowtide.open(
            self._path,
            durability="relaxed",
            checkpointer="thread",
            collect_threshold=1,
            max_snapshot_age=MAX_AGE,
            map_size=1 << 24,
            segment_bytes=16384,
            clock=self.clock,
        )

    @property
    def parts(self) -> OwnedStore:
        return parts_of(self.store)

    def commits(self, after: int, upto: int) -> list[Commit]:
        return list(read_commits(self._path / "log", self.parts.running.store_id, after, upto))

    def reopen(self) -> None:
        self.store.close()
        self.store = self._open()

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.store.close()
        shutil.rmtree(self._path, ignore_errors=True)


def examine(parts: OwnedStore, *, verified: bool = True) -> list[str]:
    """What is wrong with a store after all workers have ended: a snapshot is still registered, there is garbage that
    the collector does not know of, or ``verify`` finds a problem, if its files are to be ``verified``."""
    registry = parts.registry
    tables = (registry.live, registry.details, registry.serializable, registry.partial, registry.expired)
    problems = [f"the registry is not empty: {table}" for table in tables if table]
    for _ in range(3):
        if parts.collector.wanted:
            parts._maintain()
    for layer in parts.versions.layers:
        try:
            layer.check()
        except AssertionError as error:
            problems.append(f"a layer has miscounted: {error}")
    held = [key for layer in parts.versions.layers for key, chain in layer.chains.items() if chain[2] is not None]
    if held:
        problems.append(f"superseded versions of {held} stay, and the collector does not know of them")
    if rows := parts.base.count_history():
        problems.append(f"{rows} versions stay in the history, and the collector does not know of them")
    if verified and not (report := verify_store(parts.running)).ok:
        problems.append(f"verify: {report}")
    return problems
