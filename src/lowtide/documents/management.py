"""The collections themselves: indexes built and dropped, schemas set, collections renamed, dropped and listed.

An index is built while others read and write. First the collection's row says that it is being built: whoever writes a
document from then on keeps it up, and whoever began before fails, since its commit relies on the row. Then the
documents are entered in steps, each a transaction: one that meets a document that was changed under it conflicts on
the entry that the change removed, and is repeated. At last the row says that it is ready, and queries begin to use it.
Nothing is undone when this is interrupted: the index stays one that is being built, and ``create_index`` goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, Final

from lowtide.base.codec import after_prefix
from lowtide.documents.catalog import CATALOG, DOCUMENTS, Row, check_collection_name, encode_row, row_of
from lowtide.documents.codec import clean, decode_document, encode_value
from lowtide.documents.filters import compile_filter
from lowtide.documents.indexes.entries import LONG, MULTIKEY, Entries, entry_key, entry_value
from lowtide.documents.indexes.spec import MAX_NAME, PRIMARY, Index, Keys, name_of, parse_keys
from lowtide.documents.look import Look
from lowtide.documents.schema import Violation, compile_schema
from lowtide.documents.source import OfStore, PrefixOf, Source
from lowtide.documents.unit import key_value
from lowtide.errors import DuplicateKeyError, OperationFailure, UsageError
from lowtide.log.frame import Writes
from lowtide.transaction.statement import Reading, Writing
from lowtide.versions.visibility import Range

STEP: Final = 1000
"""Documents that one step of a build enters."""

Progress = Callable[[int], None]


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
    if parts == (("_id", 1),):
        raise OperationFailure("every collection is in the order of _id already; an index on it is not needed")
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
    if not source.change(lambda writing, prefix_of: _announce(writing, prefix_of, collection, asked)):
        return asked.name
    if not isinstance(source, OfStore):
        return source.change(lambda writing, prefix_of: _enter_all(writing, prefix_of, collection, asked.name))
    after: bytes | None = b""
    done = 0
    try:
        while after is not None:
            after, count = source.change(partial(_enter, collection=collection, name=asked.name, start=after))
            done += count
            if progress is not None:
                progress(done)
        source.change(lambda writing, prefix_of: _finish(writing, prefix_of, collection, asked.name))
    except UsageError:
        drop_index(source, collection, asked.name)
        raise
    return asked.name


def _announce(writing: Writing, prefix_of: PrefixOf, collection: str, asked: Index) -> bool:
    """Let the collection's row say that the index is being built; whether there is anything to build."""
    look = Look(writing, prefix_of, collection)
    for each in look.row.indexes:
        if each.name == asked.name or each.keys == asked.keys:
            if not each.same_as(asked) or each.name != asked.name:
                raise OperationFailure(
                    f"collection {collection!r} has the index {each.name!r} already, {each.information()}; drop that"
                )
            return each.building
    index = asked.having(keyspace=look.row.index_keyspace(asked.name))
    _put_row(look, writing, look.row.with_index(index).having(exists=True))
    return True


def _put_row(look: Look, writing: Writing, row: Row) -> None:
    writing.apply({look.row_key: encode_row(row)}, (look.row_key,))


def _documents(look: Look, after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
    """The stored documents from a key on."""
    return look.reading.scan(Range(look.prefix + after, after_prefix(look.prefix)))


def _enter(writing: Writing, prefix_of: PrefixOf, collection: str, name: str, start: bytes) -> tuple[bytes | None, int]:
    """Enter the next documents; where to go on, None at the end, and how many they were."""
    look = Look(writing, prefix_of, collection)
    batch = list(islice(_documents(look, start), STEP))
    _enter_batch(look, writing, name, batch)
    return (batch[-1][0] + b"\x00" if len(batch) == STEP else None), len(batch)


def _enter_batch(look: Look, writing: Writing, name: str, batch: list[tuple[bytes, bytes]]) -> None:
    index = look.row.index(name)
    if index is None:
        raise OperationFailure(f"index {name!r} of collection {look.name!r} was dropped while it was built")
    entries, prefix, special = Entries(index), look.prefix_of(index.keyspace), 0
    writes: Writes = {}
    for key, stored in batch:
        document = decode_document(stored)
        found, more = entries.of(document)
        special |= more
        for values in found:
            full_key = prefix + entry_key(index, values, key)
            holder = writes[full_key] if full_key in writes else writing.read(full_key) if index.unique else None
            if holder is not None and holder != key and index.unique:
                other = look.reading.read(look.prefix + holder)
                holder_id = decode_document(other)["_id"] if other is not None else None
                raise DuplicateKeyError(look.name, name, key_value(index, document), holder_id)
            writes[full_key] = entry_value(index, key)
    multikey, long = index.multikey or bool(special & MULTIKEY), index.long or bool(special & LONG)
    if (multikey, long) != (index.multikey, index.long):
        writes[look.row_key] = encode_row(look.row.with_index(index.having(multikey=multikey, long=long)))
    if writes:
        writing.apply(writes, (look.row_key,))


def _finish(writing: Writing, prefix_of: PrefixOf, collection: str, name: str) -> None:
    look = Look(writing, prefix_of, collection)
    index = look.row.index(name)
    if index is None:
        raise OperationFailure(f"index {name!r} of collection {collection!r} was dropped while it was built")
    _put_row(look, writing, look.row.with_index(index.having(building=False)))


def _enter_all(writing: Writing, prefix_of: PrefixOf, collection: str, name: str) -> str:
    """Build an index within a transaction: it fails if anybody has changed a document of the collection since."""
    look = Look(writing, prefix_of, collection)
    _enter_batch(look, writing, name, list(_documents(look)))
    _finish(writing, prefix_of, collection, name)
    writing.rely_on(_whole(look.prefix))
    return name


def drop_index(source: Source, collection: str, index_or_name: str | Keys) -> None:
    """Remove an index and its entries."""
    wanted = index_or_name if isinstance(index_or_name, str) else parse_keys(index_or_name)

    def work(writing: Writing, prefix_of: PrefixOf) -> None:
        look = Look(writing, prefix_of, collection)
        for each in look.row.indexes:
            if wanted in (each.name, each.keys):
                _put_row(look, writing, look.row.without_index(each.name))
                _empty(writing, prefix_of(each.keyspace))
                return
        known = ", ".join(repr(each.name) for each in look.row.indexes) or "none"
        raise OperationFailure(f"collection {collection!r} has no index {index_or_name!r}; there are {known}")

    source.change(work)


def _empty(writing: Writing, prefix: bytes) -> None:
    """Remove everything in a keyspace, and fail if somebody adds to it meanwhile."""
    keys: Writes = {prefix + key: None for key, _ in writing.scan(_whole(prefix))}
    writing.rely_on(_whole(prefix))
    if keys:
        writing.apply(keys, ())


def _whole(prefix: bytes) -> Range:
    return Range(prefix, after_prefix(prefix))


def set_schema(source: Source, collection: str, schema: Mapping[str, Any] | None) -> list[tuple[Any, Violation]]:
    """Set or remove the schema; what the documents that are there have against it."""
    validator = compile_schema(schema) if schema is not None else None
    encoded = encode_value(clean(dict(schema))) if schema is not None else None

    def work(writing: Writing, prefix_of: PrefixOf) -> None:
        look = Look(writing, prefix_of, collection)
        _put_row(look, writing, look.row.having(schema=encoded, exists=True))

    def violations(reading: Reading, prefix_of: PrefixOf) -> list[tuple[Any, Violation]]:
        found = []
        for _, stored in _documents(Look(reading, prefix_of, collection)):
            document = decode_document(stored)
            found += [(document["_id"], each) for each in validator.violations(document)] if validator else []
        return found

    source.change(work)
    return source.look(violations) if validator is not None else []  # after it holds, so that none is missed


def drop(source: Source, collection: str) -> None:
    """Remove a collection with everything that belongs to it."""
    source.change(lambda writing, prefix_of: _drop(writing, prefix_of, collection))


def _drop(writing: Writing, prefix_of: PrefixOf, collection: str) -> None:
    look = Look(writing, prefix_of, collection)
    for each in look.row.indexes:
        _empty(writing, prefix_of(each.keyspace))
    _empty(writing, look.prefix)
    _put_row(look, writing, Row(keyspace=look.row.keyspace, exists=False, generation=look.row.generation))


def rename(source: Source, collection: str, new_name: str, drop_target: bool) -> None:
    """Give a collection another name."""
    check_collection_name(new_name)
    if new_name == collection:
        raise OperationFailure(f"the collection is named {collection!r} already")

    def work(writing: Writing, prefix_of: PrefixOf) -> None:
        look, target = Look(writing, prefix_of, collection), Look(writing, prefix_of, new_name)
        if not _exists(look):
            raise OperationFailure(f"there is no collection {collection!r}")
        if _exists(target):
            if not drop_target:
                raise OperationFailure(f"there is a collection {new_name!r} already; drop it, or say dropTarget=True")
            _drop(writing, prefix_of, new_name)
        rows = {
            look.row_key: encode_row(look.row.freed(collection)),
            target.row_key: encode_row(look.row.having(exists=True, generation=target.row.generation)),
        }
        writing.apply(dict(rows), tuple(rows))

    source.change(work)


def _exists(look: Look) -> bool:
    """Whether a collection has a row that says so, or a document."""
    has_row = look.reading.read(look.row_key) is not None and look.row.exists
    return has_row or next(_documents(look), None) is not None


def collection_names(reading: Reading, prefix_of: PrefixOf, keyspaces: list[str]) -> list[str]:
    """The collections that exist: those with a row, and those without one that have a document. ``keyspaces`` are all
    that were ever written to."""
    rows = prefix_of(CATALOG)
    found = set()
    known = set()
    for key, encoded in reading.scan(Range(rows, after_prefix(rows))):
        name = key.decode()
        known.add(name)
        if row_of(name, encoded).exists or _exists(Look(reading, prefix_of, name)):
            found.add(name)
    for keyspace in keyspaces:
        name = keyspace.removeprefix(DOCUMENTS)
        if name != keyspace and name not in known and "~" not in name and _exists(Look(reading, prefix_of, name)):
            found.add(name)
    return sorted(found)
