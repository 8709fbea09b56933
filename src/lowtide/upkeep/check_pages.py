"""Examines the pages of the base before LMDB reads them: see base.structure."""

from __future__ import annotations

from pathlib import Path

from lowtide.engine.base.structure import Examiner
from lowtide.upkeep.report import Examination


def new_check() -> Examination:
    return Examination("base: pages", "pages")


def check_pages(data: Path, check: Examination, txn: int | None = None) -> None:
    """Name the damaged pages of the LMDB file ``data``, as of the transaction ``txn`` that the caller holds open, or as
    of the last one if no process writes the file. Unreadable if the file has no such state."""
    with Examiner(data, txn) as examiner:
        pages, faults = examiner.examine()
    check.examined = pages
    for fault in faults:
        check.problem(fault.what, f"{data}, page {fault.page}, table {fault.table!r}")
    if faults:
        check.note(
            "the rest of the base was not checked, nor compared with log and memory: LMDB may end the process that "
            "reads a damaged page"
        )
