"""What can go wrong with an archive."""

from __future__ import annotations

from lowtide.errors import Error, TransientError


class ArchiveError(Error):
    """The archive cannot answer, or cannot be continued. The message says why, and what to do."""


class ArchiveGap(ArchiveError):
    """The archive does not have this instant. ``first`` and ``last`` are the commits that it lacks around it."""

    def __init__(self, message: str, first: int, last: int) -> None:
        self.first = first
        self.last = last
        super().__init__(message)


class ArchiveBehind(ArchiveError):
    """The archive has not reached this commit. ``commit`` is the last one that it has."""

    def __init__(self, message: str, commit: int) -> None:
        self.commit = commit
        super().__init__(message)


class NotArchived(ArchiveError):
    """The archive does not know this collection or keyspace."""


class ConflictingRun(TransientError):
    """Another run changed the archive at the same time. Nothing was published twice or lost; run again."""


class ArchiveGapWarning(UserWarning):
    """The requested data is incomplete: the archive lacks some commits, which the message names."""


class ArchiveBehindWarning(UserWarning):
    """The requested time is later than the archive's last commit, which is returned instead."""
