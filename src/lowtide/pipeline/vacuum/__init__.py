"""What leaves an archive: versions that no kept instant sees, and documents that must be forgotten."""

from __future__ import annotations

from lowtide.pipeline.vacuum.erase import EraseReport, erase
from lowtide.pipeline.vacuum.tags import tag, tags, untag
from lowtide.pipeline.vacuum.vacuum import VacuumReport, vacuum

__all__ = ["EraseReport", "VacuumReport", "erase", "tag", "tags", "untag", "vacuum"]
