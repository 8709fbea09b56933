"""Deletes the files of Delta tables that were replaced long ago, and what killed runs have left.

A file that a commit replaced stays for a grace period, for readers that began before. Compaction replaces files as well
as vacuum does. So both clear up, and an archive that is never vacuumed does not keep each file that was ever compacted.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from deltalake import DeltaTable

GRACE: Final = timedelta(days=7)
"""How long a replaced file stays, unless a vacuum is given another period."""
_UNPUBLISHED: Final = timedelta(days=1)
"""Files that no table names may belong to a run that is under way, if they are younger than this."""
_DELTA_KEEPS: Final = timedelta(days=7)
"""How long Delta itself remembers which files were replaced, by default."""
_RETENTION: Final = "delta.deletedFileRetentionDuration"


def clear_files(table: DeltaTable, grace: timedelta) -> int:
    """Delete the files that were replaced before the grace period began, and older ones that were never published.
    Returns how many. A longer period that a vacuum was given for the table is respected."""
    if grace > _DELTA_KEEPS:
        wanted = f"interval {hours_of(grace)} hours"
        if table.metadata().configuration.get(_RETENTION) != wanted:
            table.alter.set_table_properties({_RETENTION: wanted})
    removed = 0
    for hours, full in ((hours_of(grace), False), (hours_of(max(grace, _UNPUBLISHED)), True)):
        options: dict[str, Any] = {"retention_hours": hours, "full": full, "enforce_retention_duration": False}
        if table.vacuum(dry_run=True, **options):
            removed += len(table.vacuum(dry_run=False, **options))
    return removed


def kept_for(table: DeltaTable) -> timedelta:
    """The grace period of a table: the longest that a vacuum was given for it, at least ``GRACE``."""
    words = (table.metadata().configuration.get(_RETENTION) or "").split()
    given = timedelta(hours=int(words[1])) if words[:1] == ["interval"] and words[2:] == ["hours"] else GRACE
    return max(GRACE, given)


def hours_of(span: timedelta) -> int:
    """A span in whole hours, rounded up.

    >>> hours_of(timedelta(minutes=61))
    2
    """
    return -(-span // timedelta(hours=1))
