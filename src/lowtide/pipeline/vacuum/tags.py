"""Tags: names for commits that a vacuum leaves readable, for as long as they have the name."""

from __future__ import annotations

import os
from typing import Final

from lowtide.errors import UsageError, shown
from lowtide.pipeline.errors import ArchiveError
from lowtide.pipeline.tables.ledger import TAG, UNTAG, VACUUM, ArchiveLedger
from lowtide.pipeline.tables.location import Location
from lowtide.pipeline.travel.instants import At
from lowtide.pipeline.travel.local import reader_of

_RETENTION: Final = "lowtide-retention"
"""The application transaction of tags and vacuums: of two at the same time, one is refused."""


def tag(archive_path: str | os.PathLike[str], name: str, at: At | None = None) -> int:
    """Name a commit, so no vacuum removes what it sees. Returns the commit.

    ``at`` is a commit or a time, by default the last archived commit. A name that is taken moves to the new commit.
    Raises ArchiveGap or ArchiveBehind for one that cannot be read.
    """
    if not isinstance(name, str) or not name:
        raise UsageError(f"a tag is a name, not {shown(name)}")
    ledger = opened(archive_path)
    commit = reader_of(archive_path).instant(at, "")
    ledger.add(TAG, application=retention_number(ledger), until=commit, detail={"name": name})
    return commit


def untag(archive_path: str | os.PathLike[str], name: str) -> None:
    """Take a tag back. What only it has held goes with the next vacuum."""
    ledger = opened(archive_path)
    known = tagged(ledger)
    if name not in known:
        listed = ", ".join(sorted(known)) or "none"
        raise ArchiveError(f"there is no tag {name!r} in {ledger.archive.uri}; there are: {listed}")
    ledger.add(UNTAG, application=retention_number(ledger), until=known[name], detail={"name": name})


def tags(archive_path: str | os.PathLike[str]) -> dict[str, int]:
    """Return the tags of an archive, with their commits."""
    return dict(sorted(tagged(opened(archive_path)).items()))


def opened(archive_path: str | os.PathLike[str]) -> ArchiveLedger:
    """Return the ledger of an archive that exists."""
    ledger = ArchiveLedger(Location.of(archive_path))
    ledger.check()
    return ledger


def tagged(ledger: ArchiveLedger) -> dict[str, int]:
    """Return the tags in a ledger. One on a commit that the store has undone stays: the number may come again."""
    found: dict[str, int] = {}
    for each in ledger.of(TAG, UNTAG):
        if each.entry == TAG:
            found[each.detail["name"]] = each.until or 0
        else:
            found.pop(each.detail["name"], None)
    return found


def retention_number(ledger: ArchiveLedger) -> tuple[str, int]:
    """Return the application transaction of the next tag or vacuum."""
    return _RETENTION, 1 + len(ledger.of(TAG, UNTAG, VACUUM))
