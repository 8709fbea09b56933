"""Drives the version store and the base step by step, beside a model of what every timestamp sees."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lowtide.engine.base.environment import Base
from lowtide.engine.checkpoint.apply import Changes, CheckpointTarget, apply_checkpoint
from lowtide.engine.garbage.horizon import make_horizon
from lowtide.engine.garbage.prune import prune
from lowtide.engine.types import Range, Writes
from lowtide.engine.versions.layers import VersionStore
from lowtide.engine.versions.published import Published
from lowtide.engine.versions.visibility import Reader

PREFIX = b"\x00\x00\x00\x01"
"""Before every key: the reader takes the keyspace's number off."""

State = dict[bytes, bytes]


class Shelves:
    """All the places where a version can be: active and frozen chains, base, history.

    ``states[ts]`` is the model: what a snapshot at ``ts`` must see. ``live`` are the snapshots that are kept, as the
    registry would say; ``oldest_writer`` is kept for conflicts. ``registry`` is the reader's.
    """

    def __init__(self, directory: Path) -> None:
        self.base = Base(directory, 1 << 24, create=True)
        self.base.initialise(b"s" * 16)
        self.versions = VersionStore(0, 4)
        self.registry = Published(0)
        self.reader = Reader(self.versions, self.base, self.registry, 4)
        self.reader.sparse.add(PREFIX)  # absent keys are cached, too
        self.states: list[State] = [{}]
        self.changes: list[frozenset[bytes]] = [frozenset()]
        self.oldest_writer: int | None = None
        self._applied = False

    @property
    def published(self) -> int:
        return self.registry.published

    @property
    def live(self) -> set[int]:
        return set(self.registry.live.values())

    def hold(self) -> None:
        """Keep what is published now."""
        self.registry.live[self.published] = self.published

    def commit(self, writes: Writes) -> None:
        """Publish ``writes``, and prune the chains they grew."""
        ts = self.published + 1
        grown = self.versions.publish(ts, writes)
        self.registry.published = ts
        state = {**self.states[-1], **{key: value for key, value in writes.items() if value is not None}}
        self.states.append({key: value for key, value in state.items() if writes.get(key, b"") is not None})
        self.changes.append(frozenset(writes))
        horizon = make_horizon("exact", self.live, ts)
        self.versions.prune(grown, lambda chain: prune(chain, horizon))

    def freeze(self) -> None:
        """The first step of a checkpoint, if none is on its way."""
        if self.versions.frozen is None:
            self.versions.freeze(self.published)

    def apply(self) -> None:
        """The second: the base has it, memory too."""
        self.freeze()
        layer, upto = self.versions.frozen, self.versions.frozen_upto
        assert layer is not None
        if not self._applied:
            horizon = make_horizon("exact", self.live, upto)
            target = CheckpointTarget(self.versions.boundary, upto, lambda: (horizon, self.oldest_writer))
            self.base.history_below = max(self.base.history_below, upto)
            apply_checkpoint(self.base, Changes(layer.chains, {}), target)
            self._applied = True

    def drop(self) -> None:
        """The last: memory forgets what the base has."""
        self.apply()
        self.versions.drop_frozen()
        self._applied = False

    def move(self, how: str) -> None:
        {"freeze": self.freeze, "apply": self.apply, "drop": self.drop}[how]()

    def close(self) -> None:
        self.base.close()


@contextmanager
def open_shelves() -> Iterator[Shelves]:
    with tempfile.TemporaryDirectory(prefix="lowtide-") as directory:
        shelves = Shelves(Path(directory))
        try:
            yield shelves
        finally:
            shelves.close()


def within(state: State, wanted: Range, own: Writes | None = None) -> list[tuple[bytes, bytes]]:
    """What a scan of ``wanted`` over ``state``, with own writes laid over it, must show: the users' keys."""
    merged: Writes = {**state, **(own or {})}
    found = [
        (key[len(PREFIX) :], value)
        for key, value in merged.items()
        if value is not None and wanted.low <= key and (wanted.high is None or key < wanted.high)
    ]
    return sorted(found, reverse=wanted.reverse)
