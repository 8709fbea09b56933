"""Which keyspace a collection has had, as the log tells it.

A collection's documents lie in the keyspace that its row in the catalog names. A rename, a drop beside writers and a
bulk load give the name another keyspace in one commit: what that did to single documents is nowhere written. So whoever
follows the changes of a collection follows one keyspace, and must be told where it ends.
"""

from __future__ import annotations

from lowtide.documents.catalog import CATALOG, DOCUMENTS, row_key, row_of
from lowtide.errors import ChangesLost, UsageError
from lowtide.feed.feed import Feed
from lowtide.log.frame import Commit


def first_replacement(feed: Feed, collection: str, keyspace: str, since: int, until: int, *, known: bool) -> int | None:
    """The first commit after ``since`` up to ``until`` that took ``keyspace`` from the collection, or gave it; None if
    it had that all along.

    ``known`` says that the collection had the keyspace at ``since``. If that is not known, a first change of the row is
    none if its value before shows that, or an earlier change that the log still has, or if the keyspace is the one that
    the name began with and has never lost; otherwise it counts as a replacement.
    """
    catalog = feed.prefix_of(CATALOG, until)
    if catalog is None:
        return None
    full_key = catalog + row_key(collection)
    for commit in feed.writes_of(full_key, since, until):
        row = row_of(collection, commit.writes[full_key])
        if row.keyspace != keyspace:
            return commit.ts
        if not known:
            original = keyspace == DOCUMENTS + collection and row.generation == 0
            before = _keyspace_before(commit, full_key, collection) or _keyspace_at(feed, full_key, collection, since)
            if before != keyspace if before is not None else not original:
                return commit.ts
            known = True
    return None


def _keyspace_before(commit: Commit, full_key: bytes, collection: str) -> str | None:
    """The keyspace that the collection had before a commit that changes its row; None if the log does not tell."""
    place = list(commit.writes).index(full_key)
    if commit.existed is not None and not commit.existed[place]:
        return row_of(collection, None).keyspace
    if commit.before is not None:
        return row_of(collection, commit.before[place]).keyspace
    return None


def _keyspace_at(feed: Feed, full_key: bytes, collection: str, ts: int) -> str | None:
    """The keyspace that the last change of the row up to commit ``ts`` has named, if the log still has one."""
    found = None
    try:
        for commit in feed.writes_of(full_key, min(ts, feed.first_kept() - 1), ts):
            found = row_of(collection, commit.writes[full_key]).keyspace
    except ChangesLost:  # released meanwhile
        return None
    return found


def replaced(collection: str, commit: int) -> UsageError:
    """What to say to who would follow the changes of a collection over a replacement."""
    return UsageError(
        f"collection {collection!r} was replaced as a whole at commit {commit}: it was renamed, dropped or loaded "
        "anew, and the log does not have the changes of its documents; start a new stream from its snapshot, or read "
        f"the changes from version {commit + 1} on"
    )
