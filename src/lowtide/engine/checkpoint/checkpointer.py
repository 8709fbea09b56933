"""Runs a checkpoint while readers and writers continue.

These are the steps. A crash or an error after any of them is harmless.

1. freeze: under the commit lock, for a moment, the active layer becomes the frozen one;
2. sync the log up to it, so that the boundary is never ahead of the durable log;
3. apply: one LMDB transaction, in this thread or in the helper process. Live snapshots are sampled inside it, hence
   after the freeze: later ones read at or above the new boundary;
4. publish the boundary and drop the frozen layer: two assignments;
5. release the log segments below it.

If step 2 or 3 fails, the frozen layer stays, reads and commits continue, and the next checkpoint retries the same
layer. One checkpoint runs at a time, and holds ``_busy`` throughout. Commits and reads never wait for it.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from lowtide.engine.base.environment import Base
from lowtide.engine.base.types import MapFull
from lowtide.engine.checkpoint.apply import Applied, Changes, CheckpointTarget, apply_checkpoint
from lowtide.engine.checkpoint.helper import Helper, HelperDied, HelperLost, HelperRequest
from lowtide.engine.garbage.horizon import Exact
from lowtide.engine.garbage.ledger import Kept
from lowtide.engine.log.cursor import LogPosition
from lowtide.engine.log.writer import LogWriter
from lowtide.engine.versions.layers import Layer, VersionStore, slices_of
from lowtide.errors import CorruptionError
from lowtide.options import Options

logger = logging.getLogger("lowtide")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0

HELPER_FROM = 5_000
"""Rows from which ``checkpointer="auto"`` starts a helper process."""

HELPER_WARM_FROM = 50
"""Rows from which it uses a helper if one is already running, or if a caller waits for the checkpoint: beside a busy
thread each row costs two waits for the GIL."""


class Checkpointer:
    """Makes checkpoints. ``exclusive`` holds the commit lock. ``sample`` returns the horizon of live snapshots and the
    oldest writer. ``applied`` is called with the versions moved to the history, None if they are not known, and the
    snapshots they may have been kept for. ``retained_from`` returns the commit up to which the log may be released."""

    def __init__(
        self,
        *,
        options: Options,
        store_id: bytes,
        log_directory: Path,
        log: LogWriter,
        versions: VersionStore,
        base: Base,
        exclusive: Callable[[], AbstractContextManager[None]],
        published: Callable[[], int],
        sample: Callable[[int], tuple[Exact, int | None]],
        applied: Callable[[Kept | None, tuple[int, ...]], None],
        retained_from: Callable[[int], int],
    ) -> None:
        self._options = options
        self._store_id = store_id
        self._log_directory = log_directory
        self._log = log
        self._versions = versions
        self._base = base
        self._exclusive = exclusive
        self._published = published
        self._sample = sample
        self._applied = applied
        self._retained_from = retained_from
        self._busy = threading.Lock()
        self._helper = Helper()
        self._ends_at = log.place
        self._starts_at: LogPosition | None = self._ends_at
        """The position in the log where the commits of the frozen layer, or of the next layer to freeze, begin, if that
        is known; and the position where they end."""
        self._hurry = False
        self._pause = 0.0
        self._not_before = 0.0
        self.count = 0
        self.failures = 0
        self.last_failure: str | None = None
        self.last_seconds: float | None = None
        """How long the last successful checkpoint took."""
        self.due_at = log.appended + options.checkpoint_bytes
        """The bytes appended to the log at which the next checkpoint is due."""

    def resume(self, pending: int) -> None:
        """Record that ``pending`` bytes of the log are already above the boundary. Called before the store is used."""
        self._starts_at = None
        self.due_at -= min(pending, self._options.checkpoint_bytes)

    def run(self, *, wait: bool = True, upto: int | None = None, hurry: bool = False) -> bool:
        """Write everything that was published before this call, or up to ``upto``, to the base. Returns False if
        another checkpoint was running and ``wait`` is false. Set ``hurry`` if another process waits for the
        checkpoint."""
        if not wait and self._busy.locked():
            return False
        with self._busy:
            self._hurry = hurry
            try:
                if not wait:
                    self._base.examine_once()
                if (damage := self._base.soundness.damage) is not None:
                    raise damage.with_traceback(None)
                wanted = self._published() if upto is None else upto
                while self._versions.boundary < wanted:
                    self._once()
                # Even if there was nothing to write: a consumer may have advanced or been removed since the last one.
                self._log.release(self._retained_from(self._versions.boundary))
            except Exception as error:
                self._note_failure(error)
                raise
            self._pause = 0.0
            return True

    @contextlib.contextmanager
    def held_off(self) -> Iterator[None]:
        """Run no checkpoint until the block ends, so that the boundary does not move. Commits continue."""
        with self._busy:
            yield

    def _note_failure(self, error: Exception) -> None:
        self.failures += 1
        self.last_failure = str(error) or type(error).__name__
        self._pause = min(max(self._pause * 2, _FIRST_PAUSE), _LONGEST_PAUSE)
        self._not_before = self._options.clock.monotonic() + self._pause
        logger.warning("checkpoint failed; commits and reads continue, and it will be retried: %s", self.last_failure)

    def may_try(self) -> bool:
        """Whether the background may retry now. The pauses grow with each failure."""
        return not self._pause or self._options.clock.monotonic() >= self._not_before

    def _once(self) -> None:
        started = self._options.clock.monotonic()
        layer = self._versions.frozen
        if layer is None:
            with self._exclusive():
                self.due_at = self._log.appended + self._options.checkpoint_bytes
                self._ends_at = self._log.place
                layer = self._versions.freeze(self._published())  # point: checkpoint.freeze
        upto = self._versions.frozen_upto
        self._log.sync()  # point: checkpoint.sync
        live: tuple[int, ...] = ()

        def sample() -> tuple[Exact, int | None]:
            nonlocal live
            sampled = self._sample(upto)
            live = sampled[0].live
            return sampled

        target = CheckpointTarget(self._versions.boundary, upto, sample)
        self._base.history_below = max(self._base.history_below, upto)
        applied = self._apply(layer, target)  # point: checkpoint.apply
        self._versions.drop_frozen()  # point: checkpoint.applied
        self._starts_at = self._ends_at
        kept = Kept(upto, applied.cells) if applied.cells is not None else None
        self._applied(kept, live)  # point: checkpoint.released
        slices = slices_of(layer)
        del layer
        while slices:
            slices.pop()
        self.count += 1
        self.last_seconds = self._options.clock.monotonic() - started

    def _apply(self, layer: Layer, target: CheckpointTarget) -> Applied:
        """Apply ``layer``, in the helper process if that is preferred and available."""
        while self._prefers_helper(layer):
            try:
                return self._helper.checkpoint(self._request(target), target.sample)
            except MapFull:
                self._base.grow()
            except CorruptionError as error:
                self._base.soundness.note(error)
                raise
            except HelperLost as error:
                if isinstance(error, HelperDied):
                    self._base.check_pages()  # in this thread a damaged page would kill the whole process
                logger.warning("%s; making the checkpoint in a thread", error)
                break
        return apply_checkpoint(self._base, Changes(layer.chains, layer.names), target)

    def _prefers_helper(self, layer: Layer) -> bool:
        kind = self._options.checkpointer
        warm = self._hurry or self._helper.process_id is not None
        return kind == "process" or (
            kind == "auto" and len(layer.chains) >= (HELPER_WARM_FROM if warm else HELPER_FROM)
        )

    def _request(self, target: CheckpointTarget) -> HelperRequest:
        return HelperRequest(
            base=str(self._base.directory),
            map_size=self._base.map_size,
            log=str(self._log_directory),
            store_id=self._store_id,
            boundary=target.boundary,
            upto=target.upto,
            place=self._starts_at,
            collector=self._options.collector,
            live=self._sample(target.upto)[0].live,
        )

    def close(self) -> None:
        with self._busy:
            self._helper.close()

    def abandon(self) -> None:
        self._helper.abandon()
