"""What a transaction needs of an open store, in one place: the parts, and nothing that decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lowtide.transaction.catalog import Catalog
from lowtide.transaction.commit import Committer
from lowtide.transaction.registry import Expired, Registry
from lowtide.versions.visibility import Reader


@dataclass(slots=True)
class Engine:
    """The shared parts that transactions work with; wired once by the store.

    ``now`` is the clock's monotonic time, for ages, ``time`` the time of day, for commits. ``durable`` is whether a
    commit waits for the disk; ``sync`` brings the log to disk; ``released`` is told when a snapshot has gone that may
    have held something back, ``dropped`` when that happens in a destructor. ``expired`` has the notes of the registry:
    whoever read at a snapshot looks there before it hands out what it read. ``origins`` is whether a begin remembers
    who called it.
    """

    now: Callable[[], float]
    time: Callable[[], float]
    catalog: Catalog
    registry: Registry
    reader: Reader
    committer: Committer
    durable: bool
    sync: Callable[[], None]
    released: Callable[[int], None]
    dropped: Callable[[int], None]
    read_only: bool
    expired: Mapping[int, Expired]
    origins: bool
    closed: str = ""
    """Why nothing can be begun any more; empty while the store is open."""
