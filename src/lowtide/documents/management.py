"""Collection management: drop indexes, set schemas, and rename, drop and list collections."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from lowtide.documents.catalog import CATALOG, DOCUMENTS, CatalogRow, check_collection_name, encode_row, row_of
from lowtide.documents.indexes.spec import PRIMARY, Index, Keys, parse_keys
from lowtide.documents.reader import CollectionReader
from lowtide.documents.schema import Violation, compile_schema
from lowtide.engine import (
    AutocommitStatements,
    PrefixOf,
    Range,
    ReadView,
    Statements,
    Writes,
    WriteView,
    after_prefix,
    atomic,
)
from lowtide.errors import OperationFailure, TransientError
from lowtide.values.codec import clean, decode_document, encode_value

STEP: Final = 1000
"""Keys that one step of a drop deletes."""
ATTEMPTS: Final = 3
"""How often a drop is retried before it continues in steps."""


def put_row(reader: CollectionReader, writing: WriteView, row: CatalogRow) -> None:
    """Write a collection's catalog row."""
    writing.apply({reader.row_key: encode_row(row)}, (reader.row_key,))


def _documents(reader: CollectionReader) -> Iterator[tuple[bytes, bytes]]:
    """The stored documents."""
    return reader.reading.scan(_all_of(reader.prefix))


def drop_index(statements: Statements, collection: str, index_or_name: str | Keys) -> None:
    """Drop an index and delete its entries."""
    wanted = index_or_name if isinstance(index_or_name, str) else parse_keys(index_or_name)

    if wanted in (PRIMARY, (("_id", 1),)):
        raise OperationFailure(f"cannot drop the index {PRIMARY!r}: it is the order of the documents themselves")

    def chosen(row: CatalogRow) -> Index:
        for each in row.indexes:
            if wanted in (each.name, each.keys):
                return each
        known = ", ".join(repr(each.name) for each in row.indexes) or "none"
        raise OperationFailure(f"collection {collection!r} has no index {index_or_name!r}; there are {known}")

    discard_index(statements, collection, chosen)


def discard_index(statements: Statements, collection: str, chosen: Callable[[CatalogRow], Index | None]) -> None:
    """Drop the chosen index, if any. On the store, the first transaction removes it from the row, so that no query
    reads it and no writer maintains it. Its entries are then deleted in steps: a single transaction would conflict with
    every concurrent commit."""
    steps = isinstance(statements, AutocommitStatements)

    def work(writing: WriteView, prefix_of: PrefixOf) -> None:
        reader = CollectionReader(writing, prefix_of, collection)
        index = chosen(reader.row)
        if index is None:
            return
        row = reader.row.without_index(index.name)
        if not steps:
            _empty(writing, prefix_of(index.keyspace))
        put_row(reader, writing, row.having(doomed=(*row.doomed, index.keyspace)) if steps else row)

    statements.write(atomic(work))
    if steps:
        finish_drops(statements, collection)


def outdated(reading: ReadView, prefix_of: PrefixOf, kept: int) -> list[str]:
    """Return the collections that still have the difference of a bulk load before commit ``kept``."""
    rows = reading.scan(_all_of(prefix_of(CATALOG)))
    names = ((key.decode(), encoded) for key, encoded in rows)
    return [name for name, encoded in names if any(each.ts < kept for each in row_of(name, encoded).former)]


def doom_outdated(reader: CollectionReader, writing: WriteView, kept: int) -> CatalogRow:
    """Schedule the differences of bulk loads before commit ``kept`` for deletion. Returns the new row."""
    gone = [each for each in reader.row.former if each.ts < kept]
    if not gone:
        return reader.row
    doomed = (*reader.row.doomed, *(each.changes for each in gone))
    row = reader.row.having(former=reader.row.former[len(gone) :], doomed=doomed)
    put_row(reader, writing, row)
    return row


def finish_drops(statements: Statements, collection: str) -> None:
    """Empty the keyspaces of what was dropped, including what an interrupted drop has left. Each step continues after
    the last key that the previous step deleted. A scan also passes over the keys deleted since the last checkpoint, so
    steps that all started at the first key would take quadratic time."""
    reached: tuple[str, bytes] | None = ("", b"")
    while reached is not None:

        def step(
            writing: WriteView, prefix_of: PrefixOf, reached: tuple[str, bytes] = reached
        ) -> tuple[str, bytes] | None:
            return _empty_more(CollectionReader(writing, prefix_of, collection), writing, reached)

        reached = statements.write(step)


def _empty_more(reader: CollectionReader, writing: WriteView, reached: tuple[str, bytes]) -> tuple[str, bytes] | None:
    """Run one step. ``reached`` is a keyspace and a key before which it is empty; no writer adds to it any more.
    Returns how far it is empty now, or None if nothing is left to empty."""
    if not reader.row.doomed:
        return None
    keyspace = reader.row.doomed[0]
    prefix = reader.prefix_of(keyspace)
    start = reached[1] if reached[0] == keyspace else b""
    found = [key for key, _ in islice(writing.scan(Range(prefix + start, after_prefix(prefix))), STEP)]
    if found:
        writing.apply({prefix + key: None for key in found}, ())
    if len(found) < STEP:
        put_row(reader, writing, reader.row.having(doomed=reader.row.doomed[1:]))
        return "", b""
    return keyspace, found[-1] + b"\x00"


def _empty(writing: WriteView, prefix: bytes, relied_on: tuple[bytes, ...] = ()) -> None:
    """Delete everything in a keyspace. The commit fails if another transaction adds to it."""
    keys: Writes = {prefix + key: None for key, _ in writing.scan(_all_of(prefix))}
    writing.rely_on(_all_of(prefix))
    if keys:
        writing.apply(keys, relied_on)


def _all_of(prefix: bytes) -> Range:
    return Range(prefix, after_prefix(prefix))


def set_schema(
    statements: Statements, collection: str, schema: Mapping[str, Any] | None
) -> list[tuple[Any, Violation]]:
    """Set or remove the schema. Returns the violations of the documents that exist."""
    validator = compile_schema(schema) if schema is not None else None
    encoded = encode_value(clean(dict(schema))) if schema is not None else None

    def work(writing: WriteView, prefix_of: PrefixOf) -> bytes | None:
        reader = CollectionReader(writing, prefix_of, collection)
        put_row(reader, writing, reader.row.having(schema=encoded, exists=True))
        return reader.row.schema

    def violations(reading: ReadView, prefix_of: PrefixOf) -> list[tuple[Any, Violation]]:
        found = []
        for _, stored in _documents(CollectionReader(reading, prefix_of, collection)):
            document = decode_document(stored)
            found += [(document["_id"], each) for each in validator.violations(document)] if validator else []
        return found

    former = statements.write(work)

    def undo(writing: WriteView, prefix_of: PrefixOf) -> None:
        reader = CollectionReader(writing, prefix_of, collection)
        if reader.row.schema == encoded:  # else another transaction has set a new one
            put_row(reader, writing, reader.row.having(schema=former))

    try:
        return statements.read(violations) if validator is not None else []  # the schema is in force now
    except OperationFailure:  # the schema cannot be evaluated on a document that exists, so it is not kept
        statements.write(undo)
        raise


def drop(statements: Statements, collection: str) -> None:
    """Drop a collection with its documents, indexes and schema, in one transaction. On the store, if concurrent writers
    make that fail too often, the name is freed first and the contents are deleted in steps."""
    try:
        statements.write(
            atomic(lambda writing, prefix_of: _drop(CollectionReader(writing, prefix_of, collection), writing)),
            attempts=ATTEMPTS,
        )
    except TransientError:
        if not isinstance(statements, AutocommitStatements):
            raise
        statements.write(lambda writing, prefix_of: _forsake(CollectionReader(writing, prefix_of, collection), writing))
    if isinstance(statements, AutocommitStatements):
        finish_drops(statements, collection)


def _forsake(reader: CollectionReader, writing: WriteView) -> None:
    """Free the name: it gets a new keyspace, and the old keyspaces are to be emptied."""
    doomed = (*reader.row.doomed, *reader.row.loading, *reader.row.keyspaces[1:])
    put_row(reader, writing, reader.row.freed(reader.name).having(doomed=doomed))


def _drop(reader: CollectionReader, writing: WriteView) -> None:
    """Empty the collection. A name that has had only one keyspace needs no row any more."""
    for each in (*reader.row.keyspaces[2:], *reader.row.doomed, *reader.row.loading):
        _empty(writing, reader.prefix_of(each))
    _empty(writing, reader.prefix, (reader.row_key,))
    if not reader.row.generation and reader.row.keyspace == DOCUMENTS + reader.name:
        if writing.read(reader.row_key) is not None:
            writing.apply({reader.row_key: None}, (reader.row_key,))
    else:
        row = reader.row
        fresh = CatalogRow(keyspace=row.keyspace, exists=False, generation=row.generation)
        put_row(reader, writing, fresh.having(former=row.former, loaded=row.loaded))


def rename(statements: Statements, collection: str, new_name: str, drop_target: bool) -> None:
    """Rename a collection."""
    check_collection_name(new_name)
    if new_name == collection:
        raise OperationFailure(f"the collection is named {collection!r} already")

    def work(writing: WriteView, prefix_of: PrefixOf) -> None:
        reader, target = (
            CollectionReader(writing, prefix_of, collection),
            CollectionReader(writing, prefix_of, new_name),
        )
        if not _exists(reader):
            raise OperationFailure(f"there is no collection {collection!r}")
        if _exists(target):
            if not drop_target:
                raise OperationFailure(f"there is a collection {new_name!r} already; drop it, or pass dropTarget=True")
            _drop(target, writing)
            target.row = target.row.having(doomed=(), loading=())
        else:
            writing.rely_on(_all_of(target.prefix))
        doomed = (*reader.row.doomed, *reader.row.loading, *target.row.doomed, *target.row.loading)
        moved = reader.row.having(exists=True, generation=target.row.generation, doomed=doomed, loading=())
        moved = moved.having(former=target.row.former, loaded=-1)  # the history of a name stays with the name
        rows = {reader.row_key: encode_row(reader.row.freed(collection)), target.row_key: encode_row(moved)}
        writing.apply(dict(rows), tuple(rows))

    statements.write(atomic(work))


def _exists(reader: CollectionReader) -> bool:
    """Whether a collection has a row that marks it as existing, or a document."""
    has_row = reader.reading.read(reader.row_key) is not None and reader.row.exists
    return has_row or next(_documents(reader), None) is not None


def collection_names(statements: Statements) -> list[str]:
    """Return the names of the collections that exist: those with a row, and those without one that have a document."""
    return statements.read(
        lambda reading, prefix_of: _names_in(reading, prefix_of, statements.keyspaces(), statements.holds)
    )


def _names_in(reading: ReadView, prefix_of: PrefixOf, keyspaces: list[str], holds: Callable[[str], bool]) -> list[str]:
    rows = prefix_of(CATALOG)
    found = set()
    known = set()
    for key, encoded in reading.scan(Range(rows, after_prefix(rows))):
        name, row = key.decode(), row_of(key.decode(), encoded)
        known.add(name)
        if holds(row.keyspace) and (row.exists or _exists(CollectionReader(reading, prefix_of, name))):
            found.add(name)
    for keyspace in keyspaces:
        name = keyspace.removeprefix(DOCUMENTS)
        if (
            name != keyspace
            and name not in known
            and "~" not in name
            and _exists(CollectionReader(reading, prefix_of, name))
        ):
            found.add(name)
    return sorted(found)
