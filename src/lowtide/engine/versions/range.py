"""A range of full keys, and how a scan comes through it."""

from __future__ import annotations

from typing import NamedTuple


class Range(NamedTuple):
    """The full keys with ``low <= key < high``; ``high`` of None is the end of all keys. ``first`` is how many entries
    a scan reads at first, 0 if it may choose; it reads more each time that more are asked for."""

    low: bytes
    high: bytes | None
    reverse: bool = False
    first: int = 0

    def covers(self, key: bytes) -> bool:
        return self.low <= key and (self.high is None or key < self.high)

    def beyond(self, key: bytes) -> Range:
        """What is left of the range when a scan has come past ``key``."""
        return Range(self.low, key, True) if self.reverse else Range(key + b"\x00", self.high)

    def upto(self, key: bytes) -> Range:
        """The part of the range that a scan has covered when it stands on ``key``."""
        return Range(key, self.high, True) if self.reverse else Range(self.low, key + b"\x00")

    def before(self, key: bytes) -> Range:
        """The part of the range that a scan has covered when it comes to ``key``, without that."""
        return Range(key + b"\x00", self.high, True) if self.reverse else Range(self.low, key)
