"""The parts behind a store that this process owns, for tests that look inside."""

from __future__ import annotations

import lowtide
from lowtide.parts import Parts


def parts_of(store: lowtide.Store) -> Parts:
    parts = store._parts
    assert isinstance(parts, Parts)
    return parts
