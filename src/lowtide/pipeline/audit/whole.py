"""The audit of a small history: the driver takes all of its rows, and ``lowtide.audit`` judges them at once.

The jobs that divide a history take some seconds, however small it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from lowtide.audit import History, audit
from lowtide.audit.history import Name, Row
from lowtide.engine import Isolation
from lowtide.pipeline.audit.records import Anomaly, anomaly
from lowtide.pipeline.audit.report import AuditReport
from lowtide.pipeline.audit.rows import in_file_order, row_of
from lowtide.pipeline.audit.steps import KEPT

WHOLE: Final = 20_000
"""Rows up to which a history is small."""

NumberedLine = tuple[str, int, int, int]
"""The text of a row, and where it was: the file, the block of it, and a number that grows."""


def audit_whole(lines: Iterable[NumberedLine], level: Isolation) -> AuditReport:
    """Audit all rows of a history."""
    found: dict[Name, list[tuple[Row, int, int, int]]] = {}
    for line, *place in lines:
        row = row_of(line)
        if row is not None:
            file, block, number = place
            found.setdefault(row.tx, []).append((row, file, block, number))
    history = History(row for rows in found.values() for row in in_file_order(rows))
    report = audit(history, level)
    counts = Counter(each.name for each in report.findings)
    shown: dict[str, list[Anomaly]] = {}
    for finding in report.findings:
        of_name = shown.setdefault(finding.name, [])
        if len(of_name) < KEPT:
            of_name.append(anomaly(finding, history.transactions))
    return AuditReport(
        level,
        len(history.transactions),
        report.committed,
        report.operations,
        [each for of_name in shown.values() for each in of_name],
        counts=dict(counts),
        unplaced=report.unplaced,
        unresolved=report.unresolved,
        pieces=1 if history.transactions else 0,
        largest=len(history.transactions),
    )
