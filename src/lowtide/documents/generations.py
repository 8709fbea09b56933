"""The generations of collections, for the change feed of a store: see ``feed/differences.py``.

Who asks the feed for the keyspace of a collection means its documents, wherever a bulk load has put them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from lowtide.documents.catalog import CATALOG, DOCUMENTS, row_key, row_of
from lowtide.documents.lineage import difference_at, keyspace_at, swaps_in
from lowtide.engine import Commit, Engine, EngineSnapshot
from lowtide.feed.differences import Difference, Swap
from lowtide.feed.feed import Feed


class CollectionGenerations:
    """Answers the feed's questions from the catalog. ``engine`` gives one that has all that is published."""

    def __init__(self, engine: Callable[[], Engine], feed: Callable[[], Feed]) -> None:
        self._engine = engine
        self._feed = feed

    def current(self, keyspace: str, since: int) -> str:
        """The keyspace that had the documents of the collection at commit ``since`` which began with ``keyspace``; that
        itself, if no bulk load has given it another one."""
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
        """The keyspace that the collection ``name`` had at commit ``since``; the first, if that is not known."""
        return keyspace_at(self._feed(), self._engine().reader.get_latest, name, since) or DOCUMENTS + name

    def swaps(self, commit: Commit) -> Iterable[Swap]:
        catalog = self._feed().names.prefixes.get(CATALOG)
        return () if catalog is None else swaps_in(catalog, commit)

    def differences(
        self, swap: Swap, low: bytes = b"", high: bytes | None = None
    ) -> Iterator[tuple[bytes, Difference]]:
        engine = self._engine()
        with EngineSnapshot(engine, None, 1) as snapshot:
            yield from difference_at(snapshot, engine.catalog.prefix_of, swap, low, high)
