"""Finding a place in the log without reading all of it: by time, or by key.

Both searches select whole segments first. A segment may be released and recycled while it is read. So a result counts
only if the segment's header is still the same afterwards; otherwise the search is repeated, or Released is raised.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from math import modf
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from lowtide.engine.log.cursor import LogCursor, Released, map_segment
from lowtide.engine.log.frame import FRAME_HEADER, Commit, decode, frame_at, peek
from lowtide.engine.log.segment import HEADER_SIZE, Header, decode_header, segment_paths
from lowtide.errors import CorruptionError

_TIME = Struct(">BBd")
_ARRAYS = range(0x90, 0xA0)
_DOUBLE = 0xCB
"""The first bytes of a payload: a short MessagePack array, whose first element is a float, the commit time."""


class Segment(NamedTuple):
    """A segment, as described by its header."""

    path: Path
    header: Header
    size: int

    @property
    def first_ts(self) -> int:
        return self.header.first_ts


def segments(directory: Path, store_id: bytes, since: int = 0) -> list[Segment]:
    """The segments that have commits after ``since``, oldest first. Older ones are not opened."""
    found: list[Segment] = []
    for path in reversed(segment_paths(directory)):
        there = map_segment(path)
        if there is None:
            continue  # it was released meanwhile, and so were those before it
        header, mapped = there
        found.append(Segment(path, header, len(mapped)))
        mapped.close()
        if header.store_id != store_id:
            raise CorruptionError(path, "is not a segment of this store's log")
        if header.first_ts <= since + 1:
            break
    return found[::-1]


def bytes_between(directory: Path, store_id: bytes, since: int, until: int) -> int:
    """Estimate the bytes of log that the commits after ``since`` up to ``until`` take: whole segments, and a share of
    the first and the last. The newest segment counts as full."""
    total = 0.0
    known = segments(directory, store_id, since)
    for segment, following in zip(known, [*known[1:], None], strict=True):
        first = segment.first_ts
        last = max(until, first) if following is None else following.first_ts - 1
        commits = max(0, min(until, last) - max(since, first - 1))
        total += segment.size * commits / max(1, last - first + 1)
    return round(total)


def begun_between(directory: Path, store_id: bytes, since: int, until: int) -> int:
    """The bytes of the segments that begin within this range of commits: a measure of the range that does not change
    while the log grows."""
    return sum(each.size for each in segments(directory, store_id, since) if since + 1 < each.first_ts <= until)


def cut_between(directory: Path, store_id: bytes, since: int, until: int, parts: int) -> list[int]:
    """Split the commits after ``since`` up to ``until`` into at most ``parts`` ranges with about the same bytes of log.
    Returns the last commit of each range except the last. All commits of one segment count as equally large."""
    known = segments(directory, store_id, since)
    ends = [each.first_ts - 1 for each in known[1:]] + [until]
    stretches: list[tuple[int, int, float]] = []
    for segment, last in zip(known, ends, strict=True):
        first, end = max(since, segment.first_ts - 1), min(until, last)
        if first < end:
            stretches.append((first, end, segment.size * (end - first) / max(1, last - segment.first_ts + 1)))
    total, done = sum(each[2] for each in stretches), 0.0
    cuts: list[int] = []
    for first, end, size in stretches:
        while len(cuts) < parts - 1 and (wanted := total * (len(cuts) + 1) / parts) <= done + size:
            cuts.append(first + round((wanted - done) / size * (end - first)))
        done += size
    return sorted({each for each in cuts if since < each < until})


def last_before(directory: Path, store_id: bytes, upto: int, moment: float, *, inclusive: bool) -> int | None:
    """The last commit before the time ``moment``, or at it if ``inclusive``, and no later than ``upto``, which must
    have been published. 0 if nothing was committed by then; None if everything in the log is later.

    Times are compared in whole microseconds, as users see them. Commit times may be slightly out of order, and a clock
    may have been set back. The result is then the commit before the first later one, in the last segment that begins
    early enough.
    """
    while True:
        later = upto + 1
        kept = segments(directory, store_id)
        for segment in reversed(kept):
            if segment.first_ts > upto:
                continue
            found = _last_in(segment, later - 1, moment, inclusive)
            if found is None:
                break  # released meanwhile
            if found >= segment.first_ts:
                return found
            later = segment.first_ts
        else:
            first = kept[0].first_ts if kept else later
            return 0 if first <= 1 else None


def microseconds(time: float) -> int:
    """A time in whole microseconds, rounded as ``datetime.fromtimestamp`` does.

    >>> microseconds(1777636800.25)
    1777636800250000
    """
    part, seconds = modf(time)
    return int(seconds) * 1_000_000 + round(part * 1e6)


def _last_in(segment: Segment, last: int, moment: float, inclusive: bool) -> int | None:
    """The commit before the first one of this segment, up to ``last``, that is later than ``moment``. It may be the
    last commit before the segment. None if the segment no longer exists."""
    found = map_segment(segment.path)
    if found is None:
        return None
    header, mapped = found
    try:
        if header != segment.header:
            return None
        before, limit = last, microseconds(moment) + inclusive
        for ts, time in _times(mapped, segment, last):
            if microseconds(time) >= limit:
                before = ts - 1
                break
        return before if decode_header(mapped[:HEADER_SIZE]) == header else None
    finally:
        mapped.close()


def _times(mapped: mmap.mmap, segment: Segment, last: int) -> Iterator[tuple[int, float]]:
    """The commits of a segment and their times, without checking the frames."""
    offset = HEADER_SIZE
    while (seen := peek(mapped, offset)) is not None:
        length, _, ts = seen
        if ts > last or offset + length > len(mapped):
            return
        if length > FRAME_HEADER + _TIME.size:
            array, double, time = _TIME.unpack_from(mapped, offset + FRAME_HEADER)
            if array not in _ARRAYS or double != _DOUBLE:
                frame = frame_at(mapped[offset : offset + length], 0, segment.header.salt)
                if frame is None:
                    return
                time = decode(segment.path, frame, offset).time
            yield ts, time
        offset += length


def commits_with(directory: Path, store_id: bytes, full_key: bytes, since: int, until: int) -> Iterator[Commit]:
    """The commits after ``since`` up to ``until``, which must have been published, that write ``full_key``. A segment
    that does not contain the key's bytes is not decoded. Raises Released if the log no longer has all of the range."""
    kept = [each for each in segments(directory, store_id, since) if each.first_ts <= until]
    if since < until and (not kept or kept[0].first_ts > since + 1):
        raise Released(since + 1, kept[0].first_ts if kept else until + 1)
    for segment, following in zip(kept, [*kept[1:], None], strict=True):
        last = until if following is None else following.first_ts - 1
        after = max(since, segment.first_ts - 1)
        if after < last and _mentions(segment, full_key):
            cursor = LogCursor(directory, store_id, after)
            try:
                yield from (commit for commit in cursor.read(last) if full_key in commit.writes)
            finally:
                cursor.close()


def _mentions(segment: Segment, sought: bytes) -> bool:
    """Whether these bytes occur in the segment. True if the segment no longer exists: the caller will notice that when
    it reads."""
    found = map_segment(segment.path)
    if found is None:
        return True
    header, mapped = found
    try:
        there = mapped.find(sought) >= 0
        return there or header != segment.header or decode_header(mapped[:HEADER_SIZE]) != header
    finally:
        mapped.close()
