"""Adds of many statements: without Python's cyclic collector."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Final

MANY: Final = 5_000
"""From so many statements on the collector is paused."""


@contextlib.contextmanager
def without_collector(statements: int) -> Iterator[None]:
    """Pause the cyclic collector while many statements are added. They make a dozen objects each, which form no cycles;
    the collector would walk over all of them again and again, and takes a fifth of the time.

    It is the process's, so it is paused for other threads, too, for as long as one batch takes. Two threads may do this
    at once: then the one that began first ends it.
    """
    if statements < MANY or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():  # else the program has frozen objects of its own, which must stay so
            # Together these move what is new to the oldest generation, without walking over it.
            gc.freeze()
            gc.unfreeze()
        gc.enable()
