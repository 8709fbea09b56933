"""The parts of an open store that transactions use, in one place and without any logic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from lowtide.engine.transaction.callbacks import Callbacks
from lowtide.engine.transaction.catalog import Catalog
from lowtide.engine.transaction.line import Line
from lowtide.engine.transaction.queue import CommitQueue
from lowtide.engine.transaction.registration import Expired
from lowtide.engine.transaction.registry import Registry
from lowtide.engine.transaction.request import Request
from lowtide.engine.transaction.turn import Turn
from lowtide.engine.types import Writes
from lowtide.engine.versions.visibility import Reader
from lowtide.errors import ConflictError, UsageError


class Commits(Protocol):
    """Where a transaction commits."""

    callbacks: Callbacks

    def submit(self, request: Request) -> int: ...

    def commit_at_once(self, writes: Writes, payload: bytes, seen: int, token: int, durably: bool) -> int:
        """Commit without a request, if possible; see ``CommitQueue``."""

    def exclusive(self) -> AbstractContextManager[None]:
        """Hold the commit lock."""

    def commit_alone(self, request: Request) -> None:
        """Commit a request while holding the commit lock."""


class NoCommits:
    """Refuses every commit: another process owns the store."""

    def __init__(self) -> None:
        self.callbacks = Callbacks()

    def submit(self, request: Request) -> int:
        raise UsageError("the store was opened read-only")

    def commit_at_once(self, writes: Writes, payload: bytes, seen: int, token: int, durably: bool) -> int:
        """Do nothing: ``submit`` refuses the commit."""
        return 0

    def exclusive(self) -> AbstractContextManager[None]:
        raise UsageError("the store was opened read-only")

    def commit_alone(self, request: Request) -> None:
        raise UsageError("the store was opened read-only")


def _as_it_is(error: ConflictError, tx: object) -> ConflictError:
    return error


@dataclass(slots=True, kw_only=True)
class Engine:
    """The shared parts that transactions use; connected once by the store.

    ``now`` is the clock's monotonic time, for ages; ``time`` is the wall-clock time, for commits. ``durable`` says
    whether a commit waits for the disk. ``sync`` syncs the log to disk. ``released`` is called when a snapshot that may
    have kept versions has ended. ``expired`` has the registry's notes of expired snapshots: a read at a snapshot checks
    them before it returns its result. ``origins`` says whether a begin records the line that called it.
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
    """The queue in which retries wait for their turn."""
    explained: Callable[[ConflictError, Any], ConflictError] = _as_it_is
    """Explains the conflict of a refused transaction in terms of the kind of data that its key belongs to."""
    new: Callable[[], Any] | None = None
    """Creates the transactions of a store that is recorded; see ``recording``."""
    caches: dict[Any, Any] = field(default_factory=dict)
    """What kinds of data cache for as long as the store is open. Any thread may use it; the objects in it do their own
    locking."""
    anchor: Callable[[], object] | None = None
    """Creates an object that a transaction without a snapshot of its own holds while it is open, so that what it reads
    from stays available. None if nothing is needed for that."""
    closed: str = ""
    """Why no transaction can begin any more; empty while the store is open."""
    expired: Mapping[int, Expired] = field(init=False)
    lone: bool = field(init=False)
    """Whether statements can run without a transaction: true if the commit lock is in this process. See
    ``engine/statements/alone``."""

    def __post_init__(self) -> None:
        self.expired = self.registry.expired
        self.lone = isinstance(self.committer, CommitQueue)

    @contextmanager
    def in_turn(self) -> Iterator[Engine]:
        """An engine for one transaction of this thread that cannot conflict. It holds the commit lock until the block
        ends, so all other commits wait. Use it only for a few milliseconds."""
        committer = self.committer
        with committer.exclusive():
            yield replace(self, committer=Turn(committer.callbacks, committer.commit_alone))
