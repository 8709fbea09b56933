"""How hard the attack is: a sample in every run of the tests; everything with ``make attack`` (LOWTIDE_ATTACK=full).

A sample is spread evenly over all cases. Each run takes another one, so that many runs try all cases.
``LOWTIDE_SAMPLE=n`` repeats the run that told of the sample ``n``.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import Final, TypeVar

FULL = os.environ.get("LOWTIDE_ATTACK") == "full"

SAMPLE: Final = int(os.environ.setdefault("LOWTIDE_SAMPLE", str(random.randrange(1000))))
"""The same in all processes of a run: the first one chooses it."""

_Item = TypeVar("_Item")


def some(items: Sequence[_Item], count: int) -> Sequence[_Item]:
    """``count`` of the items, evenly spread; all of them in the full attack."""
    return items if FULL else sampled(items, count, SAMPLE)


def sampled(items: Sequence[_Item], count: int, sample: int) -> Sequence[_Item]:
    """``count`` of the items, evenly spread: which ones depends on the ``sample``.

    >>> sampled(range(100), 4, sample=0), sampled(range(100), 4, sample=1)
    ([21, 46, 71, 96], [3, 28, 53, 78])
    """
    if len(items) <= count:
        return items
    step = len(items) / count
    first = random.Random(sample).random()
    return [items[int((index + first) * step)] for index in range(count)]
