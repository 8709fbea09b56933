"""Index builds, which run while other threads read and write.

A build has three phases. First it announces the index in the collection's row, as one that is being built. From then on
every writer maintains the index; a writer that began earlier fails, because its commit relies on the row. Then the
build indexes the documents in steps, each in its own transaction. Finally it marks the index as ready in the row, and
queries start to use it.

A step never fails because a document changes while it runs, so a build ends under any load. A step writes the entries
that are missing at its snapshot. Its commit leaves out those that another commit has changed since (``yielding``). This
is correct because every writer writes each entry that its document gains or loses:

* An entry that no commit has written since the snapshot is still missing, and its document still has the value. The
  step writes it.
* An entry that another commit has written is as its last writer left it. In a non-unique index this is correct, because
  an entry belongs to one document.
* An entry of a unique index may have been taken, and given up again, by another document. So a later snapshot checks
  the documents whose entries were left out again. An entry that another document holds is a duplicate. A missing entry
  is written. An existing entry was made by a writer.
* A writer whose document gives up a value does not touch an entry that belongs to another document, and its commit
  relies on that entry (``WriteBatch._remove``). Otherwise the other document could give it up as well, and a step could
  write an entry for a value that is gone.

Documents that are inserted after the announcement get their entries from their writers. So a build takes the keys of
one snapshot only, and each step reads its documents again, in its own transaction.

Each announcement draws a build number. A step that finds another number, because the index was dropped and created
again meanwhile, starts over from the first document. If two threads build the same index, both index all documents, and
the first to finish marks it as ready. Nothing is undone when a build is interrupted: the index stays in the state of
being built, and ``create_index`` starts over.

In a transaction an index is built in one step, from the documents that the transaction sees. The commit fails if
another transaction has changed any of them since.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from itertools import islice
from sys import maxsize
from typing import Any, Final

from lowtide.documents.catalog import CatalogRow, encode_row
from lowtide.documents.filters import compile_filter
from lowtide.documents.indexes.entries import LONG, MULTIKEY, IndexEntries, entry_key, entry_value
from lowtide.documents.indexes.spec import MAX_NAME, PRIMARY, Index, Keys, name_of, parse_keys
from lowtide.documents.management import discard_index, put_row
from lowtide.documents.reader import CollectionReader
from lowtide.documents.write_batch import key_value
from lowtide.engine import (
    AutocommitStatements,
    EngineTransaction,
    PrefixOf,
    Range,
    Statements,
    Writes,
    WriteView,
    after_prefix,
    atomic,
)
from lowtide.errors import DuplicateKeyError, OperationFailure, SnapshotExpired, UsageError
from lowtide.values.codec import decode_document, encode_value
from lowtide.values.values import Document

STEP: Final = 250
"""Documents per step. Other commits wait while a step commits: about a millisecond."""
MOST_ENTRIES: Final = 1000
"""Entries after which a step takes no more documents."""

Progress = Callable[[int], object]
Batch = list[tuple[bytes, bytes]]
"""Keys of documents, with their encoded forms."""


def index_asked_for(
    keys: Keys, name: str | None, unique: bool, sparse: bool, condition: Mapping[str, Any] | None
) -> Index:
    """Return the index that ``create_index`` was asked for, still without a keyspace."""
    parts = parse_keys(keys)
    if name is not None and (not isinstance(name, str) or not name or name == PRIMARY or "/" in name):
        raise OperationFailure(f"an index is named by a string without /, other than {PRIMARY!r}; not by {name!r}")
    name = name or name_of(parts)
    if len(name.encode()) > MAX_NAME:
        raise OperationFailure(f"the name of an index is {MAX_NAME} bytes long at most; give a shorter one: {name!r}")
    if condition is not None:
        compiled = compile_filter(condition)
        if not compiled.complete:
            raise OperationFailure("partialFilterExpression may compare and ask for existence, joined by $and; no more")
        if sparse:
            raise OperationFailure("an index is sparse or has a partialFilterExpression, not both")
    return Index(
        name=name,
        keys=parts,
        keyspace="",
        unique=bool(unique),
        sparse=bool(sparse),
        partial=encode_value(condition) if condition is not None else None,
        building=True,
    )


def create_index(statements: Statements, collection: str, asked: Index, progress: Progress | None) -> str:
    """Create the index, unless it exists, and return its name."""
    if asked.keys == (("_id", 1),):
        return PRIMARY  # the order of the documents themselves
    if not isinstance(statements, AutocommitStatements):
        statements.write(atomic(lambda writing, prefix_of: _at_once(writing, prefix_of, collection, asked)))
        return asked.name
    found = statements.write(
        lambda writing, prefix_of: _announce(CollectionReader(writing, prefix_of, collection), writing, asked)
    )
    try:
        while found is not None:
            found = _build(statements, collection, found, progress)
    except UsageError:
        build = found.build if found is not None else 0
        discard_index(statements, collection, lambda row: _unfinished(row, asked.name, build))
        raise
    return asked.name


def _unfinished(row: CatalogRow, name: str, build: int) -> Index | None:
    """Return the index of this name, if it is still the build that failed."""
    index = row.index(name)
    return index if index is not None and index.building and index.build == build else None


def _at_once(writing: WriteView, prefix_of: PrefixOf, collection: str, asked: Index) -> None:
    """Build an index within a transaction."""
    if _announce(CollectionReader(writing, prefix_of, collection), writing, asked) is None:
        return
    reader = CollectionReader(writing, prefix_of, collection)
    documents = Range(reader.prefix, after_prefix(reader.prefix))
    _enter(reader, writing, _of_row(reader, asked.name), list(writing.scan(documents)))
    reader = CollectionReader(writing, prefix_of, collection)
    put_row(reader, writing, reader.row.with_index(_of_row(reader, asked.name).having(building=False)))
    writing.rely_on(documents)


def _announce(reader: CollectionReader, writing: WriteView, asked: Index) -> Index | None:
    """Announce the index in the collection's row. Returns None if it exists already."""
    for each in reader.row.indexes:
        if each.name == asked.name or each.keys == asked.keys:
            if not each.same_as(asked) or each.name != asked.name:
                raise OperationFailure(
                    f"collection {reader.name!r} has the index {each.name!r} already, {each.information()}; drop that"
                )
            return each if each.building else None
    index = asked.having(keyspace=reader.row.index_keyspace(asked.name), build=int.from_bytes(os.urandom(8)) >> 1)
    put_row(reader, writing, reader.row.with_index(index).having(exists=True))
    return index


def _build(statements: AutocommitStatements, collection: str, index: Index, progress: Progress | None) -> Index | None:
    """Index all documents and mark the index as ready. If another build was announced meanwhile, returns its index."""
    done = 0
    again: list[bytes] = []
    with closing(_keys_in_steps(statements, collection)) as batches:
        while (keys := next(batches, [])) or again:
            done += len(keys)
            current, again = _step(statements, collection, index, again + keys)
            if not current.building:
                return None
            if current.build != index.build:
                return current
            if progress is not None:
                progress(done - len(again))
    return statements.write(
        lambda writing, prefix_of: _finish(CollectionReader(writing, prefix_of, collection), writing, index)
    )


def _keys_in_steps(statements: AutocommitStatements, collection: str) -> Generator[list[bytes], None, None]:
    """Yield the keys of the documents of one snapshot, in lists for one step each. It reads one snapshot, because a
    build could otherwise chase new inserts forever. If the snapshot expires, continues with a new one."""
    after = b""
    while True:
        held = statements.hold()
        try:
            prefix = CollectionReader(held.reading, held.prefix_of, collection).prefix
            scan = held.reading.scan(Range(prefix + after, after_prefix(prefix)))
            while keys := [key for key, _ in islice(scan, STEP)]:
                yield keys
                after = keys[-1] + b"\x00"
            return
        except SnapshotExpired:
            continue
        finally:
            held.close()


def _step(
    statements: AutocommitStatements, collection: str, index: Index, keys: list[bytes]
) -> tuple[Index, list[bytes]]:
    """Index the documents with these keys, in one transaction. Returns the current index and the remaining keys."""

    def work(tx: EngineTransaction, prefix_of: PrefixOf) -> tuple[Index, list[bytes], dict[bytes, bytes], list[bytes]]:
        reader = CollectionReader(tx, prefix_of, collection)
        current = _of_row(reader, index.name)
        if current.build != index.build or not current.building:
            return current, [], {}, []
        found = zip(keys, tx.read_many([reader.prefix + key for key in keys]), strict=True)
        batch = [(key, stored) for key, stored in found if stored is not None]
        owners, taken = _enter(reader, tx, current, batch, MOST_ENTRIES)
        before: Writes = {**dict.fromkeys(owners), reader.row_key: tx.read(reader.row_key)}
        left_out = tx.give_way(set(owners), before) if owners else []
        return current, [key for key, _ in batch[taken:]], owners, left_out

    current, rest, owners, left_out = statements.transact(work)
    return current, [*rest, *dict.fromkeys(owners[entry] for entry in left_out)]


def _of_row(reader: CollectionReader, name: str) -> Index:
    index = reader.row.index(name)
    if index is None:
        raise OperationFailure(f"index {name!r} of collection {reader.name!r} was dropped while it was built")
    return index


def _enter(
    reader: CollectionReader, writing: WriteView, index: Index, batch: Batch, most: int = maxsize
) -> tuple[dict[bytes, bytes], int]:
    """Write the missing entries of documents, up to about ``most``. Returns the document key by the full key of each
    entry, and how many documents were indexed."""
    entries, prefix, special = IndexEntries(index), reader.prefix_of(index.keyspace), 0
    wanted: list[tuple[bytes, bytes, bytes]] = []
    taken = 0
    for key, stored in batch:
        if len(wanted) >= most:
            break
        found, more = entries.of(decode_document(stored))
        wanted += [(prefix + entry_key(index, values, key), key, stored) for values in found]
        special |= more
        taken += 1
    owners: dict[bytes, bytes] = {}
    there = writing.read_many([full_key for full_key, _, _ in wanted])
    for (full_key, key, stored), holder in zip(wanted, there, strict=True):
        if index.unique and (other := owners.get(full_key, holder)) is not None and other != key:
            raise _duplicate(reader, index, decode_document(stored), other)
        if holder is None:
            owners[full_key] = key
    writes: Writes = {full_key: entry_value(index, key) for full_key, key in owners.items()}
    before: Writes | None = dict.fromkeys(writes)
    noted = index.noting(multikey=bool(special & MULTIKEY), long=bool(special & LONG))
    if noted is not index:
        writes[reader.row_key], before = encode_row(reader.row.with_index(noted)), None
    if writes:
        writing.apply(writes, (reader.row_key,), before)
    return owners, taken


def _duplicate(reader: CollectionReader, index: Index, document: Document, holder: bytes) -> DuplicateKeyError:
    other = reader.reading.read(reader.prefix + holder)
    holder_id = decode_document(other)["_id"] if other is not None else None
    return DuplicateKeyError(reader.name, index.name, key_value(index, document), holder_id)


def _finish(reader: CollectionReader, writing: WriteView, index: Index) -> Index | None:
    """Mark the index as ready, if it is still the one that was built."""
    current = _of_row(reader, index.name)
    if not current.building:
        return None
    if current.build != index.build:
        return current
    put_row(reader, writing, reader.row.with_index(current.having(building=False)))
    return None
