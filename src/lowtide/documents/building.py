"""Building an index, while others read and write.

First the collection's row says that the index is being built: whoever writes a document from then on keeps it up, and
whoever began before fails, since its commit relies on the row. Then the documents are entered in steps, each a
transaction: one that meets a document that was changed under it conflicts on the entry that the change removed, and is
repeated. At last the row says that it is ready, and queries begin to use it.

A build has a number, drawn when it is announced. A step that finds another one, because the index was dropped and made
anew meanwhile, begins from the first document again; two who build the same index both enter all documents, and the
first to end says so. Nothing is undone when a build is interrupted: the index stays one that is being built, and
``create_index`` begins it again.

In a transaction an index is made at once, of the documents that the transaction sees, and its commit fails if anybody
has changed one since.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final

from lowtide.base.codec import after_prefix
from lowtide.documents.catalog import Row, encode_row
from lowtide.documents.codec import decode_document, encode_value
from lowtide.documents.filters import compile_filter
from lowtide.documents.gathering import whole
from lowtide.documents.indexes.entries import LONG, MULTIKEY, Entries, entry_key, entry_value
from lowtide.documents.indexes.spec import MAX_NAME, PRIMARY, Index, Keys, name_of, parse_keys
from lowtide.documents.look import Look
from lowtide.documents.management import discard_index, put_row
from lowtide.documents.source import OfStore, PrefixOf, Source
from lowtide.documents.unit import key_value
from lowtide.errors import DuplicateKeyError, OperationFailure, UsageError
from lowtide.log.frame import Writes
from lowtide.transaction.statement import Writing
from lowtide.versions.visibility import Range

STEP: Final = 1000
"""Documents that one step enters."""

Progress = Callable[[int], object]
Batch = list[tuple[bytes, bytes]]
"""Keys of documents, and their stored forms."""


def index_asked_for(
    keys: Keys, name: str | None, unique: bool, sparse: bool, condition: Mapping[str, Any] | None
) -> Index:
    """The index that ``create_index`` is asked for; where it lies is decided later."""
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


def create_index(source: Source, collection: str, asked: Index, progress: Progress | None) -> str:
    """Make the index, unless it is there; its name."""
    if asked.keys == (("_id", 1),):
        return PRIMARY  # the order of the documents themselves
    if not isinstance(source, OfStore):
        source.change(whole(lambda writing, prefix_of: _at_once(writing, prefix_of, collection, asked)))
        return asked.name
    found = source.change(lambda writing, prefix_of: _announce(Look(writing, prefix_of, collection), writing, asked))
    try:
        while found is not None:
            found = _build(source, collection, found, progress)
    except UsageError:
        build = found.build if found is not None else 0
        discard_index(source, collection, lambda row: _unfinished(row, asked.name, build))
        raise
    return asked.name


def _unfinished(row: Row, name: str, build: int) -> Index | None:
    """The index, if it is still the one that cannot be built."""
    index = row.index(name)
    return index if index is not None and index.building and index.build == build else None


def _at_once(writing: Writing, prefix_of: PrefixOf, collection: str, asked: Index) -> None:
    """Build an index within a transaction."""
    if _announce(Look(writing, prefix_of, collection), writing, asked) is None:
        return
    look = Look(writing, prefix_of, collection)
    documents = Range(look.prefix, after_prefix(look.prefix))
    _enter(look, writing, _of_row(look, asked.name), list(writing.scan(documents)))
    look = Look(writing, prefix_of, collection)
    put_row(look, writing, look.row.with_index(_of_row(look, asked.name).having(building=False)))
    writing.rely_on(documents)


def _announce(look: Look, writing: Writing, asked: Index) -> Index | None:
    """Let the collection's row say that the index is being built. None if it is there."""
    for each in look.row.indexes:
        if each.name == asked.name or each.keys == asked.keys:
            if not each.same_as(asked) or each.name != asked.name:
                raise OperationFailure(
                    f"collection {look.name!r} has the index {each.name!r} already, {each.information()}; drop that"
                )
            return each if each.building else None
    index = asked.having(keyspace=look.row.index_keyspace(asked.name), build=int.from_bytes(os.urandom(8)) >> 1)
    put_row(look, writing, look.row.with_index(index).having(exists=True))
    return index


def _build(source: Source, collection: str, index: Index, progress: Progress | None) -> Index | None:
    """Enter all documents and say that the index is ready; or the index as somebody else has announced it anew."""
    done = 0
    after: bytes | None = b""
    while after is not None:
        start = after

        def step(
            writing: Writing, prefix_of: PrefixOf, start: bytes = start
        ) -> tuple[Index, list[tuple[bytes, bytes]]]:
            look = Look(writing, prefix_of, collection)
            current = _of_row(look, index.name)
            if current.build != index.build or not current.building:
                return current, []
            batch = list(islice(writing.scan(Range(look.prefix + start, after_prefix(look.prefix))), STEP))
            _enter(look, writing, current, batch)
            return current, batch

        current, batch = source.change(step)
        if not current.building:
            return None
        if current.build != index.build:
            return current
        after = batch[-1][0] + b"\x00" if len(batch) == STEP else None
        done += len(batch)
        if progress is not None:
            progress(done)
    return source.change(lambda writing, prefix_of: _finish(Look(writing, prefix_of, collection), writing, index))


def _of_row(look: Look, name: str) -> Index:
    index = look.row.index(name)
    if index is None:
        raise OperationFailure(f"index {name!r} of collection {look.name!r} was dropped while it was built")
    return index


def _enter(look: Look, writing: Writing, index: Index, batch: Batch) -> None:
    """Write the entries of documents."""
    entries, prefix, special = Entries(index), look.prefix_of(index.keyspace), 0
    writes: Writes = {}
    for key, stored in batch:
        document = decode_document(stored)
        found, more = entries.of(document)
        special |= more
        for values in found:
            full_key = prefix + entry_key(index, values, key)
            if index.unique:
                holder = writes[full_key] if full_key in writes else writing.read(full_key)
                if holder is not None and holder != key:
                    other = look.reading.read(look.prefix + holder)
                    holder_id = decode_document(other)["_id"] if other is not None else None
                    raise DuplicateKeyError(look.name, index.name, key_value(index, document), holder_id)
            writes[full_key] = entry_value(index, key)
    noted = index.noting(multikey=bool(special & MULTIKEY), long=bool(special & LONG))
    if noted is not index:
        writes[look.row_key] = encode_row(look.row.with_index(noted))
    if writes:
        writing.apply(writes, (look.row_key,))


def _finish(look: Look, writing: Writing, index: Index) -> Index | None:
    """Say that the index is ready, if it is still the one that was built."""
    current = _of_row(look, index.name)
    if not current.building:
        return None
    if current.build != index.build:
        return current
    put_row(look, writing, look.row.with_index(current.having(building=False)))
    return None
