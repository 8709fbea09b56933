"""The collections themselves: indexes dropped, schemas set, collections renamed, dropped and listed."""

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
"""Keys that one step of a drop removes."""
ATTEMPTS: Final = 3
"""How often a drop begins again before it goes on in steps."""


def put_row(reader: CollectionReader, writing: WriteView, row: CatalogRow) -> None:
    """Change what is known of a collection."""
    writing.apply({reader.row_key: encode_row(row)}, (reader.row_key,))


def _documents(reader: CollectionReader) -> Iterator[tuple[bytes, bytes]]:
    """The stored documents."""
    return reader.reading.scan(_all_of(reader.prefix))


def drop_index(statements: Statements, collection: str, index_or_name: str | Keys) -> None:
    """Remove an index and its entries."""
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
    """Remove an index, if one is chosen. Of the store itself, it goes from the row at once, so that nobody reads or
    writes it any more, and its entries in steps: in one, every commit meanwhile would make it begin again."""
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
    """The collections with a bulk load before commit ``kept`` whose difference is still there."""
    rows = reading.scan(_all_of(prefix_of(CATALOG)))
    names = ((key.decode(), encoded) for key, encoded in rows)
    return [name for name, encoded in names if any(each.ts < kept for each in row_of(name, encoded).former)]


def doom_outdated(reader: CollectionReader, writing: WriteView, kept: int) -> CatalogRow:
    """Have the differences emptied of bulk loads before commit ``kept``; the row as it is then."""
    gone = [each for each in reader.row.former if each.ts < kept]
    if not gone:
        return reader.row
    doomed = (*reader.row.doomed, *(each.changes for each in gone))
    row = reader.row.having(former=reader.row.former[len(gone) :], doomed=doomed)
    put_row(reader, writing, row)
    return row


def finish_drops(statements: Statements, collection: str) -> None:
    """Empty the keyspaces of what was dropped, also of what an interrupted drop has left. Each step goes on behind the
    last key that the step before it removed: a scan passes the keys that were removed since the last checkpoint, too,
    so steps that all began with the first key would take quadratic time."""
    reached: tuple[str, bytes] | None = ("", b"")
    while reached is not None:

        def step(
            writing: WriteView, prefix_of: PrefixOf, reached: tuple[str, bytes] = reached
        ) -> tuple[str, bytes] | None:
            return _empty_more(CollectionReader(writing, prefix_of, collection), writing, reached)

        reached = statements.write(step)


def _empty_more(reader: CollectionReader, writing: WriteView, reached: tuple[str, bytes]) -> tuple[str, bytes] | None:
    """One step. ``reached`` is a keyspace, and a key before which it is empty: no writer adds to it any more. Returns
    how far it is empty now; None if nothing is doomed."""
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
    """Remove everything in a keyspace, and fail if somebody adds to it meanwhile."""
    keys: Writes = {prefix + key: None for key, _ in writing.scan(_all_of(prefix))}
    writing.rely_on(_all_of(prefix))
    if keys:
        writing.apply(keys, relied_on)


def _all_of(prefix: bytes) -> Range:
    return Range(prefix, after_prefix(prefix))


def set_schema(
    statements: Statements, collection: str, schema: Mapping[str, Any] | None
) -> list[tuple[Any, Violation]]:
    """Set or remove the schema; what the documents that are there have against it."""
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
        if reader.row.schema == encoded:  # else somebody has set another one since
            put_row(reader, writing, reader.row.having(schema=former))

    try:
        return statements.read(violations) if validator is not None else []  # after it holds, so that none is missed
    except OperationFailure:  # it cannot be asked of a document that is there, nor could it be of others
        statements.write(undo)
        raise


def drop(statements: Statements, collection: str) -> None:
    """Remove a collection with everything that belongs to it: at once, or, of the store itself and beside writers that
    let it never come through, first its name, and then what it had, in steps."""
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
    """Let the name begin anew, with another keyspace."""
    doomed = (*reader.row.doomed, *reader.row.loading, *reader.row.keyspaces[1:])
    put_row(reader, writing, reader.row.freed(reader.name).having(doomed=doomed))


def _drop(reader: CollectionReader, writing: WriteView) -> None:
    """A name that has had one keyspace only needs no row any more."""
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
    """Give a collection another name."""
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
                raise OperationFailure(f"there is a collection {new_name!r} already; drop it, or say dropTarget=True")
            _drop(target, writing)
            target.row = target.row.having(doomed=(), loading=())
        else:
            writing.rely_on(_all_of(target.prefix))
        doomed = (*reader.row.doomed, *reader.row.loading, *target.row.doomed, *target.row.loading)
        moved = reader.row.having(exists=True, generation=target.row.generation, doomed=doomed, loading=())
        moved = moved.having(former=target.row.former, loaded=-1)  # the past of a name stays with the name
        rows = {reader.row_key: encode_row(reader.row.freed(collection)), target.row_key: encode_row(moved)}
        writing.apply(dict(rows), tuple(rows))

    statements.write(atomic(work))


def _exists(reader: CollectionReader) -> bool:
    """Whether a collection has a row that says so, or a document."""
    has_row = reader.reading.read(reader.row_key) is not None and reader.row.exists
    return has_row or next(_documents(reader), None) is not None


def collection_names(statements: Statements) -> list[str]:
    """The collections that exist: those with a row, and those without one that have a document."""
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
