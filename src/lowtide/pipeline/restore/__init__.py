"""From an archive back to stores: rebuilt at a commit, recovered after a loss, or put right in place."""

from __future__ import annotations

from lowtide.pipeline.restore.put_back import PutBackConflict, PutBackReport, put_back
from lowtide.pipeline.restore.recover import RecoverReport, recover
from lowtide.pipeline.restore.restore import RestoreReport, restore

__all__ = ["PutBackConflict", "PutBackReport", "RecoverReport", "RestoreReport", "put_back", "recover", "restore"]
