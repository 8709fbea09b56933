"""The new generation of a collection, which a bulk load fills, and its difference from the old one.

Methods work in a transaction of the caller, and return the collection's row as it should be afterwards. Used by one
thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lowtide.documents.catalog import CatalogRow
from lowtide.documents.reader import CollectionReader
from lowtide.documents.write_batch import WriteBatch
from lowtide.engine.statements.runners import PrefixOf
from lowtide.engine.statements.statement import WriteView
from lowtide.engine.transaction.transaction import EngineTransaction
from lowtide.engine.types import Writes
from lowtide.feed.differences import (
    Difference,
    block_around,
    decode_difference,
    difference,
    encode_difference,
    read_differences,
)
from lowtide.sharing.loading.apply import duplicate, insert_new, twice
from lowtide.sharing.loading.job import Counts, Job
from lowtide.sharing.loading.runs import Batch
from lowtide.sharing.loading.staged_changes import StagedChange, decode_change, take_latest
from lowtide.values.codec import decode_document

Step = Callable[[EngineTransaction, EngineTransaction, WriteView, list[bytes]], CatalogRow]


class Beside:
    """The keyspaces being filled: those of ``row``, and ``changes`` for the difference. ``images`` says whether the
    store logs the values that are replaced."""

    def __init__(self, job: Job, row: CatalogRow, prefix_of: PrefixOf, images: bool) -> None:
        self._collection = job.collection
        self._how = job.how
        self._prefix_of = prefix_of
        self._images = images
        self.row = row
        """The collection's row, as it will be after the load."""
        self.changes = f"{row.keyspace}~changes"
        self.has_blocks = False
        """Whether several keys may share a row of the difference."""

    @property
    def keyspaces(self) -> tuple[str, ...]:
        """The names, in the order in which they get their prefixes. The difference is first; see ``direct``."""
        return (self.changes, *self.row.keyspaces[1:])

    def enter(self, writing: WriteView, keys: list[bytes], documents: list[bytes]) -> tuple[CatalogRow, Counts]:
        """Write staged documents, or record the keys of those to delete. The old values are not known yet."""
        if self._how == "delete":
            self._note(writing, dict.fromkeys(keys, Difference(None)).items())
            return self.row, Counts()
        unit = self._unit(writing, checked=True)
        seen = set(unit.known_ids(keys))
        if seen or len(set(keys)) < len(keys):
            for key in keys:
                if key in seen:
                    raise twice(self._collection, key)
                seen.add(key)
        insert_new(unit, keys, documents)
        self._note(writing, zip(keys, map(Difference, documents), strict=True), fresh=True)
        return self._taken(unit), Counts(inserted=len(keys))

    def filled(self, writing: WriteView, staged: Batch, kept: Batch) -> CatalogRow:
        """Write staged documents, and documents of the collection that stay. The new generation has none of them
        yet."""
        for (keys, documents), checked in ((staged, True), (kept, False)):
            if keys:
                unit = self._unit(writing, checked=checked)
                insert_new(unit, keys, documents)
                self.row = self._taken(unit)
        return self.row

    @property
    def is_plain(self) -> bool:
        """Whether each document is a single row of the new generation, and any document is valid."""
        return not self.row.indexes and self.row.schema is None

    def copy(self, writing: WriteView, batch: list[tuple[bytes, bytes]]) -> tuple[CatalogRow, Counts]:
        """Copy documents of the collection, except those that the job replaces or deletes."""
        unit, counts, how = self._unit(writing, checked=False), Counts(), self._how
        kept: list[tuple[bytes, bytes]] = []
        found: dict[bytes, Difference] = {}
        for (key, stored), noted in zip(batch, self._noted(writing, [key for key, _ in batch]), strict=True):
            if noted is None:
                kept.append((key, stored))
            elif how == "append":
                raise duplicate(self._collection, key)
            else:
                found[key] = self._compared(noted, stored)
        if how != "overwrite":
            replaced = sum(each.value is not None for each in found.values())
            counts.replaced, counts.inserted, counts.deleted = replaced, -replaced, len(found) - replaced
        else:
            counts.deleted = len(found)
        self._note(writing, found.items())
        insert_new(unit, [key for key, _ in kept], [stored for _, stored in kept])
        return self._taken(unit), counts

    @property
    def steps(self) -> tuple[Step, ...]:
        is_unique = any(each.unique for each in self.row.indexes)
        return (self._removed, self._caught_up) if is_unique else (self._caught_up,)

    def _removed(
        self, before: EngineTransaction, after: EngineTransaction, writing: WriteView, keys: list[bytes]
    ) -> CatalogRow:
        """Remove from the new generation the documents that changed between two instants. All of them are removed
        before any is written again, so that their values in a unique index become free."""
        unit = self._unit(writing, checked=False)
        copied = [key for key, _, noted in self._changed(before, after, writing, keys) if noted is None]
        for key, here in zip(copied, unit.stored_of(copied), strict=True):
            if here is not None:
                unit.delete((key, here, decode_document(here)))
        return self._taken(unit)

    def _caught_up(
        self, before: EngineTransaction, after: EngineTransaction, writing: WriteView, keys: list[bytes]
    ) -> CatalogRow:
        """Update documents of the new generation from one instant to a later one."""
        unit = self._unit(writing, checked=False)
        found: dict[bytes, Difference] = {}
        copied: list[tuple[bytes, bytes | None]] = []
        for key, now, noted in self._changed(before, after, writing, keys):
            if noted is None:
                copied.append((key, now))
            elif now is not None and self._how == "append":
                raise duplicate(self._collection, key)
            else:
                found[key] = self._compared(noted, now)
        self._note(writing, found.items())
        for (key, now), here in zip(copied, unit.stored_of([key for key, _ in copied]), strict=True):
            if here is None and now is not None:
                insert_new(unit, [key], [now])
            elif here is not None and now is None:
                unit.delete((key, here, decode_document(here)))
            elif here is not None and now is not None:
                unit.replace((key, here, decode_document(here)), decode_document(now), now)
        return self._taken(unit)

    def _changed(
        self, before: EngineTransaction, after: EngineTransaction, writing: WriteView, keys: list[bytes]
    ) -> list[tuple[bytes, bytes | None, Difference | None]]:
        """The documents that differ between two instants, as of the later one, with their recorded differences."""
        prefix = CollectionReader(after, self._prefix_of, self._collection).prefix
        full_keys = [prefix + key for key in keys]
        old, new = before.read_many(full_keys), after.read_many(full_keys)
        changed = [(key, now) for key, was, now in zip(keys, old, new, strict=True) if was != now]
        noted = self._noted(writing, [key for key, _ in changed])
        return [(key, now, each) for (key, now), each in zip(changed, noted, strict=True)]

    def _unit(self, writing: WriteView, *, checked: bool) -> WriteBatch:
        """A batch of writes to the new generation. Documents that the collection has already are not validated
        again."""
        row = self.row if checked else self.row.having(schema=None)
        return WriteBatch(writing, self._prefix_of, self._collection, row)

    def _taken(self, unit: WriteBatch) -> CatalogRow:
        return unit.apply_beside().having(schema=self.row.schema)

    def note_changes(self, writing: WriteView, keys: list[bytes], staged: list[bytes]) -> tuple[CatalogRow, Counts]:
        """Record the last staged change of each document. They are applied when all changes are known."""
        latest: dict[bytes, StagedChange] = {}
        take_latest(latest, self._collection, zip(keys, map(decode_change, staged), strict=True))
        for key, noted in zip(list(latest), self._noted(writing, list(latest)), strict=True):
            if noted is not None:
                take_latest(latest, self._collection, [(key, StagedChange(noted.version, noted.value))])
        self._note(writing, [(key, Difference(each.document, version=each.version)) for key, each in latest.items()])
        return self.row, Counts()

    def enter_noted(self, writing: WriteView, noted: list[tuple[bytes, bytes]]) -> tuple[CatalogRow, Counts]:
        """Write the documents as the last changes left them, from rows of the difference."""
        unit = self._unit(writing, checked=True)
        found = [(key, value) for key, row in noted if (value := decode_difference(row).value) is not None]
        insert_new(unit, [key for key, _ in found], [value for _, value in found])
        return self._taken(unit), Counts(inserted=len(found))

    # The difference

    def _note(self, writing: WriteView, found: Iterable[tuple[bytes, Difference]], *, fresh: bool = False) -> None:
        """Record what the load does to documents, each of which occurs once; ``fresh`` if none has a record yet."""
        prefix = self._prefix_of(self.changes)
        rows: Writes = {prefix + key: encode_difference(each) for key, each in found}
        if self.has_blocks:
            rows = self._split_blocks(writing, rows) | rows
        if rows:
            writing.apply(rows, (), dict.fromkeys(rows) if fresh else None)

    def _split_blocks(self, writing: WriteView, rows: Writes) -> Writes:
        """Rows of their own for all keys of the blocks that these rows would lie in."""
        prefix = self._prefix_of(self.changes)
        split: Writes = {}
        for full_key in rows:
            if full_key not in split and (block := block_around(writing.scan, prefix, full_key[len(prefix) :])):
                for key, value in zip(block.keys, block.values, strict=True):
                    split[prefix + key] = encode_difference(Difference(value))
        return split

    def _noted(self, writing: WriteView, keys: list[bytes]) -> list[Difference | None]:
        """The recorded differences of documents; None for a document that the job does not affect. A job that replaces
        all documents affects each of them."""
        prefix = self._prefix_of(self.changes)
        without = Difference(None) if self._how == "overwrite" else None
        if self.has_blocks:
            found = (next(read_differences(writing.scan, prefix, key, key + b"\x00"), None) for key in keys)
            return [without if each is None else each[1] for each in found]
        rows = writing.read_many([prefix + key for key in keys])
        return [without if row is None else decode_difference(row) for row in rows]

    def _compared(self, noted: Difference, stored: bytes | None) -> Difference:
        """The difference between a document that the job affects and its stored form now."""
        return difference(stored, noted.value, self._images)
