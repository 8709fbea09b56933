"""The lineage of a collection: which keyspaces it has had, according to the log.

A collection's documents are in the keyspace that its catalog row names. A bulk load replaces that keyspace in one
commit, and records what it did to each document (``feed/differences.py``). So the changes of the collection are those
of the first keyspace, then the difference, then those of the next keyspace. A rename, and a drop with concurrent
writers, replace the keyspace as well, but what they did to each document is not recorded. So the changes end there, and
a reader that follows them must be told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from lowtide.documents.catalog import CATALOG, DOCUMENTS, CatalogRow, Former, row_key, row_of
from lowtide.documents.reader import CollectionReader
from lowtide.engine import Commit, Engine, EngineSnapshot, PrefixOf, ReadView
from lowtide.errors import ChangesLost, UsageError
from lowtide.feed.differences import Difference, Swap, read_differences
from lowtide.feed.feed import Feed

Newest = Callable[[bytes], bytes | None]
"""Reads the newest value of a full key."""


class Stretch(NamedTuple):
    """The changes of ``keyspace`` in the commits after ``since`` up to ``until``."""

    keyspace: str
    since: int
    until: int


class Lineage(NamedTuple):
    """Where the changes of a collection are, in commit order, up to commit ``until``. ``keyspace`` is the collection's
    at that commit. ``replaced`` is the next commit if it replaced the whole collection, else None."""

    parts: tuple[Stretch | Swap, ...]
    until: int
    keyspace: str
    replaced: int | None = None


def keyspace_at(feed: Feed, newest: Newest, collection: str, since: int) -> str | None:
    """Return the keyspace that a collection had at commit ``since``; None if the log no longer shows it."""
    catalog = feed.prefix_of(CATALOG, feed.published())
    if catalog is None:
        return DOCUMENTS + collection
    full_key = catalog + row_key(collection)
    row = row_of(collection, newest(full_key))
    # The upper bound is read after the row, so that the row is not from a later commit.
    first = next(feed.writes_of(full_key, since, feed.published()), None)
    return row.keyspace if first is None else _before(feed, first, full_key, collection, since)


def _before(feed: Feed, commit: Commit, full_key: bytes, collection: str, since: int) -> str | None:
    """Return the keyspace that a collection had before the first commit after ``since`` that changes its row."""
    row = row_of(collection, commit.writes[full_key])
    if (former := row.swap_at(commit.ts)) is not None:
        return former.keyspace
    if 0 < row.loaded <= since:
        return row.keyspace
    place = list(commit.writes).index(full_key)
    if commit.existed is not None and not commit.existed[place]:
        return row_of(collection, None).keyspace
    if commit.before is not None:
        return row_of(collection, commit.before[place]).keyspace
    if row.keyspace == DOCUMENTS + collection and row.loaded == 0:
        return row.keyspace  # the collection has never had another keyspace
    found = None
    try:
        for earlier in feed.writes_of(full_key, min(since, feed.first_kept() - 1), since):
            found = row_of(collection, earlier.writes[full_key]).keyspace
    except ChangesLost:  # released meanwhile
        return None
    return found


def lineage(feed: Feed, collection: str, keyspace: str, since: int, until: int) -> Lineage:
    """Return the lineage, up to commit ``until``, of a collection that had ``keyspace`` at commit ``since``."""
    parts: list[Stretch | Swap] = []
    catalog = feed.prefix_of(CATALOG, until)
    begun, replaced_at = since, None
    if catalog is not None:
        full_key = catalog + row_key(collection)
        for commit in feed.writes_of(full_key, since, until):
            row = row_of(collection, commit.writes[full_key])
            if row.keyspace == keyspace:
                continue
            former = row.swap_at(commit.ts)
            if former is None or former.keyspace != keyspace:
                replaced_at = commit.ts
                break
            if begun < commit.ts - 1:
                parts.append(Stretch(keyspace, begun, commit.ts - 1))
            parts.append(_swap(commit, collection, former, row))
            keyspace, begun = row.keyspace, commit.ts
    end = until if replaced_at is None else replaced_at - 1
    if begun < end:
        parts.append(Stretch(keyspace, begun, end))
    return Lineage(tuple(parts), end, keyspace, replaced_at)


def swaps_in(catalog: bytes, commit: Commit) -> Iterator[Swap]:
    """Yield the keyspaces that a commit replaced. ``catalog`` is the prefix of the catalog's rows."""
    for full_key, value in commit.writes.items():
        if value is not None and full_key.startswith(catalog):
            name = full_key[len(catalog) :].decode()
            row: CatalogRow = row_of(name, value)
            if (former := row.swap_at(commit.ts)) is not None:
                yield _swap(commit, name, former, row)


def _swap(commit: Commit, name: str, former: Former, row: CatalogRow) -> Swap:
    return Swap(
        ts=commit.ts,
        time=commit.time,
        name=name,
        old=former.keyspace,
        new=row.keyspace,
        changes=former.changes,
    )


def difference_at(
    reading: ReadView, prefix_of: PrefixOf, swap: Swap, low: bytes = b"", high: bytes | None = None
) -> Iterator[tuple[bytes, Difference]]:
    """Yield the difference that a bulk load made, for ``low <= key < high``. A ``high`` of None is the end. Raises
    ChangesLost if it is no longer kept. Once the call returns, all of it can be read as long as ``reading`` is open."""
    former = CollectionReader(reading, prefix_of, swap.name).row.former
    if all(each.ts != swap.ts for each in former):
        raise ChangesLost(swap.ts - 1, swap.ts + 1)
    return read_differences(reading.scan, prefix_of(swap.changes), low, high)


def replaced(collection: str, commit: int) -> UsageError:
    """Return the error for reading changes of a collection across a replacement."""
    return UsageError(
        f"collection {collection!r} was replaced as a whole at commit {commit}: it was renamed, or dropped beside "
        "writers, and the log does not have the changes of its documents. Start a new stream from its snapshot, with a "
        f"new checkpoint; or read the changes up to version {commit - 1}, or from version {commit + 1} on"
    )


class CollectionGenerations:
    """Tells the feed which keyspaces a collection has had. ``engine`` returns one that has all published commits.

    A caller that asks the feed for the keyspace of a collection means its documents, in whichever keyspace a bulk load
    has put them."""

    def __init__(self, engine: Callable[[], Engine], feed: Callable[[], Feed]) -> None:
        self._engine = engine
        self._feed = feed

    def current(self, keyspace: str, since: int) -> str:
        """Return the keyspace that, at commit ``since``, had the documents of the collection whose first keyspace is
        ``keyspace``. It is ``keyspace`` itself unless a bulk load has replaced it."""
        name = keyspace.removeprefix(DOCUMENTS)
        if name == keyspace or "~" in name:
            return keyspace
        engine = self._engine()
        catalog = engine.catalog.prefixes.get(CATALOG)
        if catalog is None:
            return keyspace
        row = row_of(name, engine.reader.get_latest(catalog + row_key(name)))
        return self.named(name, since) if row.former or row.loaded > 0 else keyspace

    def named(self, name: str, since: int) -> str:
        """Return the keyspace of the collection ``name`` at commit ``since``; its first one if that is not known."""
        return keyspace_at(self._feed(), self._engine().reader.get_latest, name, since) or DOCUMENTS + name

    def swaps(self, commit: Commit) -> Iterable[Swap]:
        catalog = self._feed().names.prefixes.get(CATALOG)
        return () if catalog is None else swaps_in(catalog, commit)

    def differences(
        self, swap: Swap, low: bytes = b"", high: bytes | None = None
    ) -> Iterator[tuple[bytes, Difference]]:
        engine = self._engine()
        with EngineSnapshot(engine, None) as snapshot:
            yield from difference_at(snapshot, engine.catalog.prefix_of, swap, low, high)
