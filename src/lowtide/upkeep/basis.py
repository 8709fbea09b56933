"""The parts of an open store that upkeep works on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from lowtide.engine.base.environment import Base
from lowtide.engine.checkpoint.checkpointer import Checkpointer
from lowtide.engine.garbage.collector import Collector
from lowtide.engine.log.files import ClosedSegment
from lowtide.engine.log.writer import LogWriter
from lowtide.engine.transaction.catalog import Catalog
from lowtide.engine.transaction.registry import Registry
from lowtide.engine.versions.layers import VersionStore


@dataclass(frozen=True, slots=True)
class Running:
    """The parts of an open store that upkeep needs; wired once by the store. ``exclusive`` holds the commit lock,
    ``check_open`` raises when the store is closed, ``now`` is the clock's monotonic time."""

    path: Path
    store_id: bytes
    log: LogWriter
    base: Base
    versions: VersionStore
    registry: Registry
    catalog: Catalog
    checkpointer: Checkpointer
    collector: Collector
    exclusive: Callable[[], AbstractContextManager[None]]
    check_open: Callable[[], None]
    now: Callable[[], float]

    def without_released(self, segments: list[ClosedSegment]) -> list[ClosedSegment]:
        """The segments, without those below the boundary whose release was interrupted after the file was removed."""
        boundary = self.versions.boundary
        return [each for each in segments if each.last_ts > boundary or each.path.exists()]
