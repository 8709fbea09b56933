"""Finding a place in the log without reading all of it: by a time of day, or by a key.

Both look at whole segments first. As everywhere in a log that is read beside its writer, a segment may be released and
recycled meanwhile: what was found in one counts only if its header is still the same afterwards; otherwise the look is
repeated, or Released is raised.
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
"""A payload begins with these: a short MessagePack array, whose first element is a float, the time of day."""


class Segment(NamedTuple):
    """A segment as its header tells of it."""

    path: Path
    header: Header
    size: int

    @property
    def first_ts(self) -> int:
        return self.header.first_ts


def segments(directory: Path, store_id: bytes, since: int = 0) -> list[Segment]:
    """The segments of the log that have commits after ``since``, oldest first. Looks at no older ones."""
    found: list[Segment] = []
    for path in reversed(segment_paths(directory)):
        there = map_segment(path)
        if there is None:
            continue  # released meanwhile, as are those before it
        header, mapped = there
        found.append(Segment(path, header, len(mapped)))
        mapped.close()
        if header.store_id != store_id:
            raise CorruptionError(path, "is not a segment of this store's log")
        if header.first_ts <= since + 1:
            break
    return found[::-1]


def bytes_between(directory: Path, store_id: bytes, since: int, until: int) -> int:
    """About how many bytes of log the commits after ``since`` up to ``until`` take: those of whole segments, and of the
    first and the last one a share. The newest segment counts as if it were full."""
    total = 0.0
    known = segments(directory, store_id, since)
    for segment, following in zip(known, [*known[1:], None], strict=True):
        first = segment.first_ts
        last = max(until, first) if following is None else following.first_ts - 1
        commits = max(0, min(until, last) - max(since, first - 1))
        total += segment.size * commits / max(1, last - first + 1)
    return round(total)


def begun_between(directory: Path, store_id: bytes, since: int, until: int) -> int:
    """The bytes of the segments that begin between the first and the last of these commits: a measure of the range that
    stays the same while the log grows."""
    return sum(each.size for each in segments(directory, store_id, since) if since + 1 < each.first_ts <= until)


def cut_between(directory: Path, store_id: bytes, since: int, until: int, parts: int) -> list[int]:
    """Commits that cut those after ``since`` up to ``until`` into at most ``parts`` ranges, of about as much log each:
    each range ends with one of them, but for the last. Commits of one segment count as if all were of the same size."""
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
    """The last commit before the time of day ``moment``, or at it if that is ``inclusive``; no later than ``upto``,
    which must have been published. 0 if none was committed by then; None if all that the log still has is later.

    Times are compared by the microsecond, as people see them. Those of commits may be a little out of order, and a
    clock may have been set back: meant is then what lies before the first later commit of the last segment that begins
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
    """A time of day in whole microseconds, rounded as ``datetime.fromtimestamp`` does.

    >>> microseconds(1777636800.25)
    1777636800250000
    """
    part, seconds = modf(time)
    return int(seconds) * 1_000_000 + round(part * 1e6)


def _last_in(segment: Segment, last: int, moment: float, inclusive: bool) -> int | None:
    """The last commit of this segment, up to ``last``, before its first one that is later; the one before the segment
    if there is none. None if the segment is no longer there."""
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
    """The commits of a segment, with their times of day, not checked."""
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
    """The commits after ``since`` up to ``until``, which must have been published, that write ``full_key``. Segments in
    which those bytes do not occur are not decoded. Raises Released if the log no longer has them all."""
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
    """Whether these bytes occur anywhere in the segment; true if it is no longer there, for whoever reads it will find
    that out."""
    found = map_segment(segment.path)
    if found is None:
        return True
    header, mapped = found
    try:
        there = mapped.find(sought) >= 0
        return there or header != segment.header or decode_header(mapped[:HEADER_SIZE]) != header
    finally:
        mapped.close()
