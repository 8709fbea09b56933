"""Inspecting a store: the versions of a key, a segment of the log, the tables of the base."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lowtide.engine.base.codec import decode_ts, is_tombstone, row_ts, row_value
from lowtide.engine.base.tables import Tables, open_tables, read_tables
from lowtide.engine.log.frame import decode
from lowtide.engine.log.segment import HEADER_SIZE, chained_frames, decode_header, scan_segment
from lowtide.engine.versions.chain import versions_of
from lowtide.errors import CorruptionError, UsageError
from lowtide.upkeep.basis import Running

_SHOWN = 40


@dataclass(frozen=True, slots=True)
class VersionReport:
    """A version of a key, visible to snapshots t with ``begin <= t < end``; ``end`` of None is the newest. ``where`` is
    "memory", "base" or "history"; ``seen_by`` says which live snapshots and pins see it."""

    where: str
    begin: int
    end: int | None
    deleted: bool
    size: int
    seen_by: tuple[str, ...]

    def __str__(self) -> str:
        what = "deletion" if self.deleted else f"{self.size} bytes"
        until = "newest" if self.end is None else f"superseded by commit {self.end}"
        seen = f"; seen by {', '.join(self.seen_by)}" if self.seen_by else ""
        return f"commit {self.begin}, {until}: {what}, in {self.where}{seen}"


@dataclass(frozen=True, slots=True)
class KeyReport:
    """All versions of a key that are kept, newest first."""

    keyspace: str
    key: bytes
    versions: tuple[VersionReport, ...]

    def __str__(self) -> str:
        lines = [f"key {self.key!r} of keyspace {self.keyspace!r}: {len(self.versions)} versions"]
        return "\n".join([*lines, *(f"  {version}" for version in self.versions)])


def inspect_key(running: Running, keyspace: str, key: bytes) -> KeyReport:
    """The versions of a key in memory, base and history. Like a read, it takes the layers before it begins the LMDB
    transaction: what they no longer have is in the base."""
    prefix = running.catalog.prefixes.get(keyspace)
    if prefix is None:
        raise UsageError(f"there is no keyspace {keyspace!r}; there are {', '.join(running.catalog.names()) or 'none'}")
    full_key = prefix + key
    current: dict[int, tuple[str, bytes | None]] = {}
    for layer in running.versions.layers:
        for ts, value in versions_of(layer.chains.get(full_key)):
            current.setdefault(ts, ("memory", value))
    superseded: list[tuple[int, int, bytes]] = []
    with open_tables(running.base) as tables:
        row = tables.txn.get(full_key, db=tables.rows)
        if row is not None:
            current.setdefault(row_ts(row), ("base", None if is_tombstone(row) else row_value(row)))
        cursor = tables.txn.cursor(tables.history.index)
        if cursor.set_key(full_key):
            for interval in cursor.iternext_dup():
                value = tables.txn.get(interval + full_key, db=tables.history.rows)
                superseded.append((decode_ts(interval[8:]), decode_ts(interval), value or b""))
        pins = tables.pins.all(tables.txn) if tables.pins is not None else []
    snapshots = [(each.ts, f"the snapshot at {each.ts} ({each.origin})") for each in running.registry.entries()]
    snapshots += [(pin.ts, f"the pin {name!r} at {pin.ts}") for name, pin in pins if pin.covers(prefix)]

    def report(where: str, begin: int, end: int | None, value: bytes | None) -> VersionReport:
        seen = tuple(words for ts, words in snapshots if begin <= ts and (end is None or ts < end))
        return VersionReport(
            where=where, begin=begin, end=end, deleted=value is None, size=len(value or b""), seen_by=seen
        )

    found: list[VersionReport] = []
    end: int | None = None
    for begin in sorted(current, reverse=True):
        found.append(report(current[begin][0], begin, end, current[begin][1]))
        end = begin
    found += [report("history", *each) for each in superseded if each[0] not in current]
    found.sort(key=lambda version: version.begin, reverse=True)
    return KeyReport(keyspace, key, tuple(found))


@dataclass(frozen=True, slots=True)
class FrameReport:
    """A frame of the log: a commit, or a marker, which only says that all before it is on disk."""

    offset: int
    size: int
    ts: int
    durable: int
    marker: bool
    time: float
    keys: int
    value_bytes: int

    def __str__(self) -> str:
        if self.marker:
            return f"offset {self.offset}: marker, all up to commit {self.durable} is on disk"
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(self.time))
        return (
            f"offset {self.offset}: commit {self.ts} at {when} UTC, {self.keys} keys, {self.value_bytes} bytes of "
            f"values, {self.size} bytes in all"
        )


@dataclass(frozen=True, slots=True)
class SegmentReport:
    """A segment of the log: what its header says, its frames, where they end and why."""

    path: Path
    size: int
    store: str
    sequence: int
    first_ts: int
    salt: int
    frames: tuple[FrameReport, ...]
    end: int
    ends_because: str

    def __str__(self) -> str:
        commits = [frame.ts for frame in self.frames if not frame.marker]
        span = f"commits {commits[0]} to {commits[-1]}" if commits else "no commits"
        lines = [
            f"{self.path}: segment {self.sequence} of store {self.store}, {self.size} bytes, {span}",
            *(f"  {frame}" for frame in self.frames[:_SHOWN]),
        ]
        if len(self.frames) > _SHOWN:
            lines.append(f"  and {len(self.frames) - _SHOWN} more")
        return "\n".join([*lines, f"  ends at offset {self.end}: {self.ends_because}"])


def inspect_segment(path: str | os.PathLike[str]) -> SegmentReport:
    """Inspect a segment of a log, from its file; another process may have it open."""
    where = Path(path)
    data = where.read_bytes()
    header = decode_header(data)
    if header is None:
        raise CorruptionError(where, "this is not a log segment, or its header is damaged")
    frames = []
    for frame in chained_frames(data, header):
        keys = size = 0
        at = 0.0
        if frame.payload:
            commit = decode(where, frame)
            at, keys = commit.time, len(commit.writes)
            size = sum(len(value) for value in commit.writes.values() if value is not None)
        frames.append(
            FrameReport(
                offset=frame.offset,
                size=frame.end - frame.offset,
                ts=frame.ts,
                durable=frame.durable,
                marker=not frame.payload,
                time=at,
                keys=keys,
                value_bytes=size,
            )
        )
    scan = scan_segment(where, data)
    return SegmentReport(
        path=where,
        size=len(data),
        store=header.store_id.hex(),
        sequence=header.sequence,
        first_ts=header.first_ts,
        salt=header.salt,
        frames=tuple(frames),
        end=frames[-1].offset + frames[-1].size if frames else HEADER_SIZE,
        ends_because=_why(scan.end == len(data), scan.dirty, scan.torn, scan.beyond),
    )


def _why(full: bool, dirty: bool, torn: bool, beyond: int) -> str:
    if full:
        return "the file is full"
    if beyond:
        return f"the next frame is damaged, though commit {beyond} stands behind it"
    if torn:
        return "the next frame was cut short"
    return "what follows is what the file held before it was recycled" if dirty else "nothing but zeros follows"


@dataclass(frozen=True, slots=True)
class TableReport:
    """A table of the base."""

    name: str
    entries: int
    depth: int
    pages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class BaseReport:
    """The base: its tables, its file, and who reads it. ``free_pages`` hold nothing, or say which pages do."""

    path: Path
    boundary: int
    tables: tuple[TableReport, ...]
    file_bytes: int
    page_size: int
    pages: int
    free_pages: int
    map_size: int
    readers: tuple[str, ...]

    def __str__(self) -> str:
        free = self.free_pages * self.page_size
        head = (
            f"{self.path}: everything up to commit {self.boundary}, {self.file_bytes} bytes, of which {free} are free "
            f"({self.free_pages} of {self.pages} pages of {self.page_size} bytes); map of {self.map_size} bytes"
        )
        width = max(len(table.name) for table in self.tables)
        lines = [
            f"  {each.name:<{width}}  {each.entries:>10} entries {each.pages:>8} pages {each.bytes:>12} bytes"
            for each in self.tables
        ]
        return "\n".join([head, *lines, *(f"  reader: {reader}" for reader in self.readers)])


def inspect_base(running: Running) -> BaseReport:
    """The base of an open store."""
    with open_tables(running.base) as tables:
        lines = running.base.env.readers().splitlines()
        return _base_report(tables, tuple(" ".join(line.split()) for line in lines[1:]))


def inspect_base_files(path: str | os.PathLike[str]) -> BaseReport:
    """The base of the store in the directory ``path``, which no process has open; nothing is changed."""
    with read_tables(Path(path) / "base" / "data.mdb") as tables:
        return _base_report(tables, ())


def _base_report(tables: Tables, readers: tuple[str, ...]) -> BaseReport:
    info, main = tables.env.info(), tables.env.stat()
    page_size, pages = int(main["psize"]), int(info["last_pgno"]) + 1
    found = []
    for name, table in tables.named().items():
        stat = tables.txn.stat(table)
        used = _pages(stat)
        found.append(TableReport(name, int(stat["entries"]), int(stat["depth"]), used, used * page_size))
    meta_pages = 2
    free = pages - meta_pages - _pages(main) - sum(table.pages for table in found)
    return BaseReport(
        path=tables.directory,
        boundary=tables.boundary,
        tables=tuple(found),
        file_bytes=(tables.directory / "data.mdb").stat().st_size,
        page_size=page_size,
        pages=pages,
        free_pages=max(0, free),
        map_size=int(info["map_size"]),
        readers=readers,
    )


def _pages(stat: Mapping[str, Any]) -> int:
    return int(stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"])
