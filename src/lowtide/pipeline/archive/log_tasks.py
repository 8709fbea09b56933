"""Reads ranges of the log in tasks, and writes the versions in it to the files of all tables at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from lowtide.engine import KEYSPACE_PREFIX, Commit
from lowtide.feed.differences import Swap
from lowtide.feed.ranges import CommitRange, commits_in
from lowtide.pipeline.archive.statements import SHAPE, archived
from lowtide.pipeline.tables.columns import DELETE, INSERT, UPDATE
from lowtide.pipeline.tables.jobs import Written, written
from lowtide.pipeline.tables.location import Location
from lowtide.pipeline.tables.shapes import decode_fields
from lowtide.pipeline.tables.writer import VersionRows, VersionWriter
from lowtide.spark.location import StoreLocation
from lowtide.store.opening import follower_of, open_store

MOST: Final = 64 << 20
"""Bytes of versions, of all tables together, that a task holds before it writes them."""


@dataclass(frozen=True)
class Target:
    """A table that a job writes to: its number, where it is, the shapes of its documents, None for a keyspace, and the
    commit up to which it has all versions already. ``quads`` is the quad store whose statements it has."""

    number: int
    location: Location
    fields: str | None
    after: int = 0
    quads: str | None = None

    def writer(self) -> VersionWriter:
        fields = None if self.fields is None else decode_fields(self.fields)
        if self.quads is not None and fields is not None:
            fields.add([SHAPE])
        return VersionWriter(self.location, fields)


@dataclass(frozen=True)
class LogPart:
    """The commits after ``since`` up to ``until`` of a store's log."""

    store: StoreLocation
    since: int
    until: int

    def commits(self) -> Iterator[Commit]:
        log = self.store.check() / "log"
        return commits_in(CommitRange(log, self.store.store_id, self.since, self.until))


def log_task(targets: Mapping[bytes, Target]) -> Callable[[LogPart], Iterable[Written]]:
    """Return the work of a task on a part of the log. ``targets`` has the tables, by the prefix of the keyspace."""

    def work(part: LogPart) -> Iterable[Written]:
        collecting = _Collecting(targets, part.store)
        for commit in part.commits():
            collecting.add(commit)
        return collecting.finish()

    return work


class _Collecting:
    """The versions of a part of the log, by table."""

    def __init__(self, targets: Mapping[bytes, Target], store: StoreLocation) -> None:
        self._targets = targets
        self._store = store
        self._writers: dict[int, VersionWriter] = {}
        self._rows: dict[int, VersionRows] = {}
        self._held = 0

    def add(self, commit: Commit) -> None:
        """Add what a commit did. The deletion of a key that did not exist is no change."""
        ts, time, existed = commit.ts, commit.time, commit.existed
        for index, (full_key, value) in enumerate(commit.writes.items()):
            target = self._targets.get(full_key[:KEYSPACE_PREFIX])
            if target is None or ts <= target.after:
                continue
            there = existed is None or bool(existed[index])
            if value is None and not there:
                continue
            rows = self._rows.get(target.number)
            if rows is None:
                rows = self._rows[target.number] = VersionRows()
            kind = DELETE if value is None else UPDATE if there else INSERT
            before = rows.size
            rows.add(kind, ts, time, full_key[KEYSPACE_PREFIX:], value)
            self._held += rows.size - before
            if rows.is_full:
                self._write(target, rows)
        if self._held > MOST:
            self._write_all()

    def _write(self, target: Target, rows: VersionRows) -> None:
        writer = self._writers.get(target.number)
        if writer is None:
            writer = self._writers[target.number] = target.writer()
        writer.write(rows if target.quads is None else archived(rows, target.quads, self._store))
        self._held -= rows.size
        del self._rows[target.number]

    def _write_all(self) -> None:
        by_number = {each.number: each for each in self._targets.values()}
        for number, rows in list(self._rows.items()):
            self._write(by_number[number], rows)

    def finish(self) -> list[Written]:
        self._write_all()
        return [written(number, writer) for number, writer in self._writers.items()]


@dataclass(frozen=True)
class LoadPart:
    """What a bulk load did to the documents with keys from ``low`` on, before ``high``, None for the end."""

    store: StoreLocation
    swap: Swap
    low: bytes
    high: bytes | None


def load_task(target: Target) -> Callable[[LoadPart], Iterable[Written]]:
    """Return the work of a task on a part of a bulk load."""

    def work(part: LoadPart) -> Iterable[Written]:
        writer, rows = target.writer(), VersionRows()
        with open_store(part.store.check(), read_only=True) as store:
            generations = follower_of(store).feed.generations
            assert generations is not None
            for key, each in generations.differences(part.swap, part.low, part.high):
                if each.kind is None:
                    continue
                rows.add(each.kind, part.swap.ts, part.swap.time, key, each.value)
                if rows.is_full:
                    writer.write(rows)
                    rows = VersionRows()
        writer.write(rows)
        return [written(target.number, writer)]

    return work
