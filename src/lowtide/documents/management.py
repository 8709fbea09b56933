"""The collections themselves: indexes dropped, schemas set, collections renamed, dropped and listed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lowtide.base.codec import after_prefix
from lowtide.documents.catalog import CATALOG, DOCUMENTS, Row, check_collection_name, encode_row, row_of
from lowtide.documents.codec import clean, decode_document, encode_value
from lowtide.documents.gathering import whole
from lowtide.documents.indexes.spec import Index, Keys, parse_keys
from lowtide.documents.look import Look
from lowtide.documents.schema import Violation, compile_schema
from lowtide.documents.source import PrefixOf, Source
from lowtide.errors import OperationFailure
from lowtide.log.frame import Writes
from lowtide.transaction.statement import Reading, Writing
from lowtide.versions.visibility import Range


def put_row(look: Look, writing: Writing, row: Row) -> None:
    """Change what is known of a collection."""
    writing.apply({look.row_key: encode_row(row)}, (look.row_key,))


def _documents(look: Look) -> Iterator[tuple[bytes, bytes]]:
    """The stored documents."""
    return look.reading.scan(_all_of(look.prefix))


def remove_index(look: Look, writing: Writing, index: Index) -> None:
    """Remove an index and its entries."""
    put_row(look, writing, look.row.without_index(index.name))
    _empty(writing, look.prefix_of(index.keyspace))


def drop_index(source: Source, collection: str, index_or_name: str | Keys) -> None:
    """Remove an index and its entries."""
    wanted = index_or_name if isinstance(index_or_name, str) else parse_keys(index_or_name)

    def work(writing: Writing, prefix_of: PrefixOf) -> None:
        look = Look(writing, prefix_of, collection)
        for each in look.row.indexes:
            if wanted in (each.name, each.keys):
                remove_index(look, writing, each)
                return
        known = ", ".join(repr(each.name) for each in look.row.indexes) or "none"
        raise OperationFailure(f"collection {collection!r} has no index {index_or_name!r}; there are {known}")

    source.change(whole(work))


def _empty(writing: Writing, prefix: bytes, relied_on: tuple[bytes, ...] = ()) -> None:
    """Remove everything in a keyspace, and fail if somebody adds to it meanwhile."""
    keys: Writes = {prefix + key: None for key, _ in writing.scan(_all_of(prefix))}
    writing.rely_on(_all_of(prefix))
    if keys:
        writing.apply(keys, relied_on)


def _all_of(prefix: bytes) -> Range:
    return Range(prefix, after_prefix(prefix))


def set_schema(source: Source, collection: str, schema: Mapping[str, Any] | None) -> list[tuple[Any, Violation]]:
    """Set or remove the schema; what the documents that are there have against it."""
    validator = compile_schema(schema) if schema is not None else None
    encoded = encode_value(clean(dict(schema))) if schema is not None else None

    def work(writing: Writing, prefix_of: PrefixOf) -> bytes | None:
        look = Look(writing, prefix_of, collection)
        put_row(look, writing, look.row.having(schema=encoded, exists=True))
        return look.row.schema

    def violations(reading: Reading, prefix_of: PrefixOf) -> list[tuple[Any, Violation]]:
        found = []
        for _, stored in _documents(Look(reading, prefix_of, collection)):
            document = decode_document(stored)
            found += [(document["_id"], each) for each in validator.violations(document)] if validator else []
        return found

    former = source.change(work)

    def undo(writing: Writing, prefix_of: PrefixOf) -> None:
        look = Look(writing, prefix_of, collection)
        if look.row.schema == encoded:  # else somebody has set another one since
            put_row(look, writing, look.row.having(schema=former))

    try:
        return source.look(violations) if validator is not None else []  # after it holds, so that none is missed
    except OperationFailure:  # it cannot be asked of a document that is there, nor could it be of others
        source.change(undo)
        raise


def drop(source: Source, collection: str) -> None:
    """Remove a collection with everything that belongs to it."""
    source.change(whole(lambda writing, prefix_of: _drop(Look(writing, prefix_of, collection), writing)))


def _drop(look: Look, writing: Writing) -> None:
    """A name that has had one keyspace only needs no row any more."""
    for each in look.row.indexes:
        _empty(writing, look.prefix_of(each.keyspace))
    _empty(writing, look.prefix, (look.row_key,))
    if not look.row.generation and look.row.keyspace == DOCUMENTS + look.name:
        if writing.read(look.row_key) is not None:
            writing.apply({look.row_key: None}, (look.row_key,))
    else:
        put_row(look, writing, Row(keyspace=look.row.keyspace, exists=False, generation=look.row.generation))


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
            _drop(target, writing)
        else:
            writing.rely_on(_all_of(target.prefix))
        rows = {
            look.row_key: encode_row(look.row.freed(collection)),
            target.row_key: encode_row(look.row.having(exists=True, generation=target.row.generation)),
        }
        writing.apply(dict(rows), tuple(rows))

    source.change(whole(work))


def _exists(look: Look) -> bool:
    """Whether a collection has a row that says so, or a document."""
    has_row = look.reading.read(look.row_key) is not None and look.row.exists
    return has_row or next(_documents(look), None) is not None


def collection_names(
    reading: Reading, prefix_of: PrefixOf, keyspaces: list[str], held: tuple[str, ...] | None = None
) -> list[str]:
    """The collections that exist: those with a row, and those without one that have a document. ``keyspaces`` are all
    that may have been written to, ``held`` those that can be read; None for all."""
    rows = prefix_of(CATALOG)
    found = set()
    known = set()
    for key, encoded in reading.scan(Range(rows, after_prefix(rows))):
        name, row = key.decode(), row_of(key.decode(), encoded)
        known.add(name)
        if (held is None or row.keyspace in held) and (row.exists or _exists(Look(reading, prefix_of, name))):
            found.add(name)
    for keyspace in keyspaces if held is None else held:
        name = keyspace.removeprefix(DOCUMENTS)
        if name != keyspace and name not in known and "~" not in name and _exists(Look(reading, prefix_of, name)):
            found.add(name)
    return sorted(found)
