"""How much of the log is kept for the change feed: a pure rule.

Recovery needs the segments above the boundary. Others are kept while they and all newer segments fit into
``feed_bytes``, or while a consumer has not acknowledged all of them, up to ``consumer_bytes`` and ``consumer_age``. The
oldest segments are released first, so there are no gaps.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lowtide.engine.log.files import ClosedSegment


@dataclass(frozen=True, slots=True)
class Retention:
    """The limits: bytes always kept, and bytes and seconds kept for consumers."""

    feed_bytes: int
    consumer_bytes: int
    consumer_age: float

    def floor(
        self, segments: Sequence[ClosedSegment], boundary: int, positions: Collection[int], now: float, current: int = 0
    ) -> int:
        """The commit up to which full segments may be released. ``segments`` are oldest first.

        ``positions`` are those of the consumers whose next commit is still kept; ``current`` is the bytes of the
        segment being written.
        """
        slowest = min(positions, default=None)
        kept = current
        for segment in reversed(segments):
            kept += segment.used
            if segment.last_ts > boundary or kept <= self.feed_bytes:
                continue
            unread = slowest is not None and slowest < segment.last_ts
            if unread and kept <= self.consumer_bytes and now - segment.closed <= self.consumer_age:
                continue
            return segment.last_ts
        return 0
