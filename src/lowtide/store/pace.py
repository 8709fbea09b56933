"""When the background of a store has work: a checkpoint is due, or a spare segment of the log is wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lowtide.engine.checkpoint.checkpointer import Checkpointer
from lowtide.engine.log.writer import LogWriter
from lowtide.engine.versions.layers import VersionStore
from lowtide.options import Options

_LEAST_LOGGED: Final = 7
"""The fewest bytes that a version takes in the log."""

_LARGEST_STEP: Final = 1 << 16
"""Bytes of log after which a commit always checks for background work."""


class Pace:
    """Tells a commit when to check for background work.

    If something is due, a commit wakes the background, which calls ``look_again`` before it does the work. So one
    commit during the work looks again, and if something is still due, the background runs once more. All other commits
    go on without a look, however long the work takes.

    Who writes: ``look`` under the commit lock; ``look_again`` in the background, without it. If a look overwrites what
    ``look_again`` has written, the next one comes after ``_LARGEST_STEP`` at the latest.
    """

    def __init__(
        self,
        options: Options,
        log: LogWriter,
        versions: VersionStore,
        checkpointer: Checkpointer,
        wake: Callable[[], None],
    ) -> None:
        self._most_versions = options.checkpoint_versions
        self._log = log
        self._versions = versions
        self._checkpointer = checkpointer
        self._wake = wake
        self.look_at = 0
        """The length of the log at which a commit checks for background work."""

    def look(self) -> None:
        """Wake the background if something is due, and set the length of the log at which to check again. Called under
        the commit lock. A checkpoint or a new segment may make the next check early, or late by a small step."""
        log = self._log
        to_spare = log.spare_mark - log.position
        to_checkpoint = self._checkpointer.due_at - log.appended
        to_versions = (self._most_versions - self._versions.active.versions) * _LEAST_LOGGED
        nearest = min(to_spare + 1, to_checkpoint, to_versions)
        # Before the background is woken, so that its ``look_again`` comes later.
        self.look_at = log.appended + (min(nearest, _LARGEST_STEP) if nearest > 0 else _LARGEST_STEP)
        if nearest <= 0:
            self._wake()

    def look_again(self) -> None:
        """Have the next commit check for background work. Called by the background, before its work."""
        self.look_at = 0

    @property
    def checkpoint_due(self) -> bool:
        enough = self._versions.active.versions >= self._most_versions
        return enough or self._log.appended >= self._checkpointer.due_at
