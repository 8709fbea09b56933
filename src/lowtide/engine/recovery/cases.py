"""The rules that judge the log's files, as pure functions. docs/recovery.md describes the same cases.

The rules rest on three facts. A segment's header is on disk before the segment gets its name. A full segment is on disk
completely before the next one is started. A frame records which commit was known to be on disk when it was written; so
does the base's boundary. A tail that was not known to be on disk may be cut. Anything else that is missing is damage.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from lowtide.engine.base.codec import MAX_TS
from lowtide.engine.log.segment import FORMAT, Header, Scan, sequence_of
from lowtide.errors import CorruptionError


@dataclass(frozen=True, slots=True)
class Verdict:
    """How to continue. ``case`` names the row of the table of cases. ``needed`` are the segments that hold commits
    above the boundary, or the last one. ``older`` are those before them, without a gap, which only the change feed may
    still read. ``obsolete`` are files that are no longer needed. ``cut`` means that the rest of the last one is
    erased."""

    case: str
    needed: list[Scan]
    obsolete: list[Path]
    cut: bool
    older: list[Scan] = field(default_factory=list)

    @property
    def last_ts(self) -> int:
        return self.needed[-1].last_ts if self.needed else 0


def judge(directory: Path, scans: list[Scan], store_id: bytes, boundary: int) -> Verdict:
    """The verdict on the segments of ``directory``, oldest first, or a CorruptionError that names the damage."""
    if not scans:
        raise CorruptionError(directory, "the log has no segment at all; commits after the last checkpoint are lost")
    obsolete: list[Path] = []
    while scans and scans[-1].header is None and not scans[-1].torn:
        obsolete.append(scans[-1].path)
        scans = scans[:-1]
    headers = [_check_header(scan, store_id) for scan in scans]
    first = max((i for i, header in enumerate(headers) if header.first_ts <= boundary + 1), default=0)
    oldest = first
    while oldest > 0 and headers[oldest - 1].sequence == headers[oldest].sequence - 1:
        oldest -= 1
    obsolete += [scan.path for scan in scans[:oldest]]
    older, needed, headers = scans[oldest:first], scans[first:], headers[first:]
    if not needed:
        return Verdict("blank log", [], obsolete, False)
    if headers[0].first_ts > boundary + 1:
        raise CorruptionError(
            directory,
            f"commits {boundary + 1} to {headers[0].first_ts - 1} are missing: the base ends at {boundary} "
            f"and the oldest segment, {needed[0].path.name}, begins after that",
        )
    for scan, header, following in zip(needed, headers, headers[1:], strict=False):
        _check_continuity(directory, scan, header, following)
    last = needed[-1]
    durable = max(scan.durable for scan in needed)
    if durable > max(last.last_ts, boundary):
        raise CorruptionError(last.path, _damage(last, durable))
    if last.last_ts < boundary < last.beyond:
        # The log was on disk up to the boundary, so this is no torn tail, and later commits may have been acknowledged.
        raise CorruptionError(last.path, _damage(last, boundary))
    if last.last_ts < boundary:
        return Verdict("boundary ahead of log", needed, obsolete, last.dirty, older)
    return Verdict("torn tail" if last.torn else "clean", needed, obsolete, last.dirty, older)


def _check_header(scan: Scan, store_id: bytes) -> Header:
    header = scan.header
    if header is None:
        raise CorruptionError(scan.path, "the header of this log segment is damaged")
    if header.format != FORMAT:
        raise CorruptionError(scan.path, f"unknown log format {header.format}; this release reads format {FORMAT}")
    if header.store_id != store_id:
        raise CorruptionError(scan.path, "this log segment belongs to another store")
    if not 0 < header.first_ts <= MAX_TS:
        raise CorruptionError(scan.path, f"a segment cannot begin with commit {header.first_ts}")
    if header.sequence != sequence_of(scan.path):
        raise CorruptionError(scan.path, f"this file is segment {header.sequence} under another name")
    return header


def _check_continuity(directory: Path, scan: Scan, header: Header, following: Header) -> None:
    if following.sequence != header.sequence + 1:
        raise CorruptionError(directory, f"segment {header.sequence + 1} is missing")
    if following.first_ts != scan.last_ts + 1:
        raise CorruptionError(scan.path, _damage(scan, following.first_ts - 1))


def _damage(scan: Scan, durable: int) -> str:
    return (
        f"commit {scan.last_ts + 1} at offset {scan.end} is damaged, though commits up to {durable} were on disk; "
        "nothing was changed: restore a backup, or the file"
    )
