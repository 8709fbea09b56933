"""Archives a store: each run brings every version that was committed since the last one to the tables."""

from __future__ import annotations

from lowtide.pipeline.archive.report import ArchiveReport
from lowtide.pipeline.archive.run import archive
from lowtide.pipeline.archive.status import ArchiveStatus, status
from lowtide.pipeline.archive.stream import archive_stream

__all__ = ["ArchiveReport", "ArchiveStatus", "archive", "archive_stream", "status"]
