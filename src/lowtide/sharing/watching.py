"""Notices, in a joined process, that the owner of a store has ended.

A thread keeps a connection to the owner open. The kernel closes it when the owner ends, however it ends. The thread
then looks for the next owner, which may be this process, so the next commit finds one.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final
from weakref import WeakMethod

from lowtide.errors import Error, UsageError
from lowtide.sharing.owner import Owner, reach_owner
from lowtide.system.threads import join

logger = logging.getLogger("lowtide")

_BETWEEN: Final = 0.005
"""Seconds between the end of one connection and the next attempt, for an owner that hangs up."""

_PAUSE: Final = 1.0
"""Seconds after which a store that could not be recovered is tried again."""


class OwnerWatch:
    """Watches the owner of one store. ``seek`` returns an owner if this process has become it; then the watch ends. The
    watch holds only a weak reference to it, so a dropped store is closed."""

    def __init__(self, path: Path, seek: WeakMethod[Callable[[], object]]) -> None:
        self._path = path
        self._seek = seek
        self._process = os.getpid()
        self._ending = threading.Event()
        self._owner: Owner | None = None
        self._thread = threading.Thread(target=self._run, name="lowtide-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        while not self._ending.is_set():
            self._owner = reach_owner(self._path)
            if self._owner is not None and not self._ending.is_set():
                self._owner.wait_for_end()
                self._ending.wait(_BETWEEN)
            if self._ending.is_set():
                break
            seek = self._seek()
            if seek is None:
                break
            try:
                if self._owner is None and seek() is not None:
                    break
            except UsageError:
                break  # the store was closed here
            except Error as error:
                logger.warning("%s: the store has no owner, and cannot be taken over: %s", self._path, error)
                self._ending.wait(_PAUSE)
            finally:
                del seek

    def close(self) -> None:
        """End the watch. A second call does nothing."""
        self._ending.set()
        if os.getpid() != self._process:
            return
        owner = self._owner
        if owner is not None:
            with contextlib.suppress(OSError):
                owner.hang_up()
        join(self._thread)
