"""What a transaction needs of an open store, in one place: the parts, and nothing that decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from lowtide.engine.transaction.callbacks import Callbacks
from lowtide.engine.transaction.catalog import Catalog
from lowtide.engine.transaction.line import Line
from lowtide.engine.transaction.registry import Expired, Registry
from lowtide.engine.transaction.request import Request
from lowtide.engine.transaction.turn import Turn
from lowtide.engine.versions.visibility import Reader
from lowtide.errors import ConflictError, UsageError


class Commits(Protocol):
    """Where a transaction commits."""

    callbacks: Callbacks

    def submit(self, request: Request) -> int: ...

    def exclusive(self) -> AbstractContextManager[None]:
        """The commit lock."""

    def commit_alone(self, request: Request) -> None:
        """Commit under it."""


class NoCommits:
    """Where nothing is committed: the store is another process's."""

    def __init__(self) -> None:
        self.callbacks = Callbacks()

    def submit(self, request: Request) -> int:
        raise UsageError("the store was opened read-only")

    def exclusive(self) -> AbstractContextManager[None]:
        raise UsageError("the store was opened read-only")

    def commit_alone(self, request: Request) -> None:
        raise UsageError("the store was opened read-only")


def _as_it_is(error: ConflictError, tx: object) -> ConflictError:
    return error


@dataclass(slots=True, kw_only=True)
class Engine:
    """The shared parts that transactions work with; wired once by the store.

    ``now`` is the clock's monotonic time, for ages, ``time`` the time of day, for commits. ``durable`` is whether a
    commit waits for the disk; ``sync`` brings the log to disk; ``released`` is told when a snapshot has gone that may
    have held something back. ``expired`` has the notes of the registry: a read at a snapshot looks there before it
    hands out what it found. ``origins`` is whether a begin remembers the line that called it.
    """

    now: Callable[[], float]
    time: Callable[[], float]
    catalog: Catalog
    registry: Registry
    reader: Reader
    committer: Commits
    durable: bool
    sync: Callable[[], None]
    released: Callable[[int], None]
    read_only: bool
    before_images: bool
    origins: bool = True
    line: Line = field(default_factory=Line)
    """Where retries wait for their turn."""
    explained: Callable[[ConflictError, Any], ConflictError] = _as_it_is
    """Tells a conflict of a refused transaction in the words of the kind of data that its key belongs to."""
    closed: str = ""
    """Why nothing can be begun any more; empty while the store is open."""
    expired: Mapping[int, Expired] = field(init=False)

    def __post_init__(self) -> None:
        self.expired = self.registry.expired

    @contextmanager
    def in_turn(self) -> Iterator[Engine]:
        """An engine for one transaction of this thread that meets no conflict: the commit lock is held from here on,
        so everyone else's commits wait. For milliseconds only."""
        committer = self.committer
        with committer.exclusive():
            yield replace(self, committer=Turn(committer.callbacks, committer.commit_alone))
