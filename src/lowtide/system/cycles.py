"""Python's cyclic collector, paused while many objects are made that form no cycles.

The collector would walk over all of them again and again, and takes a fifth to a third of the time. It is the
process's, so it is paused for other threads, too. Two threads may do this at once: then the one that began first ends
it. An interrupt at any point leaves it as the program had it.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Final

MANY: Final = 5_000
"""From so many statements or documents on it pays to pause the collector."""

_program_freezes = False
"""Whether the program was seen to have frozen objects of its own. To count them takes longer the more there are."""


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
    """Let the collector take every object for an old one, so that it does not walk over what was just made.

    Freezing and unfreezing moves objects to the oldest generation without looking at them. In a program that has frozen
    objects itself, they must stay so, and nothing is done.
    """
    global _program_freezes
    _program_freezes = _program_freezes or gc.get_freeze_count() > 0
    if not _program_freezes:
        gc.freeze()
        gc.unfreeze()
