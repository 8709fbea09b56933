"""The settings of a store, checked in one place before anything is touched."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypedDict

from lowtide.errors import UsageError
from lowtide.system.clock import Clock, SystemClock
from lowtide.system.disk import Disk, RealDisk

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

_LARGEST = (1 << 63) - 1
"""The largest number of bytes or rows that the system accepts."""

_LONGEST_WAIT = 1e9
"""The longest wait of a thread, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The settings of an open store; sizes are bytes, times are seconds.

    ``durability``: ``"full"`` acknowledges a commit when it is on disk; ``"relaxed"`` when it is in the mapped log,
    which is synced every ``sync_interval``: a killed process loses nothing, a power loss at most the last interval.

    ``read_only``: this process can only read the store; ``exclusive``: no other process may write to it.

    ``collector``: ``"exact"`` keeps a version only while a live snapshot sees it; ``"watermark"`` keeps
    everything younger than the oldest snapshot, as most stores do; it exists for comparison.

    ``cache_rows``: how many rows of the base, with values of up to 504 bytes, are kept in memory for point reads.

    ``before_images``: log the values that commits replace, for readers of the change feed that request them.

    ``feed_bytes``: how much of the log is always kept for the change feed; ``consumer_bytes`` and ``consumer_age``:
    how much more, and how old, is kept because a named consumer has not acknowledged it.

    ``checkpointer``: ``"thread"``, ``"process"``, or ``"auto"``, which uses a helper process for large checkpoints.

    ``monitor_interval``: how often the monitor checks for old snapshots. One is reported when it reaches
    ``snapshot_warn_age``, then ``snapshot_critical_age``, then every ``snapshot_warn_interval``; and ended when it
    reaches ``max_snapshot_age``, if that is set. ``snapshot_origins``: whether a snapshot records the line that
    opened it.

    ``record``: a directory in which transactions record what they read and write, for the audit (docs/audit.md). A
    store that records is exclusive.
    """

    durability: str = "full"
    read_only: bool = False
    exclusive: bool = False
    sync_interval: float = 0.05
    collector: str = "exact"
    collect_threshold: int = 1000
    checkpointer: str = "auto"
    checkpoint_bytes: int = 64 * MIB
    checkpoint_versions: int = 500_000
    segment_bytes: int = 16 * MIB
    cache_rows: int = 100_000
    map_size: int = 256 * GIB
    before_images: bool = False
    feed_bytes: int = 0
    consumer_bytes: int = GIB
    consumer_age: float = 7 * 86400.0
    monitor_interval: float = 5.0
    snapshot_warn_age: float = 60.0
    snapshot_critical_age: float = 600.0
    snapshot_warn_interval: float = 600.0
    max_snapshot_age: float | None = None
    snapshot_origins: bool = True
    record: str | os.PathLike[str] | None = None
    disk: Disk = field(default_factory=RealDisk)
    clock: Clock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        _one_of("durability", self.durability, ("full", "relaxed"))
        _one_of("collector", self.collector, ("exact", "watermark"))
        _one_of("checkpointer", self.checkpointer, ("auto", "thread", "process"))
        _at_least("sync_interval", self.sync_interval, 0.001, _LONGEST_WAIT)
        _whole("collect_threshold", self.collect_threshold, 1)
        _whole("checkpoint_bytes", self.checkpoint_bytes, 1)
        _whole("checkpoint_versions", self.checkpoint_versions, 1)
        _whole("segment_bytes", self.segment_bytes, 4 * KIB)
        _whole("cache_rows", self.cache_rows, 1)
        _whole("map_size", self.map_size, 128 * KIB)
        _whole("feed_bytes", self.feed_bytes, 0)
        _whole("consumer_bytes", self.consumer_bytes, 0)
        _at_least("consumer_age", self.consumer_age, 0)
        _at_least("monitor_interval", self.monitor_interval, 0.001, _LONGEST_WAIT)
        _at_least("snapshot_warn_age", self.snapshot_warn_age, 0.001)
        _at_least("snapshot_critical_age", self.snapshot_critical_age, 0.001)
        _at_least("snapshot_warn_interval", self.snapshot_warn_interval, 0.001)
        for name in ("read_only", "exclusive", "before_images", "snapshot_origins"):
            _yes_or_no(name, getattr(self, name))
        if self.record is not None and not isinstance(self.record, str | os.PathLike):
            raise UsageError(f"record must be the path of a directory, not {self.record!r}")
        if self.record is not None and self.read_only:
            raise UsageError("a read-only store cannot record: pass record to lowtide.open in the process that writes")
        if self.exclusive and self.read_only:
            raise UsageError("exclusive and read_only exclude each other: a reader never keeps other processes out")
        if self.max_snapshot_age is not None:
            _at_least("max_snapshot_age", self.max_snapshot_age, 0.001)


class OpenOptions(TypedDict, total=False):
    """The keyword arguments of ``lowtide.open``, typed for type checkers. The fields are those of ``Options``."""

    durability: Literal["full", "relaxed"]
    read_only: bool
    exclusive: bool
    sync_interval: float
    collector: Literal["exact", "watermark"]
    collect_threshold: int
    checkpointer: Literal["auto", "thread", "process"]
    checkpoint_bytes: int
    checkpoint_versions: int
    segment_bytes: int
    cache_rows: int
    map_size: int
    before_images: bool
    feed_bytes: int
    consumer_bytes: int
    consumer_age: float
    monitor_interval: float
    snapshot_warn_age: float
    snapshot_critical_age: float
    snapshot_warn_interval: float
    max_snapshot_age: float | None
    snapshot_origins: bool
    record: str | os.PathLike[str] | None
    disk: Disk
    clock: Clock


def parse_options(given: Mapping[str, Any]) -> Options:
    """The options for ``given`` keyword arguments, or a UsageError that names the wrong one."""
    known = {each.name for each in fields(Options)}
    if unknown := sorted(set(given) - known):
        raise UsageError(f"unknown option {unknown[0]!r}; the options are {', '.join(sorted(known))}")
    return Options(**given)


def _one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UsageError(f"{name} must be one of {', '.join(map(repr, allowed))}, not {value!r}")


def _at_least(name: str, value: object, least: float, most: float = math.inf) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= least:  # NaN is neither
        raise UsageError(f"{name} must be a number of at least {least}, not {value!r}")
    if value > most:
        raise UsageError(f"{name} must be a number of at most {most}, not {value!r}")


def _whole(name: str, value: object, least: int) -> None:
    _at_least(name, value, least, _LARGEST)
    if not isinstance(value, int):
        raise UsageError(f"{name} must be a whole number, not {value!r}")


def _yes_or_no(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise UsageError(f"{name} must be True or False, not {value!r}")
