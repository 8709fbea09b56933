"""The status of an archive: tables, files, gaps and runs, read from its ledger and Delta's logs without Spark."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from lowtide.pipeline.archive.source import ArchiveSource
from lowtide.pipeline.tables.files import CLOSED, OPEN, TAIL, total_rows
from lowtide.pipeline.tables.ledger import BEGIN, RUN, ArchiveLedger
from lowtide.pipeline.tables.location import Location
from lowtide.pipeline.tables.lookup import tables_in
from lowtide.pipeline.tables.table import VersionTable
from lowtide.pipeline.travel.reading import gaps


@dataclass(frozen=True)
class TableStatus:
    """One table: its versions, and the files they are in. ``tail`` files are not compacted yet."""

    rows: int
    bytes: int
    files: int
    tail: int
    open: int
    closed: int


@dataclass(frozen=True)
class RunEntry:
    """One run of the archiver, as the ledger has it. ``total`` are the versions that all runs up to it have added."""

    at: datetime
    commit: int
    rows: int
    seconds: float
    total: int


@dataclass(frozen=True)
class ArchiveStatus:
    """The status of an archive. ``time`` is when the store made ``commit``, the last archived one. ``behind`` is the
    number of commits that the store has made since; None if no store was given. ``gaps`` are the lost ranges. ``first``
    is the first archived commit: 1, unless the store no longer had older commits when the archive began."""

    archive: str
    commit: int
    time: datetime | None
    tables: Mapping[str, TableStatus]
    gaps: tuple[str, ...] = ()
    runs: tuple[RunEntry, ...] = ()
    begun: datetime | None = None
    first: int = 1
    behind: int | None = None
    collections: tuple[str, ...] | None = field(default=None)
    """The tables that the archive follows; None for all of the store."""

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.tables.values())

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self.tables.values())

    @property
    def files(self) -> int:
        return sum(each.files for each in self.tables.values())

    def to_dict(self) -> dict[str, Any]:
        """The status as plain values; times are ISO texts."""
        found = {**asdict(self), "rows": self.rows, "bytes": self.bytes, "files": self.files}
        found["tables"] = {name: asdict(each) for name, each in self.tables.items()}
        found["runs"] = [{**asdict(each), "at": each.at.isoformat()} for each in self.runs]
        found["gaps"] = list(self.gaps)
        for name in ("time", "begun"):
            found[name] = None if found[name] is None else found[name].isoformat()
        return found


def status(archive_path: str | os.PathLike[str], store_path: str | os.PathLike[str] | None = None) -> ArchiveStatus:
    """Return the status of an archive, without Spark. With its store, also how many commits it is behind."""
    archive = Location.of(archive_path)
    ledger = ArchiveLedger(archive)
    ledger.check()
    last = ledger.last_run
    selection = ledger.selection
    known = gaps(archive_path)
    return ArchiveStatus(
        archive=archive.uri,
        commit=ledger.commit,
        time=None if last is None else last.time,
        tables={
            str(name): _table(table)
            for name, table in sorted(tables_in(archive).items(), key=_name)
            if not name.is_internal
        },
        gaps=tuple(str(each) for each in known if each.lost),
        runs=tuple(_runs(ledger)),
        begun=ledger.of(BEGIN)[0].at,
        first=max((each.until for each in known if not each.lost and each.tables is None), default=1),
        behind=None if store_path is None else _behind(store_path, ledger.commit),
        collections=None if selection is None else tuple(sorted(selection)),
    )


def _runs(ledger: ArchiveLedger) -> Iterator[RunEntry]:
    total = 0
    for each in ledger.of(RUN):
        rows = int(each.detail.get("rows", 0))
        total += rows
        yield RunEntry(each.at, each.until or 0, rows, each.detail.get("seconds", 0.0), total)


def _name(entry: tuple[object, VersionTable]) -> str:
    return str(entry[0])


def _table(table: VersionTable) -> TableStatus:
    kinds = Counter(each.kind for each in table.files)
    return TableStatus(
        rows=total_rows(table.files),
        bytes=sum(each.size for each in table.files),
        files=len(table.files),
        tail=kinds[TAIL],
        open=kinds[OPEN],
        closed=kinds[CLOSED],
    )


def _behind(store_path: str | os.PathLike[str], commit: int) -> int:
    source = ArchiveSource(store_path)
    try:
        return max(0, source.last_commit() - commit)
    finally:
        source.close()
