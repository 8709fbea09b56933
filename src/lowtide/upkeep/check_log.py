"""Checks the log: headers, order, checksums, timestamps and content of every segment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lowtide.engine.log.frame import Commit, decode, frame_at
from lowtide.engine.log.segment import FORMAT, Header, Scan, decode_header, scan_segment, sequence_of
from lowtide.engine.types import KEYSPACE_PREFIX, MAX_KEY
from lowtide.errors import CorruptionError
from lowtide.upkeep.report import Examination


@dataclass(frozen=True, slots=True)
class Piece:
    """A segment to check. ``used`` is where its frames end; None if only the segment itself shows that."""

    path: Path
    used: int | None = None


class LogExamination:
    """Walks the segments once and yields their commits."""

    def __init__(self, store_id: bytes, boundary: int) -> None:
        self._store_id = store_id
        self._boundary = boundary
        self.headers = Examination("log: headers and order of the segments", "segments")
        self.frames = Examination("log: checksums and timestamps of the frames", "frames")
        self.content = Examination("log: content of the commits", "changes")
        self.reach = Examination("log: from the boundary to the last commit", "commits")
        self.last_ts = 0
        """The last commit that was found."""

    @property
    def checks(self) -> list[Examination]:
        return [self.headers, self.frames, self.content, self.reach]

    def commits(self, pieces: list[Piece], names: dict[bytes, str]) -> Iterator[Commit]:
        """Yield the commits of the segments, oldest first, while they are contiguous.

        ``names`` are the keyspaces of the base. Those that the commits name are added.
        """
        pieces, first = self._connected(pieces)
        self._check_begin(first)
        expected = first.first_ts if first is not None else 0
        for index, piece in enumerate(pieces):
            scan = self._scan(piece)
            self.frames.examined += len(scan.frames)
            if scan.header is None:
                return
            if scan.header.first_ts != expected:
                self.frames.problem(
                    f"commits {expected} to {scan.header.first_ts - 1} are missing before this segment", piece.path
                )
            self._check_end(piece, scan, last=index == len(pieces) - 1)
            for frame in scan.frames:
                try:
                    commit = decode(piece.path, frame)
                except CorruptionError as error:
                    self.content.problem(str(error), piece.path)
                    continue
                self._check_content(piece.path, commit, names)
                yield commit
            self.last_ts, expected = scan.last_ts, scan.last_ts + 1

    def _connected(self, pieces: list[Piece]) -> tuple[list[Piece], Header | None]:
        """Return the contiguous segments up to the last one, and the header of the first of them."""
        kept: list[tuple[Piece, Header]] = []
        for piece in pieces:
            self.headers.examined += 1
            header = self._header(piece.path)
            if header is None:
                continue
            if kept and header.sequence != kept[-1][1].sequence + 1:
                missing = f"segment {kept[-1][1].sequence + 1} is missing before this one"
                if header.first_ts <= self._boundary + 1:
                    self.headers.note(
                        f"{piece.path.name}: {missing}; it is not needed; those before it will be removed"
                    )
                    kept = []
                else:
                    self.headers.problem(missing, piece.path)
            kept.append((piece, header))
        return [piece for piece, _ in kept], kept[0][1] if kept else None

    def _header(self, path: Path) -> Header | None:
        """Return the header if it is valid."""
        try:
            with path.open("rb") as file:
                data = file.read(4096)
        except OSError as error:
            self.headers.problem(f"the segment cannot be read: {error.strerror}", path)
            return None
        header = decode_header(data)
        if header is None:
            self.headers.problem("the header is damaged", path)
            return None
        if header.format != FORMAT:
            self.headers.problem(f"log format {header.format} is not supported; this version reads {FORMAT}", path)
            return None
        if header.store_id != self._store_id:
            self.headers.problem("the segment belongs to another store", path)
            return None
        if header.sequence != sequence_of(path):
            self.headers.problem(f"this is segment {header.sequence} under another name", path)
            return None
        return header

    def _check_begin(self, first: Header | None) -> None:
        if first is None:
            self.reach.problem("the log has no segment that can be read", "log")
        elif first.first_ts > self._boundary + 1:
            self.reach.problem(
                f"commits {self._boundary + 1} to {first.first_ts - 1} are neither in the base nor in the log",
                f"segment {first.sequence}",
            )

    def _scan(self, piece: Piece) -> Scan:
        with piece.path.open("rb") as file:
            data = file.read() if piece.used is None else file.read(piece.used)
        scan = scan_segment(piece.path, data)
        if piece.used is not None and scan.end != piece.used and scan.header is not None:
            self.frames.problem(
                f"the frame at offset {scan.end}, after commit {scan.last_ts}, {_fault(data, scan)}", piece.path
            )
        return scan

    def _check_end(self, piece: Piece, scan: Scan, *, last: bool) -> None:
        """Return whether the segment has a valid end, for one that no process has open."""
        if piece.used is not None:
            return
        durable = max(scan.durable, scan.beyond if scan.beyond > self._boundary > scan.last_ts else 0)
        if last and durable > max(scan.last_ts, self._boundary):
            self.frames.problem(
                f"commit {scan.last_ts + 1} at offset {scan.end} is damaged, though {durable} was on disk",
                piece.path,
            )
        elif last and scan.torn:
            self.frames.note(f"{piece.path.name}: a torn end at offset {scan.end}, which opening the store will cut")

    def _check_content(self, path: Path, commit: Commit, names: dict[bytes, str]) -> None:
        where = f"{path}, commit {commit.ts}"
        for name, prefix in (commit.names or {}).items():
            if names.setdefault(prefix, name) != name:
                self.content.problem(f"keyspace {name!r} has the number of {names[prefix]!r}", where)
        for key in commit.writes:
            self.content.examined += 1
            if key[:KEYSPACE_PREFIX] not in names:
                self.content.problem(f"key {key!r} is in a keyspace that has no name", where)
            elif len(key) > MAX_KEY + KEYSPACE_PREFIX:
                self.content.problem(f"key {key[:40]!r}... is longer than a key may be", where)


def _fault(data: bytes, scan: Scan) -> str:
    """Describe what is wrong with the bytes where the chain of frames ends."""
    assert scan.header is not None
    frame = frame_at(data, scan.end, scan.header.salt)
    if frame is None:
        return "does not match its checksum, or was overwritten"
    if frame.previous != scan.crc:
        return "does not follow from the frame before it"
    return f"has the timestamp {frame.ts}"
