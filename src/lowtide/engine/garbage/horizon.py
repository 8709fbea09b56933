"""The exact rule for what is garbage, and the watermark rule for comparison.

A superseded version is visible on ``[begin, end)``. It may be dropped iff no live snapshot ``t`` has ``begin <= t <
end``, provided ``end <= bound``, where ``bound`` is a published timestamp that was read *before* the set of live
snapshots was. A snapshot that is missing from the set was registered later and draws a timestamp ``>= bound >= end``,
so it cannot see the version. The decision never has to be revised.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field

_NEVER = 1 << 62


@dataclass(frozen=True, slots=True)
class Exact:
    """The exact rule: a superseded version is kept only while a live snapshot sees it. ``live`` is sorted."""

    live: tuple[int, ...]
    bound: int

    def needs(self, begin: int, end: int) -> bool:
        """Whether the version visible on ``[begin, end)`` must be kept. O(log live)."""
        if end > self.bound:
            return True
        index = bisect_left(self.live, begin)
        return index < len(self.live) and self.live[index] < end

    def seers(self, begin: int, end: int) -> tuple[int, int] | None:
        """The first and the last live snapshot for which the version visible on ``[begin, end)`` is kept; None if there
        is none. O(log live)."""
        low, high = bisect_left(self.live, begin), bisect_left(self.live, end) - 1
        return (self.live[low], self.live[high]) if low <= high else None

    def plus(self, timestamps: Iterable[int]) -> Exact:
        """The same with more live timestamps."""
        more = tuple(sorted({*self.live, *timestamps}))
        return self if more == self.live else type(self)(more, self.bound)

    def for_ended(self) -> Exact:
        """The same rule for versions that ended at or before ``bound``, as those of a checkpoint did. No snapshot taken
        at or after ``bound`` sees one of them. A busy store nearly always has such a snapshot, and without it a
        checkpoint often has no snapshot to keep anything for."""
        older = bisect_left(self.live, self.bound)
        return self if older == len(self.live) else type(self)(self.live[:older], self.bound)

    @property
    def unseen_after(self) -> int:
        """No live snapshot sees a superseded version that began after this."""
        return self.live[-1] if self.live else 0

    @property
    def low_water_mark(self) -> int:
        return self.live[0] if self.live else self.bound


@dataclass(frozen=True, slots=True)
class Watermark(Exact):
    """The rule of most stores: every version that ended after the oldest snapshot is kept, whether or not a snapshot
    sees it."""

    mark: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "mark", self.low_water_mark)

    @property
    def unseen_after(self) -> int:
        return _NEVER

    def needs(self, begin: int, end: int) -> bool:
        return end > self.mark

    def seers(self, begin: int, end: int) -> tuple[int, int] | None:
        return Exact.seers(self, 0, end)


def make_horizon(collector: str, live: Iterable[int], bound: int) -> Exact:
    """The horizon of the named collector for these live snapshots."""
    kind = Watermark if collector == "watermark" else Exact
    return kind(tuple(sorted(set(live))), bound)
