"""Keys as the YCSB benchmark draws them: a few are drawn very often, most of them rarely.

The generator is that of Gray et al., "Quickly Generating Billion-Record Synthetic Databases". Scrambling spreads the
popular keys over the whole key space by a hash, so that they are not neighbours.
"""

from __future__ import annotations

import random

THETA = 0.99
_FNV_OFFSET = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3
_MASK = (1 << 64) - 1


def fnv64(number: int) -> int:
    """The FNV-1a hash of the number's eight bytes, lowest first.

    >>> fnv64(0) == 0xA8C7F832281A39C5
    True
    """
    value = _FNV_OFFSET
    for byte in number.to_bytes(8, "little"):
        value = ((value ^ byte) * _FNV_PRIME) & _MASK
    return value


class Zipfian:
    """Ranks from 0, the most popular, up to ``items``; that of rank r is drawn in proportion to 1 / (r + 1)**theta."""

    def __init__(self, items: int, theta: float = THETA) -> None:
        self._items = items
        self._theta = theta
        self._zeta = sum(float(rank**-theta) for rank in range(1, items + 1))
        zeta_of_two = 1 + 0.5**theta
        self._alpha = 1 / (1 - theta)
        self._eta = (1 - (2 / items) ** (1 - theta)) / (1 - zeta_of_two / self._zeta)

    def share(self, rank: int) -> float:
        """How probable the rank is."""
        return float((rank + 1) ** -self._theta) / self._zeta

    def draw(self, source: random.Random) -> int:
        at = source.random()
        scaled = at * self._zeta
        if scaled < 1:
            return 0
        if scaled < 1 + 0.5**self._theta:
            return 1
        return min(int(self._items * (self._eta * at - self._eta + 1) ** self._alpha), self._items - 1)


def scrambled(rank: int, items: int) -> int:
    """Where in the key space the item of this rank is."""
    return fnv64(rank) % items
