"""Makes a backup: a copy that can be opened like any store, made while the store is in use, and incremental.

A backup is a base, copied consistently by LMDB, plus the log from the base's boundary to the last commit that was
published when the backup recorded the log's state. A second backup into the same directory copies only log, if the
source's log continues that of the copy and is smaller than a new copy of the base would be.

**Bulk loads.** Their rows may go to the base and not to the log (``engine/base/direct.py``). So a base only fits a log
if it has the rows of all loads that the log swaps in. The base counts the loads that have put all their rows, before
their swap. The count is read after the log's end was recorded. If the copy's base has the same count, it has these
rows. Otherwise the base is copied, again if need be.

**The source stays in use.** While a backup runs, no log file is released, renamed or recycled (``LogWriter.kept``).
Checkpoints continue otherwise. A full segment never changes. In the current segment, the bytes up to the position that
was recorded under the commit lock do not change. Checksums are verified while copying: a damaged log is reported and
not backed up. Unpublished commits and the unused space of segments are not copied. LMDB copies from a read transaction
of its own. Until it is done, pages that become free are not reused.

**An interrupted backup can be opened**, as the previous backup, as the new one, or at a commit in between. Let the
destination have a base with boundary b and segments that reach from b to r.

1. A new base, with boundary b' >= b, is put in place by one rename, before the log changes. The new base and the old
   log then open at commit max(b', r): "boundary ahead of log" is a case of recovery, and the commits of the old log
   above b' follow it.
2. Then the segments are put in place in order, each by one rename. The former tail is the first that differs, and its
   replacement begins with the same frames. Each further one continues the one before. After each step the segments from
   the boundary on are therefore contiguous.
   If the old ones are not contiguous with the new ones, the first new one begins at or below b' + 1, and recovery
   starts from the last segment that does.
3. Then the segments that the base no longer needs are removed, oldest first.
4. ``store.json`` is written at the end of the first backup. Without it, the directory is an unfinished backup.

This requires that source and backup share one history: same store, same segments, nothing undone. A source that was
restored from an older backup may have diverged. It is refused if its segments show that.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lowtide.engine.base.direct import filled_in
from lowtide.engine.base.exchange import copy_base
from lowtide.engine.log.files import ClosedSegment
from lowtide.engine.log.segment import HEADER_SIZE, Header, chained_frames, decode_header, segment_paths, sequence_of
from lowtide.engine.recovery.opening import path_of
from lowtide.errors import CorruptionError, StoreFailed, UsageError
from lowtide.upkeep.basis import Running
from lowtide.upkeep.destination import Destination, Record, Step, Whole, destination_for


@dataclass(frozen=True, slots=True)
class BackupReport:
    """The result of a backup: its last commit, whether the base was copied, the numbers of log segments that were
    copied and that were there already, and the bytes written."""

    path: Path
    reaches: int
    base_copied: bool
    segments_copied: int
    segments_skipped: int
    bytes: int

    def __str__(self) -> str:
        base = "the base and " if self.base_copied else ""
        return (
            f"{self.path} holds every commit up to {self.reaches}: copied {base}{self.segments_copied} log segments, "
            f"{self.bytes} bytes; {self.segments_skipped} segments were there already"
        )


@dataclass(frozen=True, slots=True)
class _Source:
    """A segment of the source as recorded. ``full``: it will never change again."""

    path: Path
    header: Header
    used: int
    last_ts: int
    full: bool


@dataclass(frozen=True, slots=True)
class _Noted:
    """The log of the source at one moment."""

    published: int
    segments: list[_Source]


def back_up(
    running: Running, destination: str | os.PathLike[str], progress: Callable[[str], None] | None = None
) -> BackupReport:
    """Copy an open store to the directory ``destination``. See the module's documentation."""
    step: Step = progress if progress is not None else lambda _: None
    path = path_of(destination)
    with destination_for(running.path, path, running.store_id, step) as target, running.log.kept():
        running.check_open()
        noted = _note(running)
        record = target.record() or Record(running.store_id.hex())
        _refuse_other_course(record, noted, path)
        written = 0
        boundary = target.base_boundary()
        copies = boundary is None or not _may_ship_log(target, record, boundary, noted)
        copies = copies or target.loads_filled() != filled_in(running.base)
        if copies or boundary is None:
            while True:
                target.place_base(partial(copy_base, running.base))
                written += target.data.stat().st_size
                boundary = target.base_boundary() or 0
                noted = _note(running)
                if target.loads_filled() == filled_in(running.base):
                    break
        needed = _still_there(target, record, boundary, noted)
        known = (*record.whole, record.tail) if record.tail is not None else record.whole
        kept = {each.name: each for each in known if _is_there(target, each)}
        missing = [each for each in noted.segments if each.last_ts > boundary or not each.full]
        wanted = [each for each in missing if kept.get(each.path.name) != _describe(each)]
        for segment in wanted:
            written += _copy_segment(target, segment, noted.published)  # point: backup.segment
        names = {each.name for each in needed} | {each.path.name for each in missing}
        for old in segment_paths(target.log):
            if old.name not in names:
                target.remove(old)
        target.write_manifest(running.store_id)
        whole = {each.name: each for each in needed}
        whole |= {each.path.name: _describe(each) for each in missing if each.full}
        tail = _describe(noted.segments[-1])
        target.write_record(
            Record(running.store_id.hex(), noted.published, tuple(whole[name] for name in sorted(whole)), tail)
        )
    skipped = len(names) - len(wanted)
    return BackupReport(
        path=path,
        reaches=noted.published,
        base_copied=copies,
        segments_copied=len(wanted),
        segments_skipped=skipped,
        bytes=written,
    )


def _note(running: Running) -> _Noted:
    """Record the state of the source's log. The caller holds its files."""
    with running.exclusive():
        running.check_open()
        published, segments = running.registry.published, running.log.segments()
    with contextlib.suppress(StoreFailed):  # what was published can be saved, all the more
        running.log.sync()  # the backup must not have commits that the source may lose in a power loss
    segments = running.without_released(segments)
    found = [_source(each, full=index < len(segments) - 1) for index, each in enumerate(segments)]
    return _Noted(published, found)


def _source(segment: ClosedSegment, *, full: bool) -> _Source:
    with segment.path.open("rb") as file:
        header = decode_header(file.read(HEADER_SIZE))
    if header is None:
        raise CorruptionError(segment.path, "the header of this log segment is damaged; nothing was backed up")
    return _Source(segment.path, header, segment.used, segment.last_ts, full)


def _refuse_other_course(record: Record, noted: _Noted, path: Path) -> None:
    """Refuse a backup that has diverged from the source."""
    known = {sequence_of(Path(each.name)): each for each in (*record.whole, record.tail) if each is not None}
    last = max(known, default=0)
    differs = any(
        (each.header.sequence in known and known[each.header.sequence].salt != each.header.salt)
        or (each.header.sequence > last > 0 and each.header.first_ts <= record.reaches)
        for each in noted.segments
    )
    if differs or record.reaches > noted.published or last > noted.segments[-1].header.sequence:
        raise UsageError(
            f"{path} has commits that this store never had, though it is the same store: one of them was restored "
            "from an older copy; back up to another directory"
        )


def _may_ship_log(target: Destination, record: Record, boundary: int, noted: _Noted) -> bool:
    """Return whether the existing base can stay: the log is contiguous with it, and smaller than the base."""
    have = {each.name: each for each in record.whole if _is_there(target, each)}
    reach, size = boundary, 0
    for each in sorted(have.values(), key=lambda whole: whole.name):
        if each.last_ts > boundary:
            size += each.size
            if each.first_ts <= reach + 1:
                reach = each.last_ts
    connected = any(each.header.first_ts <= reach + 1 for each in noted.segments)
    size += sum(each.used for each in noted.segments if each.path.name not in have and each.last_ts > boundary)
    return connected and size <= target.data.stat().st_size


def _still_there(target: Destination, record: Record, boundary: int, noted: _Noted) -> list[Whole]:
    """Return the backup's segments that its base needs and the source no longer has."""
    first = noted.segments[0].header.sequence
    return [
        each
        for each in record.whole
        if each.last_ts > boundary and sequence_of(Path(each.name)) < first and _is_there(target, each)
    ]


def _is_there(target: Destination, whole: Whole) -> bool:
    path = target.log / whole.name
    return path.exists() and path.stat().st_size == whole.size


def _describe(segment: _Source) -> Whole:
    return Whole(segment.path.name, segment.header.salt, segment.used, segment.header.first_ts, segment.last_ts)


def _copy_segment(target: Destination, segment: _Source, published: int) -> int:
    """Copy the frames of a segment up to the last published commit. Returns their size in bytes."""
    with segment.path.open("rb") as file:
        data = file.read(segment.used)
    end, last_ts = HEADER_SIZE, segment.header.first_ts - 1
    for frame in chained_frames(data, segment.header):
        if frame.ts > published:
            break
        end, last_ts = frame.end, frame.ts
    if last_ts != min(segment.last_ts, published):
        raise CorruptionError(
            segment.path, f"commit {last_ts + 1} at offset {end} is damaged; it is not backed up: run store.verify()"
        )
    target.place(target.log / segment.path.name, data[:end])
    return end
