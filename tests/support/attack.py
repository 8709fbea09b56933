"""How hard the attack is: a sample in every run of the tests; everything with ``make attack`` (LOWTIDE_ATTACK=full).

A sample is spread evenly over all cases, so it stays the same from run to run and does not grow.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

FULL = os.environ.get("LOWTIDE_ATTACK") == "full"

_Item = TypeVar("_Item")


def some(items: Sequence[_Item], count: int) -> Sequence[_Item]:
    """``count`` of the items, evenly spread from the first to the last; all of them in the full attack."""
    if FULL or len(items) <= count:
        return items
    step = (len(items) - 1) / max(1, count - 1)
    return [items[round(index * step)] for index in range(count)]
