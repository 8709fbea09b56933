"""Python's cyclic collector, paused while many objects are made that form no cycles."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Final

MANY: Final = 5_000
"""From so many statements or documents on the collector is paused."""


@contextlib.contextmanager
def without_collector(count: int) -> Iterator[None]:
    """Pause the cyclic collector while so many statements or documents are added. They make up to a dozen objects each,
    which form no cycles; the collector would walk over all of them again and again, and takes a fifth of the time.

    It is the process's, so it is paused for other threads, too, for as long as one batch takes. Two threads may do this
    at once: then the one that began first ends it.
    """
    if count < MANY or not gc.isenabled():
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
