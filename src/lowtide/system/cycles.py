"""Pauses Python's cyclic collector while many objects are created that form no cycles.

The collector would traverse all of them repeatedly, which takes a fifth to a third of the time. There is one collector
per process, so it is paused for other threads too. If two threads do this at once, the one that began first ends it. An
interrupt at any point leaves the collector as the program had it.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Final

MANY: Final = 5_000
"""From so many statements or documents on it pays to pause the collector."""

_program_freezes = False
"""Whether the program is known to have frozen objects of its own. Counting them takes longer the more there are."""


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """Pause the collector, unless the program has switched it off itself."""
    if not gc.isenabled():
        yield
        return
    try:
        gc.disable()
        yield
    finally:
        gc.enable()


@contextlib.contextmanager
def adding(count: int) -> Iterator[None]:
    """Pause the collector while so many statements or documents are added, if they are many; they are old then."""
    if count < MANY or not gc.isenabled():
        yield
        return
    with without_collector():
        try:
            yield
        finally:
            count_as_old()


def count_as_old() -> None:
    """Move every object to the collector's oldest generation, so it does not traverse new ones.

    Freezing and unfreezing moves objects to the oldest generation without looking at them. If the program has frozen
    objects itself, they must stay frozen, and nothing is done.
    """
    global _program_freezes
    _program_freezes = _program_freezes or gc.get_freeze_count() > 0
    if not _program_freezes:
        gc.freeze()
        gc.unfreeze()
