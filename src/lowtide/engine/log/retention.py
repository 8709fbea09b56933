"""How much of the log stays for the change feed: a rule, and nothing else.

A segment is needed by recovery while it lies above the boundary. Besides that it stays while the newest segments up to
it fit into ``feed_bytes``; or while a consumer has not acknowledged all of it, up to ``consumer_bytes`` and
``consumer_age``. Segments go oldest first, so what is kept has no gap.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lowtide.engine.log.files import ClosedSegment


@dataclass(frozen=True, slots=True)
class Retention:
    """The limits: bytes kept in any case, and bytes and seconds kept for consumers."""

    feed_bytes: int
    consumer_bytes: int
    consumer_age: float

    def floor(
        self, segments: Sequence[ClosedSegment], boundary: int, positions: Collection[int], now: float, current: int = 0
    ) -> int:
        """The commit up to which full segments may go: the ``segments``, oldest first, that all lie at or below it.

        ``positions`` are how far those consumers have come whose next commit is there; ``current`` the bytes of the
        segment that is written.
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
