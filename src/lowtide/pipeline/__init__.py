"""The history of a store on Spark: an archive of every version, time travel, vacuum, restore and audit; and loads.

>>> import lowtide.pipeline as pipeline  # doctest: +SKIP
>>> pipeline.archive(spark, "shop", "shop-archive").commit  # doctest: +SKIP
42
>>> pipeline.load(spark, "orders.csv", "shop", "orders", mapping={"_id": "order"}).written  # doctest: +SKIP
1000
"""

from __future__ import annotations

from lowtide.pipeline.archive import ArchiveReport, ArchiveStatus, archive, archive_stream, status
from lowtide.pipeline.audit import AuditReport, audit
from lowtide.pipeline.errors import (
    ArchiveBehind,
    ArchiveBehindWarning,
    ArchiveError,
    ArchiveGap,
    ArchiveGapWarning,
    ConflictingRun,
    NotArchived,
)
from lowtide.pipeline.load import LoadRefused, LoadReport, load
from lowtide.pipeline.replicate import ReplicateReport, replicate
from lowtide.pipeline.restore import (
    PutBackConflict,
    PutBackReport,
    RecoverReport,
    RestoreReport,
    put_back,
    recover,
    restore,
)
from lowtide.pipeline.runs import ConfigError, PipelineConfig, RunFailed, RunReport, StepReport, read_config, run
from lowtide.pipeline.tables.compact import CompactionReport, compact
from lowtide.pipeline.tables.ledger import CommitGap
from lowtide.pipeline.travel import Keep, as_of, create_views, diff, gaps, history, local
from lowtide.pipeline.vacuum import EraseReport, VacuumReport, erase, tag, tags, untag, vacuum

__all__ = [
    "ArchiveBehind",
    "ArchiveBehindWarning",
    "ArchiveError",
    "ArchiveGap",
    "ArchiveGapWarning",
    "ArchiveReport",
    "ArchiveStatus",
    "AuditReport",
    "CommitGap",
    "CompactionReport",
    "ConfigError",
    "ConflictingRun",
    "EraseReport",
    "Keep",
    "LoadRefused",
    "LoadReport",
    "NotArchived",
    "PipelineConfig",
    "PutBackConflict",
    "PutBackReport",
    "RecoverReport",
    "ReplicateReport",
    "RestoreReport",
    "RunFailed",
    "RunReport",
    "StepReport",
    "VacuumReport",
    "archive",
    "archive_stream",
    "as_of",
    "audit",
    "compact",
    "create_views",
    "diff",
    "erase",
    "gaps",
    "history",
    "load",
    "local",
    "put_back",
    "read_config",
    "recover",
    "replicate",
    "restore",
    "run",
    "status",
    "tag",
    "tags",
    "untag",
    "vacuum",
]
