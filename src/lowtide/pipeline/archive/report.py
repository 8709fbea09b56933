"""What a run of the archiver did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from lowtide.pipeline.tables.ledger import CommitGap
from lowtide.pipeline.tables.names import table_named


@dataclass(frozen=True)
class ArchiveReport:
    """The result of a run, which brought the archive from commit ``since`` to ``commit``. ``rows`` is the number of
    versions of documents, keys and statements that it added, ``tables`` the same by table, ``gaps`` the ranges that
    were lost. ``began`` is the commit of the snapshot that the archive, or tables added by the run, began with because
    the store no longer had all older commits. None if nothing began, or if it began with the whole history."""

    commit: int
    rows: int
    since: int
    tables: Mapping[str, int]
    gaps: tuple[str, ...] = ()
    seconds: float = 0.0
    began: int | None = None

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "tables": dict(self.tables), "gaps": list(self.gaps)}


@dataclass
class ArchiveTotals:
    """What a run has done so far. Only the thread of the run uses it."""

    rows: dict[str, int] = field(default_factory=dict)
    gaps: list[CommitGap] = field(default_factory=list)

    def add(self, rows: Mapping[str, int]) -> None:
        for name, count in rows.items():
            self.rows[name] = self.rows.get(name, 0) + count

    def report(self, since: int, until: int, seconds: float) -> ArchiveReport:
        rows = {name: count for name, count in sorted(self.rows.items()) if count and not table_named(name).is_internal}
        return ArchiveReport(
            commit=until,
            rows=sum(rows.values()),
            since=since,
            tables=rows,
            gaps=tuple(str(each) for each in self.gaps if each.lost),
            seconds=round(seconds, 3),
            began=max((each.until for each in self.gaps if not each.lost), default=None),
        )
